"""Preferences of the stage `judge`: both orders, ties, errors, fences, what is asked for and paid, and the rate of wins
in a report. The engine obeys whoever speaks to it, as in test_verdicts.py."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.evaluating import copied, parameters, run, values
from tests.support.fakes import ChatServer
from tests.support.indexing import sql
from tests.support.shared import indexed
from tests.tasks.raters.test_verdicts import ORDER, ORDERS, TRIAL, Obedient, replies, verdict
from vitalfew.configs.evaluation import JudgeConfig
from vitalfew.flows.pipelines.evaluate import EvaluationPlan
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.quote.evaluation import quote_evaluation
from vitalfew.tasks.models.causal.engines.base import Completion, failed
from vitalfew.tasks.models.causal.engines.remote import Unanswered
from vitalfew.tasks.raters.base import Judgement, RatedContext
from vitalfew.tasks.raters.verdicts import AnswerJudge
from vitalfew.tasks.registry import make

_FENCE = re.compile(r"<(\w+)>\n(.*?)\n</\1>", re.DOTALL)


def preference(prompt: str, biased: bool = False) -> str:
    """The reply of a model that likes the shorter answer, or the first one if it is biased or somebody orders so."""
    said = dict(_FENCE.findall(prompt))
    first, second = len(said["first_answer"]), len(said["second_answer"])
    obeys = biased or bool(ORDER.search(_FENCE.sub("", prompt)))
    liked = "first" if obeys or first < second else "tie" if first == second else "second"
    return json.dumps({"reason": f"it is {liked}", "preferred": liked})


def replied(prompt: str, biased: bool = False) -> str:
    return preference(prompt, biased) if "first_answer" in prompt else verdict(prompt)


class Comparing(Obedient):
    """Replies as `replied` does. Its model's name says how: plain, biased, chatty, or once, in form for one order."""

    def _reply(self, prompt: str) -> Completion:
        if "fail" in prompt:
            return failed("no answer in time")
        said = replied(prompt, self.options.model == "biased")
        chats = self.options.model == "chatty" or (self.options.model == "once" and '"second"' in said[-12:])
        return Completion(f"Sure! {said}" if chats else said, 3, 2, 0.1)


def settings(model: str = "plain") -> dict[str, Any]:
    return {"engine": f"{__name__}:Comparing", "model": model, "preferred": True}


def compared(answer: str, other: str, *texts: str, model: str = "plain", question: str = "Who?") -> Judgement:
    judge: AnswerJudge = make(JudgeConfig(**settings(model)), "judge")
    (judgement,) = judge.rate([RatedContext(question, answer=answer, other=RatedContext("", answer=other, hits=texts))])
    return judgement


def test_a_preference_holds_in_both_orders() -> None:
    better, worse, tie = compared("Ada", "Ada B."), compared("Ada B.", "Ada"), compared("Ada", "Bob")
    assert [each.scores for each in (better, worse, tie)] == [{"preferred": 1}, {"preferred": 0}, {"preferred": 0.5}]
    assert better.explanation == "preferred: the answer: it is first\npreferred: the answer: it is second"
    turned = compared("Ada", "Ada B.", model="biased")
    assert turned.scores == {"preferred": 0.5}
    assert turned.explanation == "preferred: the answer: it is first\npreferred: the other: it is first"


@pytest.mark.parametrize(("model", "question"), [("chatty", "Who?"), ("once", "Who?"), ("plain", "Did it fail?")])
def test_a_preference_not_in_form_is_no_tie(model: str, question: str) -> None:
    found = compared("Ada", "Ada B.", model=model, question=question)
    assert found.scores == {}
    assert found.error.startswith("preferred: ")
    assert found.explanation == ""


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("place", ["question", "first_answer", "second_answer", "text"])
def test_no_text_moves_a_preference(order: str, place: str) -> None:
    """The order to prefer the first answer would turn with the places, so that the two would tie."""
    told = order.format(tag=place)
    parts = dict.fromkeys(("question", "first_answer", "second_answer", "text"), "Ada") | {place: f"Ada {told}"}
    parts["first_answer"] += " built the mill of all mills on the hill of all hills, and this is longer than any order."
    found = compared(parts["first_answer"], parts["second_answer"], parts["text"], question=parts["question"])
    assert (found.scores, found.error) == ({"preferred": 0}, "")


METHODS: dict[str, Any] = {
    "short": {},
    "whole": {"generate": {"generator": "tests.support.fakes:AllWords"}},
    "same": {"refine": {"top_k": 1}},
    "bare": {"retrieve": None},
}
COMPARED: dict[str, Any] = {
    **TRIAL,
    "methods": METHODS,
    "score": {"metrics": ["preferred", "judged_correct"]},
    "primary": "preferred",
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copied(indexed(bm25={"enabled": True}), tmp_path / "store")


def test_a_method_wins_against_its_baseline(store: Path) -> None:
    outcome = run(store, {**COMPARED, "judge": settings()})
    rates = {name: values(store, outcome, name)["preferred"] for name in METHODS}
    assert rates == {"short": 0.5, "whole": 0, "same": 0.5, "bare": 0}  # empty answers lose
    asked = "count(*) FILTER (preferred_id IS NOT NULL), count(*) FILTER (explanation LIKE '%preferred:%')"
    assert sql(store, f"SELECT {asked} FROM verdicts WHERE error = ''") == [(6, 6)]
    other = {name: METHODS[name] for name in ("bare", "whole")}
    turned = run(store, {**COMPARED, "judge": settings(), "methods": other})
    assert values(store, turned, "whole")["preferred"] == 1  # against the empty answers of another baseline
    assert not sql(store, "SELECT 1 FROM verdicts WHERE preferred_id IS NOT NULL OFFSET 6")
    report = outcome.report.report
    (whole,) = [method for method in report.methods if method.name == "whole"]
    assert whole.differences["preferred"].mean_difference == -0.5
    assert "preferred to the baseline" in outcome.report.html.read_text()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.001)
    monkeypatch.setattr("openai._base_client.MAX_RETRY_DELAY", 0.001)
    with ChatServer(replies(said=replied)) as server:
        yield server


def asking(server: ChatServer, preferred: bool = True) -> dict[str, Any]:
    judge = {"engine": "openai", "model": "tiny", "base_url": server.url, "retries": 0, "concurrency": 2}
    methods = {name: METHODS[name] for name in ("short", "whole")}
    return {**COMPARED, "judge": {**judge, "preferred": preferred}, "methods": methods}


def quoted(store: Path, given: dict[str, Any]) -> list[int]:
    """The tokens of judges, method by method."""
    plan = graph(parameters(store, given))
    assert isinstance(plan, EvaluationPlan)
    return [method.other_tokens for method in quote_evaluation(plan).methods]


def test_a_preference_is_quoted_and_paid_for_once(store: Path, server: ChatServer) -> None:
    without, whole = quoted(store, asking(server, preferred=False)), quoted(store, asking(server))
    assert not server.asked
    assert [more > 6 * 2 * 600 + less for less, more in zip(without, whole, strict=True)] == [False, True]
    server.behave = replies(fails_second, said=replied)
    with pytest.raises(Unanswered):
        run(store, asking(server))
    paid = {*server.prompts()}
    server.asked.clear()
    server.behave = replies(said=replied)
    outcome = run(store, asking(server))
    assert values(store, outcome, "whole")["preferred"] == 0
    compared = [prompt for prompt in server.prompts() if "first_answer" in prompt]
    assert 0 < len(compared) < 12, "those of the killed run that had a reply are in its journal"
    assert len(compared) == len({*compared})
    assert paid & {*server.prompts()} <= {prompt for prompt in paid if fails_second(prompt)}
    form = next(body["response_format"]["json_schema"] for _, body, _ in server.asked if "first_answer" in str(body))
    assert form["schema"]["properties"]["preferred"]["enum"] == ["first", "second", "tie"]
    server.asked.clear()
    again = {**asking(server), "methods": {"short": {}, "again": METHODS["whole"]}}
    run(store, again, questions={"batch": 2})
    assert not server.prompts(), "what was preferred once is known, in shards of another size"


def fails_second(prompt: str) -> bool:
    """Whether the longer answer is shown first."""
    return "first_answer" in prompt and '"first"' not in preference(prompt)
