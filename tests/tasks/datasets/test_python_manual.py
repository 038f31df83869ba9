"""The manual in pydoc_data.topics: nothing of it is lost, and its questions are answered by their gold passages, in the
text of the Python that runs this."""

import pydoc_data.topics
import re
import sys

import pytest

from tests.tasks.datasets.test_datasets import check, only
from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import InputError, Passage, Question, Record, Reject
from vitalfew.tasks.datasets.specification import parse_dataset

MISSING = 8
"""Questions that this Python's text may lack, at most: 3.11.7 has all, 3.12.1 lacks 2 and 3.13.0 lacks 5."""


def read(specification: str = "python_manual") -> list[tuple[int, Record]]:
    return list(parse_dataset(specification)[1].records())


@pytest.fixture(scope="module")
def records() -> list[tuple[int, Record]]:
    return read()


def words(text: str) -> str:
    return " ".join(["", *re.findall(r"\w+", text), ""])


def test_records_are_sound_and_the_same_every_time(records: list[tuple[int, Record]]) -> None:
    check(records)
    assert read("python_manual:") == records
    assert [offset for offset, _ in records] == list(range(1, len(records) + 1))
    assert len({question.text for question in only(Question, records)}) == len(only(Question, records)) >= 200
    assert {passage.source_id.partition("#")[0] for passage in only(Passage, records)} == set(pydoc_data.topics.topics)
    assert len(only(Reject, records)) <= (0 if sys.version_info < (3, 12) else MISSING)


def test_every_question_is_answered_by_its_gold_passages(records: list[tuple[int, Record]]) -> None:
    texts = {passage_id(passage.text): passage.text for passage in only(Passage, records)}
    for question in only(Question, records):
        gold = [texts[passage] for passage in question.gold_passages]
        answers = question.answers[:1] if sys.version_info < (3, 12) else question.answers
        assert any(words(answer) in words(text) for text in gold for answer in answers), question
        assert {span.passage_id for span in question.supporting_facts} == set(question.gold_passages)
        assert question.text[0].isupper()
        assert question.text.endswith("?")
        assert words(question.answers[0]).lower() not in words(question.text).lower() or "or" in question.text.split()


def test_there_are_two_like_halves_that_can_be_read_alone(records: list[tuple[int, Record]]) -> None:
    halves = {half: read(f"python_manual:half={half}") for half in ("development", "test")}
    for half, part in halves.items():
        assert only(Passage, part) == only(Passage, records)
        assert {question.source_id.partition("/")[0] for question in only(Question, part)} == {half}
    development, test = (only(Question, part) for part in halves.values())
    assert development + test == only(Question, records)
    assert abs(len(development) - len(test)) <= MISSING
    with pytest.raises(InputError, match="half"):
        read("python_manual:half=train")


def test_a_question_whose_passage_is_gone_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = parse_dataset("python_manual")[1]
    before = dataset.identity()
    monkeypatch.delitem(pydoc_data.topics.topics, "power")
    assert any("0 passages of the topic 'power' say" in reject.detail for reject in only(Reject, read()))
    assert dataset.identity() != before
