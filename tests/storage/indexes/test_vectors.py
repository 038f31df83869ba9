"""Mode `pooled`: a passage's context is the mean of its core vectors by their lengths in words."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.support.evaluating import copied
from tests.support.indexing import index, table
from tests.support.shared import indexed
from vitalfew.configs.schema import RetrieveConfig
from vitalfew.storage.indexes.units import pooled
from vitalfew.tasks.retrieve import Searcher

SIZES = st.lists(st.integers(1, 5), min_size=1, max_size=6)


@st.composite
def passages(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Core vectors, lengths and first rows of some passages."""
    sizes = draw(SIZES)
    rows = sum(sizes)
    core = draw(arrays(np.float32, (rows, 4), elements=st.floats(-1, 1, width=32)))
    lengths = draw(arrays(np.int32, rows, elements=st.integers(0, 200)))
    return core, lengths, np.cumsum([0, *sizes[:-1]])


@given(passages())
def test_it_is_the_mean_by_length(given) -> None:
    core, lengths, starts = given
    for passage, rows in zip(pooled(*given), np.split(np.arange(len(core)), starts[1:]), strict=True):
        weights = np.maximum(lengths[rows], 1)  # what has no word counts as one
        np.testing.assert_allclose(passage, np.average(core[rows], axis=0, weights=weights), atol=1e-5)


@pytest.mark.parametrize(
    ("layout", "kind"),
    [("dual", "flat"), ("fused", "hnsw")],
)
def test_every_layout_and_type_explains_its_scores(tmp_path: Path, layout: str, kind: str) -> None:
    encode = {"context": "pooled", "units": ["sentence"]}
    store = copied(indexed(encode=encode), tmp_path / "store")
    index(store, encode=encode, index={"layout": layout, "type": kind, **({"alpha": 0.7} if layout == "fused" else {})})
    hits = Searcher.named(store, "test").hits("Who founded it?", RetrieveConfig(alpha=0.7, top_k=50))
    assert len(hits) > 40
    for hit in hits:
        context = hit.core if hit.context is None else hit.context
        assert hit.score == pytest.approx(0.7 * hit.core + 0.3 * context, abs=0.02)


def test_a_passage_of_one_sentence_has_no_context(tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"text": "The mill stands."}\n{"text": "The mill stood. It burnt down."}\n')
    index(tmp_path / "s", f"jsonl:{corpus}", encode={"context": "pooled"}, split={"sample_chars": 1})
    searcher = Searcher.named(tmp_path / "s", "test")
    sizes = table(tmp_path / "s", "sentences")["passage_id"].value_counts().to_pylist()
    alone = {each["values"] for each in sizes if each["counts"] == 1}
    assert len(alone) == 1
    for alpha in (0.0, 0.4, 1.0):
        for hit in searcher.hits("Does the mill stand?", RetrieveConfig(alpha=alpha)):
            assert (hit.context is None) == (hit.passage_id in alone)
            if hit.context is None:
                assert hit.score == pytest.approx(hit.core, abs=1e-6)
