"""What holds for every dataset format that reads files: packed copies, odd paths, growing files, arbitrary content."""

import bz2
import gzip
import importlib.util
import json
import lzma
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.samples import SAMPLES, Sample
from tests.tasks.datasets.test_datasets import check, dataset, read
from vitalfew.tasks.datasets.base import InputError, Passage, Question, Record
from vitalfew.tasks.datasets.specification import parse_dataset
from vitalfew.tasks.registry import METHODS, resolve

FORMATS = [name for name in METHODS["dataset"] if resolve("dataset", name).reads_path]
HERE = [name for name in FORMATS if name != "huggingface" or importlib.util.find_spec("datasets")]
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda content: bytes(pa.Codec("zstd").compress(content)),
}


@pytest.fixture(autouse=True)
def _library_stays_in_the_test(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def records_of(name: str, path: Path) -> list[tuple[int, Record]]:
    records = read(name, path, **SAMPLES[name].options)
    check(sorted(records, key=lambda pair: pair[0]))
    return records


def test_every_format_has_a_sample_and_an_example_that_can_be_parsed() -> None:
    assert sorted(SAMPLES) == sorted(FORMATS)
    for name in METHODS["dataset"]:
        assert parse_dataset(resolve("dataset", name).example)[0] == name


@pytest.mark.parametrize("name", HERE)
def test_samples_are_read_without_rejects_and_every_file_is_named(tmp_path: Path, name: str) -> None:
    path = SAMPLES[name].write(tmp_path)
    records = records_of(name, path)
    assert records
    assert all(isinstance(record, Passage | Question) for _, record in records)
    files = dataset(name, path, **SAMPLES[name].options).files()
    assert sorted(file.relative_to(tmp_path).as_posix() for file in files) == sorted(SAMPLES[name].files)


@pytest.mark.parametrize("name", ["jsonl", "folder"])
def test_paths_that_no_file_can_have_are_errors(name: str) -> None:
    for path, message in (("/tmp/n\udcff", r"n\\udcff: the path is not UTF-8"), ("x" * 5000, "File name too long")):
        with pytest.raises(InputError, match=message):
            parse_dataset(f"{name}:{path}")[1].files()


@pytest.mark.parametrize(
    ("path", "suggested"),
    [
        ("d", "folder:d"),
        ("judged", "beir:judged"),
        ("a.csv", "csv:a.csv"),
        ("../no", "folder:../no"),
    ],
)
def test_a_path_without_a_format_gets_a_suggestion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, suggested: str
) -> None:
    Sample({"d/b.md": b"x", "judged/corpus.jsonl": b"", "a.csv": b"text"}).write(tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=rf"'{re.escape(path)}' is not FORMAT:PATH; write for example '{suggested}'"):
        parse_dataset(path)


@pytest.mark.parametrize("archive", ["zip", "gztar"])
def test_archives_are_refused_with_a_remedy(tmp_path: Path, archive: str) -> None:
    SAMPLES["jsonl"].write(tmp_path / "content")
    path = Path(shutil.make_archive(str(tmp_path / "a"), archive, tmp_path / "content"))
    with pytest.raises(InputError, match=r"is a (zip|tar) archive, which can hold several files\. Unpack it first"):
        read("jsonl", path)


# Of a folder, every reading starts a process: `test_documents.py` mutates its documents without one.
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("name", [name for name in HERE if name != "folder"])
@given(data=st.data())
def test_mutated_files_give_records_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject
) -> None:
    sample = SAMPLES[name]
    file = data.draw(st.sampled_from(sorted(sample.files)))
    content = data.draw(mutated(sample.files[file]))
    folder = tmp_path_factory.mktemp("mutated")
    path = Sample(sample.files | {file: content}, sample.path).write(folder)
    message = ""
    try:
        dataset(name, path, **sample.options).files()
        records_of(name, path)
    except InputError as error:
        message = str(error)
    assert not message or str(folder) in message
    shutil.rmtree(folder)


STRINGS = st.text(st.characters(exclude_categories=[]), max_size=6) | st.sampled_from(["A", "Ada", " A. "])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 3) | st.integers() | st.floats() | STRINGS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "title"]) | STRINGS, inner),
    max_leaves=6,
)


@st.composite
def mutated(draw: st.DrawFn, content: bytes) -> bytes:
    """Return the content with some changes in it: of the JSON that it is; or bytes replaced, put in, left out or
    repeated; maybe packed."""
    telling = st.sampled_from([b'"', b"\t", b",", b"\n", b"\0", b"\xff", b"{", b"[", b"}", b"\xef\xbb\xbf"])
    for _ in range(draw(st.integers(1, 4))):
        if content.startswith((b"{", b"[")) and draw(st.booleans()):
            content = replaced(draw, content)
            continue
        start = draw(st.integers(0, len(content)))
        end = draw(st.integers(start, min(len(content), start + 20)))
        middle = draw(telling | st.binary(max_size=8) | st.just(content[start:end] * 2))
        content = content[:start] + middle + content[end:]
    pack = draw(st.sampled_from([None, None, None, *PACKERS]))
    return PACKERS[pack](content)[: draw(st.integers(0, 200)) or None] if pack else content


def replaced(draw: st.DrawFn, content: bytes) -> bytes:
    """A document of JSON, or lines, with another value somewhere."""
    with suppress(ValueError):
        return json.dumps(changed(draw, json.loads(content))).encode()
    first, end, rest = content.partition(b"\n")
    with suppress(ValueError):
        return json.dumps(changed(draw, json.loads(first))).encode() + end + rest
    return content


def changed(draw: st.DrawFn, value: Any) -> Any:
    if not value or not isinstance(value, dict | list) or draw(st.integers(0, 5)) == 0:
        return draw(VALUES)
    copy = value.copy()
    place = draw(st.sampled_from([*value] if isinstance(value, dict) else range(len(value))))
    copy[place] = changed(draw, value[place])
    return copy
