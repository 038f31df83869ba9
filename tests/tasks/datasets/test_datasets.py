"""The datasets that read files: what their rows give, and bad ones; `test_every.py` has arbitrary ones."""

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any, TypeVar

import pytest

from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets import rows
from vitalfew.tasks.datasets.base import Dataset, InputError, Passage, Question, Record, Reject, Span
from vitalfew.tasks.datasets.rows import REASONS
from vitalfew.tasks.registry import resolve

Kind = TypeVar("Kind", Passage, Question, Reject)


def dataset(name: str, path: Path, **options: Any) -> Dataset:
    method = resolve("dataset", name)
    made: Dataset = method(path, method.Options(**options))
    return made


def read(name: str, path: Path, **options: Any) -> list[tuple[int, Record]]:
    return list(dataset(name, path, **options).records())


def only(kind: type[Kind], records: list[tuple[int, Record]]) -> list[Kind]:
    return [record for _, record in records if isinstance(record, kind)]


def write(folder: Path, content: Any) -> Path:
    """A file with bytes or a text as they are, or with any other value as JSON."""
    path = folder / "source.json"
    if not isinstance(content, bytes | str):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def check(records: list[tuple[int, Record]]) -> None:
    """What holds for every dataset: text that can be stored, and gold that points into passages that were given."""
    offsets = [offset for offset, _ in records]
    assert offsets == sorted(offsets)
    assert all(offset >= 1 for offset in offsets)
    texts = {passage_id(passage.text): passage.text for passage in only(Passage, records)}
    for text in [*texts.values(), *(passage.title for passage in only(Passage, records))]:
        assert text == text.encode().decode().strip()
    assert all(texts.values())
    for question in only(Question, records):
        assert all(text == text.encode().decode().strip() != "" for text in (question.text, *question.answers))
        assert set(question.gold_passages) <= set(texts)
        for span in question.supporting_facts:
            assert span.passage_id in question.gold_passages
            found = texts[span.passage_id][span.start : span.end]
            assert len(found) == span.end - span.start > 0
            assert found == found.strip()
    for reject in only(Reject, records):
        assert reject.reason in REASONS
        assert reject.detail.encode()


# --- HotpotQA


def hotpot(**changes: Any) -> dict[str, Any]:
    row = {
        "_id": "q1",
        "question": " Who lit it? ",
        "answer": "Ada",
        "context": [["Lamp", [" A lamp.", "", "Ada lit it. "]], ["Oil", ["Oil burns."]]],
        "supporting_facts": [["Lamp", 2]],
    }
    return {key: value for key, value in (row | changes).items() if value is not ...}


def test_hotpotqa_joins_sentences_and_keeps_spans_on_them(tmp_path: Path) -> None:
    (_, lamp), (_, oil), (_, question) = read("hotpotqa", write(tmp_path, [hotpot()]))
    assert (lamp, oil) == (Passage("Lamp", "A lamp. Ada lit it.", "Lamp"), Passage("Oil", "Oil burns.", "Oil"))
    passage = passage_id("A lamp. Ada lit it.")
    assert question == Question("Who lit it?", ("Ada",), (passage,), (Span(passage, 8, 19),), "q1")


def test_hotpotqa_rejects_the_part_at_fault_and_passes_over_facts_the_context_lacks(tmp_path: Path) -> None:
    noise: list[Any] = [["Lamp", 3], ["Lamp", -1], ["Lamp", 1], ["Candle", 0]]
    rows = [
        hotpot(supporting_facts=[["Lamp", 2], *noise, ["Lamp", 2]]),
        hotpot(supporting_facts=noise),
        hotpot(answer=...),
        hotpot(context=[["Oil", "Oil burns."], ["Lamp", ["A", "B", "Ada"]]]),
    ]
    records = read("hotpotqa", write(tmp_path, rows))
    check(records)
    assert len(only(Question, records)[0].supporting_facts) == 1
    reasons = ["no_gold_passage", "missing_column", "wrong_type"]
    rejects = [(number, reject.reason) for number, reject in records if isinstance(reject, Reject)]
    assert rejects == [*enumerate(reasons, 2)]
    assert "no 'answer'; the keys present: '_id', 'question'" in only(Reject, records)[1].detail
    assert [type(record) for number, record in records if number == 4] == [Reject, Passage, Question]


# --- SQuAD


def squad(context: Any, *qas: Any) -> dict[str, Any]:
    return {"data": [{"title": "Oil_lamp", "paragraphs": [{"context": context, "qas": list(qas)}]}]}


def asked(*answers: Any, **changes: Any) -> dict[str, Any]:
    given_answers = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": "q1", "question": "Who?", "answers": given_answers} | changes


def test_squad_moves_spans_along_with_the_stripped_paragraph(tmp_path: Path) -> None:
    qa = asked(("Ada", 2), ("Ada", 2), ("Ada lit", 2), (" lit ", 5), ("lit", -9), ("it", 99))
    (_, passage), (_, question) = read("squad", write(tmp_path, squad("  Ada lit it.  ", qa)))
    assert isinstance(passage, Passage)
    assert isinstance(question, Question)
    assert (passage.title, passage.text) == ("Oil lamp", "Ada lit it.")
    assert question.answers == ("Ada", "Ada lit", "lit", "it")
    assert question.gold_passages == (passage_id("Ada lit it."),)
    assert [(span.start, span.end) for span in question.supporting_facts] == [(0, 3), (0, 7), (4, 7)]
    qa = asked(is_impossible=True, plausible_answers=[{"text": "Ada", "answer_start": 0}])
    (unanswerable,) = only(Question, read("squad", write(tmp_path, squad("Ada lit it.", qa))))
    assert unanswerable == Question("Who?", (), (passage_id("Ada lit it."),), (), "q1")


# --- JSON lines


def test_jsonl_gives_every_line_its_own_verdict(tmp_path: Path) -> None:
    long_text = "long " * 400_000
    given = [
        (b'\xef\xbb\xbf{"text": " one ", "title": "T", "id": 7}\r', Passage("T", "one", "7")),
        (b'{"text": "two"', "malformed_json"),
        (b'{"text": "\xff"}', "invalid_unicode"),
        (b'["text"]', "wrong_type"),
        (b'{"body": "x"}', "missing_column"),
        (b'{"text": "\\ud800"}', "invalid_unicode"),
        (b"[" * 200_000, "malformed_json"),
        (b'{"text": "t", "n": ' + b"9" * 5000 + b"}", "malformed_json"),
        (b'{"text": "\xc2\xa0"}', "empty_text"),
        (json.dumps({"text": long_text, "title": None}).encode(), Passage("", long_text.strip(), "")),
        (b'{"question": "Why?", "answers": ["so", " thus ", "so"]}', Question("Why?", ("so", "thus"))),
        (b'{"question": "Why?", "answers": ["a", {}]}', "wrong_type"),
    ]
    records = read("jsonl", write(tmp_path, b"\n".join(line for line, _ in given)))
    check(records)
    assert [number for number, _ in records] == [*range(1, len(given) + 1)]
    found = [record.reason if isinstance(record, Reject) else record for _, record in records]
    assert found == [expected for _, expected in given]
    assert "no 'question' for a question; the keys present: 'body'" in only(Reject, records)[3].detail


def test_jsonl_a_line_without_end_is_a_reject(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "LINE_LIMIT", 100)
    lines = ['{"text": "' + "x" * size + '"}' for size in (87, 88, 500, 1)]
    records = [record for _, record in read("jsonl", write(tmp_path, "\n".join(lines)))]
    assert [isinstance(record, Reject) and record.reason for record in records] == [False, *["over_long"] * 2, False]


def test_jsonl_columns_can_be_named_and_are_then_required(tmp_path: Path) -> None:
    rows = [{"body": "b", "head": "h", "no": "n1"}, {"body": "b", "no": 1}]
    records = read("jsonl", write(tmp_path, "\n".join(map(json.dumps, rows))), text="body", title="head", id="no")
    assert records[0][1] == Passage("h", "b", "n1")
    assert [reject.reason for reject in only(Reject, records)] == ["missing_column"]
    named = read("jsonl", write(tmp_path, {"question": "Why?", "gold": "so"}), answers="gold")
    assert named == [(1, Question("Why?", ("so",)))]


# --- Files that cannot be read


def test_a_missing_file_is_named_with_its_nearest_sibling(tmp_path: Path) -> None:
    write(tmp_path, "[]")
    for call in (lambda made: made.files(), lambda made: list(made.records())):
        with pytest.raises(InputError, match=r"sorce\.json does not exist\. Did you mean .*/source\.json\?"):
            call(dataset("jsonl", tmp_path / "sorce.json"))
    for path, message in (("nowhere/source.json", r"nowhere is not a folder, .* is"), ("nul\0", "cannot be reached")):
        with pytest.raises(InputError, match=message):
            dataset("jsonl", tmp_path / path).files()


def test_what_is_no_readable_file_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = {
        b"": "is empty",
        gzip.compress(b""): "is empty when unpacked",
        b"\x1f\x8b\x08\x00": "is packed with gzip and cut short or broken",
    }
    for content, message in contents.items():
        with pytest.raises(InputError, match=message):
            read("jsonl", write(tmp_path, content))
    with pytest.raises(InputError, match="is a directory, and this format reads one file"):
        read("jsonl", tmp_path)
    with pytest.raises(InputError, match="is not a regular file"):
        read("jsonl", Path("/dev/null"))

    def refuse(*_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    # Tests may run as root, whom no file mode stops.
    monkeypatch.setattr("vitalfew.tasks.datasets.files.open_counted", refuse)
    with pytest.raises(InputError, match=r"cannot be read: Permission denied"):
        read("jsonl", tmp_path / "source.json")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'[{"a": 1}, {"a"', r"in the middle of a value after record 1, at byte 15\. It was cut short"),
        (b'[{"a": 1} {"a": 2}]', r"broken JSON \(expected ',' or '\]'; got '{.*after record 1, at byte 10\."),
        (b"[" * 100_000 + b"]" * 100_000, r"broken JSON \(nested too deeply"),
        (b'\xef\xbb\xbf["abc\xff"]', r"invalid UTF-8 \(invalid start byte\) after record 0, at byte 8\. Save the file"),
        (b'{"text": "a"}\n{"text": "b"}', r"holds a JSON object.*use the format jsonl"),
        (b" \n\t ", r"holds only white space"),
    ],
)
def test_broken_json_says_where_and_what_to_do(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read("titletext", write(tmp_path, content))
    assert str(tmp_path / "source.json") in str(caught.value)


def test_memory_is_that_of_one_value(tmp_path: Path) -> None:
    path = write(tmp_path, [{"title": str(number), "text": "x" * 50_000} for number in range(400)])
    records = dataset("titletext", path).records()
    next(records)
    tracemalloc.start()
    assert sum(1 for _ in records) == 399
    assert tracemalloc.get_traced_memory()[1] < 1_500_000
    tracemalloc.stop()
