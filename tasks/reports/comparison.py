"""compare: two evaluations → the differences of their methods on the questions that both asked."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from vitalfew.configs.loading import few
from vitalfew.storage import files
from vitalfew.tasks.registry import method_named
from vitalfew.tasks.reports.runs import EvaluatedMethod, NoReport, find_run
from vitalfew.tasks.reports.shown.columns import costs, primary_metric
from vitalfew.tasks.reports.shown.tables import arrow_table, csv_bytes
from vitalfew.tasks.reports.shown.text import one_line, shortened
from vitalfew.tasks.reports.statistics.paired import Difference, corrected, paired_bootstrap

_NAME = 48
Sides = tuple[EvaluatedMethod, EvaluatedMethod]


@dataclass(frozen=True)
class Compared:
    """Two methods on `ids`, the questions that both were asked, ascending. `differences`: b minus a, by metric;
    `primary`: the metric that the first run is about, if both have it."""

    a: EvaluatedMethod
    b: EvaluatedMethod
    ids: npt.NDArray[np.int64]
    differences: dict[str, Difference]
    primary: str | None

    @property
    def labels(self) -> tuple[str, str]:
        return labels(self.a, self.b)

    def mean(self, side: EvaluatedMethod, metric: str) -> float | None:
        """Over the shared questions that both have a value for."""
        a, b = self.a.scores.of(metric, self.ids), self.b.scores.of(metric, self.ids)
        known = ~np.isnan(a) & ~np.isnan(b)
        return float((a if side is self.a else b)[known].mean()) if known.any() else None


def compare(store: Path, first: str, second: str) -> list[Compared]:
    """Compare methods of two runs, named as for `named_sides`. Raises NoReport where there is nothing to compare, with
    the reason."""
    return compared(named_sides(store, first, second))


def named_sides(store: Path, first: str, second: str) -> list[Sides]:
    """Methods of two runs, given as `RUN` (an id or an experiment's name) or `RUN:METHOD`; without a method all those
    that both have by one name. Raises NoReport where there are none."""
    a, b = NamedRun(store, first), NamedRun(store, second)
    if a.method or b.method:
        names = [(a.method or b.method, b.method or a.method)]
    elif a.run.run_id == b.run.run_id:
        names = []
    else:
        names = [(name, name) for name in a.names if name in b.names]
        if not names and len(a.names) == len(b.names) == 1:
            names = [(a.names[0], b.names[0])]
    names = [(old, new) for old, new in names if old in a.names and new in b.names]
    if not names or (a.run.run_id == b.run.run_id and names[0][0] == names[0][1]):
        raise NoReport(
            f"name the methods to compare, as {a.run.run_id}:METHOD. {a.given} has: {', '.join(a.names)}; "
            f"{b.given} has: {', '.join(b.names)}"
        )
    return [(a.sides[old], b.sides[new]) for old, new in names]


def labels(a: EvaluatedMethod, b: EvaluatedMethod) -> tuple[str, str]:
    """The methods' names, with the end of the run's id where they have one name."""
    ends = [f" …{each.run.run_id[-6:]}" if a.name == b.name else "" for each in (a, b)]
    first, second = (f"{shortened(one_line(each.name), _NAME)}{end}" for each, end in zip((a, b), ends, strict=True))
    return (first, second) if first != second else (f"{first} (1)", f"{second} (2)")


def compared(sides: Sequence[Sides]) -> list[Compared]:
    """The differences of pairs of methods, corrected for their number. Raises NoReport for two that share no
    question."""
    pairs = [_compared(a, b) for a, b in sides]
    of_costs = costs([pair.a.columns[metric] for pair in pairs for metric in pair.differences])
    adjusted = corrected([pair.differences for pair in pairs], pairs[0].primary, of_costs)
    return [replace(pair, differences=own) for pair, own in zip(pairs, adjusted, strict=True)]


class NamedRun:
    """A run, and perhaps a method (by its name or its label), given as `RUN` or `RUN:METHOD`. `sides`: its methods, by
    their `names`. Raises NoReport."""

    def __init__(self, store: Path, given: str) -> None:
        name, _, method = given.partition(":")
        self.run, self.given = find_run(store, name), given
        self.sides = EvaluatedMethod.every(store, self.run)
        self.names = [*self.sides]
        self.method = method_named(method, self.names)
        if self.method and self.method not in self.names:
            known = few(self.method, self.names, "")
            raise NoReport(f"run {self.run.run_id} has no method {self.method!r}; it has: {known}")


def _compared(a: EvaluatedMethod, b: EvaluatedMethod) -> Compared:
    ids = np.intersect1d(a.scores.ids, b.scores.ids, assume_unique=True)
    if not len(ids):
        raise NoReport(
            f"the two runs share no question, so nothing can be paired: {_asked(a)}; {_asked(b)}. "
            "Give both the same questions.dataset, questions.where, questions.sample and questions.seed"
        )
    shared = [metric for metric in a.scores.values if metric in b.scores.values]
    differences = paired_bootstrap(*(np.stack([side.scores.of(metric, ids) for metric in shared]) for side in (a, b)))
    known = {metric: difference for metric, difference in zip(shared, differences, strict=True) if difference.questions}
    return Compared(a, b, ids, known, primary_metric([a.columns[metric] for metric in known], a.parameters.primary))


def _asked(side: EvaluatedMethod) -> str:
    """How many questions it was asked, and which, for a message."""
    questions = side.parameters.questions
    chosen = [f"of {questions.dataset}"] if questions.dataset else []
    chosen += [f"where {questions.where}"] if questions.where else []
    chosen += [f"with seed {questions.seed}"] if questions.sample else []
    return f"run {side.run.run_id} asked {side.manifests('asked')[0].rows['asked']:,} {' '.join(chosen)}".rstrip()


def main_metric(compared: Sequence[Compared], wanted: str | None) -> str:
    """The metric that questions are listed by: `wanted`, else the primary one, else the first. Raises NoReport."""
    metrics = list(compared[0].differences)
    if wanted is None and metrics:
        return compared[0].primary or metrics[0]
    if wanted not in metrics:
        raise NoReport(f"no metric {wanted!r} in both runs; there are: {', '.join(metrics) or 'none'}")
    return wanted


def question_table(store: Path, compared: Compared) -> pl.DataFrame:
    """A row for every shared question: its text, gold answers, both answers, and every metric as `a.METRIC`,
    `b.METRIC`. Of several seeds the answer is the first's."""
    sides = {"a": compared.a, "b": compared.b}
    asked = compared.a.rows("asked", ["question_id", "text", "answers"])
    texts = [asked.rename({"text": "question", "answers": "gold_answers"})]
    texts += [
        side.answers().select("question_id", pl.col("text").alias(f"{name}.answer")) for name, side in sides.items()
    ]
    table = pl.DataFrame({"question_id": compared.ids})
    for frame in texts:
        table = table.join(frame, "question_id", "left", maintain_order="left")
    return table.with_columns(
        pl.Series(f"{name}.{metric}", side.scores.of(metric, compared.ids), nan_to_null=True)
        for metric in compared.differences
        for name, side in sides.items()
    )


def write_comparison(store: Path, compared: Compared, table: pl.DataFrame) -> Path:
    """The table as CSV (lists as text) and Parquet; the path of the CSV."""
    path = store / "reports" / "compare" / f"{_file_name(f'{compared.a.label} {compared.b.label}')}.csv"
    files.write_table(path.with_suffix(".parquet"), arrow_table(table))
    files.write_bytes(path, csv_bytes(table.with_columns(pl.col("gold_answers").list.join(" | "))))
    return path


def _file_name(label: str) -> str:
    """A method's name may be longer than that of a file."""
    name = "".join(sign if sign.isalnum() else "-" for sign in label)
    kept = name.encode()[:150].decode(errors="ignore")
    return name if kept == name else f"{kept}-{sha256(label.encode()).hexdigest()[:8]}"
