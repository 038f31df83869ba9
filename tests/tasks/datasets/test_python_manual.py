"""The manual in pydoc_data.topics: nothing of it is lost, and its questions are answered by their gold passages, in the
text of the Python that runs this."""

import pydoc_data.topics
import re
import sys
from collections import defaultdict

import pytest

from tests.tasks.datasets.test_datasets import check, only
from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import InputError, Passage, Question, Record, Reject
from vitalfew.tasks.datasets.python_manual import cut
from vitalfew.tasks.datasets.specification import parse_dataset

MISSING = 8
"""Questions that this Python's text may lack, at most: 3.11.7 has all, 3.12.1 lacks 2 and 3.13.0 lacks 5."""


def read(specification: str = "python_manual") -> list[tuple[int, Record]]:
    return list(parse_dataset(specification)[1].records())


@pytest.fixture(scope="module")
def records() -> list[tuple[int, Record]]:
    return read()


def counts(records: list[tuple[int, Record]]) -> dict[str, dict[str, int]]:
    """Questions by half and kind, those that were rejected among them."""
    found: dict[str, dict[str, int]] = {"development": defaultdict(int), "test": defaultdict(int)}
    names = [question.source_id for question in only(Question, records)]
    for name in names + [reject.detail.partition(":")[0] for reject in only(Reject, records)]:
        half, kind, _ = name.split("/")
        found[half][kind] += 1
    return found


def squeezed(text: str) -> str:
    return re.sub(r"\s", "", text)


def words(text: str) -> str:
    return " ".join(["", *re.findall(r"\w+", text), ""])


def test_records_are_sound_and_the_same_every_time(records: list[tuple[int, Record]]) -> None:
    check(records)
    assert read("python_manual:") == records
    assert [offset for offset, _ in records] == list(range(1, len(records) + 1))
    assert len({question.text for question in only(Question, records)}) == len(only(Question, records))


def test_passages_have_every_line_of_every_topic_once(records: list[tuple[int, Record]]) -> None:
    topics = defaultdict(list)
    for passage in only(Passage, records):
        topic, _, number = passage.source_id.partition("#")
        topics[topic].append(passage)
        assert int(number) == len(topics[topic])
    assert set(topics) == set(pydoc_data.topics.topics)
    for topic, text in pydoc_data.topics.topics.items():
        headings, body = parted(text)
        assert squeezed("".join(passage.text for passage in topics[topic])) == squeezed(body), topic
        assert {part for passage in topics[topic] for part in passage.title.split(" › ")} <= headings


def parted(text: str) -> tuple[set[str], str]:
    """The headings, and the lines besides them and their underlines."""
    headings, body, lines = set(), [], text.split("\n")
    for above, line, below in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        if underlines(below, line):
            headings.add(line)
        elif footnotes := re.fullmatch(r"-\[ (.+) \]-", line):
            headings.add(footnotes[1])
        elif not underlines(line, above):
            body.append(line)
    return headings, "\n".join(body)


def underlines(line: str, heading: str) -> bool:
    return 0 < len(heading) == len(line) and len(set(line)) == 1 and line[0] in "*=-~^"


def test_code_stays_with_what_introduces_it_and_wraps_are_undone() -> None:
    long = "A paragraph that goes on and on until its line is full, and then some\nmore. " + "Word " * 140 + "end."
    text = f"If\n**\n\n{long}\n\nThis prints:\n\n   if x:\n       print(x)\n\n   y\n\nf(x)\n\n   It is called."
    (_, section) = cut(text)
    assert section.heading == "If"
    first, second = section.passages
    assert first.startswith("A paragraph that goes on and on until its line is full, and then some more.")
    assert second == "This prints:\n\nif x:\n    print(x)\n\ny\n\nf(x)\n\nIt is called."


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


def test_there_are_two_like_halves_and_a_fifth_needs_two_passages(records: list[tuple[int, Record]]) -> None:
    found = counts(records)
    both = only(Question, records)
    assert len(only(Reject, records)) <= (0 if sys.version_info < (3, 12) else MISSING)
    assert sum(map(sum, (kinds.values() for kinds in found.values()))) >= 200
    assert set(found["test"]) == {"who", "which", "what", "when", "where", "how", "how many"}
    for kind, count in found["test"].items():
        assert abs(count - found["development"][kind]) <= 1, kind
    two = [question.source_id.partition("/")[0] for question in both if len(question.gold_passages) == 2]
    assert len(two) >= len(both) / 5
    assert abs(two.count("test") - two.count("development")) <= 2


def test_one_half_can_be_read_alone(records: list[tuple[int, Record]]) -> None:
    halves = {half: read(f"python_manual:half={half}") for half in ("development", "test")}
    for half, part in halves.items():
        assert only(Passage, part) == only(Passage, records)
        assert {question.source_id.partition("/")[0] for question in only(Question, part)} == {half}
    assert only(Question, halves["development"]) + only(Question, halves["test"]) == only(Question, records)
    with pytest.raises(InputError, match="half"):
        read("python_manual:half=train")


def test_a_question_whose_passage_or_answer_is_gone_is_rejected(
    monkeypatch: pytest.MonkeyPatch, records: list[tuple[int, Record]]
) -> None:
    topics = pydoc_data.topics.topics
    monkeypatch.delitem(topics, "power")
    monkeypatch.setitem(topics, "dict", topics["dict"].replace("448", "000"))
    changed = read()
    rejects = only(Reject, changed)
    assert len(only(Question, changed)) + len(rejects) == len(only(Question, records)) + len(only(Reject, records))
    assert {reject.reason for reject in rejects} == {"no_gold_passage"}
    assert any("0 passages of the topic 'power' say" in reject.detail for reject in rejects)
    assert any("no gold passage says 'PEP 448'" in reject.detail for reject in rejects)
    dataset = parse_dataset("python_manual")[1]
    identity = dataset.identity()
    monkeypatch.undo()
    assert dataset.identity() != identity
