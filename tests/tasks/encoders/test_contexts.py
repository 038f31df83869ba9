"""The encoder: faithful to SentenceTransformer in float32, close to it in bf16; the modes of context; and titles."""

from functools import cache
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.support.fakes import HashEncoder
from vitalfew.configs.schema import ContextMode
from vitalfew.tasks.encoders.base import Encoder
from vitalfew.tasks.encoders.contexts import UnitVectors, encode_units, sharpened
from vitalfew.tasks.encoders.titles import lead
from vitalfew.tasks.encoders.transformer import DPR, MiniLM

TEXTS = ["A short one.", "The river rises in the hills. " * 3, "word " * 400, "Ünïcödé, 漢字 and 🎈."]
"""The third has over 256 tokens."""


@cache
def encoder(precision: Literal["bf16", "fp32"] = "fp32") -> MiniLM:
    return MiniLM(MiniLM.Options(precision=precision))


def test_it_is_sentence_transformers_and_half_precision_is_close() -> None:
    from sentence_transformers import SentenceTransformer

    reference = SentenceTransformer(str(encoder().model_directory()), device="cpu").encode(TEXTS)
    encoded = encoder().encode(TEXTS)
    np.testing.assert_allclose(encoded.vectors, reference, atol=2e-6)
    assert encoded.truncated == 1
    assert (encoder("bf16").encode(TEXTS).vectors * encoded.vectors).sum(1).min() >= 0.9995


PASSAGES = [
    ["The town lies on a hill. ", "It was founded in 1204. ", "Its mill still stands."],
    ["One sentence alone."],
    ["word " * 150, "other words follow " * 60, "And a last one."],  # 3 windows
    ["unbroken " * 600],  # one sentence longer than a window
]


def encoded(of: Encoder, mode: ContextMode, passages: list[list[str]] = PASSAGES, **given: Any) -> UnitVectors:
    return encode_units(of, passages, mode, ("sentence", "passage"), lambda tokens, share: None, **given)


def test_late_core_and_passage_are_means_over_one_pass() -> None:
    """Against the definition, computed with the model directly on the first passage."""
    import torch

    one = encoder().passages
    text = "".join(PASSAGES[0])
    encoding = one.tokenizer.encode(text)
    with torch.inference_mode():
        states = one.read_network()[0].eval()(input_ids=torch.tensor([encoding.ids])).last_hidden_state[0].numpy()
    end = len(PASSAGES[0][0])
    inside = np.array([stop <= end and stop > start for start, stop in encoding.offsets])
    pooled = encoder().encode_late([text], [[(0, end), (end, len(text))]])
    for found, rows in ((pooled.core[0], inside), (pooled.passage[0], inside | True)):
        expected = states[rows].mean(0)
        np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=2e-6)


def test_late_sharpens_the_cores_of_passages_with_several_sentences() -> None:
    text, ends = "".join(PASSAGES[0]), np.cumsum([len(sentence) for sentence in PASSAGES[0]]).tolist()
    plain = HashEncoder().encode_late([text], [[*zip([0, *ends], ends, strict=False)]])
    found = encoded(HashEncoder(), "late", PASSAGES[:2]).core
    np.testing.assert_allclose(found[:3], sharpened(plain.core, plain.passage[[0, 0, 0]]), atol=1e-6)
    np.testing.assert_allclose(found[3:], HashEncoder().encode(PASSAGES[1]).vectors, atol=1e-6)


ROWS = arrays(np.float32, (5, 3), elements=st.floats(-2, 2, width=32))


@settings(max_examples=50)
@given(ROWS, ROWS, st.floats(0, 3, width=32))
def test_sharpened_cores_keep_their_length_and_turn_away_from_their_passage(core, passage, gain: float) -> None:
    moved = sharpened(core, passage, gain)
    lengths = np.linalg.norm(core, axis=1)
    gone = np.linalg.norm(core + np.float32(gain) * (core - passage), axis=1) < 1e-3
    np.testing.assert_allclose(np.linalg.norm(moved, axis=1)[~gone], lengths[~gone], rtol=1e-4, atol=1e-5)
    cosines = [(rows * passage).sum(1) for rows in (moved, core)]
    nearer = cosines[0] > cosines[1] + 1e-4 * (1 + lengths)
    assert not (nearer & ~gone).any()
    np.testing.assert_allclose(sharpened(core, passage, 0.0), core, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(sharpened(core, core, gain), core, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("mode", ["exact", "passage", "pooled", "late"])
def test_every_text_has_its_title_in_every_mode(mode: ContextMode) -> None:
    passages = [["It rises. ", "It runs."], ["Alone."]]
    encoder, bare = HashEncoder(), HashEncoder()
    titled, plain = encoded(encoder, mode, passages, leads=["Ouse: ", ""]), encoded(bare, mode, passages)
    assert "Ouse: It rises. It runs." in encoder.encoded
    assert all(text.startswith("Ouse: ") for text in encoder.encoded if text != "Alone.")
    assert set(encoder.encoded) == {f"Ouse: {text}" if text != "Alone." else text for text in bare.encoded}
    np.testing.assert_array_equal(titled.core[2], plain.core[2])
    np.testing.assert_array_equal(titled.passage[1], plain.passage[1])


def test_dpr_reads_a_title_as_its_paper_does() -> None:
    from tokenizers import Tokenizer

    directory = MiniLM(MiniLM.Options()).model_directory()
    tokenizer = Tokenizer.from_file(str(directory / "tokenizer.json"))  # BERT's, as DPR's is
    tokenizer.no_truncation()
    tokenizer.no_padding()
    pair = tokenizer.encode("The Ouse", "It rises.").ids
    assert tokenizer.encode(lead("The Ouse", DPR.separator) + "It rises.").ids == pair
