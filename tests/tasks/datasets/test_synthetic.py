"""The generated encyclopaedia: reproducible, distinct, bounded, and with questions that its gold sentences answer."""

import os
import re
import subprocess
import sys
from pathlib import Path
from string import Formatter
from typing import Any

import pytest
from pydantic import ValidationError

from vitalfew.storage.ids import content_id, passage_id
from vitalfew.tasks.datasets.base import Passage, Question, Record
from vitalfew.tasks.datasets.synthetic import (
    TEXTS,
    WORDS,
    Synthetic,
    SyntheticOptions,
    article,
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
