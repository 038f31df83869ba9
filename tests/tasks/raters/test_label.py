"""The stage `label`: ask → retrieve → label, and what each labeller says."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.indexing import contents, index, table
from tests.support.stages import staged
from vitalfew.configs.evaluation import GenerateConfig, LabelConfig, Questions
from vitalfew.configs.schema import RetrieveConfig
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.runs import find_index
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.generators.base import Generator, Prompt
from vitalfew.tasks.models.causal.engines.base import Completion, failed
from vitalfew.tasks.models.ticks import no_tick
from vitalfew.tasks.rate import Label
from vitalfew.tasks.raters.base import RatedContext
from vitalfew.tasks.raters.recorded import AnswerText, GoldPassage, Title
from vitalfew.tasks.registry import make
from vitalfew.tasks.retrieve import Retrieve


@pytest.fixture(scope="module")
def retrieved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Artifact, Artifact, Artifact]:
    """Questions, their hits by keywords, and the passages that were searched."""
    store = tmp_path_factory.mktemp("store")
    index(store, "synthetic:passages=60,questions=10,seed=3", bm25={"enabled": True})
    named = find_index(store, "test")
    passages = named.located(store)["passages"]
    ask = Ask(store, passages, Questions(batch=4))
    ask.run("test")
    retrieve = staged(Retrieve, store, ask.artifact, None, named, RetrieveConfig(retriever="bm25", top_k=5))
    retrieve.run("test")
    return ask.artifact, retrieve.artifact, passages


def label(retrieved: tuple[Artifact, Artifact, Artifact], **settings: object) -> Label:
    stage = staged(Label, retrieved[0].store, *retrieved, LabelConfig(**settings))
    stage.run("test")
    return stage


def test_a_passage_is_labelled_once_for_a_question(retrieved: tuple[Artifact, Artifact, Artifact]) -> None:
    store = retrieved[0].store
    stage = label(retrieved)
    rows = table(store, "labels").to_pylist()
    assert table(store, "labels").schema.equals(schemas.LABELS)
    hits = {(row["question_id"], row["passage_id"]) for row in table(store, "hits").to_pylist()}
    assert {(row["question_id"], row["passage_id"]) for row in rows} == hits
    assert len(rows) == len(hits) == stage.artifact.completed().rows["labels"]
    gold = {row["question_id"]: row["gold_passages"] for row in table(store, "asked").to_pylist()}
    assert all(row["label"] == row["rater"] == (row["passage_id"] in gold[row["question_id"]]) for row in rows)
    assert {row["label"] for row in rows} == {0.0, 1.0}
    assert all(row["critic"] is None and not row["error"] for row in rows)
    before = contents(store)
    again = label(retrieved)
    assert (again.artifact, contents(store)) == (stage.artifact, before)
    assert staged(Label, store, *retrieved, LabelConfig(answer=True)).artifact != stage.artifact


def test_gold_asks_for_the_answer_where_it_is_told_to() -> None:
    text = "Ada Norrin built the mill. It burnt in 1742."

    def labelled(passage: int, answer: str, *facts: tuple[int, int]) -> RatedContext:
        return RatedContext(
            "Who?", text, answers=(answer,), gold_passages=(1,), facts=facts, passage_id=passage, title="Velmar"
        )

    batch = [labelled(1, "Tomas"), labelled(1, "1742", (0, 26)), labelled(1, "1742", (27, 44)), labelled(2, "1742")]
    plain, strict = (GoldPassage(GoldPassage.Options(answer=answer)).rate(batch) for answer in (0, 1))
    assert [verdict.label for verdict in plain] == [1, 1, 1, 0]
    assert [verdict.label for verdict in strict] == [0, 0, 1, 0]


def labelled(title: str, text: str, **more: object) -> RatedContext:
    given = {
        "question": "Who runs Velmar?",
        "answers": ("Ada Norrin",),
        "gold_passages": (1,),
        "facts": (),
        "passage_id": 2,
    }
    return RatedContext(**{**given, **more}, title=title, context=text)  # type: ignore[arg-type]


def test_answer_text_looks_for_whole_words() -> None:
    batch = [labelled("", text) for text in ("It is Ada Norrin's.", "ADA, NORRIN", "Adam Norrin", "")]
    batch += [labelled("", "the", answers=("The",))]
    verdicts = AnswerText(LabelConfig(labeller="answer_text")).rate(batch)
    assert [verdict.label for verdict in verdicts] == [0, 1, 0, 0, 0]


def test_title_compares_with_gold_titles_else_with_the_question() -> None:
    batch = [
        labelled("Velmar", "", gold_titles=("velmar",)),
        labelled("Velmar", "", gold_titles=("Kessin",)),
        labelled("Velmar", "", gold_passages=()),
        labelled("Vel", "", gold_passages=()),
        labelled("", "", gold_passages=()),
    ]
    verdicts = Title(LabelConfig(labeller="title")).rate(batch)
    assert [verdict.label for verdict in verdicts] == [1, 0, 1, 0, 0]


class Hasty(Generator):
    """Rates by a word of the passage; knows nothing of answers, and fails where it is told to."""

    class Options(GenerateConfig):
        word: str = "Velmar"

    version = "1"
    uses_gpu = False
    workers = None

    def __init__(self, options: Any) -> None:
        self.options = options

    def identity(self) -> dict[str, Any]:
        return {"class": type(self).__name__, "version": self.version}

    def generate(self, prompts: Sequence[Prompt], tick: Any = no_tick) -> list[Completion]:
        tick(len(prompts), 10 * len(prompts))
        return [self.reply(prompt) for prompt in prompts]

    def reply(self, prompt: Prompt) -> Completion:
        if "fail" in prompt.contexts[0]:
            return failed("no answer in time")
        text = (
            "Reply: 1"
            if self.options.word in prompt.contexts[0]
            else "no."
            if "mumble" not in prompt.contexts[0]
            else "?"
        )
        return Completion(text, 9, 1, 0.1)


class Careful(Hasty):
    """Corrects the other's decision, which it is shown, where no answer stands in the passage."""

    def reply(self, prompt: Prompt) -> Completion:
        assert "Their decision: 1" in prompt.text or "Their decision: 0" in prompt.text
        assert "Accepted answers: Ada Norrin" in prompt.text
        return Completion("1.0" if "Ada Norrin" in prompt.contexts[0] else "0.0", 9, 1, 0.1)


ROUNDS = {"rater": {"generator": f"{__name__}:Hasty"}, "critic": {"generator": f"{__name__}:Careful"}}


def test_the_second_of_two_rounds_corrects_the_first() -> None:
    texts = ["Ada Norrin runs Velmar.", "Velmar has a mill.", "Ada Norrin is away.", "A river.", "fail", "mumble"]
    options = {"labeller": "two_round", **ROUNDS}
    ticked: list[tuple[int, int]] = []
    labeller = make(LabelConfig(**options), "label")
    found = labeller.rate([labelled("T", text) for text in texts], lambda *given: ticked.append(given))
    assert [verdict.scores.get("rater") for verdict in found] == [1, 1, 0, 0, None, None]
    assert [verdict.scores.get("critic") for verdict in found] == [1, 0, 1, 0, None, None]
    assert [verdict.label for verdict in found] == [1, 0, 1, 0, None, None]
    assert [verdict.error for verdict in found[4:]] == [
        "rater: no answer in time",
        "rater: the reply must be 1 or 0, got '?'",
    ]
    assert (sum(rows for rows, _ in ticked), sum(tokens for _, tokens in ticked)) == (6, 100)
    alone = make(LabelConfig(**{**options, "critic": None}), "label")
    verdicts = alone.rate([labelled("T", text) for text in texts[:3]])
    assert [verdict.scores for verdict in verdicts] == [{"rater": 1}, {"rater": 1}, {"rater": 0}]


def test_an_interrupted_labelling_goes_on(
    retrieved: tuple[Artifact, Artifact, Artifact], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was asked and written before is not asked again."""
    asked: list[int] = []
    settings = {"labeller": "two_round", "rater": {**ROUNDS["rater"], "word": "mill"}, "critic": None}
    generate = Hasty.generate

    def mortal(self: Hasty, prompts: Sequence[Prompt], tick: Any = no_tick) -> list[Completion]:
        if len(asked) == 1:
            raise KeyboardInterrupt
        asked.append(len(prompts))
        return generate(self, prompts, tick)

    monkeypatch.setattr(Hasty, "generate", mortal)
    with pytest.raises(KeyboardInterrupt):
        label(retrieved, **settings)
    monkeypatch.setattr(Hasty, "generate", generate)
    stage = staged(Label, retrieved[0].store, *retrieved, LabelConfig(**settings))
    assert len(stage.pending()) == len(stage.shards()) - 1
    stage.run("later")
    assert stage.artifact.completed().rows["labels"] > asked[0]
