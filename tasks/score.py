"""score: questions, hits, evidence, candidates → scores and summaries.

A metric of single questions is summarised from its rows in `scores` alone, so shards can be scored separately and at
any time. A metric of the whole corpus (MAUVE) needs all cases, but only their questions, gold answers and answers.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from vitalfew.configs.evaluation import ScoreConfig
from vitalfew.configs.schema import Unit
from vitalfew.storage import files, schemas
from vitalfew.storage.artifacts import Artifact, ShardRecord
from vitalfew.storage.costs import charge, read_prices
from vitalfew.storage.ids import shard_of
from vitalfew.storage.indexes.units import Passages, table_of
from vitalfew.tasks.datasets.base import Span
from vitalfew.tasks.generators.base import Rating
from vitalfew.tasks.metrics.base import CONTEXTS, GOLD_SENTENCES, GOLD_TEXTS, REFINEMENTS, Answer, Case, Refinement
from vitalfew.tasks.metrics.tables import make_metrics, metrics_identity, score_cases, summarise
from vitalfew.tasks.refiners.base import Context, Hit
from vitalfew.tasks.stage import Progress, ShardResult, Stage

_STEPS = ("kv_tokens", "init_seconds", "prefill_seconds", "copy_seconds", "decode_seconds")
_ANSWER = ("text", "prompt_tokens", "completion_tokens", "cached_tokens", "seconds", "error", *_STEPS)

Rows = dict[int, list[dict[str, Any]]]
"""A table's rows by question, in their order."""


class Score(Stage):
    """Stage `score` over `asked` and its results, any of `results`. A question that `perturb` rejected counts where
    metrics are of its hits alone."""

    name: ClassVar[str] = "score"
    table: ClassVar[str] = "scores"
    over: ClassVar[str] = "asked"
    version: ClassVar[str] = "4"  # since 4, with cached tokens; 3, a context has the shown part of a sentence
    section: ClassVar[str] = "score"
    results: ClassVar[tuple[str, ...]] = (
        "hits", "labels", "perturbed", "evidence", "appraisals", "candidates", "likelihoods", "answers", "verdicts",
    )  # fmt: skip
    """The tables that a metric may ask for."""

    def __init__(
        self,
        store: Path,
        asked: Artifact,
        results: Mapping[str, Artifact],
        corpus: Mapping[Unit, Artifact],
        config: ScoreConfig,
    ) -> None:
        """`results`: by table; `corpus`: the units of the index that was searched. Raises UnknownName, ConfigError."""
        self.metrics = make_metrics(config)
        self.corpus = dict(corpus)
        super().__init__(
            store, {"asked": asked, **results, **{table_of(unit): units for unit, units in corpus.items()}}, config
        )

    config: ScoreConfig

    def method_identity(self) -> dict[str, Any]:
        return metrics_identity(self.metrics)

    def work(self, shard: int, progress: Progress) -> ShardResult:
        cases = self._cases(shard)
        progress(len(cases), 0)
        return ShardResult(len(cases), {"scores": score_cases(self.metrics, [*cases], [*cases.values()])})

    def conclude(self, records: Sequence[ShardRecord]) -> Mapping[str, pa.Table]:
        rows = pa.concat_tables(self.artifact.read(record.shard) for record in records)
        of_all = any(metric.corpus for metric in self.metrics.values())
        cases = [case for record in records for case in self._answered(record.shard)] if of_all else []
        questions = sum(record.rows_in for record in records)
        return {"summaries": summarise(self.metrics, rows, questions, cases)}

    def _answered(self, shard: int) -> Iterator[Case]:
        """Cases with questions, answers and where contexts come from: enough for a metric of all answers, and small
        enough for memory."""
        results = self._results(shard)
        contexts = self._rows("evidence", shard) if self._needs(CONTEXTS, corpus=True) else {}
        for row in self.inputs["asked"].read(shard).to_pylist():
            key, gold = row["question_id"], tuple(row["gold_passages"])
            shown = tuple(Context("", 0, _origin(context)) for context in contexts.get(key, ()))
            yield Case(row["text"], tuple(row["answers"]), gold, (), contexts=shown, **results.get(key, {}))

    def _cases(self, shard: int) -> dict[int, Case]:
        """All of the shard's questions, by id."""
        hits, given, evidence = (self._rows(table, shard) for table in ("hits", "perturbed", "evidence"))
        results, rejected = self._results(shard), self._rejected(shard)
        rejected |= {key for key, row in self._received(shard).items() if not row["with_contexts"]}
        cases = {}
        for row in self.inputs["asked"].read(shard).to_pylist():
            key = row["question_id"]
            with_contexts = "evidence" in self.inputs and key not in rejected
            cases[key] = Case(
                question=row["text"],
                answers=tuple(row["answers"]),
                gold_passages=tuple(row["gold_passages"]),
                supporting_facts=tuple(Span(**span) for span in row["supporting_facts"]),
                hits=tuple(map(_hit, hits.get(key, ()))) if "hits" in self.inputs else None,
                given=tuple(map(_hit, given.get(key, ()))) if "perturbed" in self.inputs else None,
                contexts=tuple(map(self._context, evidence.get(key, ()))) if with_contexts else None,
                gold_groups=tuple(row["gold_groups"]),
                gold_grades=tuple(row["gold_grades"]),
                **self._of_gold(row["gold_passages"]),
                **results.get(key, {}),
            )
        return cases

    def _of_gold(self, passages: Sequence[int]) -> dict[str, Any]:
        """The words and the texts of every gold passage's sentences, as far as metrics ask for them and the index has
        them."""
        found: dict[str, Any] = {}
        if "sentence" in self.corpus and self._needs(GOLD_SENTENCES):
            found["gold_sentences"] = tuple(tuple(words for *_, words in self._parts(number)) for number in passages)
        if self.corpus.keys() >= {"sentence", "passage"} and self._needs(GOLD_TEXTS):
            rows = {number: row for number in passages if (row := self._passages.find(number))}
            found["gold_texts"] = tuple(
                tuple(row["text"][start:end] for start, end, _ in self._parts(number)) for number, row in rows.items()
            )
        return found

    @cached_property
    def _passages(self) -> Passages:
        return Passages(self.corpus["passage"])

    def _needs(self, what: str, corpus: bool = False) -> bool:
        """Whether a metric, or a metric of all answers, needs this of a question."""
        metrics = [metric for metric in self.metrics.values() if metric.corpus or not corpus]
        return any(what in column.needs for metric in metrics for column in metric.columns())

    def _rejected(self, shard: int) -> set[int]:
        """The questions that `perturb` could not give what was asked for: they have no row there."""
        if "perturbed" not in self.inputs or not self.inputs["perturbed"].completed().rows["rejects"]:
            return set()
        asked, left = (
            self.inputs[role].read(shard, columns=["question_id"])["question_id"].to_pylist()
            for role in ("asked", "perturbed")
        )
        return {*asked} - {*left}

    def _results(self, shard: int) -> dict[int, dict[str, Any]]:
        """By question, the fields of a case about its refining, answers and labels, as far as there are any."""
        results, answers = defaultdict[int, dict[str, Any]](dict), self._rows("answers", shard)
        evidence = self.inputs.get("evidence")
        if evidence and self._needs(REFINEMENTS):
            for row in evidence.read(shard, "refinements", ["question_id", *Refinement.__slots__]).to_pylist():
                key = row.pop("question_id")
                results[key]["refinement"] = Refinement(**row)
        for key, (row,) in self._rows("appraisals", shard).items():
            if not row["error"]:
                results[key]["appraisal"] = row["faithfulness"], row["completeness"]
        for key, (row,) in self._rows("likelihoods", shard).items():
            if not row["error"]:
                results[key]["likelihood"] = row["nats"], row["tokens"]
        for key, (row,) in self._rows("verdicts", shard).items():
            results[key]["verdict"] = row["correct"], row["supported"], row["preferred"]
        for key, rows in self._rows("candidates", shard).items():
            every = [self._answer(row) for row in rows]
            selected = [every[row["candidate"]] for row in answers[key]] if answers else every[:1]
            answer = _at_the_cost_of(every, selected[0])
            results[key] |= {"answer": answer, "selected": tuple(selected), "candidates": tuple(every)}
        for key, row in self._received(shard).items():
            unknown = tuple(name for name in ("prompt_tokens", "completion_tokens", "seconds") if row[name] is None)
            answer = results[key]["answer"]
            usd = answer.usd if row["usd"] is None and self._has_price else row["usd"]
            results[key]["answer"] = replace(answer, unknown=(*unknown, "cached_tokens"), usd=usd)
        for key in self._rejected(shard):
            results.pop(key, None)
        for key, rows in self._rows("labels", shard).items():
            known = ((row["passage_id"], row["label"]) for row in rows if row["label"] is not None)
            results[key]["labels"] = tuple(known)
        return results

    def _rows(self, table: str, shard: int) -> Rows:
        """The table's rows by question, in their order; none without the table."""
        import polars as pl

        if table not in self.inputs:
            return {}
        return pl.DataFrame(self.inputs[table].read(shard)).rows_by_key("question_id", named=True)

    @cached_property
    def _shards(self) -> int:
        """The number of the sentences' shards: ranges of passage ids, sorted by them."""
        return len(self.corpus["sentence"].completed().shards)

    def _context(self, row: dict[str, Any]) -> Context:
        """A context with the sentences that its origin touches, as far as it shows them."""
        origin = _origin(row)
        sentences = tuple(
            (passage, max(start, first), min(end, last))
            for passage, first, last in (origin if "sentence" in self.corpus else ())  # else they are unknown
            for start, end, _ in self._parts(passage)
            if start < last and end > first
        )
        return Context(row["text"], row["tokens"], origin, row["score"], sentences)

    def _received(self, shard: int) -> dict[int, dict[str, Any]]:
        """By question, what its answer came with, where another system gave it; else nothing."""
        candidates = self.inputs.get("candidates")
        if candidates is None or not candidates.completed().rows.get("received"):
            return {}
        columns = [field.name for field in schemas.RECEIVED if field.name != "contexts"]
        return {row["question_id"]: row for row in candidates.read(shard, "received", columns).to_pylist()}

    def _answer(self, row: dict[str, Any]) -> Answer:
        tokens = row["prompt_tokens"] + row["completion_tokens"]
        usd = charge(0.0, 0.0, tokens, *self._generated, cached=row["cached_tokens"])
        rated = tuple(Rating(**{name: one[name] for name in Rating.__slots__}) for one in row["ratings"])
        kept = sum(one.kept for one in rated) if rated else len(row["contexts"])
        return Answer(**{name: row[name] for name in _ANSWER}, usd=usd, kept=kept, ratings=rated)

    def _parts(self, passage: int) -> list[list[int]]:
        """Start, end and words of every sentence of a passage; none where the index does not hold it."""
        parts = _parts(self.corpus["sentence"].path(int(shard_of(np.array(passage), self._shards))))
        first, last = np.searchsorted(parts[:, 0], [passage, passage + 1])
        return parts[first:last, 1:].tolist()

    @cached_property
    def _has_price(self) -> bool:
        model, day = self._generated
        return read_prices(day).listed(model) is not None

    @cached_property
    def _generated(self) -> tuple[str | None, date]:
        """The model that answered, and the day; both determine the price."""
        manifest = self.inputs["candidates"].completed()
        return manifest.model, datetime.fromisoformat(manifest.completed).date()


def _origin(row: dict[str, Any]) -> tuple[tuple[int, int, int], ...]:
    """The sources of a context: passage, start, end."""
    return tuple((span["passage_id"], span["start"], span["end"]) for span in row["origin"])


def _at_the_cost_of(candidates: Sequence[Answer], answer: Answer) -> Answer:
    """An answer with the tokens, the time and the price of all candidates."""
    names = ("prompt_tokens", "completion_tokens", "cached_tokens", "seconds", "usd")
    return replace(answer, **{name: sum(getattr(candidate, name) for candidate in candidates) for name in names})


def _hit(row: dict[str, Any]) -> Hit:
    return Hit(row["title"], row["text"], row["passage_id"], row["start"], row["end"], score=row["score"])


@lru_cache(64)
def _parts(path: Path) -> np.ndarray:
    """(sentences of a shard, 4) int64: passage, start, end, words."""
    table = files.read_table(path, columns=["passage_id", "start", "end", "tokens"])
    return np.stack([column.to_numpy().astype(np.int64) for column in table.columns], axis=1)
