"""`mmr`: maximal marginal relevance (Carbonell & Goldstein, SIGIR 1998), as PFE-Self-RAG keeps 5 of 10 documents.

Every step takes the hit of greatest λ · sim(d, q) − (1 − λ) · max sim(d, d′) over the hits d′ taken before (for the
first hit only the similarity to the question counts). sim is the cosine, 0 where a vector is 0. On a tie the better hit
is taken. The vectors come from the index, a sentence's core vector or a passage's vector, whatever the retriever used;
or, as in the paper, from all-MiniLM-L6-v2. The contexts keep the order in which they were taken, and a budget cuts them
as in `cut`. If there are at most top_k hits, all are taken.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.tasks.encoders.transformer import MiniLM
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.refiners.base import Hit, Refined, Vectors
from vitalfew.tasks.refiners.cut import Cut

Floats = NDArray[np.float32]


class Mmr:
    """Maximal marginal relevance: hits similar to the question and dissimilar to one another (mmr_lambda)."""

    class Options(RefineConfig):
        model_config = ConfigDict(extra="forbid")

        mmr_lambda: float = Field(
            0.9,
            ge=0,
            le=1,
            description="Weight of similarity to the question, against dissimilarity to the hits already chosen.",
        )
        vectors: Literal["index", "minilm"] = Field(
            "index",
            description="Vectors to compare: those of the index, or MiniLM vectors of the texts (as in the paper).",
        )

    version: ClassVar[str] = "2"
    workers = None
    needs_sentences = False

    def __init__(self, options: Options) -> None:
        self.options = options
        self.needs_vectors = options.vectors == "index"
        self.cut = Cut(options)
        self.uses_gpu = not self.needs_vectors and self.encoder.uses_gpu

    def identity(self) -> dict[str, Any]:
        own = {"class": type(self).__name__, "version": self.version, "cut": self.cut.identity()}
        return own if self.needs_vectors else {**own, "encoder": self.encoder.identity()}

    @cached_property
    def encoder(self) -> MiniLM:
        return MiniLM(MiniLM.Options())

    def refine(
        self,
        questions: Sequence[str],
        hits: Sequence[Sequence[Hit]],
        vectors: Vectors | None = None,
        tick: Tick = no_tick,
    ) -> Refined:
        vectors = vectors or self._encoded(questions, hits)
        order = mmr(vectors, self.options.mmr_lambda, self.options.top_k)
        taken = [[question_hits[place] for place in places] for question_hits, places in zip(hits, order, strict=True)]
        return self.cut.refine(questions, taken, tick=tick)

    def _encoded(self, questions: Sequence[str], hits: Sequence[Sequence[Hit]]) -> Vectors:
        """MiniLM's vectors of what a prompt shows; every distinct text is encoded once."""
        shown = [[hit.label(self.options) + hit.text for hit in question_hits] for question_hits in hits]
        places = {text: place for place, text in enumerate(dict.fromkeys(chain(*shown)))}
        of_hits = self.encoder.encode([*places]).vectors
        of_questions = self.encoder.encode_questions(questions).vectors
        return Vectors(of_questions, [of_hits[[places[text] for text in texts]] for texts in shown])


def mmr(vectors: Vectors, weight: float, k: int | None = None) -> list[list[int]]:
    """The places of a question's hits in the order in which they are taken, at most k; `weight`: λ.

    All questions are processed together: a step takes one hit of every question.
    """
    counts = np.array([len(hit_vectors) for hit_vectors in vectors.hits], np.int64)
    width = int(counts.max(initial=0))
    hits = np.zeros((len(counts), width, vectors.questions.shape[1]), np.float32)
    for line, hit_vectors in zip(hits, vectors.hits, strict=True):
        line[: len(hit_vectors)] = hit_vectors
    hits = _unit(hits)
    relevance = np.einsum("qnd,qd->qn", hits, _unit(vectors.questions))
    alike = hits @ hits.transpose(0, 2, 1)
    lines, taken = np.arange(len(counts)), np.empty((len(counts), 0), np.int64)
    free = np.arange(width) < counts[:, None]
    redundancy = np.zeros_like(relevance)
    for step in range(min(width, k or width)):
        score = np.where(free, weight * relevance - (1 - weight) * redundancy, -np.inf)
        place = score.argmax(axis=1)
        taken = np.column_stack([taken, place])
        free[lines, place] = False
        new = alike[lines, place]
        redundancy = np.maximum(redundancy, new) if step else new
    return [order[:count].tolist() for order, count in zip(taken, counts, strict=True)]


def _unit(vectors: Floats) -> Floats:
    """Of length 1; zero vectors stay zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
