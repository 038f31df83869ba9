"""Mode `pooled`: a passage's context is the mean of its core vectors by their lengths in words."""

from pathlib import Path

import pytest

from tests.support.indexing import index, table
from vitalfew.configs.schema import RetrieveConfig
from vitalfew.tasks.retrieve import Searcher


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
