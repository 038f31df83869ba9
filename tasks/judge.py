"""judge: question, gold answers, answer and contexts → verdicts. A verdict that this judge gave before, on the same
answer, is not asked for again, whichever method or run answered; nor is a preference between the same two answers."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa

from vitalfew.configs.evaluation import JudgeConfig
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact, fingerprint
from vitalfew.storage.costs import Reused
from vitalfew.storage.ids import content_id
from vitalfew.tasks.rate import Cases, Rate, Row
from vitalfew.tasks.raters.base import NO_ANSWER, Judgement, RatedContext
from vitalfew.tasks.stage import ANSWERED, BASELINE, FurtherStage, Progress, ReusingStage, ShardResult

KEYS = {"correct": "correct_id", "preferred": "preferred_id", "supported": "supported_id"}
"""The verdicts, and the columns with the ids of what they are about."""
Known = Mapping[str, Mapping[int, Row]]
"""By verdict and the id of what it is about: rows of earlier work, with the places of their files."""


class Judge(Rate, ReusingStage, FurtherStage):
    """Judges the answers that were chosen: are they correct by the gold answers, supported by the contexts shown, and,
    if that is asked for, better than the baseline's?

    The first of a set of answers is judged. `correct`: 1 or 0; NULL for a question without gold answers. `supported`:
    the share of an answer's claims that the contexts support; NULL without contexts or claims. `preferred`: 1, 0, or
    0.5 for a tie; NULL where the baseline has no answer. Nobody is asked about answers that are alike, which tie, as
    the baseline's do with themselves, and about an empty one, which loses to any other. A verdict is NULL after an
    error, and `error` says why. A case that lacks gold answers, contexts or another answer needs no such verdict.
    """

    name: ClassVar[str] = "judge"
    table: ClassVar[str] = "verdicts"
    section: ClassVar[str] = "judge"
    after: ClassVar[str] = ANSWERED
    reads: ClassVar[tuple[str, ...]] = ("asked", "candidates")
    also_reads: ClassVar[tuple[str, ...]] = (
        "evidence", "answers", *(BASELINE + table for table in ("candidates", "evidence", "answers"))
    )  # fmt: skip
    Options = JudgeConfig
    config: JudgeConfig
    role: ClassVar[str | None] = "judge"
    priced: ClassVar[str] = "engine"  # a server's price is that of its model, whatever it is asked
    shared: ClassVar[bool] = False  # its model makes room for the generator's
    schema = schemas.VERDICTS
    scores: ClassVar[tuple[str, ...]] = ()  # either may be missing
    most: ClassVar[float] = 1

    def __init__(self, store: Path, inputs: Mapping[str, Artifact], config: JudgeConfig) -> None:
        """Raises UnknownName, ConfigError, EngineUnavailable."""
        read = {role: own for role, own in inputs.items() if config.preferred or not role.startswith(BASELINE)}
        super().__init__(store, read, config)

    def cases(self, shard: int) -> tuple[int, Cases]:
        asked = self.inputs["asked"].read(shard, columns=["question_id", "text", "answers"]).to_pylist()
        answers = self._answers(shard)
        others = self._answers(shard, BASELINE) if BASELINE + "candidates" in self.inputs else {}
        cases: Cases = []
        for question in asked:
            number = question["question_id"]
            answer, other = answers[number], others.get(number)
            key = {"question_id": number, "candidate": answer["candidate"]}
            if answer["error"]:
                cases.append((key, f"{NO_ANSWER}{answer['error']}"))
                continue
            case = RatedContext(
                question=question["text"],
                answer=answer["text"],
                answers=tuple(question["answers"]),
                hits=answer["hits"],
            )
            if other and not other["error"]:
                key["preferred"] = preferred = _without_asking(answer["text"], other["text"])
                if preferred is None:
                    texts = tuple(sorted({*answer["hits"], *other["hits"]}))  # whose they are shows in no order
                    case = replace(case, other=RatedContext(question["text"], answer=other["text"], hits=texts))
            cases.append(({**key, **self._ids(case)}, case))
        return len(asked), cases

    def _answers(self, shard: int, whose: str = "") -> dict[int, Row]:
        """The candidate that answers, by question: the first chosen, or the only one; with the contexts of its prompt,
        `hits`. `whose`: BASELINE for those of the baseline."""
        contexts = self.contexts(shard, whose)
        chosen: dict[int, int] = {}
        if answers := self.inputs.get(f"{whose}answers"):
            for row in answers.read(shard, columns=["question_id", "candidate"]).to_pylist():
                chosen.setdefault(row["question_id"], row["candidate"])
        return {
            (key := row["question_id"]): {**row, "hits": tuple(contexts[key][rank - 1] for rank in row["contexts"])}
            for row in self.inputs[f"{whose}candidates"].read(shard).to_pylist()
            if row["candidate"] == chosen.get(row["question_id"], 0)
        }

    def _ids(self, case: RatedContext) -> Row:
        """The ids of what the verdicts are about; None for one that is not asked for."""
        both = (case.other.answer, *case.other.hits) if case.other else ()
        about = {"correct": case.answers, "preferred": both, "supported": case.hits}
        return {
            KEYS[name]: content_id(self._judging, name, case.question, case.answer, *texts) if texts else None
            for name, texts in about.items()
        }

    @cached_property
    def _judging(self) -> str:
        """The fingerprint of everything that a verdict depends on besides the case."""
        config = {name: value for name, value in self.config_identity().items() if name != "preferred"}
        return fingerprint(config=config, method=self.planned)

    def work(self, shard: int, progress: Progress) -> ShardResult:
        rows_in, cases = self.cases(shard)
        known = self._known(cases)
        result = self.rated(rows_in, [(key, _left(key, case, known)) for key, case in cases], progress)
        rows = [_with_known(row, known) for row in result.tables[self.table].to_pylist()]
        taken = Counter(
            found["place"] for row in rows for name in KEYS if (found := known[name].get(row[KEYS[name]] or 0))
        )
        reused = sum((self._each(place) * count for place, count in taken.items()), Reused())
        notes = {**result.notes, "reused": taken.total()}
        return replace(result, tables={self.table: pa.Table.from_pylist(rows, self.schema)}, notes=notes, reused=reused)

    def _known(self, cases: Cases) -> Known:
        """The verdicts of earlier work. That an answer claims nothing is a verdict; an error does not count."""
        known = {}
        for name, key in KEYS.items():
            ids = [number for row, _ in cases if (number := row.get(key)) is not None]
            known[name] = self.known(self.table, key, ids, where=f"{name} IS NOT NULL OR error = ''")
        return known

    def _each(self, place: int) -> Reused:
        """The mean cost of a verdict in a file of earlier work."""
        base = self.bases(self.table)[place]
        count = sum(len(column) - column.null_count for column in base.read([*KEYS.values()]).columns)
        return base.took * (1 / max(1, count))

    def columns(self, judgement: Judgement) -> Row:
        """One verdict stays if the other is an error."""
        return {**judgement.scores, "explanation": judgement.explanation}


def _without_asking(answer: str, other: str) -> float | None:
    """Return 1 for the better one of two answers, 0 for the worse, 0.5 for a tie, where that is plain; else None.

    Alike but for case, white space and a full stop at the end is a tie; an empty one is worse than any other."""
    own, theirs = (" ".join(text.casefold().split()).removesuffix(".") for text in (answer, other))
    if own == theirs:
        return 0.5
    return None if own and theirs else float(bool(own))


def _left(key: Row, case: RatedContext | str, known: Known) -> RatedContext | str:
    """A case without the verdicts that are known."""
    if isinstance(case, str):
        return case
    correct, preferred, supported = (key[KEYS[name]] in known[name] for name in KEYS)
    return replace(
        case,
        answers=() if correct else case.answers,
        hits=() if supported else case.hits,
        other=None if preferred else case.other,
    )


def _with_known(row: Row, known: Known) -> Row:
    """A row with the verdicts of earlier work, and their lines of the explanation."""
    lines: list[str] = []
    whole: dict[str, Any] = dict(row)
    for name, key in KEYS.items():
        said = known[name].get(row[key] or 0, row)
        whole[name] = said[name]
        lines += [line for line in (said["explanation"] or "").splitlines() if _is_about(name, line)]
    return {**whole, "explanation": "\n".join(lines)}


def _is_about(name: str, line: str) -> bool:
    """Return whether a line of an explanation is about a verdict; those of claims say how they were judged."""
    begins = line.partition(":")[0]
    return name == (begins if begins in KEYS else "supported")
