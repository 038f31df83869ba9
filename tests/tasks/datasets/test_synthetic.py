"""The generated encyclopaedia: reproducible, distinct, bounded, and with questions that its gold sentences answer."""

import os
import re
import subprocess
import sys
import tracemalloc
from collections import Counter
from itertools import islice, pairwise
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from pydantic import ValidationError

from vitalfew.storage.ids import content_id, passage_id
from vitalfew.tasks.datasets.base import Passage, Question, Record
from vitalfew.tasks.datasets.synthetic import (
    SLOTS,
    TEXTS,
    WORDS,
    Synthetic,
    SyntheticOptions,
    article,
    coprime_step,
    unique_name,
)


def generate(**options: int) -> list[tuple[int, Record]]:
    return list(Synthetic(None, SyntheticOptions(**options)).records())


@pytest.fixture(scope="module")
def world() -> list[tuple[int, Record]]:
    return generate(passages=20_000, questions=4_000, seed=1)


def passages_of(records: list[tuple[int, Record]]) -> list[Passage]:
    return [record for _, record in records if isinstance(record, Passage)]


def questions_of(records: list[tuple[int, Record]]) -> list[Question]:
    return [record for _, record in records if isinstance(record, Question)]


def test_offsets_count_passages_then_questions() -> None:
    records = generate(passages=30, questions=7)
    assert [offset for offset, _ in records] == list(range(1, 38))
    assert [type(record) for _, record in records] == [Passage] * 30 + [Question] * 7
    assert Synthetic(None, SyntheticOptions()).files() == []


def test_a_passage_depends_on_the_seed_and_its_number_alone() -> None:
    long, short = generate(passages=100, questions=0, seed=5), generate(passages=40, questions=3, seed=5)
    assert long[:40] == short[:40]
    made = article(5, 77)
    assert long[77][1] == Passage(made.title, made.text(), "p78")
    other = {passage.text for passage in passages_of(generate(passages=100, questions=0, seed=6))}
    assert not other & {passage.text for passage in passages_of(long)}


def test_every_process_generates_the_same() -> None:
    program = (
        "from vitalfew.storage.ids import content_id\n"
        "from vitalfew.tasks.datasets.synthetic import Synthetic, SyntheticOptions\n"
        "print(content_id(*map(str, Synthetic(None, SyntheticOptions(passages=300, questions=100)).records())))"
    )
    here = content_id(*map(str, Synthetic(None, SyntheticOptions(passages=300, questions=100)).records()))
    seed = "1" if os.environ.get("PYTHONHASHSEED") == "2" else "2"  # of this process it is another
    there = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONHASHSEED": seed},
        cwd=Path(__file__).parents[3],
        capture_output=True,
        check=True,
    )
    assert int(there.stdout) == here


def test_texts_titles_and_questions_are_distinct(world: list[tuple[int, Record]]) -> None:
    passages, questions = passages_of(world), questions_of(world)
    assert len({passage.text for passage in passages}) == len({passage.title for passage in passages}) == 20_000
    assert len({question.text for question in questions}) == 4_000
    assert len({question.gold_passages for question in questions}) == 4_000


def test_passages_have_the_promised_shape(world: list[tuple[int, Record]]) -> None:
    lengths: Counter[int] = Counter()
    for index, passage in enumerate(passages_of(world)):
        spans = article(1, index).spans()
        lengths[len(spans)] += 1
        sentences = [passage.text[start:end] for start, end in spans]
        assert " ".join(sentences) == passage.text
        assert all(sentence.endswith(".") and sentence[0].upper() == sentence[0] for sentence in sentences)
    assert set(lengths) == {1, 4, 5, 6, 7}
    assert 0.02 < lengths[1] / lengths.total() < 0.04


def test_first_sentences_name_their_subject_and_most_later_ones_do_not(world: list[tuple[int, Record]]) -> None:
    later, naming = 0, 0
    for index in range(2_400):
        made = article(1, index)
        # A season's title is "1931 X season", and its first sentence says "the 1931 season ... X".
        parts = made.title.split()
        assert all(part in made.sentences[0].text for part in parts)
        later += len(made.sentences) - 1
        naming += sum(made.title in sentence.text for sentence in made.sentences[1:])
    assert naming < 0.05 * later


def test_questions_are_answered_by_their_gold_sentences(world: list[tuple[int, Record]]) -> None:
    index_of = {passage_id(passage.text): index for index, passage in enumerate(passages_of(world))}
    texts = [passage.text for passage in passages_of(world)]
    for question in questions_of(world):
        index = index_of[question.gold_passages[0]]
        sentences = article(1, index).spans()
        spans = [(span.start, span.end) for span in question.supporting_facts]
        assert spans[0] == sentences[0]
        assert set(spans) <= set(sentences)
        assert len(spans) == (1 if len(sentences) == 1 else 2)
        assert {span.passage_id for span in question.supporting_facts} == set(question.gold_passages)
        (answer,) = question.answers
        assert answer in texts[index][slice(*spans[-1])]
        assert not re.search(rf"\b{re.escape(answer)}\b", question.text)
        assert question.text.endswith("?")


def test_a_question_names_one_passage_and_is_no_copy_of_it(world: list[tuple[int, Record]]) -> None:
    """Of all passages, only the gold one opens with the names the question gives; its answer's sentence has few of
    the question's words."""
    by_title = {passage.title: passage for passage in passages_of(world)}
    shared = []
    for question in questions_of(world):
        titled = _titles_in(question.text, by_title)
        assert [passage_id(by_title[title].text) for title in titled] == list(question.gold_passages)
        span = question.supporting_facts[-1]
        sentence = by_title[titled[0]].text[span.start : span.end]
        words = {word for word in question.text.lower().strip("?").split() if len(word) > 3}
        shared.append(len(words & set(sentence.lower().strip(".").split())) / len(words))
    assert sum(shared) / len(shared) < 0.15


def _titles_in(question: str, by_title: dict[str, Passage]) -> list[str]:
    """The longest title that a question names, with "the 1931 season" of a club put in its title's order."""
    words = question.replace("?", "").replace(",", "").split()
    season = next((word for word, following in pairwise(words) if following == "season" and word.isdigit()), None)
    runs = [" ".join(words[i:j]) for i in range(len(words)) for j in range(i + 1, min(i + 6, len(words)) + 1)]
    if season:
        runs = [f"{season} {run} season" for run in runs]
    found = [run for run in runs if run in by_title]
    longest = max(map(len, found))
    return [run for run in found if len(run) == longest]


def test_questions_are_spread_and_turn_to_other_facts_when_passages_run_out() -> None:
    records = generate(passages=60, questions=180)
    number_of = {passage_id(passage.text): number for number, passage in enumerate(passages_of(records))}
    questions = questions_of(records)
    for turn in range(3):
        assert len({question.gold_passages for question in questions[turn * 60 : turn * 60 + 60]}) == 60
    assert len({question.text for question in questions}) > 170
    early = [number_of[question.gold_passages[0]] for question in questions[:15]]
    assert {number // len(SLOTS) for number in early} == set(range(5))
    assert len({number % len(SLOTS) for number in early}) >= 6


def test_neighbours_share_names_and_state_other_facts() -> None:
    towns = [article(1, index).names["town"] for index in range(2 * len(SLOTS))]
    assert towns[0] != towns[len(SLOTS)]
    assert towns == [towns[0]] * len(SLOTS) + [towns[len(SLOTS)]] * len(SLOTS)
    one, two = article(0, 3), article(0, 4)
    assert int(two.names["season"]) == int(one.names["season"]) + 1
    assert one.names["club"] == two.names["club"]
    cousins = [article(0, 5), article(0, 6)]
    assert cousins[0].names["who"] == cousins[1].names["cousin"] != cousins[1].names["who"]


def test_names_are_unique_far_out() -> None:
    heads, middles = WORDS["heads"], WORDS["middles"]
    for kind in ("town", "river", "surname"):
        assert not {middle + ending for middle in middles for ending in WORDS[kind]} & set(WORDS[kind])
        assert {len(head) for head in heads} == {3}
        assert {len(middle) for middle in middles} == {2}
    size = len(heads) * len(middles) * len(WORDS["town"])
    numbers = [*range(2 * size), *range(10**12, 10**12 + 1000)]
    assert len({unique_name(3, "town", number) for number in numbers}) == len(numbers)
    assert len(article(0, 10**13).text()) < 2000


def test_memory_does_not_grow() -> None:
    records = Synthetic(None, SyntheticOptions(passages=10**8, questions=10**8)).records()
    list(islice(records, 500))
    tracemalloc.start()
    for _ in islice(records, 5_000):
        pass
    assert tracemalloc.get_traced_memory()[1] < 200_000
    tracemalloc.stop()


@pytest.mark.parametrize(
    "options",
    [{"passages": -1}, {"questions": -1}, {"seed": -1}, {"passages": 0, "questions": 1}, {"passages": 0}, {"size": 3}],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        SyntheticOptions(**options)


def test_an_empty_world_is_allowed() -> None:
    assert generate(passages=0, questions=0) == []


@pytest.mark.parametrize("kind", TEXTS)
def test_a_kind_can_be_asked_what_it_says(kind: str) -> None:
    """Every phrasing of a fact has the fields its questions ask for, so that each question has its answer."""
    *facts, asides = TEXTS[kind]
    assert len(facts) in (6, 7)
    assert asides.phrasings
    for fact in facts:
        assert len(fact.phrasings) >= 3
        assert fact.questions
        for template in fact.phrasings:
            fields = {name for _, name, _, _ in Formatter().parse(template)}
            assert {field for field, _ in fact.questions} <= fields
            assert template.endswith(".")


def test_steps_visit_everything_once() -> None:
    for size in (1, 2, 12, 97, 360):
        step = coprime_step(size // 3, size)
        assert {number * step % size for number in range(size)} == set(range(size))
