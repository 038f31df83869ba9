"""How far contexts reach: windows and parent passages, of any hits; and in an evaluation."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import shared
from tests.support.evaluating import copied, run
from tests.support.indexing import index, sql
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.refiners.sentences import Extent, Place, Span, inside, parents, windows

LENGTH, SENTENCES = 10, 7
"""Of a sentence in characters; of a passage in sentences."""
SPANS: dict[int, list[Span]] = {
    passage: [(LENGTH * number, LENGTH * (number + 1)) for number in range(SENTENCES)] for passage in range(3)
}
SENTENCE = st.sampled_from([(passage, span) for passage, spans in SPANS.items() for span in spans])
HITS = st.lists(SENTENCE, unique=True, max_size=8)


def covered(hits: list[Place], extents: list[Extent]) -> list[Place]:
    """The sentences of contexts, in the contexts' order."""
    return [(hits[number][0], each) for number, span in extents for each in inside(SPANS[hits[number][0]], span)]


@given(HITS, st.integers(0, 3))
def test_windows_repeat_no_sentence_and_have_every_hit(hits: list[Place], reach: int) -> None:
    extents = windows(hits, SPANS, reach)
    sentences = covered(hits, extents)
    assert len(sentences) == len({*sentences})
    assert {*hits} <= {*sentences}
    near = {
        (passage, each) for passage, (start, _) in hits for each in SPANS[passage] if abs(each[0] - start) <= reach * 10
    }
    assert {*sentences} == near


@given(HITS, st.integers(0, 3))
def test_windows_grow_with_their_reach(hits: list[Place], reach: int) -> None:
    narrow, wide = ({*covered(hits, windows(hits, SPANS, each))} for each in (reach, reach + 1))
    assert narrow <= wide


@given(HITS, st.integers(0, 3))
def test_windows_of_a_passage_lie_apart_and_stand_where_their_best_hit_did(hits: list[Place], reach: int) -> None:
    extents = windows(hits, SPANS, reach)
    for passage in SPANS:
        spans = sorted(span for number, span in extents if hits[number][0] == passage)
        assert all(one[1] < other[0] for one, other in pairwise(spans))
    for number, (start, end) in extents:
        passage = hits[number][0]
        within = [place for place, (of, span) in enumerate(hits) if of == passage and start <= span[0] < end]
        assert number == within[0]
    assert [number for number, _ in extents] == sorted({number for number, _ in extents})


def test_a_hit_that_is_no_sentence_is_its_own_window() -> None:
    passage, proposition = (1, (0, LENGTH * SENTENCES)), (2, (0, 0))
    assert windows([passage, proposition], SPANS, 2) == [(0, passage[1]), (1, (0, 0))]
    assert windows([(9, (5, 8))], SPANS, 2) == [(0, (5, 8))]


@given(HITS)
def test_every_passage_is_passed_on_once(hits: list[Place]) -> None:
    extents = parents(hits, dict.fromkeys(SPANS, LENGTH * SENTENCES))
    assert [hits[number][0] for number, _ in extents] == [*dict.fromkeys(passage for passage, _ in hits)]
    assert all(span == (0, LENGTH * SENTENCES) for _, span in extents)


# --- In an evaluation


@pytest.fixture(scope="module")
def indexed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = copied(shared.indexed(), tmp_path_factory.mktemp("indexed") / "store")
    index(store, name="bare", encode={"text": "unit"})
    return store


def evidence(store: Path, **methods: dict[str, Any]) -> dict[str, list[tuple[Any, ...]]]:
    """Of every method, the contexts of all questions with their origins, and what was retrieved."""
    settings: dict[str, Any] = {"index": "test", "retrieve": {"top_k": 6}, "refine": {"group": "apart"}}
    settings |= {"generate": None, "score": {"metrics": ["tokens"]}}
    outcome = run(store, {**settings, "methods": methods})
    return {
        name: sql(
            store,
            "SELECT question_id, evidence.text, origin, passages.text, passages.title FROM evidence "
            "JOIN passages ON passages.passage_id = origin[1].passage_id "
            f"WHERE evidence.fingerprint = '{manifests['refine'].artifact.split('/')[1]}' ORDER BY question_id, rank",
        )
        for name, manifests in outcome.methods.items()
    }


def test_contexts_are_the_text_around_their_hits(indexed: Path, tmp_path: Path) -> None:
    store = copied(indexed, tmp_path / "store")
    made = evidence(
        store,
        sentences={"refine": {"text": "unit"}},
        alone={"refine": {"text": "window", "window": 0, "titles": False}},
        window={"refine": {"text": "window", "window": 1, "titles": False}},
        wide={"refine": {"text": "window", "window": 99, "titles": False}},
        passage={"refine": {"text": "passage", "titles": False}},
        budget={"refine": {"text": "window", "window": 1, "titles": False, "max_tokens": 25}},
        passages={"retrieve": {"retriever": "passage"}, "refine": {"text": "window", "titles": False}},
    )
    for name, rows in made.items():
        for _, text, [origin], passage, _ in rows:
            assert passage[origin["start"] : origin["end"]].strip() == text.strip(), name
    sizes = {name: sum(len(row[1]) for row in rows) for name, rows in made.items()}
    assert sizes["sentences"] <= sizes["alone"] + len(made["sentences"])
    assert sizes["alone"] < sizes["window"] < sizes["wide"] == sizes["passage"]
    assert [row[:2] for row in made["wide"]] == [row[:2] for row in made["passage"]]
    assert sizes["budget"] < sizes["window"]
    assert all(passage.strip() == text for _, text, _, passage, _ in made["passages"])


def test_titles_are_shown_as_the_index_was_encoded(indexed: Path, tmp_path: Path) -> None:
    store = copied(indexed, tmp_path / "store")
    wider = {"text": "window"}
    made = evidence(
        store,
        titled={"refine": wider},
        bare={"index": "bare", "refine": wider},
        passage={"refine": {"text": "passage"}},
        without={"refine": {**wider, "titles": False}},
        said={"index": "bare", "refine": {**wider, "titles": True}},
    )
    shown = {name: all(text.startswith(f"{row}: ") for _, text, _, _, row in rows) for name, rows in made.items()}
    assert shown == {"titled": True, "bare": False, "passage": True, "without": False, "said": True}


def test_settings_that_have_no_part_are_named(indexed: Path) -> None:
    with pytest.raises(ConfigError, match=r"refine\.window: applies to refine\.text=window only"):
        evidence(indexed, one={"refine": {"text": "unit", "window": 2}})
    with pytest.raises(ConfigError, match=r"refine\.titles: applies to refine\.text=window .*refine\.text=titled"):
        evidence(indexed, one={"refine": {"titles": True}})


def test_what_was_refined_before_windows_keeps_its_fingerprint() -> None:
    from vitalfew.configs.evaluation import RefineConfig

    before = {"refiner": "cut", "top_k": None, "max_words": None, "max_tokens": None}
    for text in ("unit", "titled", "passage"):
        assert RefineConfig(text=text, group="apart").identity() == {**before, "text": text}
        assert RefineConfig(text=text).identity() == {**before, "text": text, "group": "passage"}
    window = RefineConfig(text="window", group="apart")
    assert window.identity() == {**before, "text": "window", "window": 1}
    titled = RefineConfig(text="passage", titles=True, group="apart")
    assert titled.identity() == {**before, "text": "passage", "titles": True}
