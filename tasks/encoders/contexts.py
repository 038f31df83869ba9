"""Where a sentence's context vector comes from (ParetoRAG, arXiv 2502.08178, section 3.2): three modes, one result.

A sentence's score is alpha * core.q + (1 - alpha) * context.q, with `core` its own vector. Its context is

- `exact`: the passage's other sentences, joined and encoded together, as in the paper;
- `passage`: the passage's own vector, which naive retrieval needs anyway (a deviation: the sentence is part of it);
- `late`: the mean over the other sentences' token states in one forward pass over the passage (a deviation: core and
  context have seen each other).

A passage of one sentence has no context. A text that stands twice in what is encoded together is encoded once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from configs.schema import ContextMode, Unit
from tasks.encoders.base import Encoder, Tick, Vectors


@dataclass(frozen=True)
class UnitVectors:
    """Vectors of some passages and their sentences, float32 (·, d); those that were not asked for have no rows.

    `core` has a row per sentence, `context` one per True in `has_context` (a row per sentence), `passage` one per
    passage. In mode `passage` the context rows are the passage's, so none are repeated here.
    """

    core: Vectors
    context: Vectors
    has_context: NDArray[np.bool_]
    passage: Vectors
    tokens: int
    truncated: int


def encode_units(
    encoder: Encoder, passages: Sequence[Sequence[str]], mode: ContextMode, units: Sequence[Unit], tick: Tick
) -> UnitVectors:
    """Encode passages, each given as its sentences (joined back they are the passage)."""
    if "sentence" in units and mode == "late":
        return _late(encoder, passages, units, tick)
    cores = [sentence.strip() for sentences in passages for sentence in sentences] if "sentence" in units else []
    has_context = np.array([len(s) > 1 for s in passages for _ in s], dtype=bool)[: len(cores)]
    contexts = _other_sentences(passages) if cores and mode == "exact" else []
    wants_passages = "passage" in units or (bool(cores) and mode == "passage")
    wholes = ["".join(sentences).strip() for sentences in passages] if wants_passages else []
    texts = cores + contexts + wholes
    distinct = list(dict.fromkeys(texts))
    encoded = encoder.encode(distinct, tick)
    row_of = {text: row for row, text in enumerate(distinct)}
    vectors = encoded.vectors[[row_of[text] for text in texts]] if texts else encoded.vectors
    core, context, passage = np.split(vectors, [len(cores), len(cores) + len(contexts)])
    return UnitVectors(core, context, has_context, passage, encoded.tokens, encoded.truncated)


def _other_sentences(passages: Sequence[Sequence[str]]) -> list[str]:
    """The context text of every sentence that has one: its passage without it."""
    return [
        "".join([*sentences[:position], *sentences[position + 1 :]]).strip()
        for sentences in passages
        if len(sentences) > 1
        for position in range(len(sentences))
    ]


def _late(encoder: Encoder, passages: Sequence[Sequence[str]], units: Sequence[Unit], tick: Tick) -> UnitVectors:
    ends = [list(accumulate(map(len, sentences))) for sentences in passages]
    spans = [list(zip([0, *each], each, strict=False)) for each in ends]
    late = encoder.encode_late(["".join(sentences) for sentences in passages], spans, tick)
    has_context = np.array([len(s) > 1 for s in passages for _ in s], dtype=bool)
    passage = late.passage if "passage" in units else late.passage[:0]
    return UnitVectors(late.core, late.context[has_context], has_context, passage, late.tokens, 0)
