"""A recipe on what its paper trains on: contexts that came with the questions, labels of a run."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.support.evaluating import run
from tests.support.indexing import index
from tests.support.tiny_models import llama
from vitalfew.flows.cli.main import app

NAMES = ("Velmar", "Kessin", "Orrel", "Tamsin", "Dunmore", "Harrow", "Lindel", "Marrow", "Pernod", "Quill", "Sarn")
SPARSE = [
    "yes=.", 'no="?"', "steps=1", "precision=fp32", "threads=1", "contexts=3", "fewest=3", "rank=2", "targets=[q_proj]",
    "check_questions=2", "split=question", "held_out=2", "choosing=1",
]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Questions about towns: `popqa.tsv`, which has no passages, and `retrieved.jsonl`, Self-RAG's lines with contexts,
    of which the second has the answer; a model, and a store with an index of the contexts."""
    folder = tmp_path_factory.mktemp("place")
    llama(folder / "llama", positions=1024)
    years = [str(1700 + 7 * number) for number in range(len(NAMES))]
    asked = [f"When was the mill of {name} built?" for name in NAMES]
    rows = [f'{n}\t{NAMES[n]}\t{asked[n]}\t"[""{years[n]}""]"\t{n}' for n in range(len(NAMES))]
    (folder / "popqa.tsv").write_text("\n".join(["id\tsubj\tquestion\tpossible_answers\ts_pop", *rows]) + "\n")
    passages = [
        {"title": name, "text": f"{name} lies on a river. The mill of {name} was built in {year}."}
        for name, year in zip(NAMES, years, strict=True)
    ]
    with (folder / "retrieved.jsonl").open("w") as file:
        for n, year in enumerate(years):
            own = [passages[(n + other) % len(NAMES)] for other in (3, 0, 5)]
            file.write(json.dumps({"question": asked[n], "answers": [year], "ctxs": own}) + "\n")
    index(folder / "store", f"ctxs:{folder / 'retrieved.jsonl'}")
    return folder


def trained(place: Path, *data: str, settings: list[str], status: int = 0) -> str:
    """Train `sparse_rag`; return what the command prints, and the card of the model."""
    whole = [*SPARSE, f"base={place / 'llama'}", *settings]
    given = ["--store", str(place / "store"), "--runner", "serial", "--out", str(place / "out")]
    words = [word for setting in whole for word in ("--set", setting)]
    result = CliRunner().invoke(app, ["train", "sparse_rag", *data, *given, *words])
    assert result.exit_code == status, result.output
    return " ".join(result.output.split()) + (place / "out" / "README.md").read_text()


def test_questions_without_gold_passages_learn_from_the_contexts_they_came_with(place: Path) -> None:
    data = f"popqa:{place / 'popqa.tsv'}", "--passages", f"ctxs:{place / 'retrieved.jsonl'}"
    card = trained(place, *data, settings=[f"run_file={place / 'retrieved.jsonl'}", "label.labeller=answer_text"])
    assert "8 questions to learn from" in card
    assert "2 questions held out, chosen by a hash with seed 100" in card
    assert "3 to 3 contexts per question, the first as a file ranks them" in card


def test_labels_of_a_run_are_learnt_from(place: Path) -> None:
    file = place / "retrieved.jsonl"
    retrieve = {"retriever": "run_file", "file": str(file), "top_k": 3}
    methods = {"titles": {"label": {"labeller": "title"}}, "answers": {"label": {"labeller": "answer_text"}}}
    settings = {"index": "test", "generate": None, "retrieve": retrieve, "methods": methods}
    found = run(place / "store", settings, score={"metrics": ["passage_recall"]})
    card = trained(place, f"ctxs:{file}", settings=[f"labels={found.run.run_id}:titles"])
    assert "which are relevant is said by the labels of a run" in card
    ambiguous = trained(place, f"ctxs:{file}", settings=[f"labels={found.run.run_id}"], status=1)
    assert "has the labels of titles, answers; name one" in ambiguous
