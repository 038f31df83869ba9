"""`cut`, `gold` and `mmr`: refiners that choose among whole hits, without a language model.

`cut`: the best hits as they are, down to a number of them or a budget, for comparisons at equal input. ParetoRAG
compares at 400 words (arXiv 2502.08178, figures 4 and 5). A hit that exceeds the budget is cut at the end of a word,
and no later hit is passed on; the origin of the cut hit is the remaining part. A proposition has no origin.

`gold`: of the hits those of the question's gold passages, as the data set says: an upper bound of every filter. Sparse
RAG's gold labels in the place of its ratings (arXiv 2405.16178, table 10): what perfect assessment of what was
retrieved would come to. A gold passage that was not retrieved is not passed on. Where none was, and where the data set
names none, the best hits are passed on as they are, refine.at_least of them.

`mmr`: maximal marginal relevance (Carbonell & Goldstein, SIGIR 1998), as PFE-Self-RAG keeps 5 of 10 documents. Every
step takes the hit of greatest λ · sim(d, q) − (1 − λ) · max sim(d, d′) over the hits d′ taken before (for the first hit
only the similarity to the question counts). sim is the cosine, 0 where a vector is 0. On a tie the better hit is taken.
The vectors come from the index, a sentence's core vector or a passage's vector, whatever the retriever used; or, as in
the paper, from all-MiniLM-L6-v2. The contexts keep the order in which they were taken, and a budget cuts them as in
`cut`. If there are at most top_k hits, all are taken.
"""

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from vitalfew.configs.options import Keeping
from vitalfew.tasks.encoders.transformer import MiniLM
from vitalfew.tasks.models.encoder.tower import unit_rows
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.refiners.base import Context, Contexts, Hit, Refined, Refiner, Retrieved, Vectors, beginning


class Cut(Refiner):
    """The best hits, unchanged, down to top_k, max_words or max_tokens."""

    version: ClassVar[str] = "2"

    def refine(
        self, questions: Sequence[str], hits: Retrieved, vectors: Vectors | None = None, tick: Tick = no_tick
    ) -> Refined:
        tick(len(questions), 0)
        return Refined([self.best(own) for own in hits])

    def best(self, hits: Sequence[Hit]) -> list[Context]:
        """The contexts of one question: its first hits, as many as the limits allow."""
        made = Contexts(self.options)
        for number, hit in enumerate(hits[: self.options.top_k]):
            part = hit if self.options.group == "passage" else beginning(hit, hit.text.strip())
            if not made.add(part, number):
                break
        return made.made()


class GoldHits(Refiner):
    """Only the hits from the question's gold passages, as the data set marks them: an upper bound, not a method."""

    class Options(Keeping, Refiner.Options):
        pass

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.cut: Cut = Cut(options)

    def refine(
        self, questions: Sequence[str], hits: Retrieved, vectors: Vectors | None = None, tick: Tick = no_tick
    ) -> Refined:
        gold = [[hit for hit in own if hit.is_gold] for own in hits]
        kept = [of_own or own[: self.options.at_least] for own, of_own in zip(hits, gold, strict=True)]
        notes = {"without_gold": sum(not of_own for of_own in gold)}
        return Refined(self.cut.refine(questions, kept, tick=tick).contexts, notes=notes)


class Mmr(Refiner):
    """Maximal marginal relevance: hits similar to the question and dissimilar to one another (mmr_lambda)."""

    class Options(Refiner.Options):
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

        @property
        def needs_vectors(self) -> bool:
            """As `Refiner.needs_vectors`."""
            return self.vectors == "index"

    version: ClassVar[str] = "2"

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.needs_vectors = options.needs_vectors
        self.cut: Cut = Cut(options)
        self.uses_gpu = not self.needs_vectors and self.encoder.uses_gpu

    def identity(self) -> dict[str, Any]:
        encoder = {} if self.needs_vectors else {"encoder": self.encoder.identity()}
        return {**super().identity(), **encoder}

    @cached_property
    def encoder(self) -> MiniLM:
        return MiniLM(MiniLM.Options())

    def refine(
        self, questions: Sequence[str], hits: Retrieved, vectors: Vectors | None = None, tick: Tick = no_tick
    ) -> Refined:
        vectors = vectors or self._encoded(questions, hits)
        order = mmr(vectors, self.options.mmr_lambda, self.options.top_k)
        taken = [[question_hits[place] for place in places] for question_hits, places in zip(hits, order, strict=True)]
        return self.cut.refine(questions, taken, tick=tick)

    def _encoded(self, questions: Sequence[str], hits: Retrieved) -> Vectors:
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
    hits = unit_rows(hits)
    relevance = np.einsum("qnd,qd->qn", hits, unit_rows(vectors.questions))
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
