"""refine: hits → evidence, the contexts of a prompt; refinements, what that took of each question; and readings, what a
model made of the hits. Readings of earlier runs, of other ratios and other refiners, are not computed again."""

from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.storage import files, schemas
from vitalfew.storage.artifacts import Artifact, fingerprint, read_bases, whole_bases, write_bases
from vitalfew.storage.ids import shard_of
from vitalfew.storage.indexes.units import Units
from vitalfew.storage.manifests import File
from vitalfew.tasks.models.loading import clock, cpu_clock
from vitalfew.tasks.models.readings import Memory, Reading, remembering
from vitalfew.tasks.refiners.base import Evidence, Hit, Refined, Refiner, Vectors, Writing
from vitalfew.tasks.refiners.sentences import Span, inside, parents, windows
from vitalfew.tasks.registry import kept, with_options
from vitalfew.tasks.splitters.tokens import count_tokens
from vitalfew.tasks.stage import MethodStage, Progress, ShardResult

MODELS = ("model", "scorer", "encoder")
"""What refiners' identities call their model."""
HIT = ("question_id", "title", "text", "passage_id", "start", "end")


class Refine(MethodStage):
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
    ) -> None:
        """`corpus`: the index's passages, sentences and vectors, by role, as far as it has them; `question_vectors`: by
        the index's encoder, if the refiner needs vectors. Raises UnknownName, ConfigError,
        EngineUnavailable."""
        options = with_options(config, "refine")
        needs_sentences = kept(options, self.name).needs_sentences
        inputs = {"asked": asked, "hits": hits, **_read(corpus, options, needs_sentences)}
        if question_vectors:
            inputs |= {**corpus, "question_vectors": question_vectors}
        super().__init__(store, inputs, options)

    config: RefineConfig
    method: Refiner

    @property
    def _bases(self) -> Path:
        return self.artifact.file("reused.json")

    def prepared(self) -> list[Path]:
        return [self._bases]

    def prepare(self, progress: Progress) -> None:
        """Choose the artifacts whose readings are reused, once: a run that resumes after a kill reuses the same."""
        write_bases(self._bases, self._earlier())

    def _earlier(self) -> list[File]:
        """The files in which the finished artifacts of the store have readings of a model that this refiner has."""
        own = _models(self.planned)
        found: list[File] = []
        for directory in files.folders(self.store / "readings") if own else ():
            other = Artifact(self.store, self.table, directory.name)
            manifest = other.recorded_manifest()
            if manifest and own & _models(manifest.method):
                found += [file for file in manifest.files() if file.table == "readings"]
        return found

    def work(self, shard: int, progress: Progress) -> ShardResult:
        asked = self.inputs["asked"].read(shard, columns=["question_id", "text", "gold_passages"])
        table = self.inputs["hits"].read(shard)
        ids = asked["question_id"].to_pylist()
        sentences = self._sentences(table)
        table = self._widened(table, _places(table, ids), sentences) if self.config.is_wider else table
        places = _places(table, ids)
        gold = dict(zip(ids, map(frozenset, asked["gold_passages"].to_pylist()), strict=True))
        hits = [_hit(row, sentences, gold[row.pop("question_id")]) for row in table.select(HIT).to_pylist()]
        vectors = self._vectors(shard, table, places) if self.method.needs_vectors else None
        hits_of_questions = [hits[place] for place in places]
        with remembering(Memory(self._remembered)) as memory:
            began, cpu = clock(), cpu_clock()
            refined = self.method.refine(asked["text"].to_pylist(), hits_of_questions, vectors, progress)
            took, cpu = clock() - began, cpu_clock() - cpu
        took += sum(reading.seconds for reading in memory.recalled.values())
        cpu += sum(reading.cpu_seconds for reading in memory.recalled.values())
        accounts = self._accounts(ids, hits_of_questions, refined, took, cpu)
        rows = [
            _row(question, rank, evidence)
            for question, contexts in zip(ids, refined.contexts, strict=True)
            for rank, evidence in enumerate(contexts, 1)
        ]
        tables = {
            self.table: pa.Table.from_pylist(rows, schemas.EVIDENCE),
            "refinements": pa.Table.from_pylist(accounts, schemas.REFINEMENTS),
            **_readings(memory.new),
        }
        notes = {**refined.notes, **({"remembered": len(memory.recalled)} if memory.recalled else {})}
        return ShardResult(len(ids), tables, tokens=refined.tokens, notes=notes)

    def _remembered(self, keys: Sequence[int]) -> dict[int, Reading]:
        """The readings that earlier artifacts have, by their ids."""
        bases = read_bases(self.prepared_file(self._bases))
        if not (paths := [*whole_bases(self.store, bases)]):
            return {}
        with duckdb.connect() as connection:
            connection.register("due", pa.table({"id": pa.array(keys, pa.int64())}))
            connection.from_parquet([str(files.local(path)) for path in paths]).create_view("known")
            rows = connection.sql("SELECT DISTINCT ON (reading_id) * FROM known SEMI JOIN due ON reading_id = id")
            columns = rows.to_arrow_table().select(schemas.READINGS.names).to_pydict().values()
        return {key: Reading(np.array(values, np.float32), *cost) for key, values, *cost in zip(*columns, strict=True)}

    def _accounts(
        self, questions: list[int], hits: Sequence[Sequence[Hit]], refined: Refined, seconds: float, cpu: float
    ) -> list[dict[str, Any]]:
        """The rows of `refinements`. `seconds`, `cpu`: of all questions together."""
        given = [sum(count_tokens(hit.shown(self.config)) for hit in own) for own in hits]
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

    def _vectors(self, shard: int, hits: pa.Table, places: list[slice]) -> Vectors:
        """The index's vectors of the questions and of their hits."""
        column = self.inputs["question_vectors"].read(shard)["vector"].combine_chunks()
        questions = column.flatten().to_numpy().reshape(len(places), -1)
        if not len(hits):
            return Vectors(questions, [questions[:0]] * len(places))
        shards, ids = self._shards(hits["passage_id"].to_numpy()), hits["unit_id"].to_numpy()
        vectors = Units(self.inputs).vectors(hits["unit"][0].as_py(), shards, ids)
        return Vectors(questions, [vectors[place] for place in places])

    def _sentences(self, hits: pa.Table) -> dict[int, list[Span]]:
        """The sentences of the hits' passages, by passage; none where nothing needs them."""
        if "sentences" not in self.inputs:
            return {}
        passages = hits["passage_id"].to_numpy()
        return Units(self.inputs).sentences(self._shards(passages), passages)

    def _widened(self, hits: pa.Table, places: list[slice], sentences: Mapping[int, list[Span]]) -> pa.Table:
        """The hits as far as their contexts reach, one for each context, at the place of its best hit."""
        texts = self._texts(hits["passage_id"].to_numpy())
        spans = [*zip(hits["start"].to_pylist(), hits["end"].to_pylist(), strict=True)]
        retrieved = [*zip(hits["passage_id"].to_pylist(), spans, strict=True)]
        rows, ranges = [], []
        for place in places:
            own = retrieved[place]
            if self.config.window is not None:  # of text=window alone
                extents = windows(own, sentences, self.config.window)
            else:
                extents = parents(own, {passage: len(texts[passage]) for passage, _ in own})
            rows += [place.start + number for number, _ in extents]
            ranges += [span for _, span in extents]
        table = hits.take(pa.array(rows, pa.int64()))
        passages, own_texts = table["passage_id"].to_pylist(), table["text"].to_pylist()
        shown = [
            texts[passage][start:end] if start < end else text
            for passage, text, (start, end) in zip(passages, own_texts, ranges, strict=True)
        ]
        new = {"text": shown, "start": [start for start, _ in ranges], "end": [end for _, end in ranges]}
        for name, column in new.items():
            field = table.schema.field(name)
            table = table.set_column(table.schema.get_field_index(name), field, pa.array(column, field.type))
        return table

    def _texts(self, passages: NDArray[np.int64]) -> dict[int, str]:
        """The texts of passages, by their ids."""
        distinct = np.unique(passages)
        shards, units = self._shards(distinct), Units(self.inputs)
        places = np.array([units.place(int(s), int(p)) for s, p in zip(shards, distinct, strict=True)], np.int64)
        texts = units.take("passages", shards, places, ["text"])["text"].to_pylist()
        return dict(zip(distinct.tolist(), texts, strict=True))

    def _shards(self, passages: NDArray[np.int64]) -> NDArray[np.int64]:
        return shard_of(passages, len(self.inputs["passages"].completed().shards))


def _read(corpus: Mapping[str, Artifact], options: RefineConfig, needs_sentences: bool) -> dict[str, Artifact]:
    """What contexts need of the corpus besides the hits. Raises ConfigError."""
    sentences = options.text == "window" or needs_sentences
    roles = [*(["passages"] if options.is_wider or sentences else []), *(["sentences"] if sentences else [])]
    if missing := [role for role in roles if role not in corpus]:
        raise ConfigError(
            f"refine.refiner={options.refiner} with refine.text={options.text} needs {missing[0]}, but this "
            f"index has no {missing[0]}"
        )
    return {role: corpus[role] for role in roles}


def _models(method: Mapping[str, Any]) -> set[str]:
    """Fingerprints of a refiner's models: what a manifest says of one has lists for tuples."""
    return {fingerprint(model=method[role]) for role in MODELS if role in method}


def _readings(new: Mapping[int, Reading]) -> dict[str, pa.Table]:
    """The table `readings`, of a refiner that has any."""
    rows = [
        {"reading_id": key, "reading": reading.values, **dict(zip(_COST, reading[1:], strict=True))}
        for key, reading in sorted(new.items())
    ]
    return {"readings": pa.Table.from_pylist(rows, schemas.READINGS)} if rows else {}


_COST = ("tokens", "seconds", "cpu_seconds")


def _hit(row: dict[str, Any], sentences: Mapping[int, list[Span]], gold: frozenset[int]) -> Hit:
    own = inside(sentences.get(row["passage_id"], ()), (row["start"], row["end"]))
    return Hit(**row, sentences=own, is_gold=row["passage_id"] in gold)


def _places(hits: pa.Table, questions: list[int]) -> list[slice]:
    """The slice of every question's hits, which are adjacent, best first; an empty slice if it has none."""
    counts = {question: len([*rows]) for question, rows in groupby(hits["question_id"].to_pylist())}
    ends = dict(zip(counts, accumulate(counts.values()), strict=True))
    return [slice(ends.get(question, 0) - counts.get(question, 0), ends.get(question, 0)) for question in questions]


def _row(question: int, rank: int, evidence: Evidence) -> dict[str, Any]:
    origin = [dict(zip(("passage_id", "start", "end"), span, strict=True)) for span in evidence.origin]
    return {"question_id": question, "rank": rank, "text": evidence.text, "tokens": evidence.tokens, "origin": origin}
