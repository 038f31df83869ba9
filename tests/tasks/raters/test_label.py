"""The stages `label` and `appraise`: what each labeller and the grading judge say, and their tables."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.support.evaluating import copied, run, values
from tests.support.fakes import FirstWords
from tests.support.indexing import sql
from tests.support.shared import indexed
from vitalfew.configs.evaluation import AppraiseConfig, LabelConfig
from vitalfew.tasks.generators.base import Prompt
from vitalfew.tasks.models.causal.engines.base import Completion, failed
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.raters.base import Judgement, RatedContext
from vitalfew.tasks.raters.recorded import AnswerText, GoldPassage, Title
from vitalfew.tasks.registry import make


class Replying(FirstWords):
    """Fails where it is told to, and mumbles where it is told to."""

    def generate(self, prompts: Sequence[Prompt], tick: Tick = no_tick) -> list[Completion]:
        tick(0, 10 * len(prompts))
        return super().generate(prompts, tick)

    def _answer(self, prompt: Prompt) -> Completion:
        (context,) = prompt.contexts
        if "fail" in context:
            return failed("no answer in time")
        return Completion("Who knows?" if "mumble" in context else self.reply(prompt, context), 9, 1, 0.1)

    def reply(self, prompt: Prompt, context: str) -> str:
        raise NotImplementedError


class Hasty(Replying):
    """Rates by a word of the passage; knows nothing of answers."""

    def reply(self, prompt: Prompt, context: str) -> str:
        return "Reply: 1" if "Velmar" in context else "no."


class Careful(Replying):
    """Corrects the other's decision, which it is shown, where no answer stands in the passage."""

    def reply(self, prompt: Prompt, context: str) -> str:
        assert "Their decision: 1" in prompt.text or "Their decision: 0" in prompt.text
        assert "Accepted answers: Ada Norrin" in prompt.text
        return "1.0" if "Ada Norrin" in context else "0.0"


class Grader(Replying):
    """Gives a context of few words a good grade for faithfulness."""

    def reply(self, prompt: Prompt, context: str) -> str:
        assert all(part in prompt.text for part in (context, prompt.question))
        if "how true" not in prompt.text:
            return "**Score:** 6 out of 10 - Because of its length."
        return f"{9.5 if len(context.split()) <= 4 else 3}\nBecause of its truth."


def labelled(title: str, text: str, **more: object) -> RatedContext:
    given = {"question": "Who runs Velmar?", "answers": ("Ada Norrin",), "gold_passages": (1,), "passage_id": 2}
    return RatedContext(**{**given, **more}, title=title, context=text)  # type: ignore[arg-type]


def test_gold_asks_for_the_answer_where_it_is_told_to() -> None:
    text = "Ada Norrin built the mill. It burnt in 1742."
    facts = ({"answers": ("Tomas",)}, {"facts": ((0, 26),)}, {"facts": ((27, 44),)}, {"passage_id": 2})
    batch = [labelled("Velmar", text, **{"passage_id": 1, "answers": ("1742",), **given}) for given in facts]
    plain, strict = (GoldPassage(GoldPassage.Options(answer=answer)).rate(batch) for answer in (0, 1))
    assert [verdict.label for verdict in plain] == [1, 1, 1, 0]
    assert [verdict.label for verdict in strict] == [0, 0, 1, 0]


def test_answer_text_and_title_are_compared() -> None:
    batch = [labelled("", text) for text in ("It is Ada Norrin's.", "ADA, NORRIN", "Adam Norrin", "")]
    verdicts = AnswerText(LabelConfig(labeller="answer_text")).rate(batch)
    assert [verdict.label for verdict in verdicts] == [0, 1, 0, 0]
    titles = ({"gold_titles": ("velmar",)}, {"gold_titles": ("Kessin",)}, {"gold_passages": ()})
    verdicts = Title(LabelConfig(labeller="title")).rate([labelled("Velmar", "", **given) for given in titles])
    assert [verdict.label for verdict in verdicts] == [1, 0, 1]


def test_the_second_of_two_rounds_corrects_the_first() -> None:
    texts = ["Ada Norrin runs Velmar.", "Velmar has a mill.", "Ada Norrin is away.", "A river.", "fail", "mumble"]
    rounds = {name: {"generator": f"{__name__}:{own}"} for name, own in (("rater", "Hasty"), ("critic", "Careful"))}
    ticked: list[tuple[int, int]] = []
    labeller = make(LabelConfig(labeller="two_round", **rounds), "label")
    found = labeller.rate([labelled("T", text) for text in texts], lambda *given: ticked.append(given))
    assert [verdict.scores.get("rater") for verdict in found] == [1, 1, 0, 0, None, None]
    assert [verdict.scores.get("critic") for verdict in found] == [1, 0, 1, 0, None, None]
    assert [verdict.label for verdict in found] == [1, 0, 1, 0, None, None]
    assert found[4].error == "rater: no answer in time"
    assert "rater: the reply must be 1 or 0" in found[5].error
    assert (sum(rows for rows, _ in ticked), sum(tokens for _, tokens in ticked)) == (6, 100)


JUDGE = {"appraiser": "judge", "judge": {"generator": f"{__name__}:Grader"}}


def test_two_grades_with_their_reasons_or_an_error() -> None:
    contexts = ["The mill stands.", "The mill of the hills stands.", "fail", "mumble"]
    batch = [RatedContext("What stands?", context, hits=("Mill: It stands.", "A river.")) for context in contexts]
    found = make(AppraiseConfig(**JUDGE), "appraise").rate(batch)
    assert found[0] == Judgement(
        {"faithfulness": 9.5, "completeness": 6.0},
        "faithfulness: Because of its truth.\ncompleteness: Because of its length.",
    )
    assert [each.scores for each in found[1:]] == [{"faithfulness": 3, "completeness": 6}, {}, {}]
    assert found[2].error == "faithfulness: no answer in time"
    assert "must begin with a grade from 0 to 10" in found[3].error


def test_labels_and_appraisals_of_an_evaluation(tmp_path: Path) -> None:
    store = copied(indexed(bm25={"enabled": True}), tmp_path / "store")
    trial: dict[str, Any] = {
        "index": "test",
        "retrieve": {"retriever": "bm25", "top_k": 2},
        "generate": None,
        "appraise": JUDGE,
        "label": {"labeller": "gold"},
        "score": {"metrics": ["appraisal", "agreement"]},
        "methods": {"few": {"refine": {"max_words": 4}}, "nothing": {"refine": {"refiner": "gold", "at_least": 0}}},
    }
    outcome = run(store, trial)
    assert values(store, outcome, "few")["faithfulness"] == 9.5
    assert values(store, outcome, "few")["completeness"] == 6
    [(errors,)] = sql(store, "SELECT count(*) FROM appraisals WHERE error = 'there is no context to appraise'")
    assert 0 < errors < 10
    # Each passage that was found is labelled once for a question.
    labels = "SELECT question_id, passage_id, label FROM labels"
    due = "SELECT DISTINCT question_id, passage_id, list_contains(gold_passages, passage_id)::DOUBLE FROM hits"
    assert {*sql(store, labels)} == {*sql(store, f"{due} JOIN asked USING (question_id)")}
    assert {*sql(store, f"SELECT count(*) FROM ({labels}) GROUP BY question_id, passage_id")} == {(1,)}
