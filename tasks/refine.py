"""refine: hits → evidence, the contexts of a prompt; refinements, the cost of every question; and readings, the output
of a model for the hits. Readings of earlier runs, of other ratios and other refiners, are not computed again."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.ids import shard_of
from vitalfew.storage.indexes.units import Units
from vitalfew.tasks.models.loading import clock, cpu_clock
from vitalfew.tasks.refiners.base import Hit, Refined, Refiner, Vectors, Writing, likelihood
from vitalfew.tasks.refiners.sentences import Extent, Span, inside, parents, windows
from vitalfew.tasks.registry import declared
from vitalfew.tasks.splitters.tokens import count_tokens
from vitalfew.tasks.stage import Progress, ReusingStage, ShardResult


class Refine(ReusingStage):
    """Stage `refine` over `hits`, by one refiner."""

    name: ClassVar[str] = "refine"
    table: ClassVar[str] = "evidence"
    over: ClassVar[str] = "hits"
    counts: ClassVar[str] = "asked"
    section: ClassVar[str] = "refine"
    role: ClassVar[str | None] = "refiner"

    def __init__(
        self,
        store: Path,
        asked: Artifact,
        hits: Artifact,
        corpus: Mapping[str, Artifact],
        config: RefineConfig,
        question_vectors: Artifact | None = None,
        sharpness: float | None = None,
    ) -> None:
        """`corpus`: the index's passages, sentences and vectors, by role, as far as it has them; `question_vectors`: by
        the index's encoder, if the refiner needs vectors; `sharpness`: the retriever's. Raises UnknownName,
        ConfigError, EngineUnavailable."""
        inputs = {"asked": asked, "hits": hits, **_read(corpus, config)}
        if question_vectors:
            inputs |= {**corpus, "question_vectors": question_vectors}
        self.sharpness = sharpness
        super().__init__(store, inputs, config)

    config: RefineConfig
    method: Refiner

    def method_identity(self) -> dict[str, Any]:
        scale = {"sharpness": self.sharpness} if self.method.compares_scores else {}
        return {**self.method.identity(), **scale}

    def work(self, shard: int, progress: Progress) -> ShardResult:
        asked = self.inputs["asked"].read(shard, columns=["question_id", "text", "gold_passages"])
        ids, texts = asked["question_id"].to_pylist(), asked["text"].to_pylist()
        table = self.inputs["hits"].read(shard)
        numbers, hits = self._hits(table, ids, asked["gold_passages"].to_pylist())
        vectors = self._vectors(shard, table, numbers) if self.method.needs_vectors else None
        with self.remembering() as memory:
            began, cpu = clock(), cpu_clock()
            refined = self.method.refine(texts, hits, vectors, progress)
            took, cpu = clock() - began, cpu_clock() - cpu
        took += sum(reading.seconds for reading in memory.recalled.values())
        cpu += sum(reading.cpu_seconds for reading in memory.recalled.values())
        accounts = self._accounts(ids, hits, refined, took, cpu)
        rows = []
        for question, contexts in zip(ids, refined.contexts, strict=True):
            for rank, one in enumerate(contexts, 1):
                origin = [dict(zip(("passage_id", "start", "end"), span, strict=True)) for span in one.origin]
                known = {"text": one.text, "tokens": one.tokens, "origin": origin, "score": one.score}
                rows.append({"question_id": question, "rank": rank, **known})
        tables = {
            self.table: pa.Table.from_pylist(rows, schemas.EVIDENCE),
            "refinements": pa.Table.from_pylist(accounts, schemas.REFINEMENTS),
            **memory.tables(),
        }
        notes = {**refined.notes, **memory.notes()}
        return ShardResult(len(ids), tables, tokens=refined.tokens, notes=notes, reused=memory.took())

    def _accounts(
        self, questions: list[int], hits: Sequence[Sequence[Hit]], refined: Refined, seconds: float, cpu: float
    ) -> list[dict[str, Any]]:
        """The rows of `refinements`. `seconds`, `cpu`: of all questions together."""
        given = [sum(count_tokens(hit.shown(self.config.reading)) for hit in own) for own in hits]
        whole = sum(given)
        writings = refined.writings or [Writing()] * len(questions)
        return [
            {
                "question_id": question,
                "input_tokens": tokens,
                "output_tokens": sum(evidence.tokens for evidence in contexts),
                "seconds": seconds * (share := tokens / whole if whole else 1 / len(questions)),
                "cpu_seconds": cpu * share,
                "cut": writing.cut,
                "finish_reason": writing.finish_reason,
            }
            for question, tokens, contexts, writing in zip(questions, given, refined.contexts, writings, strict=True)
        ]

    def _vectors(self, shard: int, hits: pa.Table, numbers: Sequence[Sequence[int]]) -> Vectors:
        """The index's vectors of the questions, and of their hits, which are given by number."""
        questions = self.question_vectors(shard)
        if not len(hits):
            return Vectors(questions, [questions[:0]] * len(numbers))
        table = hits.take(pa.array(chain(*numbers), pa.int64()))
        shards, ids = self._shards(table["passage_id"].to_numpy()), table["unit_id"].to_numpy()
        vectors = Units(self.inputs).vectors(hits["unit"][0].as_py(), shards, ids)
        return Vectors(questions, np.split(vectors, [*accumulate(map(len, numbers))][:-1]))

    def _hits(
        self, table: pa.Table, questions: Sequence[int], gold: Sequence[Sequence[int]]
    ) -> tuple[list[list[int]], list[list[Hit]]]:
        """The hits of every question, best first, as far as their contexts reach: their numbers in `table`, and what a
        refiner gets. Of hits with a common context there is the best. `gold`: the questions' gold passages."""
        passages = table["passage_id"].to_numpy()
        sentences: dict[int, list[Span]] = {}
        if "sentences" in self.inputs:
            sentences = Units(self.inputs).sentences(self._shards(passages), passages)
        texts = self._texts(passages) if self.config.reading.is_wider else {}
        due: dict[int, list[tuple[int, dict[str, Any]]]] = {question: [] for question in questions}
        for number, row in enumerate(table.to_pylist()):
            due[row["question_id"]].append((number, row))
        numbers: list[list[int]] = []
        hits: list[list[Hit]] = []
        for own, golden in zip(due.values(), gold, strict=True):
            extents = self._extents([row for _, row in own], sentences, texts)
            numbers.append([own[place][0] for place, _ in extents])
            hits.append([])
            for place, (start, end) in extents:
                row, passage = own[place][1], own[place][1]["passage_id"]
                text = texts[passage][start:end] if texts and start < end else row["text"]
                parts = inside(sentences.get(passage, ()), (start, end))
                likely = likelihood(row["score"], row["rank"], self.sharpness)
                is_gold = passage in golden
                hits[-1].append(Hit(row["title"], text, passage, start, end, parts, is_gold, row["score"], likely))
        return numbers, hits

    def _extents(
        self, hits: Sequence[dict[str, Any]], sentences: Mapping[int, list[Span]], texts: Mapping[int, str]
    ) -> list[Extent]:
        """How far the contexts of a question's hits reach."""
        places = [(hit["passage_id"], (hit["start"], hit["end"])) for hit in hits]
        reading = self.config.reading
        if not reading.is_wider:
            return [(number, span) for number, (_, span) in enumerate(places)]
        if reading.window is not None:  # of text=window alone
            return windows(places, sentences, reading.window)
        return parents(places, {passage: len(texts[passage]) for passage, _ in places})

    def _texts(self, passages: NDArray[np.int64]) -> dict[int, str]:
        """The texts of passages, by their ids."""
        distinct = np.unique(passages)
        shards, units = self._shards(distinct), Units(self.inputs)
        places = np.array([units.place(int(s), int(p)) for s, p in zip(shards, distinct, strict=True)], np.int64)
        texts = units.take("passages", shards, places, ["text"])["text"].to_pylist()
        return dict(zip(distinct.tolist(), texts, strict=True))

    def _shards(self, passages: NDArray[np.int64]) -> NDArray[np.int64]:
        return shard_of(passages, len(self.inputs["passages"].completed().shards))


def _read(corpus: Mapping[str, Artifact], options: RefineConfig) -> dict[str, Artifact]:
    """The tables of the corpus that contexts need besides the hits. Raises ConfigError."""
    reading = options.reading
    sentences = reading.text == "window" or declared(options, "needs_sentences")
    roles = [*(["passages"] if reading.is_wider or sentences else []), *(["sentences"] if sentences else [])]
    if missing := [role for role in roles if role not in corpus]:
        place = "refine.first" if options.first else "refine"
        raise ConfigError(
            f"refine.refiner={options.refiner} with {place}.text={reading.text} needs the table {missing[0]}, "
            f"which this index lacks. Search another index, or choose another {place}.text or refine.refiner"
        )
    return {role: corpus[role] for role in roles}
