"""Memory follows the settings, whatever a source holds: hostile files, in a process of their own."""

import gzip
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.support.indexing import index, sql

ROOT = Path(__file__).parents[3]
ENCODER = ["--set", "encode.encoder=tests.support.fakes:HashEncoder", "--runner", "serial"]
GOOD = {"title": "Good", "text": "A passage is here. It is short."}


def peak(store: Path, dataset: str) -> int:
    """MiB of memory that the index of a data set took at most, in any stage."""
    command = [sys.executable, "-m", "vitalfew.flows.cli", "index", dataset, "--name", "test", "--store", str(store)]
    done = subprocess.run([*command, *ENCODER], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    ((most,),) = sql(store, "SELECT max(peak_memory_bytes) FROM costs")
    return int(most) >> 20


def rejected(store: Path) -> list[tuple[Any, ...]]:
    return sql(store, "SELECT reason, count(*), min(detail) FROM rejects GROUP BY 1 ORDER BY 1")


def lines(path: Path, rows: Iterable[dict[str, str]]) -> Path:
    with path.open("w") as file:
        file.writelines(json.dumps(row) + "\n" for row in [GOOD])
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return path


@pytest.mark.slow
def test_copies_of_a_long_passage(tmp_path: Path) -> None:
    text = "The same passage, word for word. " * 2910
    file = lines(tmp_path / "f.jsonl", ({"text": text} for _ in range(1500)))
    assert peak(tmp_path / "s", f"jsonl:{file}") < 450
    assert rejected(tmp_path / "s") == [("duplicate", 1499, "the same text as row 2 of jsonl:f.jsonl")]
    assert sql(tmp_path / "s", "SELECT count(*) FROM passages") == [(2,)]


@pytest.mark.slow
def test_a_json_string_without_end(tmp_path: Path) -> None:
    file = tmp_path / "f.json.gz"
    with gzip.open(file, "wb", compresslevel=1) as packed:
        packed.write(f'[{json.dumps(GOOD)}, {{"title": "b", "text": "'.encode())
        for _ in range(200):
            packed.write(b"x" * (1 << 20))
        packed.write(b'"}, {"title": "Behind", "text": "Another passage. It is read."}]')
    assert peak(tmp_path / "s", f"titletext:{file}") < 500
    assert rejected(tmp_path / "s") == [("over_long", 1, "the value is longer than 67,108,864 bytes")]
    assert sql(tmp_path / "s", "SELECT count(*) FROM passages") == [(2,)]


def test_questions_have_limits(tmp_path: Path) -> None:
    rows = [
        {"q": "Who?", "answers": ["One", "Another"]},
        {"q": "w" * 200_001, "answers": []},
        {"q": "What?", "answers": ["a" * 100_000, "b" * 100_001]},
        {"q": "Where?", "answers": [str(n) for n in range(10_001)]},
        {"q": "When?", "answers": [], "id": "i" * 10_001},
    ]
    file = tmp_path / "f.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    good = lines(tmp_path / "good.jsonl", [])
    index(tmp_path / "s", f"jsonl:{good}", f"jsonl:{file}?question=q")
    assert sql(tmp_path / "s", "SELECT text FROM questions") == [("Who?",)]
    assert sql(tmp_path / "s", 'SELECT "offset", detail FROM rejects ORDER BY 1') == [
        (2, "text: 200,001 characters; load.max_chars is 200,000"),
        (3, "answers: 200,001 characters; load.max_chars is 200,000"),
        (4, "answers: 10,001 items; load.max_items is 10,000"),
        (5, "source_id: 10,001 characters; load.max_name_chars is 10,000"),
    ]
