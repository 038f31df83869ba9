"""Spans: the candidates of a question and their scores, and what of them is shown under a budget."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.evaluating import searchable
from tests.support.fakes import HashEncoder
from tests.support.indexing import index, table
from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.schema import RetrieveConfig
from vitalfew.tasks.encoders.titles import lead
from vitalfew.tasks.refiners.base import Context, Hit
from vitalfew.tasks.registry import make
from vitalfew.tasks.retrieve import Searcher
from vitalfew.tasks.retrievers.keywords import words

QUESTION = "When was the observatory of Velmar opened?"


def passage(identity: int, *sentences: tuple[str, float], title: str = "Ouse") -> list[Hit]:
    """The sentences of a passage, with their scores."""
    hits, start = [], 0
    for text, score in sentences:
        hits.append(Hit(title, text, identity, start, start + len(text), score=score))
        start += len(text)
    return hits


def shown(hits: Sequence[Hit], **options: Any) -> list[Context]:
    refiner = make(RefineConfig(refiner="spans", text="titled", **options), "refine")
    [contexts] = refiner.refine([QUESTION], [hits]).contexts
    return list(contexts)


ONE = passage(1, ("The Ouse rises in the hills. ", 0.0), ("It is long. ", 6.0), ("Its mouth is wide. ", 0.0))
TWO = passage(2, ("A mill stands. ", 3.0), ("It grinds. ", 0.0), ("It burnt down. ", 2.9), title="Mills")


def texts(hits: Sequence[Hit], **options: Any) -> list[str]:
    return [context.text for context in shown(hits, **options)]


def test_a_sure_question_takes_one_sentence() -> None:
    hits = passage(1, ("No. ", 0.0), ("Yes, here. ", 20.0), ("No. ", 0.0))
    assert [(each.text, each.origin) for each in shown(hits, max_tokens=300)] == [("Ouse: Yes, here.", ((1, 4, 15),))]


def test_neighbours_grow_and_gaps_are_marked() -> None:
    far = passage(3, ("First. ", 5.0), ("Second. ", 0.0), ("Third. ", 0.0), ("Fourth. ", 4.9))
    assert texts(far, top_k=2, neighbours=0, stop=1) == ["Ouse: First. … Fourth."]
    near = passage(3, ("First. ", 5.0), ("Second. ", 3.0), ("Third. ", 3.3))
    assert texts(near, top_k=2, neighbours=0.3, stop=1) == ["Ouse: First. Second."]


def test_the_likeliest_per_token_come_first() -> None:
    hits = [*passage(1, ("mill " * 50 + ". ", 2.0)), *passage(2, ("Here. ", 1.6), title="Mills")]
    assert texts(hits, stop=1)[0] == "Mills: Here."
    assert texts(hits, stop=1, gamma=0)[1] == "Mills: Here."


def test_a_context_has_the_logarithm_of_its_passages_probability() -> None:
    """Of all its candidates, also those that were not taken; far below what a probability can be as a number."""
    [context] = shown([*TWO, *ONE, *passage(3, ("Far. ", -5000.0), title="Far")], top_k=1)
    own, other = (sum(math.exp(hit.score) for hit in hits) for hits in (ONE, TWO))
    assert context.score == pytest.approx(math.log(own / (own + other)))
    doubled = [
        replace(hit, log_likelihood=2 * hit.score) for hit in (*ONE, *passage(3, ("Far. ", -5000.0), title="Far"))
    ]
    every = shown(doubled, stop=1)
    assert [each.score for each in every] == [pytest.approx(0, abs=1e-4), pytest.approx(-10012, abs=1)]


# --- The candidates


@pytest.mark.parametrize("keywords", [True, False])
def test_scores_are_those_of_the_definition(tmp_path: Path, keywords: bool) -> None:
    """From the tables alone; IDF is that of all sentences where the index has BM25, else that of the candidates."""
    store = searchable() if keywords else tmp_path
    if not keywords:
        index(store, "synthetic:passages=40,questions=10,seed=3")
    hits = Searcher.named(store, "test").hits(QUESTION, RetrieveConfig(retriever="spans", top_k=1000))
    vectors = {(row["kind"], row["id"]): np.array(row["vector"]) for row in table(store, "vectors").to_pylist()}
    titles = {row["passage_id"]: row["title"] for row in table(store, "passages").to_pylist()}
    [asked] = HashEncoder().encode_questions([QUESTION]).vectors
    rows = table(store, "sentences").to_pylist()
    texts = {row["sentence_id"]: words([lead(titles[row["passage_id"]]) + row["text"]])[0] for row in rows}
    known = texts if keywords else {hit.unit_id: texts[hit.unit_id] for hit in hits}
    terms = dict.fromkeys(words([QUESTION])[0])
    counts = {term: sum(term in text for text in known.values()) for term in terms}
    idf = {term: math.log(1 + (len(known) - count + 0.5) / (count + 0.5)) for term, count in counts.items()}
    mean = sum(len(texts[hit.unit_id]) for hit in hits) / len(hits)
    for hit in hits[:40]:
        text = texts[hit.unit_id]
        damping = 0.9 * (0.6 + 0.4 * len(text) / mean)
        shares = [idf[term] * 1.9 * text.count(term) / (text.count(term) + damping) for term in terms]
        score = (
            6 * vectors["core", hit.unit_id] @ asked
            + 10 * vectors["passage", hit.passage_id] @ asked
            + 6 * sum(shares) / sum(idf.values())
        )
        assert hit.score == pytest.approx(score, abs=1e-4)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


# --- Two hops


HOPS = [
    ("The Bell Tower", ["The tower was built by Ida Quist. ", "It has a red roof. "]),
    ("Ida Quist", ["She spent her childhood in Norholm. ", "She liked plum tart. "]),
    ("Otto Lund", ["He spent his childhood in Velstow. ", "He liked rye bread. "]),
    ("Corn", ["It grows in summer. ", "Bread is made of it. "]),
]
ASKED = "Where did the builder of The Bell Tower grow up?"


def test_a_second_hop_lifts_the_passage_that_the_first_one_names(tmp_path: Path) -> None:
    """One passage leads to another by a name that the question lacks."""
    facts = [["The Bell Tower", 0], ["Ida Quist", 0]]
    row = {"_id": "1", "question": ASKED, "answer": "Norholm", "supporting_facts": facts, "context": HOPS}
    (tmp_path / "hops.json").write_text(json.dumps([row]))
    index(tmp_path, f"hotpotqa:{tmp_path / 'hops.json'}", bm25={"enabled": True})
    searcher = Searcher.named(tmp_path, "test")
    weights = {"core": 0, "passage": 0, "top_k": 1000}  # by words alone: hashed vectors mean nothing
    one, two = (
        {hit.text: hit for hit in searcher.hits(ASKED, RetrieveConfig(retriever="spans", hops=hops, **weights))}
        for hops in (1, 2)
    )
    [hidden, other] = "She spent her childhood in Norholm.", "He spent his childhood in Velstow."
    assert one[hidden].score == pytest.approx(one[other].score, abs=0.2)
    assert two[hidden].score > two[other].score + 0.5
    assert len(two) == len({hit.unit_id for hit in two.values()})
