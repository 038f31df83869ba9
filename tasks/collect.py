"""collect: hits → `gold_contexts`, `oreo_examples`, `rejects`: evidence texts for Oreo to learn to write.

A collector writes a text for every question, which is curated (trainers/oreo/collector.py). Every question becomes an
example or a reject: asked = examples + rejects. Examples are split as for the reader (trainers/splits.py): the same
settings on the same articles hold the same ones out. By article no chunk of an example to learn from comes from an
article that is held out or chooses; by question and file chunks are what was retrieved.
"""

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import pyarrow as pa

from vitalfew.configs.training import PARTS, CollectConfig
from vitalfew.storage import files, schemas
from vitalfew.storage.artifacts import Artifact, Manifest
from vitalfew.storage.indexes.units import Passages
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.models.ticks import Counted
from vitalfew.tasks.refiners.base import Hit
from vitalfew.tasks.stage import MethodStage, Progress, RowsLost, ShardResult
from vitalfew.tasks.trainers.oreo.collector import KEPT, REASONS, Collector, OreoExample, Output, collected, unfit
from vitalfew.tasks.trainers.splits import Apart, SplitRule, TrainingSplit, question_group

LEARN, CHOOSE, HELD_OUT = "learn", "choose", "held_out"


class Collect(MethodStage):
    """Stage `collect` over the hits of a method, by one collector."""

    name: ClassVar[str] = "collect"
    table: ClassVar[str] = "oreo_examples"
    over: ClassVar[str] = "hits"
    counts: ClassVar[str] = "asked"
    section: ClassVar[str] = "collect"
    role: ClassVar[str | None] = "collector"
    shared: ClassVar[bool] = False  # its model makes room for the trainings

    def __init__(
        self,
        store: Path,
        asked: Artifact,
        hits: Artifact,
        passages: Artifact,
        config: CollectConfig,
        apart: Mapping[str, Artifact] = MappingProxyType({}),
    ) -> None:
        """`passages`: the load artifact of the index that was searched; `apart`: those of the data sets that are not
        learnt from (`held_out`, `choosing`), whose questions are asked too. Raises UnknownName, ConfigError, and what
        the collector's constructor raises."""
        super().__init__(store, {"asked": asked, "hits": hits, "passages": passages, **apart}, config)

    config: CollectConfig
    method: Collector

    def prepare(self, progress: Progress) -> None:
        """Split the questions. Raises InputError if they are too few."""
        asked = self.inputs["asked"]
        columns = ["text", "gold_passages"]
        rows = [row for shard in self.shards() for row in asked.read(shard, columns=columns).to_pylist()]
        rule = SplitRule(self.config, self.config.seed, read_apart(self.inputs), self.section)
        split = rule.split(self._groups(rows, rule))
        files.write_json(split_file(self.artifact), {HELD_OUT: split.held_out, CHOOSE: split.choosing, "by": split.by})

    def _groups(self, asked: list[dict[str, Any]], rule: SplitRule) -> list[str]:
        """The groups of the questions, by which they are split."""
        passages = Passages(self.inputs["passages"])
        first = ((row["text"], row["gold_passages"][:1]) for row in asked)
        return [rule.group(text, passages.title(*gold) if gold else "") for text, gold in first]

    def prepared(self) -> list[Path]:
        return [split_file(self.artifact)]

    def work(self, shard: int, progress: Progress) -> ShardResult:
        asked = self.inputs["asked"].read(shard).to_pylist()
        cases = self._cases(shard, asked)
        reasons = [unfit(case, self.config.question_tokens) for case in cases]
        due = [number for number, reason in enumerate(reasons) if not reason]
        tick = Counted(progress)
        progress(len(cases) - len(due), 0)
        made = collected(self.method, [cases[number] for number in due], self.config.target_tokens, tick)
        attempts = dict(zip(due, made, strict=True))
        contexts, examples, rejects = [], [], []
        for number, row in enumerate(asked):
            own = attempts.get(number, [])
            key = {"question_id": row["question_id"], "collector": self.config.collector}
            contexts += [
                {**key, "attempt": place, "verdict": verdict, **output._asdict()}
                for place, (output, verdict) in enumerate(own)
            ]
            reason = own[-1].verdict if own else reasons[number]
            if reason == KEPT:
                examples.append(_example(cases[number], len(own) - 1, own[-1].output))
            else:
                place = {"stage": self.name, "source": row["source"], "offset": row["question_id"]}
                detail = own[-1].output.error if own else ""
                rejects.append({**place, "reason": reason, "detail": detail or REASONS[reason]})
        return ShardResult(
            len(asked),
            {
                self.table: pa.Table.from_pylist(examples, schemas.OREO_EXAMPLES),
                "gold_contexts": pa.Table.from_pylist(contexts, schemas.GOLD_CONTEXTS),
                "rejects": pa.Table.from_pylist(rejects, schemas.REJECTS),
            },
            tokens=tick.tokens,
            notes={reason: sum(row["reason"] == reason for row in rejects) for reason in REASONS},
        )

    def _cases(self, shard: int, asked: list[dict[str, Any]]) -> list[OreoExample]:
        """The questions with the first of their hits, and their part of the split; those to learn from without hits of
        unseen articles."""
        columns = ["title", "text", "passage_id", "start", "end"]
        hits = self.inputs["hits"].read(shard, columns=["question_id", *columns]).to_pylist()
        of_question = {number: [*rows] for number, rows in groupby(hits, key=lambda row: row["question_id"])}
        split = read_split(self.artifact)
        parts = dict.fromkeys(split.held_out, HELD_OUT) | dict.fromkeys(split.choosing, CHOOSE)
        unseen = split.unseen if split.by == "article" else set()
        cases = []
        groups = self._groups(asked, SplitRule(self.config, self.config.seed))
        for row, group in zip(asked, groups, strict=True):
            part, own = parts.get(group, LEARN), of_question.get(row["question_id"], [])
            seen = [hit for hit in own if part != LEARN or hit["title"] not in unseen][: self.config.top_k]
            title = {} if self.config.titles else {"title": ""}
            chunks = tuple(Hit(**({name: hit[name] for name in columns} | title)) for hit in seen)
            facts = tuple((fact["passage_id"], fact["start"], fact["end"]) for fact in row["supporting_facts"])
            answers, number = tuple(row["answers"]), row["question_id"]
            cases.append(OreoExample(row["text"], answers, chunks, facts, number, split=part))
        return cases

    def check(self, manifest: Manifest) -> None:
        """Raises InputError where no example is left, with the counts of the reasons."""
        kept, rejected = manifest.rows[self.table], manifest.rows["rejects"]
        if manifest.rows_in != kept + rejected:
            raise RowsLost(f"collect read {manifest.rows_in} questions and wrote {kept} examples, {rejected} rejects")
        if not kept:
            counts = {reason: sum(record.notes[reason] for record in manifest.shards) for reason in REASONS}
            why = ", ".join(f"{count} {reason}" for reason, count in counts.items() if count)
            raise InputError(f"collect: none of {rejected} questions became an example: {why}")


def _example(case: OreoExample, attempt: int, output: Output) -> dict[str, Any]:
    """A row of `oreo_examples`."""
    return {
        "question_id": case.question_id,
        "question": case.question,
        "answers": list(case.answers),
        "chunks": [{name: getattr(chunk, name) for name in ("passage_id", "title", "text")} for chunk in case.chunks],
        "target": output.text,
        "copied": [run._asdict() for run in output.copied],
        "attempt": attempt,
        "split": case.split,
    }


def split_file(collected: Artifact) -> Path:
    return collected.file("split.json")


def read_split(collected: Artifact) -> TrainingSplit:
    """The split of the questions. Raises Damaged."""
    split = files.read_json(collected.prepared_file(split_file(collected)))
    return TrainingSplit(tuple(split[HELD_OUT]), tuple(split[CHOOSE]), split.get("by", "article"))


def read_apart(inputs: Mapping[str, Artifact]) -> Apart:
    """The content of the data sets that are not learnt from, which are among a stage's inputs by their part."""
    parts = {role: inputs[role] for role in reversed(PARTS) if role in inputs}  # what is in both is held out
    questions = {
        question_group(text): role
        for role, artifact in parts.items()
        for text in read_whole(artifact, "questions")["text"].to_pylist()
    }
    passages = {
        number: role
        for role, artifact in parts.items()
        for number in read_whole(artifact, "passages")["passage_id"].to_pylist()
    }
    return Apart(questions, passages)


def read_whole(artifact: Artifact, table: str) -> pa.Table:
    """All rows of a table."""
    return pa.concat_tables([artifact.read(record.shard, table) for record in artifact.completed().shards])
