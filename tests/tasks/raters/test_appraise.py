"""The stage appraise with a stand-in for the judge: grades, explanations, errors, the table and the metric."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest

from tests.support.evaluating import copied, run, values
from tests.support.indexing import sql
from tests.support.shared import indexed
from vitalfew.configs.evaluation import AppraiseConfig, GenerateConfig
from vitalfew.tasks.generators.base import Generator, Prompt
from vitalfew.tasks.models.causal.engines.base import Completion, EngineOptions, failed
from vitalfew.tasks.models.ticks import no_tick
from vitalfew.tasks.raters.asked import graded
from vitalfew.tasks.raters.base import Judgement, RatedContext
from vitalfew.tasks.registry import make


class Grader(Generator):
    """Gives a context of few words a good grade for faithfulness; mumbles of rivers, and fails where it is told to."""

    class Options(GenerateConfig, EngineOptions):
        few: int = 4

    version: ClassVar[str] = "1"
    uses_gpu = False
    workers = None

    def __init__(self, options: Any) -> None:
        self.options = options

    def identity(self) -> dict[str, Any]:
        return {"class": type(self).__name__, "version": self.version}

    def generate(self, prompts: Sequence[Prompt], tick: Any = no_tick) -> list[Completion]:
        tick(len(prompts), 5 * len(prompts))
        return [self._reply(prompt) for prompt in prompts]

    def _reply(self, prompt: Prompt) -> Completion:
        (context,) = prompt.contexts
        assert context in prompt.text
        assert prompt.question in prompt.text
        if "fail" in context:
            return failed("no answer in time")
        if "mumble" in context:
            return Completion("Well, who knows?", 9, 3, 0.1)
        faithful = "how true" in prompt.text
        grade = (9.5 if len(context.split()) <= self.options.few else 3) if faithful else 6
        return Completion(f"{grade}\nBecause of its {'truth' if faithful else 'length'}.", 9, 3, 0.1)


JUDGE = {"appraiser": "judge", "judge": {"generator": f"{__name__}:Grader"}}


def test_two_grades_with_their_reasons_or_an_error() -> None:
    ticked: list[tuple[int, int]] = []
    contexts = ["The mill stands.", "The mill of the hills stands.", "fail", "mumble"]
    batch = [RatedContext("What stands?", context, hits=("Mill: It stands.", "A river.")) for context in contexts]
    found = make(AppraiseConfig(**JUDGE), "appraise").rate(batch, lambda *given: ticked.append(given))
    assert found[0] == Judgement(
        {"faithfulness": 9.5, "completeness": 6.0},
        "faithfulness: Because of its truth.\ncompleteness: Because of its length.",
    )
    assert found[1].scores == {"faithfulness": 3, "completeness": 6}
    assert [each.scores for each in found[2:]] == [{}] * 2
    assert found[2].error == "faithfulness: no answer in time"
    assert "must begin with a grade from 0 to 10" in found[3].error
    assert (sum(rows for rows, _ in ticked), sum(tokens for _, tokens in ticked)) == (4, 40)


@pytest.mark.parametrize(
    ("reply", "grade", "reason"),
    [
        ("8", 8, ""),
        (" 7.5\nAll of it stands there.", 7.5, "All of it stands there."),
        ("Score: 10/10. Whole.", 10, "Whole."),
        ("**Faithfulness score:** 6 out of 10 - fair", 6, "fair"),
        ("The grade is 0: nothing", 0, "nothing"),
        ("11", None, ""),
        ("-3", None, ""),
        ("80%", None, ""),
        ("4/5", None, ""),
        ("The 2 passages agree", None, ""),
        ("In 1998", None, ""),
        ("", None, ""),
    ],
)
def test_a_reply_begins_with_its_grade(reply: str, grade: float | None, reason: str) -> None:
    found, said = graded(reply)
    assert found == grade
    assert said == reason if grade is not None else "must begin with a grade" in said


def test_appraisals_of_an_evaluation(tmp_path: Path) -> None:
    store = copied(indexed(bm25={"enabled": True}), tmp_path / "store")
    trial: dict[str, Any] = {
        "index": "test",
        "retrieve": {"retriever": "bm25", "top_k": 2},
        "generate": None,
        "appraise": JUDGE,
        "score": {"metrics": ["appraisal", "compression"]},
        "methods": {
            "full": {"refine": {"max_words": None}},
            "few": {"refine": {"max_words": 4}},
            "nothing": {"refine": {"refiner": "gold", "at_least": 0}},
        },
    }
    outcome = run(store, trial)
    assert sql(store, "SELECT count(*) FROM appraisals") == [(30,)]
    assert values(store, outcome, "few")["faithfulness"] == 9.5
    assert values(store, outcome, "full")["faithfulness"] == 3
    assert values(store, outcome, "full")["completeness"] == 6
    of_nothing = "JOIN methods USING (fingerprint) WHERE method = 'nothing'"
    ((with_contexts,),) = sql(store, f"SELECT count(DISTINCT question_id) FROM evidence {of_nothing}")
    ((errors,),) = sql(
        store,
        f"SELECT count(*) FROM appraisals {of_nothing} AND error = 'there is no context to appraise' "
        "AND faithfulness IS NULL AND completeness IS NULL AND explanation = ''",
    )
    assert 0 < errors == 10 - with_contexts
    assert outcome.methods["nothing"]["appraise"].shards[0].cost.tokens == 10 * with_contexts
