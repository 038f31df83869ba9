"""The stage `label`: ask → retrieve → label, and what the labeller `gold` says."""

import pytest

from configs.evaluation import LabelConfig, Questions
from configs.schema import RetrieveConfig
from storage import schemas
from storage.artifacts import Artifact
from storage.runs import find_index
from tasks.ask import Ask
from tasks.label import Label
from tasks.labellers.base import Label as Verdict
from tasks.labellers.base import Labelled
from tasks.labellers.gold import Gold
from tasks.registry import UnknownName
from tasks.retrieve import Retrieve
from tests.support.indexing import contents, index, table


@pytest.fixture(scope="module")
def retrieved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Artifact, Artifact, Artifact]:
    """Questions, their hits by keywords, and the passages that were searched."""
    store = tmp_path_factory.mktemp("store")
    index(store, "synthetic:passages=60,questions=10,seed=3", bm25={"enabled": True})
    named = find_index(store, "test")
    passages = named.located(store)["passages"]
    ask = Ask(store, passages, Questions(batch=4))
    ask.run("test")
    retrieve = Retrieve(store, ask.artifact, None, named, RetrieveConfig(retriever="bm25", top_k=5))
    retrieve.run("test")
    return ask.artifact, retrieve.artifact, passages


def label(retrieved: tuple[Artifact, Artifact, Artifact], **settings: object) -> Label:
    stage = Label(retrieved[0].store, *retrieved, LabelConfig(**settings))
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
    assert Label(store, *retrieved, LabelConfig(answer=True)).artifact != stage.artifact


def test_gold_asks_for_the_answer_where_it_is_told_to() -> None:
    text = "Ada Norrin built the mill. It burnt in 1742."

    def labelled(passage: int, answer: str, *facts: tuple[int, int]) -> Labelled:
        return Labelled("Who?", (answer,), (1,), facts, passage, "Velmar", text)

    batch = [labelled(1, "Tomas"), labelled(1, "1742", (0, 26)), labelled(1, "1742", (27, 44)), labelled(2, "1742")]
    plain, strict = (Gold(Gold.Options(answer=answer)).label(batch, lambda rows, tokens: None) for answer in (0, 1))
    assert [verdict.label for verdict in plain] == [1, 1, 1, 0]
    assert [verdict.label for verdict in strict] == [0, 0, 1, 0]


def test_a_critic_has_the_last_word() -> None:
    assert (Verdict(1.0).label, Verdict(1.0, 0.0).label, Verdict(None, error="no answer").label) == (1, 0, None)


def test_an_unknown_labeller_is_refused(retrieved: tuple[Artifact, Artifact, Artifact]) -> None:
    with pytest.raises(UnknownName, match="did you mean 'gold'"):
        Label(retrieved[0].store, *retrieved, LabelConfig(labeller="glod"))
