"""Gold passages among the hits: recall@k, reciprocal rank and nDCG@k, by `ir-measures` (which computes with trec_eval).

A gold passage is relevant (1), every other one is not (0). Ranks count units, whatever they are: a passage has the rank
of its first unit; a further sentence of it takes a place and gains nothing, so several sentences of one passage count
once. The ideal ranking of nDCG has all gold passages, as far as k reaches, at the top.

A question without gold passages, or without retrieval, is left out. One that has no hit has 0; a k beyond the last hit
adds nothing: recall@30 of ten hits is their recall@10.
"""

from collections.abc import Sequence
from typing import Any

import ir_measures
from ir_measures import RR, R, nDCG

from vitalfew.tasks.metrics.base import GOLD_PASSAGES, HITS, Case, Column, PerQuestion, RankedUnit, RankOptions, Values


class _OfGoldPassages(PerQuestion):
    """Measures of ir-measures."""

    def measures(self) -> list[tuple[str, str, Any]]:
        """Column name, heading, and what ir-measures computes."""
        raise NotImplementedError

    def columns(self) -> list[Column]:
        return [Column(name, heading, needs=(HITS, GOLD_PASSAGES)) for name, heading, _ in self.measures()]

    def score(self, cases: Sequence[Case]) -> Values:
        measures = {name: measure for name, _, measure in self.measures()}
        relevant: dict[str, dict[str, int]] = {}
        ranked: dict[str, dict[str, float]] = {}
        for number, case in enumerate(cases):
            if case.gold_passages and case.hits is not None:
                relevant[str(number)] = {str(passage): 1 for passage in case.gold_passages}
                ranked[str(number)] = _ranked(case.hits)
        metrics = ir_measures.iter_calc(list(measures.values()), relevant, ranked) if relevant else ()
        values = {(metric.measure, metric.query_id): float(metric.value) for metric in metrics}
        return {
            column: [values.get((measure, str(number))) for number in range(len(cases))]
            for column, measure in measures.items()
        }


def _ranked(hits: Sequence[RankedUnit]) -> dict[str, float]:
    """Places as scores, best first. A passage's further units get names that no relevant one has."""
    names: dict[str, float] = {}
    for place, hit in enumerate(hits, 1):
        passage = str(hit.span.passage_id)
        names[f"{passage} again at {place}" if passage in names else passage] = -float(place)
    return names


class PassageRecall(_OfGoldPassages):
    """recall@k: share of the gold passages that the first k units come from."""

    Options = RankOptions

    def measures(self) -> list[tuple[str, str, Any]]:
        return [(f"passage_recall@{k}", f"passage recall@{k}", R @ k) for k in dict.fromkeys(self.options.k)]


class MRR(_OfGoldPassages):
    """Reciprocal rank of the first unit of a gold passage; 0 if there is none. Its mean is the MRR."""

    def measures(self) -> list[tuple[str, str, Any]]:
        return [("mrr", "MRR", RR)]


class NDCG(_OfGoldPassages):
    """nDCG@k with binary relevance: gains 1 / log2(rank + 1), over those of the ideal ranking."""

    Options = RankOptions

    def measures(self) -> list[tuple[str, str, Any]]:
        return [(f"ndcg@{k}", f"nDCG@{k}", nDCG @ k) for k in dict.fromkeys(self.options.k)]
