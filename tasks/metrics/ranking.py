"""Rankings against gold passages and gold answers: recall@k, reciprocal rank, nDCG@k, rank of the first answer.

All metrics leave out a question without retrieval, or without the gold passages or answers that they need.

**Gold passages among the hits**, by `ir-measures` (which computes with trec_eval). A gold passage is relevant, by its
grade in nDCG (1 where a data set has no grades); every other one is not (0). Ranks count units: a passage has the rank
of its first unit; a further sentence of it takes a place and gains nothing. Where a question names its gold by a place,
such as a file, the place's passages count as one. The ideal ranking of nDCG has all gold passages, as far as k reaches,
at the top. A question without a hit has 0; a k beyond the last hit adds nothing.

**Units that contain a gold answer.** A unit is correct when a gold answer's tokens are in its text in a row, as in
DPR's top-k retrieval accuracy (Karpukhin et al., 2020, arXiv 2004.04906, section 5.1): tokens are runs of letters and
digits, and every other sign or letter of a script without blanks by itself, of the comparable form
(tasks/comparable.py), folded by case. Articles and punctuation count, unlike in answers: gold answers are quoted from
passages, and "1990" has to match in "1990–95". A question without a hit counts as a miss.

**First rank.** ParetoRAG's figure 5 draws where the first correct unit is in the list that fits 400 words, in
percent of that list: 100 · r / n, and −1 where none has the answer. Here the list is the prompt's contexts, and a miss
has no rank: it counts in `first_rank_missing` alone. The paper's percentage goes by a unit's lower edge: shorter
units win before anything is retrieved. `first_rank_middle` goes by its middle, 100 · (r − 1/2) / n, which has the same
mean for a passage and for its sentences in its place: this column says which method is better.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import ir_measures
from ir_measures import RR, R, nDCG

from vitalfew.tasks.comparable import comparable
from vitalfew.tasks.metrics.base import (
    CONTEXTS,
    GOLD_ANSWERS,
    GOLD_PASSAGES,
    HITS,
    SCALE,
    Case,
    Column,
    Metric,
    PerQuestion,
    RankOptions,
    Values,
)
from vitalfew.tasks.refiners.base import Hit
from vitalfew.tasks.splitters.tokens import singly


class _OfGoldPassages(Metric):
    """Measures of ir-measures."""

    @abstractmethod
    def measures(self) -> dict[str, tuple[str, Any]]:
        """By column name: heading, and what ir-measures computes."""

    def columns(self) -> list[Column]:
        return [Column(name, heading, needs=(HITS, GOLD_PASSAGES)) for name, (heading, _) in self.measures().items()]

    def score(self, cases: Sequence[Case]) -> Values:
        measures = {name: measure for name, (_, measure) in self.measures().items()}
        relevant: dict[str, dict[str, int]] = {}
        ranked: dict[str, dict[str, float]] = {}
        for number, case in enumerate(cases):
            if case.gold_passages and case.hits is not None:
                groups = case.gold()
                relevant[str(number)] = {_gold(group): grade for group, grade in case.grades().items()}
                ranked[str(number)] = _ranked(case.hits, groups)
        computed = ir_measures.iter_calc(list(measures.values()), relevant, ranked) if relevant else ()
        values = {(one.measure, one.query_id): float(one.value) for one in computed}
        return {
            column: [values.get((measure, str(number))) for number in range(len(cases))]
            for column, measure in measures.items()
        }


def _gold(group: int) -> str:
    return f"gold {group}"


def _ranked(hits: Sequence[Hit], groups: Mapping[int, int]) -> dict[str, float]:
    """Places as scores, best first. Further units of a passage or a group get names that no relevant one has."""
    names: dict[str, float] = {}
    for place, hit in enumerate(hits, 1):
        number = hit.passage_id
        passage = _gold(groups[number]) if number in groups else str(number)
        names[f"{passage} again at {place}" if passage in names else passage] = -float(place)
    return names


class PassageRecall(_OfGoldPassages):
    """recall@k: share of the gold passages that the first k units come from."""

    Options = RankOptions

    def measures(self) -> dict[str, tuple[str, Any]]:
        return {f"passage_recall@{k}": (f"passage recall@{k}", R @ k) for k in self.options.k}


class MRR(_OfGoldPassages):
    """Reciprocal rank of the first unit of a gold passage; 0 if there is none. Its mean is the MRR."""

    def measures(self) -> dict[str, tuple[str, Any]]:
        return {"mrr": ("MRR", RR)}


class NDCG(_OfGoldPassages):
    """nDCG@k: gains grade / log2(rank + 1), as trec_eval has them, over those of the ideal ranking."""

    Options = RankOptions
    version = "2"  # since 2, of grades

    def measures(self) -> dict[str, tuple[str, Any]]:
        return {f"ndcg@{k}": (f"nDCG@{k}", nDCG @ k) for k in self.options.k}


LIST = "% of contexts"


def _tokens(text: str) -> str:
    """Its tokens between blanks: a run of them is a substring."""
    return f" {' '.join(singly(comparable(text).casefold()))} "


def first_correct(answers: Sequence[str], texts: Iterable[str]) -> int:
    """The rank of the first text that contains a gold answer, from 1; 0: none does."""
    gold = [tokens for answer in answers if (tokens := _tokens(answer)).strip()]
    for rank, text in enumerate(map(_tokens, texts), 1):
        if any(answer in text for answer in gold):
            return rank
    return 0


class AnswerRecall(PerQuestion):
    """1 if one of the first k units contains a gold answer, else 0. Its mean is DPR's top-k retrieval accuracy."""

    Options = RankOptions
    version = "2"  # since 2, of the comparable form

    def columns(self) -> list[Column]:
        needs = (HITS, GOLD_ANSWERS)
        ks = dict.fromkeys(self.options.k)
        return [Column(f"answer_recall@{k}", f"answer recall@{k}", needs=needs, detail=True) for k in ks]

    def row(self, case: Case) -> list[float] | None:
        if not case.answers or case.hits is None:
            return None
        rank = first_correct(case.answers, (hit.text for hit in case.hits))
        return [float(0 < rank <= k) for k in dict.fromkeys(self.options.k)]


class FirstRank(PerQuestion):
    """Position of the first context with a gold answer, in percent of the prompt's contexts (ParetoRAG, figure 5).

    `first_rank` takes the context's lower edge, as in the paper, `first_rank_middle` its middle. `first_rank_missing`
    is 1 if no context has an answer. The mean of a rank leaves such questions out: read it beside this rate.
    """

    version = "3"  # since 3, of the comparable form; 2, of the prompt's contexts and without misses

    shown = (
        Column("first_rank", "first rank", LIST, "neither", (CONTEXTS, GOLD_ANSWERS)),
        Column("first_rank_middle", "middle of first rank", LIST, "lower", (CONTEXTS, GOLD_ANSWERS)),
        Column("first_rank_missing", "first rank missing", SCALE, "lower", (CONTEXTS, GOLD_ANSWERS)),
    )

    def row(self, case: Case) -> tuple[float | None, ...] | None:
        if not case.answers or case.contexts is None:
            return None
        rank = first_correct(case.answers, (context.text for context in case.contexts))
        if not rank:
            return None, None, 1.0
        units = len(case.contexts)
        return 100 * rank / units, 100 * (rank - 0.5) / units, 0.0
