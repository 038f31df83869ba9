"""The benchmarks start, and the rows that they invent fit the tables of today."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import catalog, celery_docs
from vitalfew.storage import schemas

ROOT = Path(__file__).parents[1]
STARTED = sorted(
    path.stem for path in (ROOT / "benchmarks").glob("*.py") if "def main()" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("stage", catalog.STAGES)
def test_invented_rows_fit_their_table(stage: str) -> None:
    table, rows = catalog.STAGES[stage]
    made = rows(schemas.TABLES[table], np.arange(3))
    made.validate(full=True)
    assert made.schema == schemas.TABLES[table]
    assert made.num_rows


@pytest.mark.parametrize("table", schemas.TABLES)
def test_every_table_can_be_filled_without_naming_its_columns(table: str) -> None:
    made = catalog.filled(schemas.TABLES[table], 2)
    made.validate(full=True)
    assert (made.schema, made.num_rows) == (schemas.TABLES[table], 2)


def test_a_column_that_a_table_lacks_is_an_error() -> None:
    with pytest.raises(KeyError, match="no columns \\['colour'\\]"):
        catalog.filled(schemas.PASSAGES, 1, colour=["red"])


def test_questions_on_celery_are_distinct_and_have_answers_and_a_file() -> None:
    rows = [json.loads(line) for line in celery_docs.QUESTIONS.read_text(encoding="utf-8").splitlines()]
    assert len({row["question"] for row in rows}) == len(rows) >= 150
    assert all(row["answers"] and all(row["answers"]) and row["source"].endswith(".rst") for row in rows)


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", STARTED)
def test_a_benchmark_has_help(benchmark: str) -> None:
    command = [sys.executable, "-m", f"benchmarks.{benchmark}", "--help"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert "bench" in done.stdout
