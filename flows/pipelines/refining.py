"""Refine passages of any retriever with any refiner, in memory."""

from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import Any

import numpy as np

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.loading import ConfigError, build
from vitalfew.configs.schema import EncodeConfig, SplitConfig
from vitalfew.flows.pipelines.answering import RagContext, RagSource
from vitalfew.tasks.datasets.base import InputError, check_question
from vitalfew.tasks.encode import make_encoder
from vitalfew.tasks.models.ticks import no_tick
from vitalfew.tasks.refiners.base import Hit, Refiner, Vectors, likelihood
from vitalfew.tasks.registry import construct, declared, kept, with_options

Passage = str | Mapping[str, Any]
"""A text, or a mapping with `text` and perhaps `title`."""
_TURN = Lock()
"""Refiners and encoders are shared by all calls, and compute for one at a time."""


def refine(
    refiner: str, question: str, passages: Sequence[Passage], *, max_tokens: int | None = None, **settings: Any
) -> list[RagContext]:
    """Shorten passages to what a question needs, best first. The refiner's model is loaded once and kept.

    `refiner`: a refiner of `vitalfew methods`; `passages`: best first; `max_tokens`: words and punctuation marks of all
    contexts together, at most; `settings`: further ones of the section `refine`. A context's sources name a passage by
    its place, from 0, with the span that was kept. Raises UnknownName, ConfigError, InputError, FileNotFoundError for a
    missing model. Calls from several threads take turns.
    """
    check_question(question)
    given = {"refiner": refiner, **settings, **({} if max_tokens is None else {"max_tokens": max_tokens})}
    options = _of_whole_passages(with_options(build(RefineConfig, given), "refine"))
    with _TURN:
        method: Refiner = kept(options, "refine")
    texts = [_passage(number, passage) for number, passage in enumerate(passages)]
    if not texts:
        return []
    bounds = _sentences([text for _, text in texts]) if declared(options, "needs_sentences") else [()] * len(texts)
    hits = [
        Hit(title, text, number, 0, len(text), tuple(spans), log_likelihood=likelihood(0.0, number + 1, None))
        for number, ((title, text), spans) in enumerate(zip(texts, bounds, strict=True))
    ]
    with _TURN:
        vectors = _vectors(question, hits) if method.needs_vectors else None
        refined = method.refine([question], [hits], vectors, no_tick)
    return [
        RagContext(
            each.text,
            each.tokens,
            tuple(RagSource(place, texts[place][0], start, end) for place, start, end in each.origin),
            rank,
            each.score,
        )
        for rank, each in enumerate(refined.contexts[0], 1)
    ]


def _of_whole_passages(options: RefineConfig) -> RefineConfig:
    """Raises ConfigError for a text beyond the passages."""
    if options.is_wider:
        raise ConfigError(
            f"refine.text={options.text} shows more of a passage than was retrieved, and here passages are given "
            "whole; leave it out"
        )
    first = _of_whole_passages(options.first) if isinstance(options.first, RefineConfig) else None
    return options.model_copy(update={"text": options.text or "unit", "first": first})


def _passage(number: int, passage: Passage) -> tuple[str, str]:
    """Its title and its text. Raises InputError, which names the passage."""
    text = passage if isinstance(passage, str) else passage.get("text") if isinstance(passage, Mapping) else None
    title = passage.get("title") if isinstance(passage, Mapping) else None
    if not isinstance(text, str) or not isinstance(title, str | None):
        raise InputError(f"passage {number}: give a text, or `text` and `title`, got {repr(passage)[:100]}")
    return title or "", text


def _sentences(texts: Sequence[str]) -> Iterator[list[tuple[int, int]]]:
    """The sentences of every text, by a splitter that learned from these texts, as one of an index does from its."""
    splitter = construct(with_options(SplitConfig(), "split"))
    splitter.load(splitter.train(iter(texts)))
    return (splitter.split(text) for text in texts)


def _vectors(question: str, hits: Sequence[Hit]) -> Vectors:
    """Vectors by the usual encoder."""
    encoder = make_encoder(with_options(EncodeConfig(), "encode"))
    asked = np.asarray(encoder.encode_questions([question]).vectors, np.float32)
    return Vectors(asked, [np.asarray(encoder.encode([hit.text for hit in hits]).vectors, np.float32)])
