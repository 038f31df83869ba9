"""Every recipe on tiny stand-ins of the data sets that its paper trains on, by the command, to the end."""

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.support.indexing import index, sql
from tests.support.oreo import reader
from tests.support.stand_ins import write_stand_ins
from tests.support.tiny_models import bert, llama, t5_generator
from vitalfew.flows.cli.main import app

SPARSE = ["yes=.", 'no="?"', "steps=1", "precision=fp32", "threads=1", "contexts=3", "fewest=3", "rank=2",
    "targets=[q_proj]", "check_questions=2"]  # fmt: skip
SMALL = ["precision=fp32", "threads=1", "batch_tokens=256", "steps=1", "check_questions=2"]
BY_QUESTION = ["split=question", "held_out=2", "choosing=1"]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data sets, a causal model and a store."""
    folder = write_stand_ins(tmp_path_factory.mktemp("place"))
    llama(folder / "llama", positions=1024)
    return folder


def train(place: Path, recipe: str, *data: str, settings: list[str]) -> Path:
    """Train, and return the directory of the weights."""
    out = place / "out"
    given = ["train", recipe, *data, "--store", str(place / "store"), "--runner", "serial", "--out", str(out)]
    result = CliRunner().invoke(app, [*given, *(part for one in settings for part in ("--set", one))])
    assert result.exit_code == 0, result.output
    return out


def sparse(place: Path, recipe: str, *data: str, settings: list[str]) -> str:
    """Train an adapter, and return its card."""
    given = [*SPARSE, f"base={place / 'llama'}", *settings]
    return (train(place, recipe, *data, settings=given) / "README.md").read_text()


@pytest.mark.parametrize("recipe", ["sparse_rag", "sparse_rag_paper"])
@pytest.mark.parametrize("questions", ["popqa:popqa.tsv", "triviaqa:triviaqa.json"])
def test_questions_without_gold_passages_learn_from_the_contexts_they_came_with(
    place: Path, recipe: str, questions: str
) -> None:
    name, _, file = questions.partition(":")
    data = f"{name}:{place / file}", "--passages", f"ctxs:{place / 'retrieved.jsonl'}"
    settings = [*BY_QUESTION, f"run_file={place / 'retrieved.jsonl'}", "label.labeller=answer_text"]
    card = sparse(place, recipe, *data, settings=settings)
    assert "9 questions to learn from" in card
    assert "2 questions held out, chosen by a hash with seed 100" in card
    assert "3 to 3 contexts per question, the first as a file ranks them" in card
