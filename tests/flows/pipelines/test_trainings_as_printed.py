"""Recipes on tiny stand-ins of the data sets that their papers train on, by the command, to the end."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.evaluating import run
from tests.support.indexing import index
from tests.support.oreo import reader
from tests.support.stand_ins import NAMES, question, write_stand_ins
from tests.support.tiny_models import llama
from vitalfew.flows.cli.main import app

SPARSE = [
    "yes=.", 'no="?"', "steps=1", "precision=fp32", "threads=1", "contexts=3", "fewest=3", "rank=2", "targets=[q_proj]",
    "check_questions=2",
]  # fmt: skip
BY_QUESTION = ["split=question", "held_out=2", "choosing=1"]


@pytest.fixture(autouse=True)
def _by_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    """To convert a network for OpenVINO takes longer than these trainings."""
    monkeypatch.setattr("vitalfew.tasks.models.compiled.is_usable", lambda: False)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data sets, models, and a store with an index of the contexts."""
    folder = write_stand_ins(tmp_path_factory.mktemp("place"))
    llama(folder / "llama", positions=1024)
    index(folder / "store", f"ctxs:{folder / 'retrieved.jsonl'}")
    return folder


@pytest.fixture(scope="module")
def tiny(place: Path) -> Path:
    """The weights of a tiny reader."""
    return reader(place / "tiny")


def command(place: Path, recipe: str, *data: str, settings: list[str]) -> Any:
    """`vitalfew train`; the model goes to `out`."""
    given = ["train", recipe, *data, "--store", str(place / "store"), "--runner", "serial", "--out", str(place / "out")]
    return CliRunner().invoke(app, [*given, *(part for one in settings for part in ("--set", one))])


def train(place: Path, recipe: str, *data: str, settings: list[str]) -> str:
    """Train, and return the card of the model."""
    result = command(place, recipe, *data, settings=settings)
    assert result.exit_code == 0, result.output
    return (place / "out" / "README.md").read_text()


def sparse(place: Path, recipe: str, *data: str, settings: list[str]) -> str:
    return train(place, recipe, *data, settings=[*SPARSE, f"base={place / 'llama'}", *settings])


def held_out(place: Path) -> list[str]:
    return (place / "out" / "held_out.txt").read_text().splitlines()


def test_questions_without_gold_passages_learn_from_the_contexts_they_came_with(place: Path) -> None:
    data = f"popqa:{place / 'popqa.tsv'}", "--passages", f"ctxs:{place / 'retrieved.jsonl'}"
    settings = [*BY_QUESTION, f"run_file={place / 'retrieved.jsonl'}", "label.labeller=answer_text"]
    card = sparse(place, "sparse_rag", *data, settings=settings)
    assert "9 questions to learn from" in card
    assert "2 questions held out, chosen by a hash with seed 100" in card
    assert "3 to 3 contexts per question, the first as a file ranks them" in card
    assert set(held_out(place)) < {question(number) for number in range(len(NAMES))}


def test_a_data_set_of_its_own_is_held_out(place: Path) -> None:
    settings = ["split=file", f"held_out=squad:{place / 'squad-dev.json'}", "choosing=4"]
    data = f"squad:{place / 'squad.json'}"
    card = sparse(place, "sparse_rag", data, settings=settings)
    assert "vitalfew train recipe.yaml squad:squad.json --out DIR" in card
    # "When was the mill built?" is asked of every town, so that it is held out, too
    assert "5 questions to learn from" in card
    assert "4 questions held out, of a data set of their own" in card
    assert held_out(place) == sorted(
        ["When was the mill built?", *(f"How many people live in {town}?" for town in NAMES[:3])]
    )


def test_labels_of_a_run_are_learnt_from(place: Path) -> None:
    file = place / "retrieved.jsonl"
    retrieve = {"retriever": "run_file", "file": str(file), "top_k": 3}
    methods = {"titles": {"label": {"labeller": "title"}}, "answers": {"label": {"labeller": "answer_text"}}}
    settings = {"index": "test", "generate": None, "retrieve": retrieve, "methods": methods}
    found = run(place / "store", settings, score={"metrics": ["passage_recall"]})
    given = [*BY_QUESTION, f"labels={found.run.run_id}:titles"]
    card = sparse(place, "sparse_rag", f"ctxs:{file}", settings=given)
    assert "which are relevant is said by the labels of a run" in card
    ambiguous = [*SPARSE, f"base={place / 'llama'}", "split=question", f"labels={found.run.run_id}"]
    result = command(place, "sparse_rag", f"ctxs:{file}", settings=ambiguous)
    assert "has the labels of titles, answers; name one" in " ".join(result.output.split())


LITTLE = [
    "precision=fp32", "threads=1", "batch_tokens=256", "steps=1", "epochs=1", "check_questions=1", "batch=2",
    "max_new_tokens=12", "generator={generator: tests.support.oreo:LastWord}",
]  # fmt: skip


def test_oreo_holds_a_data_set_out(place: Path, tiny: Path) -> None:
    reads = f"retrieve={{retriever: run_file, top_k: 4, file: {place / 'hotpotqa.json'}}}"
    collects = f"collect.reader={{generator: reader, model: {tiny}}}"
    alone = ["contrastive=null", "ppo=null", *(f"sft.{one}" for one in (*LITTLE, "layers=1", f"base={tiny}"))]
    held = f"collect.held_out=hotpotqa:{place / 'hotpotqa-dev.json'}"
    given = [f"questions.dataset=hotpotqa:{place / 'hotpotqa.json'}", "collect.split=file", held, "collect.choosing=2"]
    index(place / "store", f"hotpotqa:{place / 'hotpotqa.json'}", name="hotpotqa")
    settings = ["index=hotpotqa", reads, collects, *given, *alone]
    card = train(place, "oreo", "--index", "test", settings=settings)
    assert "7 questions with an evidence text to learn from" in card
    assert "3 questions held out" in card
    without = command(place, "oreo", "--index", "test", settings=["collect.split=file", held])
    assert "collect.split=file needs the data set to learn from" in " ".join(without.output.split())
