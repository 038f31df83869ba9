"""The benchmarks start, and what they invent fits the tables and questions of today."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import catalog, lookalikes
from vitalfew.storage import schemas

ROOT = Path(__file__).parents[1]
STARTED = sorted(
    path.stem for path in (ROOT / "benchmarks").glob("*.py") if "def main()" in path.read_text(encoding="utf-8")
)


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", STARTED)
def test_a_benchmark_has_help(benchmark: str) -> None:
    command = [sys.executable, "-m", f"benchmarks.{benchmark}", "--help"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert "bench" in done.stdout


@pytest.mark.slow
def test_every_documented_query_answers_on_an_invented_store(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.catalog", "1", "--questions", "20"]
    subprocess.run(command, cwd=tmp_path, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)})


def test_invented_rows_fit_their_tables() -> None:
    for table, rows in catalog.STAGES.values():
        made = rows(schemas.TABLES[table], np.arange(3))
        made.validate(full=True)
        assert made.schema == schemas.TABLES[table]
        assert made.num_rows


def test_questions_on_celery_are_distinct_and_have_answers_and_a_file() -> None:
    rows = [
        json.loads(line)
        for line in (ROOT / "benchmarks" / "celery_questions.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    assert len({row["question"] for row in rows}) == len(rows) >= 150
    assert all(row["answers"] and all(row["answers"]) and row["source"].endswith(".rst") for row in rows)


def test_look_alikes_exchange_names_keep_the_other_words_and_give_no_answer() -> None:
    originals = [*lookalikes.read_originals(["synthetic:passages=60,questions=60,seed=0"]).values()]
    stock = lookalikes.Stock(originals)
    made = [*lookalikes.lookalikes(originals, stock, 400, seed=1)]
    assert len({each.text for each in made} - {each.text for each in originals}) == len(made) == 400
    assert [*lookalikes.lookalikes(originals, stock, 100, seed=1)] == made[:100]
    known = " ".join(f"{each.title} {each.text}" for each in originals)
    for each in made:
        original = originals[each.original]
        assert each.exchanged
        assert all(name in original.text and other in known for name, other in each.exchanged.items())
        words = {word.strip(".,;") for word in each.text.split() if word.islower()}
        assert words <= {*known.split()} | {word.strip(".,;") for word in original.text.split()}
        assert not any(f" {answer.lower()} " in f" {each.text.lower()} " for answer in original.answers)
    assert {each.title == originals[each.original].title for each in made} == {True, False}
