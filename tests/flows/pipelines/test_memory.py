"""Memory follows the settings, whatever a source holds: hostile files, in a process of their own."""

import gzip
import json
import lzma
import subprocess
import sys
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.indexing import index, sql
from vitalfew.tasks.datasets.base import InputError

ROOT = Path(__file__).parents[3]
ENCODER = ["--set", "encode.encoder=tests.support.fakes:HashEncoder", "--runner", "serial"]
GOOD = {"title": "Good", "text": "A passage is here. It is short."}


def peak(store: Path, dataset: str, *options: str) -> int:
    """MiB of memory that the index of a data set took at most, in any stage."""
    command = [
        sys.executable,
        "-m",
        "vitalfew.flows.cli",
        "index",
        dataset,
        "--name",
        "test",
        "--store",
        str(store),
        *ENCODER,
    ]
    done = subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True)
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


def one_long_string(path: Path, megabytes: int) -> Path:
    """A JSON list of three rows, of which the second has a text of so many MB; packed it is small."""
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(f'[{json.dumps(GOOD)}, {{"title": "b", "text": "'.encode())
        for _ in range(megabytes):
            file.write(b"x" * (1 << 20))
        file.write(b'"}, {"title": "Behind", "text": "Another passage. It is read."}]')
    return path


@pytest.mark.parametrize(
    ("rows", "limit"), [(150, 350), pytest.param(1500, 500, marks=pytest.mark.slow)]
)  # before: 577 MiB, 4,028 MiB
def test_long_titles(tmp_path: Path, rows: int, limit: int) -> None:
    file = lines(tmp_path / "f.jsonl", ({"title": "t" * 1_000_000, "text": f"Passage {n}."} for n in range(rows)))
    assert peak(tmp_path / "s", f"jsonl:{file}") < limit
    detail = "title: 1,000,000 characters; load.max_name_chars is 10,000"
    assert rejected(tmp_path / "s") == [("over_long", rows, detail)]


@pytest.mark.parametrize(("rows", "limit"), [(1500, 450), pytest.param(12_000, 600, marks=pytest.mark.slow)])
def test_copies_of_a_long_passage(tmp_path: Path, rows: int, limit: int) -> None:
    text = "The same passage, word for word. " * 2910
    file = lines(tmp_path / "f.jsonl", ({"text": text} for _ in range(rows)))
    assert peak(tmp_path / "s", f"jsonl:{file}") < limit
    assert rejected(tmp_path / "s") == [("duplicate", rows - 1, "the same id as row 2 of jsonl:f.jsonl")]
    assert sql(tmp_path / "s", "SELECT count(*) FROM passages") == [(2,)]


def test_a_parquet_file_whose_rows_share_a_long_title(tmp_path: Path) -> None:
    """Before: 3 MiB a row. The file has 1.1 kB: a dictionary's page with the title, and a number for every row."""
    rows = pa.table({"title": ["t" * 1_000_000] * 400 + ["Good"], "text": [f"Passage {n}." for n in range(401)]})
    pq.write_table(rows, tmp_path / "f.parquet", compression="zstd", use_dictionary=["title"])
    assert peak(tmp_path / "s", f"parquet:{tmp_path / 'f.parquet'}") < 700
    detail = "title: 1,000,000 characters; load.max_name_chars is 10,000"
    assert rejected(tmp_path / "s") == [("over_long", 400, detail)]


@pytest.mark.parametrize(("megabytes", "limit"), [(200, 500), pytest.param(1000, 500, marks=pytest.mark.slow)])
def test_a_json_string_without_end(tmp_path: Path, megabytes: int, limit: int) -> None:
    file = one_long_string(tmp_path / "f.json.gz", megabytes)
    assert peak(tmp_path / "s", f"titletext:{file}") < limit
    assert rejected(tmp_path / "s") == [("over_long", 1, "the value is longer than 67,108,864 characters")]
    assert sql(tmp_path / "s", "SELECT count(*) FROM passages") == [(2,)]


def xz(content: bytes, dictionary: int) -> bytes:
    """A file of xz whose header asks for a dictionary of so many bytes (2**n), which takes no memory to write."""
    packed = bytearray(lzma.compress(content, check=lzma.CHECK_NONE, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0}]))
    size = (packed[12] + 1) * 4
    packed[12 + 4] = 2 * (dictionary.bit_length() - 1) - 24
    packed[12 + size - 4 : 12 + size] = zlib.crc32(packed[12 : 12 + size - 4]).to_bytes(4, "little")
    return bytes(packed)


def test_xz_in_several_streams_and_with_a_vast_dictionary(tmp_path: Path) -> None:
    file = tmp_path / "f.jsonl.xz"
    good, other = (json.dumps(row).encode() + b"\n" for row in (GOOD, {"text": "Of a second stream."}))
    file.write_bytes(xz(good, 64 << 20) + bytes(8) + lzma.compress(other))
    index(tmp_path / "s", f"jsonl:{file}")
    assert sql(tmp_path / "s", "SELECT count(*) FROM passages") == [(2,)]
    file.write_bytes(xz(good, 1 << 30))
    with pytest.raises(InputError, match=r"packed with xz and cut short or broken after 0 unpacked bytes .*[Mm]emory"):
        index(tmp_path / "s", f"jsonl:{file}")


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
