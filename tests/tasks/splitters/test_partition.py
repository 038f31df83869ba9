"""Long units are cut at the best boundary, and none is longer than the encoder reads."""

import json
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.indexing import index, table
from vitalfew.tasks.models import pieces
from vitalfew.tasks.splitters.partition import cut


def by_words(text: str, most: int) -> list[str]:
    return [text[start:end] for start, end in cut(text, [word.end() for word in re.finditer(r"\S+", text)], most)]


@pytest.mark.parametrize(
    ("marked", "most"),
    [
        ("one two three\n\n|four five; six seven. eight", 6),
        ("one two three\n|four five; six seven. eight", 6),
        ("one two three. |four five; six seven eight", 6),
        ("one two three; |four five six seven eight", 6),
        ("one two three four five six |seven eight", 6),
        ("one two. |three four", 3),
        ("one two three", 3),
        ("  \n ", 1),
        ("", 1),
    ],
)
def test_the_best_boundary(marked: str, most: int) -> None:
    assert by_words(marked.replace("|", ""), most) == marked.split("|")


TEXTS = st.lists(st.sampled_from(["word", " ", "\n\n", "; ", ". ", "。", "문장", "ไทย", "हि", "x=[1]"]), max_size=80)


@given(TEXTS.map("".join), st.integers(8, 20))
def test_no_part_has_more_tokens_than_the_limit(text: str, most: int) -> None:
    ranges = cut(text, pieces.ends(text), most)
    parts = [text[start:end] for start, end in ranges]
    assert "".join(parts) == text
    assert len(parts) == 1 or all(part.strip() for part in parts)
    assert not any(part[0].isspace() for part in parts[1:])
    assert all(len(pieces.ends(part)) <= most + 4 for part in parts)  # a word that is cut may be more tokens
    assert pieces.are_at_most(text, most) <= (len(pieces.ends(text)) <= most)


def test_no_unit_of_an_index_is_longer_than_the_encoder_reads(tmp_path: Path) -> None:
    long = ["a shelf and a box, " * 300, "没有标点的文字" * 200, "ประโยคยาว" * 200]
    texts = tmp_path / "long.jsonl"
    texts.write_text("\n".join(json.dumps({"text": text.strip()}) for text in long))
    index(tmp_path / "store", f"jsonl:{texts}", split={"max_tokens": 50})
    rows = table(tmp_path / "store", "sentences").to_pylist()
    units: dict[int, list[str]] = {}
    for row in sorted(rows, key=lambda row: row["position"]):
        units.setdefault(row["passage_id"], []).append(row["text"])
    assert sorted("".join(own) for own in units.values()) == sorted(text.strip() for text in long)
    assert max(len(pieces.ends(row["text"])) for row in rows) <= 50
    assert sorted(map(len, units.values())) == [9, 28, 38]


@pytest.mark.parametrize("part", ["ไทย", "word ", "\n\n ", "；", "a\u0301", "\u0301", "한국어"])
def test_time_is_linear(part: str) -> None:
    text, started = part * 100_000, time.process_time()
    ranges = cut(text, pieces.ends(text), 200)
    assert ranges[-1][1] == len(text)
    assert time.process_time() - started < 20
