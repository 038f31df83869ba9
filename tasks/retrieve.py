"""retrieve: questions → hits, from the artifacts of an index."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import CANDIDATES, RetrieveConfig, Unit
from vitalfew.storage import generations, schemas
from vitalfew.storage.artifacts import Artifact, Manifest
from vitalfew.storage.ids import shard_of
from vitalfew.storage.indexes import NOTHING, TopK, Vectors, stacked
from vitalfew.storage.indexes.opened import IndexMismatch, OpenedIndex
from vitalfew.storage.indexes.units import Units, numbers_of, table_of
from vitalfew.storage.runs import NamedIndex
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.encode import make_encoder
from vitalfew.tasks.encoders.on_demand import OnDemand, Spent
from vitalfew.tasks.models.loading import loading
from vitalfew.tasks.registry import as_recorded, declared, make
from vitalfew.tasks.retrievers.base import WITHOUT_HITS, QuestionBatch, Retriever
from vitalfew.tasks.retrievers.candidates import CandidateIndex
from vitalfew.tasks.splitters.tokens import count_tokens
from vitalfew.tasks.stage import MethodStage, Progress, ShardResult

logger = logging.getLogger("vitalfew")

AT_ONCE = 64
"""Questions whose candidates' vectors are in memory at once."""
LEAST_SPREAD = 1e-9
COMPUTING = ("precision", "batch_tokens")
"""The settings of computation that an encoder's identity records."""


@dataclass(frozen=True, kw_only=True)
class Hit:
    """A retrieved unit. `core` and `context`: its similarities to the question; None where they were not
    computed, and for a unit without context.

    `start`, `end`: the span of `text` in `passage` (code points, half-open); equal if a model rewrote the text.
    `source_id`: the passage's name in its source, such as a file and the heading in it; `also`: its further names,
    where the same text stands several times. `position`: the sentence's in its passage; `passage`: all of its text.
    """

    rank: int
    score: float
    core: float | None = None
    context: float | None = None
    unit_id: int
    passage_id: int
    position: int = 0
    start: int
    end: int
    title: str
    source_id: str
    text: str
    passage: str = ""
    also: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """Words and punctuation marks. They are counted when they are asked for: to count those of all hits takes as
        long as to score them."""
        return count_tokens(self.text)


class Searcher:
    """An open index with its encoder, which is loaded once."""

    def __init__(self, index: OpenedIndex) -> None:
        self.index = index
        self._by_candidates: dict[int, CandidateIndex] = {}

    @classmethod
    def named(cls, store: Path, index: str) -> "Searcher":
        """Open the index that a name points at now. Not for a stage: its artifacts are fixed when it is planned.

        Raises IndexNotFound, and IndexMismatch if its artifacts have changed."""
        return cls(OpenedIndex(index, generations.named(store, index).located(store)))

    @property
    def units(self) -> Units:
        return self.index.units

    @cached_property
    def on_demand(self) -> OnDemand:
        """The vectors of an index that was not encoded."""
        return OnDemand(self.index, self.encoder)

    @cached_property
    def encoder(self) -> Any:
        indexed = self.index.manifests["vectors"].method
        encoder = self._encoder(indexed)
        if indexed["files"] != encoder.identity()["files"]:
            raise IndexMismatch(
                f"index {self.index.name!r} was encoded by {indexed['encoder']!r} with other weights than those "
                "installed now, so new questions would not match its vectors. Index the corpus again"
            )
        return encoder

    def _encoder(self, indexed: Mapping[str, Any]) -> Any:
        """Questions are encoded on this machine, whatever device encoded the passages, and else as they were, unless
        this machine cannot."""
        config = as_recorded(self.index.encoding, "encode").without({"device"})
        taken = {key for key in COMPUTING if key in type(config).model_fields and key in indexed}
        encoder = make_encoder(config.model_copy(update={key: indexed[key] for key in taken}))
        try:
            encoder.identity()
        except ConfigError:
            return make_encoder(config.without({"precision"}))
        return encoder

    def search(
        self,
        questions: Sequence[str],
        request: RetrieveConfig,
        vectors: Vectors | None = None,
        names: Sequence[tuple[str, str]] = (),
        itself: Sequence[Sequence[int]] = (),
    ) -> TopK:
        """The best units of every question, by table shard and row. All questions are encoded
        together, if the retriever needs vectors and `vectors`, float32 (n, d), does not give them. `itself`: by
        question, the passages that are no hits for it; empty where all may be."""
        asked, retriever = QuestionBatch(questions, self._encode, names, vectors), self._retriever(request)
        left_out = [[*self._units_of(retriever.unit, passages)] for passages in itself]
        more = max((sum(len(rows) for _, rows in units) for units in left_out), default=0)
        by_part = retriever.dense and not self.index.is_encoded
        parts = asked.parts(AT_ONCE) if by_part else [asked]
        top = stacked([self._best(retriever, part, request, more) for part in parts])
        return _without(top, left_out, request.top_k) if more else top

    def _units_of(self, unit: Unit, passages: Sequence[int]) -> Iterator[tuple[int, range]]:
        """Table shard and rows of the units of every passage that the index has."""
        shards = len(self.index.manifests["passages"].shards)
        for passage in passages:
            shard = int(shard_of(np.array(passage, np.int64), shards))
            if self.units.find_passage(shard, passage):
                row = self.units.place(shard, passage)
                first, size = row, 1
                if unit == "sentence":
                    outline = self.units.outline(shard)
                    first, size = int(outline.starts[row]), int(outline.sizes[row])
                yield shard, range(first, first + size)

    def _best(self, retriever: Retriever, questions: QuestionBatch, request: RetrieveConfig, more: int = 0) -> TopK:
        k = max(1, min(request.top_k + more, self.index.count(retriever.unit)))  # it takes memory, found or not
        index = self._index(request)
        if not rescores(request):
            return retriever.retrieve(questions, index.only(request.where), k)
        first = retriever.retrieve(questions, index.only(request.where), max(k, request.rescore or 0))
        rows = [slice(start, start + AT_ONCE) for start in range(0, len(questions.texts), AT_ONCE)]
        return stacked([self._rescored(first[own], questions.vectors[own], request, retriever.unit, k) for own in rows])

    def _rescored(self, first: TopK, questions: Vectors, request: RetrieveConfig, unit: Unit, k: int) -> TopK:
        """The k best of the first units by the sum of their scores and the encoder's."""
        near = np.zeros(first.scores.shape, np.float32)
        rated = (first.rows >= 0) & (np.arange(first.rows.shape[1]) < (request.rescore or 0))
        places = [*zip(first.shards[rated].tolist(), first.rows[rated].tolist(), strict=True)]
        if not places:
            return first
        every = [*dict.fromkeys(places)]
        number = {place: at for at, place in enumerate(every)}
        vectors, _ = self._index(request).vectors(unit, every)
        of_places = vectors[[number[place] for place in places]]
        near[rated] = np.einsum("ij,ij->i", of_places, questions[np.nonzero(rated)[0]])
        return rescored(first, near, rated, request.weight, k)

    def _index(self, request: RetrieveConfig) -> OpenedIndex:
        """The index as a request sees it."""
        if self.index.is_encoded:
            return self.index
        passages = request.rescore or CANDIDATES
        if passages not in self._by_candidates:
            self._by_candidates[passages] = CandidateIndex(self.index, self.on_demand, passages)
        return self._by_candidates[passages]

    def _encode(self, texts: Sequence[str]) -> Vectors:
        return self.encoder.encode_questions(texts).vectors

    def _retriever(self, request: RetrieveConfig) -> Retriever:
        retriever: Retriever = make(request, "retrieve")
        if retriever.unit not in self.index.encoding.units:
            raise IndexMismatch(
                f"retriever {request.retriever!r} searches {retriever.unit}s, and index {self.index.name!r} holds only "
                f"{', '.join(self.index.encoding.units)}s; index with --set 'encode.units=[sentence, passage]'"
            )
        if request.rescore and retriever.dense and self.index.is_encoded:
            _say_idle(request.retriever, self.index.name)
        return retriever

    @contextmanager
    def spending(self) -> Iterator[Spent]:
        """Yield what vectors that are made on demand take meanwhile; nothing in an index that has all."""
        if self.index.is_encoded:
            yield Spent()
        else:
            with self.on_demand.spending() as spent:
                yield spent

    def check(self, request: RetrieveConfig) -> None:
        """Raises IndexMismatch, UnknownName, ValueError if this index cannot answer such requests."""
        retriever = self._retriever(request)
        if retriever.dense or rescores(request):
            self.encoder  # noqa: B018  # checks that it is the encoder of the passages
        if retriever.keywords:
            self.index.bm25  # noqa: B018  # checks that it exists
        retriever.check(self.index)

    def columns(self, top: TopK, unit: Unit) -> dict[str, Any]:
        """The columns of `hits` that a unit and its score make, question by question, best first; `question`: its place
        among the questions, int64; `source_id`, `also`: the passage's names in its sources."""
        rows, ranks = np.nonzero(top.rows >= 0)
        shards, places = top.shards[rows, ranks], top.rows[rows, ranks]
        named = ["title", "source_id", "also"]
        columns = ["passage_id", "text", *(["start", "end"] if unit == "sentence" else named)]
        units = self.units.take(table_of(unit), shards, places, columns)
        texts, passages = units["text"].to_pylist(), numbers_of(units["passage_id"])
        if unit == "sentence":
            at = np.array([self.units.place(int(s), int(p)) for s, p in zip(shards, passages, strict=True)], int)
            names = self.units.take("passages", shards, at, named)
            starts, ends = numbers_of(units["start"]), numbers_of(units["end"])
        else:
            names = units
            starts, ends = np.zeros(len(texts), int), np.array([len(text) for text in texts], int)
        return {
            "question": rows,
            "rank": ranks + 1,
            "unit_id": top.ids[rows, ranks],
            "passage_id": passages,
            "start": starts,
            "end": ends,
            "score": top.scores[rows, ranks],
            **{name: names[name].to_pylist() for name in named},
            "text": texts,
        }

    def found(self, top: TopK, unit: Unit) -> list[list[Hit]]:
        """The hits of every question, best first."""
        columns = self.columns(top, unit)
        hits: list[list[Hit]] = [[] for _ in top.rows]
        numbers = {name: columns[name].tolist() for name in ("rank", "unit_id", "passage_id", "start", "end", "score")}
        for place, question in enumerate(columns["question"].tolist()):
            own = {name: values[place] for name, values in numbers.items()}
            title, source_id, also, text = (columns[name][place] for name in ("title", "source_id", "also", "text"))
            hits[question].append(Hit(**own, title=title, source_id=source_id, text=text, also=tuple(also)))
        return hits

    def hits(self, question: str, request: RetrieveConfig) -> list[Hit]:
        """One question's hits, with the figures that explain them; without white space around their texts."""
        questions, retriever = QuestionBatch([question], self._encode), self._retriever(request)
        top, unit = self._best(retriever, questions, request), retriever.unit
        (found,) = self.found(top, unit)
        places = [*zip(top.shards[0].tolist(), top.rows[0].tolist(), strict=True)][: len(found)]
        alike: Sequence[tuple[float | None, float | None]] = [(None, None)] * len(places)
        if self.index.is_encoded or retriever.dense or request.rescore:
            alike = self._index(request).similarities(unit, places, questions.vectors[0])
        hits = []
        for hit, (shard, row), (core, context) in zip(found, places, alike, strict=True):
            text, is_rewritten = hit.text.strip(), unit == "sentence" and hit.start == hit.end
            start = hit.start + len(hit.text) - len(hit.text.lstrip())
            span = (hit.start, hit.end) if is_rewritten else (start, start + len(text))
            position = self.units.row(unit, shard, row).get("position", 0)
            passage = self.units.passage(shard, hit.passage_id)["text"]
            hit = replace(hit, text=text, start=span[0], end=span[1])
            hits.append(replace(hit, core=core, context=context, position=position, passage=passage))
        return hits


class Retrieve(MethodStage):
    """Stage `retrieve` over `asked`, by one retriever on one index. Questions of a shard are searched together."""

    name: ClassVar[str] = "retrieve"
    table: ClassVar[str] = "hits"
    over: ClassVar[str] = "asked"
    section: ClassVar[str] = "retrieve"

    def __init__(
        self,
        store: Path,
        asked: Artifact,
        vectors: Artifact | None,
        index: NamedIndex,
        config: RetrieveConfig,
        corpora: Path | None = None,
    ) -> None:
        """`vectors`: of the questions; None for a retriever that needs none. `index`: its artifacts are searched,
        wherever its name points when the stage works; `corpora`: the store that holds them, if it is another."""
        self.index = index
        self.corpus = index.located(corpora or store)
        inputs = {"asked": asked} | ({"question_vectors": vectors} if vectors else {})
        super().__init__(store, self.corpus | inputs, config)

    shared: ClassVar[bool] = False
    config: RetrieveConfig
    method: Retriever

    @property
    def model_name(self) -> str | None:
        """The encoder, where it rates hits or makes the vectors that are missing: it is paid for."""
        is_asked = rescores(self.config) or (self.method.dense and "faiss" not in self.corpus)
        return str(self.index.config["encode"]["encoder"]) if is_asked else None

    _held: Searcher | None = None

    def config_identity(self) -> dict[str, Any]:
        """`rescore` and `weight` count where they are set and change something."""
        counts = self.config.rescore is not None
        weighs = counts and rescores(self.config)
        idle = {name for name, is_used in (("rescore", counts), ("weight", weighs)) if not is_used}
        return {name: value for name, value in super().config_identity().items() if name not in idle}

    def method_identity(self) -> dict[str, Any]:
        own = self.method.identity() if hasattr(self.method, "identity") else {}
        return {"retriever": self.config.retriever, "version": self.method.version, **own}

    @property
    def searcher(self) -> Searcher:
        """The open index; the methods of a process that search the same artifacts share it."""
        return self._held or _searcher(self.index.name, tuple(self.corpus.items()))

    def hold(self) -> None:
        """Keep the index open as long as the stage is there, however many others are opened."""
        self._held = self.searcher

    def work(self, shard: int, progress: Progress) -> ShardResult:
        with loading():  # whichever method is first opens the index
            searcher = self.searcher
        asked = self.inputs["asked"].read(shard, columns=["question_id", "source_id", "text", "itself"])
        vectors = self.question_vectors(shard) if "question_vectors" in self.inputs else None
        names = [(str(row["question_id"]), row["source_id"]) for row in asked.to_pylist()]
        itself = asked["itself"].to_pylist()
        with searcher.spending() as spent:
            top = searcher.search(asked["text"].to_pylist(), self.config, vectors, names, itself)
        columns = searcher.columns(top, self.method.unit)
        ids = asked["question_id"].to_numpy()[columns.pop("question")]
        own = {"question_id": ids, "unit": [self.method.unit] * len(ids), **columns}
        hits = pa.table({name: own[name] for name in schemas.HITS.names}, schema=schemas.HITS)
        progress(len(asked), 0)
        notes = {WITHOUT_HITS: len(asked) - len(np.unique(ids))}
        if spent.encoded or spent.remembered:
            notes |= {"encoded": spent.encoded, "remembered": spent.remembered}
        return ShardResult(len(asked), {"hits": hits}, tokens=spent.tokens, notes=notes, reused=spent.reused)

    def check(self, manifest: Manifest) -> None:
        """Raises InputError where no question has a hit and that is a fault of the retriever's input."""
        if manifest.note(WITHOUT_HITS) == manifest.rows_in:
            asked = self.inputs["asked"].read(0, columns=["source_id", "text"])
            if fault := self.method.fault(asked["source_id"].to_pylist(), asked["text"].to_pylist()):
                raise InputError(fault)


@cache
def _say_idle(retriever: str, index: str) -> None:
    """Say once that `rescore` changes nothing. No error, as an index that is encoded later stays in use once it is."""
    logger.warning(
        "retrieve.rescore changes nothing for retriever %s in index %s, which has all vectors: all are compared. The "
        "encoder rates some hits alone with --set retrieve.retriever=bm25",
        retriever,
        index,
    )


def rescores(request: RetrieveConfig) -> bool:
    """Return whether the encoder rates what the retriever found; a retriever by vectors has compared these itself."""
    return request.rescore is not None and not declared(request, "dense")


def rescored(first: TopK, near: Vectors, rated: np.ndarray, weight: float, k: int) -> TopK:
    """The k best by z(first score) + weight · z(near), each z-score over the units of a question that are `rated`; the
    others follow in their order, at the score of the last one. `near`: similarities, float32 (questions, units)."""
    own = np.where(rated, first.scores, 0).astype(np.float64)
    sums = _standard(own, rated) + weight * _standard(near.astype(np.float64), rated)
    least = np.where(rated, sums, np.inf).min(axis=1, initial=np.inf, keepdims=True)
    scores = np.where(rated, sums, np.where(np.isfinite(least), least, 0.0)).astype(np.float32)
    order = np.lexsort((first.ids, -scores, ~rated, first.rows < 0))[:, :k]
    scores = np.where(first.rows >= 0, scores, np.float32(-np.inf))
    columns: list[np.ndarray] = [first.ids, scores, first.shards, first.rows]
    return TopK(*(np.take_along_axis(column, order, axis=1) for column in columns))


def _standard(values: np.ndarray, rated: np.ndarray) -> np.ndarray:
    """z-scores of the rated values of every row; 0 where all are equal."""
    count = np.maximum(rated.sum(axis=1, keepdims=True), 1)
    away = np.where(rated, values - np.where(rated, values, 0).sum(axis=1, keepdims=True) / count, 0)
    spread = np.sqrt((away**2).sum(axis=1, keepdims=True) / count)
    return away / np.maximum(spread, LEAST_SPREAD)


def _without(top: TopK, left_out: Sequence[Sequence[tuple[int, range]]], k: int) -> TopK:
    """The k best units of every question but those left out, which are given by table shard and rows."""
    gone = np.zeros(top.rows.shape, bool)
    for number, units in enumerate(left_out):
        for shard, own in units:
            within = (top.rows[number] >= own.start) & (top.rows[number] < own.stop)
            gone[number] |= within & (top.shards[number] == shard)
    order = np.argsort(gone, axis=1, kind="stable")[:, :k]
    ids, scores, shards, rows = (np.take_along_axis(column, order, axis=1) for column in top.columns())
    empty = np.take_along_axis(gone, order, axis=1)
    return TopK(np.where(empty, NOTHING, ids), scores, np.where(empty, NOTHING, shards), np.where(empty, NOTHING, rows))


@lru_cache(4)
def _searcher(name: str, artifacts: tuple[tuple[str, Artifact], ...]) -> Searcher:
    """Opened once in a worker for all methods that search these artifacts."""
    return Searcher(OpenedIndex(name, dict(artifacts)))
