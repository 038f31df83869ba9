"""The context vector of a sentence (ParetoRAG, arXiv 2502.08178, section 3.2): four modes, one result.

A sentence's score is alpha * core.q + (1 - alpha) * context.q, with `core` its vector. Its context is

- `exact`: the passage's other sentences, joined and encoded together, as in the paper;
- `passage`: the vector of the passage, which naive retrieval needs anyway (a deviation: it includes the sentence);
- `pooled`: the mean of the core vectors of the passage's sentences, by their lengths (a deviation: so does this). It
  needs no encoding, so it is computed where vectors are laid out (storage/indexes/units.py);
- `late`: the vector of the passage too, where core and passage are means over the token states of one forward pass over
  the passage (a deviation: they influence one another). The core then already has what the sentence shares with its
  passage, and is moved away from it (`sharpened`).

A passage of one sentence has no context. A text that occurs twice in one call is encoded once, and a text whose vector
is known from an earlier corpus is not encoded again.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vitalfew.configs.schema import ContextMode, Unit
from vitalfew.storage.schemas import VECTOR_KINDS
from vitalfew.tasks.encoders.base import Encoder, Vectors
from vitalfew.tasks.models.ticks import TextTick

LATE_GAIN = 0.75
"""How far the core of mode `late` is moved from its passage, in their difference. Chosen on half of the questions of
three data sets and measured on the other half (docs/results/contexts.md)."""
BATCH_CHARS = 64 << 20
"""Characters given to an encoder at once, give or take a text: the shard of an ordinary corpus has fewer."""


@dataclass(frozen=True)
class KnownVectors:
    """Known vectors of one kind: `found` bool (n,), `vectors` float32 (n, d), zero where `found` is False."""

    found: NDArray[np.bool_]
    vectors: Vectors


def nothing_known(rows: Iterable[int], dimension: int) -> dict[str, KnownVectors]:
    """Nothing of every kind of vector; `rows`: their numbers."""
    return {
        kind: KnownVectors(np.zeros(count, bool), np.zeros((count, dimension), np.float32))
        for kind, count in zip(VECTOR_KINDS, rows, strict=True)
    }


@dataclass(frozen=True)
class UnitVectors:
    """Vectors of some passages and their sentences, float32 (·, d); kinds that are not requested have no rows.

    `core` has a row per sentence, `context` one per True in `has_context` (a row per sentence), `passage` one per
    passage. Only mode `exact` has context rows: in the others the context follows from the passages or the cores.
    """

    core: Vectors
    context: Vectors
    has_context: NDArray[np.bool_]
    passage: Vectors
    tokens: int
    truncated: int


def encode_units(
    encoder: Encoder,
    passages: Sequence[Sequence[str]],
    mode: ContextMode,
    units: Sequence[Unit],
    tick: TextTick,
    known: Mapping[str, KnownVectors] | None = None,
    originals: Sequence[str] | None = None,
    leads: Sequence[str] | None = None,
) -> UnitVectors:
    """Encode passages given as lists of sentences. The joined sentences are the passage, unless `originals` gives it.

    `known` holds, by kind, the vectors that need not be encoded again; it has the same rows as the result. `leads`:
    what comes before every text of a passage, a title and its separator; nothing by default.
    """
    has_context = np.array([len(s) > 1 for s in passages for _ in s], dtype=bool)
    leads = leads or [""] * len(passages)
    if is_late(mode, units):
        rows = [len(has_context), 0, len(passages)]
        return _late(encoder, passages, leads, has_context, tick, known or nothing_known(rows, encoder.dimension))
    cores = len(has_context) if "sentence" in units else 0
    contexts = int(has_context.sum()) if cores and mode == "exact" else 0
    wholes = len(passages) if wants_passages(mode, units) else 0
    joined = originals or ["".join(sentences) for sentences in passages]
    texts = chain(
        (lead + text.strip() for lead, own in zip(leads, passages, strict=True) for text in own) if cores else (),
        _other_sentences(passages, leads) if contexts else (),
        (lead + text.strip() for lead, text in zip(leads, joined, strict=True)) if wholes else (),
    )
    known = known or nothing_known([cores, contexts, wholes], encoder.dimension)
    is_known = np.concatenate([known[kind].found for kind in VECTOR_KINDS])
    vectors = np.concatenate([known[kind].vectors for kind in VECTOR_KINDS])
    missing = int((~is_known).sum())
    tokens = truncated = 0
    for batch in _batches(texts, is_known):
        sizes = [len(rows) for rows in batch.values()]
        encoded = encoder.encode(list(batch), _scaled(tick, sum(sizes) / missing))
        vectors = _shaped(vectors, encoded.vectors)
        vectors[[row for rows in batch.values() for row in rows]] = np.repeat(encoded.vectors, sizes, axis=0)
        tokens, truncated = tokens + encoded.tokens, truncated + encoded.truncated
    core, context, passage = np.split(vectors, [cores, cores + contexts])
    return UnitVectors(core, context, has_context[:cores], passage, tokens, truncated)


def _other_sentences(passages: Sequence[Sequence[str]], leads: Sequence[str]) -> Iterator[str]:
    """The context text of every sentence that has one: its passage without the sentence."""
    for lead, sentences in zip(leads, passages, strict=True):
        if len(sentences) > 1:
            for position in range(len(sentences)):
                yield lead + "".join([*sentences[:position], *sentences[position + 1 :]]).strip()


def _batches(texts: Iterable[str], is_known: NDArray[np.bool_]) -> Iterator[dict[str, list[int]]]:
    """The rows of every distinct text that is not known, as many at once as have some BATCH_CHARS characters: the
    contexts of a passage's sentences have the square of its length."""
    rows: dict[str, list[int]] = {}
    chars = 0
    for row, text in enumerate(texts):
        if is_known[row]:
            continue
        if text not in rows:
            chars += len(text)
        rows.setdefault(text, []).append(row)
        if chars >= BATCH_CHARS:
            yield rows
            rows, chars = {}, 0
    if rows:
        yield rows


def _scaled(tick: TextTick, part: float) -> TextTick:
    """For a call with a part of the texts."""
    return lambda tokens, share: tick(tokens, share * part)


def _late(
    encoder: Encoder,
    passages: Sequence[Sequence[str]],
    leads: Sequence[str],
    has_context: NDArray[np.bool_],
    tick: TextTick,
    known: Mapping[str, KnownVectors],
) -> UnitVectors:
    """One pass gives all vectors of a passage, so a passage is encoded if one of its vectors is missing."""
    owner = np.repeat(np.arange(len(passages)), [len(sentences) for sentences in passages])
    missing = ~known["passage"].found
    missing[owner[~known["core"].found]] = True
    core, context, passage = (known[kind].vectors for kind in VECTOR_KINDS)
    if not missing.any():
        return UnitVectors(core, context, has_context, passage, 0, 0)
    chosen = [[leads[row], *passages[row]] for row in np.flatnonzero(missing)]
    bounds = [list(accumulate(map(len, parts))) for parts in chosen]
    spans = [list(pairwise(bound)) for bound in bounds]
    late = encoder.encode_late(["".join(parts) for parts in chosen], spans, tick)
    core, context, passage = (_shaped(vectors, late.core) for vectors in (core, context, passage))
    of_missing = missing[owner]
    passage[missing] = late.passage
    core[of_missing] = late.core
    due = of_missing & has_context
    core[due] = sharpened(core[due], passage[owner[due]])
    return UnitVectors(core, context, has_context, passage, late.tokens, 0)


def sharpened(core: Vectors, passage: Vectors, gain: float = LATE_GAIN) -> Vectors:
    """Cores moved away from their passages, float32 (n, d): core + gain * (core - passage), as long as the core was,
    so that cores of length 1 keep it and inner products of others stay comparable with those of passages."""
    moved = core + gain * (core - passage)
    lengths, wanted = (np.linalg.norm(rows, axis=1, keepdims=True) for rows in (moved, core))
    return moved * (wanted / np.maximum(lengths, 1e-12, dtype=np.float32))


def vector_ids(
    mode: ContextMode, units: Sequence[Unit], ids: Mapping[str, NDArray[np.int64]]
) -> dict[str, NDArray[np.int64]]:
    """By kind, the ids of the vectors that a mode has of some units, in the order of `UnitVectors`. `ids`: of all
    sentences (core), of those with a context (context), and of the passages (passage), or their keys."""
    has_sentences = "sentence" in units
    due = {
        "core": has_sentences,
        "context": has_sentences and mode == "exact",
        "passage": wants_passages(mode, units),
    }
    return {kind: ids[kind] if due[kind] else ids[kind][:0] for kind in VECTOR_KINDS}


def is_late(mode: ContextMode | None, units: Sequence[Unit]) -> bool:
    return mode == "late" and "sentence" in units


def wants_passages(mode: ContextMode | None, units: Sequence[Unit]) -> bool:
    """Return whether passage vectors are needed: as units, or as their sentences' contexts."""
    return "passage" in units or ("sentence" in units and mode in ("passage", "late"))


def identity(mode: ContextMode | None, units: Sequence[Unit]) -> dict[str, Any]:
    """The settings on which the vectors depend, besides the encoder; only mode `late` computes other vectors."""
    return {"late": {"gain": LATE_GAIN}} if is_late(mode, units) else {}


def _shaped(known: Vectors, encoded: Vectors) -> Vectors:
    """`known`, as wide as the encoder's vectors. The caller that checks the result reports a wrong width."""
    if encoded.shape[1] == known.shape[1]:
        return known
    return np.zeros((len(known), encoded.shape[1]), np.float32)
