"""Titles before texts: what is encoded, indexed and shown, in every mode."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.fakes import HashEncoder
from tests.support.indexing import index
from vitalfew.configs.schema import ContextMode, RetrieveConfig
from vitalfew.tasks.encoders.contexts import encode_units
from vitalfew.tasks.encoders.titles import MOST_CHARS, SEPARATOR, lead
from vitalfew.tasks.encoders.transformer import DPR, MiniLM
from vitalfew.tasks.retrieve import Searcher

OUSE = "It rises in the hills. It runs for 120 km to the sea."


def corpus(folder: Path, rows: list[dict[str, str]]) -> str:
    file = folder / "corpus.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return f"jsonl:{file}"


def quiet(tokens: int, share: float) -> None:
    """Nobody watches."""


@given(st.text(max_size=3 * MOST_CHARS))
def test_a_lead_is_the_title_and_the_separator_or_nothing(title: str) -> None:
    found = lead(title)
    assert len(found) <= MOST_CHARS + len(SEPARATOR)
    assert found.endswith(SEPARATOR) == bool(found) == bool(title[:MOST_CHARS].strip())
    assert title.lstrip().startswith(found.removesuffix(SEPARATOR)[:MOST_CHARS])


@pytest.mark.parametrize("mode", ["exact", "passage", "pooled", "late"])
def test_every_text_has_its_title_in_every_mode(mode: ContextMode) -> None:
    passages = [["It rises. ", "It runs."], ["Alone."]]
    encoder, bare = HashEncoder(), HashEncoder()
    titled = encode_units(encoder, passages, mode, ("sentence", "passage"), quiet, leads=["Ouse: ", ""])
    plain = encode_units(bare, passages, mode, ("sentence", "passage"), quiet)
    assert "Ouse: It rises. It runs." in encoder.encoded
    assert all(text.startswith("Ouse: ") for text in encoder.encoded if text != "Alone.")
    assert set(encoder.encoded) == {f"Ouse: {text}" if text != "Alone." else text for text in bare.encoded}
    assert titled.core.shape == plain.core.shape
    assert titled.context.shape == plain.context.shape
    assert not np.allclose(titled.core[:2], plain.core[:2])
    np.testing.assert_array_equal(titled.core[2], plain.core[2])
    np.testing.assert_array_equal(titled.passage[1], plain.passage[1])


@pytest.mark.parametrize("mode", ["exact", "late"])
def test_the_title_finds_what_the_sentence_does_not_name(tmp_path: Path, mode: ContextMode) -> None:
    rows = [{"text": OUSE, "title": "Ouse"}, {"text": OUSE.replace("120", "70"), "title": "Nidd"}]
    settings: dict[str, Any] = {"encode": {"context": mode}, "bm25": {"enabled": True}}
    index(tmp_path, corpus(tmp_path, rows), **settings)
    searcher = Searcher.named(tmp_path, "test")
    retrievers: list[dict[str, Any]] = [{"retriever": "passage"}, {"retriever": "bm25"}]
    if mode != "late":  # a bag of words has no states that know of the title
        retrievers.append({"retriever": "core_context"})
    for retrieve in retrievers:
        hits = searcher.hits("Ouse", RetrieveConfig(**retrieve, top_k=1))
        assert [hit.title for hit in hits] == ["Ouse"], retrieve
        assert hits[0].text in OUSE


def test_dpr_reads_a_title_as_its_paper_does() -> None:
    from tokenizers import Tokenizer

    directory = MiniLM(MiniLM.Options()).model_directory()
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))  # BERT's, as DPR's is
    tokenizer.no_truncation()
    tokenizer.no_padding()
    pair = tokenizer.encode("The Ouse", "It rises.").ids
    assert tokenizer.encode(lead("The Ouse", DPR.separator) + "It rises.").ids == pair
