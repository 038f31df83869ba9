"""judge: question, gold answers, answer and contexts → verdicts. A verdict that this judge gave before, on the same
answer, is not asked for again, whichever method or run answered."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar

import pyarrow as pa

from vitalfew.configs.evaluation import JudgeConfig
from vitalfew.storage import files, schemas
from vitalfew.storage.artifacts import Artifact, fingerprint
from vitalfew.storage.costs import Cost, Reused
from vitalfew.storage.ids import content_id
from vitalfew.storage.manifests import File
from vitalfew.tasks.rate import Cases, Rate, Row
from vitalfew.tasks.raters.base import Judgement, RatedContext
from vitalfew.tasks.stage import ANSWERED, FurtherStage, Progress, ReusingStage, ShardResult

KEYS = {"correct": "correct_id", "supported": "supported_id"}
"""The verdicts, and the columns with the ids of what they are about."""
_CORRECT = "correct: "
Known = Mapping[str, Mapping[int, Row]]
"""By verdict and the id of what it is about: rows of earlier work, with the places of their files."""


class Judge(Rate, ReusingStage, FurtherStage):
    """Judges the answers that were chosen: are they correct by the gold answers, supported by the contexts shown?

    The first of a set of answers is judged. `correct`: 1 or 0; NULL for a question without gold answers. `supported`:
    the share of an answer's claims that the contexts support; NULL without contexts or claims. Either is NULL after an
    error, and `error` says why. A case without gold answers, or without contexts, is one that needs no such verdict.
    """

    name: ClassVar[str] = "judge"
    table: ClassVar[str] = "verdicts"
    section: ClassVar[str] = "judge"
    after: ClassVar[str] = ANSWERED
    reads: ClassVar[tuple[str, ...]] = ("asked", "candidates")
    also_reads: ClassVar[tuple[str, ...]] = ("evidence", "answers")
    Options = JudgeConfig
    role: ClassVar[str | None] = "judge"
    shared: ClassVar[bool] = False  # its model makes room for the generator's
    schema = schemas.VERDICTS
    scores: ClassVar[tuple[str, ...]] = ()  # either may be missing
    most: ClassVar[float] = 1

    @property
    def model_name(self) -> str | None:
        """By the engine, where the judge has one: a server's price is that of its model, whatever it is asked."""
        engine, model = getattr(self.config, "engine", None), getattr(self.config, "model", None)
        return f"{engine}:{model}" if engine and model else super().model_name

    def cases(self, shard: int) -> tuple[int, Cases]:
        asked = self.inputs["asked"].read(shard, columns=["question_id", "text", "answers"]).to_pylist()
        contexts: dict[tuple[int, int], str] = {}
        if "evidence" in self.inputs:
            evidence = self.inputs["evidence"].read(shard, columns=["question_id", "rank", "text"])
            contexts = {(row["question_id"], row["rank"]): row["text"] for row in evidence.to_pylist()}
        answers = self._answers(shard)
        cases: Cases = []
        for question in asked:
            number = question["question_id"]
            answer = answers[number]
            case = RatedContext(
                question=question["text"],
                answer=answer["text"],
                answers=tuple(question["answers"]),
                hits=tuple(contexts[number, rank] for rank in answer["contexts"]),
            )
            key = {"question_id": number, "candidate": answer["candidate"]}
            failed = f"no answer: {answer['error']}" if answer["error"] else ""
            cases.append((key, failed) if failed else ({**key, **self._ids(case)}, case))
        return len(asked), cases

    def _answers(self, shard: int) -> dict[int, Row]:
        """The candidate that answers, by question: the first chosen, or the only one."""
        candidates = self.inputs["candidates"].read(shard).to_pylist()
        chosen: dict[int, int] = {}
        if "answers" in self.inputs:
            for row in self.inputs["answers"].read(shard, columns=["question_id", "candidate"]).to_pylist():
                chosen.setdefault(row["question_id"], row["candidate"])
        return {row["question_id"]: row for row in candidates if row["candidate"] == chosen.get(row["question_id"], 0)}

    def _ids(self, case: RatedContext) -> Row:
        """The ids of what the verdicts are about; None for one that is not asked for."""
        about = {"correct": case.answers, "supported": case.hits}
        return {
            KEYS[name]: content_id(self._judging, name, case.question, case.answer, *texts) if texts else None
            for name, texts in about.items()
        }

    @cached_property
    def _judging(self) -> str:
        """The fingerprint of everything that a verdict depends on besides the case."""
        return fingerprint(config=self.config_identity(), method=self.planned)

    def reusable(self) -> list[File]:
        """The files with this judge's verdicts, in finished artifacts."""
        own = fingerprint(method=self.planned)
        same = (each for each in self.finished(self.table) if fingerprint(method=each.method) == own)
        return [file for manifest in same for file in manifest.files() if file.table == self.table]

    def work(self, shard: int, progress: Progress) -> ShardResult:
        rows_in, cases = self.cases(shard)
        bases = self.bases(self.table)
        known = self._known(cases, bases)
        result = self.rated(rows_in, [(key, _left(key, case, known)) for key, case in cases], progress)
        rows = [_with_known(row, known) for row in result.tables[self.table].to_pylist()]
        taken = Counter(
            found["place"] for row in rows for name in KEYS if (found := known[name].get(row[KEYS[name]] or 0))
        )
        reused = sum((self._each(bases[place]) * count for place, count in taken.items()), Reused())
        notes = {**result.notes, "reused": taken.total()}
        return replace(result, tables={self.table: pa.Table.from_pylist(rows, self.schema)}, notes=notes, reused=reused)

    def _known(self, cases: Cases, bases: list[File]) -> Known:
        """The verdicts of earlier work. That an answer claims nothing is a verdict; an error does not count."""
        known = {}
        for name, key in KEYS.items():
            ids = [number for row, _ in cases if (number := row.get(key)) is not None]
            query = (
                f"SELECT DISTINCT ON ({key}) * FROM earlier SEMI JOIN due ON {key} = id "
                f"WHERE {name} IS NOT NULL OR error = ''"
            )
            known[name] = {row[key]: row for row in self.rows_of(bases, self.schema, query, ids)}
        return known

    def _each(self, base: File) -> Reused:
        """The mean cost of a verdict in a file of earlier work."""
        manifest = Artifact(self.store, *base.path.split("/")[:2]).recorded_manifest()
        records = manifest.shards if manifest else []
        cost = next((record.cost for record in records if base.path in {file.path for file in record.files}), Cost())
        given = files.read_table(self.store / base.path, [*KEYS.values()])
        count = sum(len(column) - column.null_count for column in given.columns)
        return Reused(
            cost.tokens + cost.reused_tokens,
            cost.wall_seconds + cost.reused_wall_seconds,
            cost.cpu_seconds + cost.reused_cpu_seconds,
        ) * (1 / max(1, count))

    def columns(self, judgement: Judgement) -> Row:
        """One verdict stays if the other is an error."""
        return {**judgement.scores, "explanation": judgement.explanation}


def _left(key: Row, case: RatedContext | str, known: Known) -> RatedContext | str:
    """A case without the verdicts that are known."""
    if isinstance(case, str):
        return case
    correct, supported = (key[KEYS[name]] in known[name] for name in KEYS)
    return replace(case, answers=() if correct else case.answers, hits=() if supported else case.hits)


def _with_known(row: Row, known: Known) -> Row:
    """A row with the verdicts of earlier work, and their lines of the explanation."""
    lines: dict[str, list[str]] = {}
    whole: dict[str, Any] = dict(row)
    for name, key in KEYS.items():
        earlier = known[name].get(row[key] or 0)
        whole[name] = (earlier or row)[name]
        said = ((earlier or row)["explanation"] or "").splitlines()
        lines[name] = [line for line in said if line.startswith(_CORRECT) == (name == "correct")]
    return {**whole, "explanation": "\n".join(line for said in lines.values() for line in said)}
