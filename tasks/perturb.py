"""perturb: hits → `perturbed`, the same hits with irrelevant ones beside them, or in another order.

How much noise and disorder a refiner bears (Oreo, arXiv 2502.13019, section 4.4):

- Noise (figure 6): of a question's hits the best one that has an accepted answer stays, and irrelevant ones are put
  after it. Irrelevant is what was retrieved for another question, is of no passage that this question's hits or gold
  passages are of, and has no accepted answer in title or text. The paper does not say where it takes them from.
- Order (table 4): as retrieved, shuffled, or reversed; with noise, of what that leaves.

The draw depends only on the seed, the question's id and the hits: with more noise the chunks of less noise come first.
A question is rejected with its reason if none of its hits has an answer, or too few hits of others are irrelevant: it
has no row here, and its answer counts in no metric. Chunks are drawn from the question's shard, and from the next ones
if it has too few: memory follows the shard.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from vitalfew.configs.evaluation import PerturbConfig
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.tasks.metrics.ranking import first_correct
from vitalfew.tasks.stage import FurtherStage, Progress, ShardResult

Row = dict[str, Any]


class Perturb(FurtherStage):
    """Puts irrelevant hits beside a hit that answers, or changes the order of the hits, before they are refined."""

    name: ClassVar[str] = "perturb"
    table: ClassVar[str] = "perturbed"
    section: ClassVar[str] = "perturb"
    after: ClassVar[str] = "retrieve"
    reads: ClassVar[tuple[str, ...]] = ("asked", "hits")
    replaces: ClassVar[str] = "hits"
    Options = PerturbConfig
    config: PerturbConfig

    @classmethod
    def is_due(cls, options: PerturbConfig) -> bool:
        return options.noise is not None or options.order != "retrieved"

    def method_identity(self) -> dict[str, Any]:
        return {}

    def work(self, shard: int, progress: Progress) -> ShardResult:
        asked = self.inputs["asked"].read(shard).to_pylist()
        own: dict[int, list[Row]] = {}
        for row in self.inputs["hits"].read(shard).to_pylist():
            own.setdefault(row["question_id"], []).append({**row, "noise": False})
        rows, rejects = list[Row](), list[Row]()
        pools = _Pools(self.inputs["hits"], shard, self.shards())
        for place, question in enumerate(asked, 1):
            hits = own.get(question["question_id"], [])
            reason = ""
            if self.config.noise is not None:
                hits, reason = self._noisy(question, hits, pools)
            if reason:
                source = f"{self.inputs['asked'].name}/{shard:05d}"
                why = {"reason": reason, "detail": REASONS[reason]}
                rejects.append({"stage": self.name, "source": source, "offset": place, **why})
            else:
                rows += self._ordered(question["question_id"], hits)
        progress(len(asked), 0)
        counted = Counter(row["reason"] for row in rejects)
        tables = {
            self.table: pa.Table.from_pylist(rows, schemas.PERTURBED),
            "rejects": pa.Table.from_pylist(rejects, schemas.REJECTS),
        }
        return ShardResult(len(asked), tables, notes={**dict.fromkeys(REASONS, 0), **counted})

    def _noisy(self, question: Row, hits: list[Row], pools: "_Pools") -> tuple[list[Row], str]:
        """The hit that answers and the noise after it, or why there are none."""
        place = first_correct(question["answers"], (hit["text"] for hit in hits))
        if not place:
            return [], NO_HIT_ANSWERS
        passages = {hit["passage_id"] for hit in hits} | {*question["gold_passages"], *question["itself"]}
        noise: dict[int, Row] = {}
        for row in pools.drawn(self._chance(question["question_id"], "noise")):
            if len(noise) == self.config.noise:
                break
            irrelevant = row["question_id"] != question["question_id"] and row["passage_id"] not in passages
            if irrelevant and not first_correct(question["answers"], [f"{row['title']} {row['text']}"]):
                noise.setdefault(row["unit_id"], {**row, "noise": True})
        if len(noise) < (self.config.noise or 0):
            return [], TOO_LITTLE_NOISE
        return [hits[place - 1], *noise.values()], ""

    def _ordered(self, question: int, hits: list[Row]) -> list[Row]:
        if self.config.order == "reversed":
            hits = hits[::-1]
        elif self.config.order == "shuffled":
            hits = [hits[place] for place in self._chance(question, "order").permutation(len(hits))]
        return [{**hit, "question_id": question, "rank": rank} for rank, hit in enumerate(hits, 1)]

    def _chance(self, question: int, what: str) -> np.random.Generator:
        return np.random.default_rng([self.config.seed, question, *what.encode()])


NO_HIT_ANSWERS, TOO_LITTLE_NOISE = "no_hit_answers", "too_little_noise"
REASONS = {
    NO_HIT_ANSWERS: "no hit has an accepted answer in its text",
    TOO_LITTLE_NOISE: "too few hits of other questions are irrelevant",
}


class _Pools:
    """The hits of all questions, shard after shard from the given one on; two shards are held at a time."""

    def __init__(self, hits: Artifact, shard: int, shards: list[int]) -> None:
        self.hits = hits
        at = shards.index(shard)
        self.order = [*shards[at:], *shards[:at]]
        self.latest: tuple[int, list[Row]] = (-1, [])
        self.own = self._rows(shard)

    def drawn(self, chance: np.random.Generator) -> Iterator[Row]:
        """Every hit once, in random order within a shard."""
        for shard in self.order:
            rows = self.own if shard == self.order[0] else self._rows(shard)
            for place in chance.permutation(len(rows)).tolist():
                yield rows[place]

    def _rows(self, shard: int) -> list[Row]:
        if self.latest[0] != shard:
            self.latest = shard, self.hits.read(shard).to_pylist()
        return self.latest[1]
