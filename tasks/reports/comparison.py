"""compare: two evaluations → what their methods differ in, question by question, on the questions that both asked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from vitalfew.configs.evaluation import Evaluate
from vitalfew.storage import files
from vitalfew.storage.artifacts import Manifest
from vitalfew.storage.runs import Run
from vitalfew.tasks.metrics.base import Column
from vitalfew.tasks.reports.methods import Group, groups
from vitalfew.tasks.reports.runs import (
    NoReport,
    QuestionScores,
    columns_of,
    find_run,
    read_manifest,
    read_question_scores,
    read_summaries,
)
from vitalfew.tasks.reports.shown.columns import primary_metric
from vitalfew.tasks.reports.shown.tables import csv_bytes
from vitalfew.tasks.reports.statistics.paired import Difference, corrected, paired_bootstrap

ALL = "all"


@dataclass(frozen=True)
class Side:
    """A method of a run (all seeds of it), with its scores; `columns`: what its metrics declare of themselves."""

    run: Run
    group: Group
    scores: QuestionScores
    columns: dict[str, Column]

    @property
    def label(self) -> str:
        return f"{self.group.name} ({self.run.run_id})"


@dataclass(frozen=True)
class Compared:
    """Two methods on `ids`, the questions that both were asked, ascending. `differences`: b minus a, by metric;
    `primary`: the metric that the first run is about, if both have it."""

    a: Side
    b: Side
    ids: npt.NDArray[np.int64]
    differences: dict[str, Difference]
    primary: str | None

    def mean(self, side: Side, metric: str) -> float | None:
        """Over the shared questions that both have a value for."""
        a, b = self.a.scores.of(metric, self.ids), self.b.scores.of(metric, self.ids)
        known = ~np.isnan(a) & ~np.isnan(b)
        return float((a if side is self.a else b)[known].mean()) if known.any() else None


def compare(store: Path, first: str, second: str) -> list[Compared]:
    """Pairs of methods of two runs, each given as `RUN` (an id or an experiment's name) or `RUN:METHOD`; without a
    method all those that both have by one name.

    Raises NoReport where there is nothing to compare, with the reason.
    """
    sides = list(_pairs(_Named(store, first), _Named(store, second)))
    pairs = [_compared(store, a, b) for a, b in sides]
    adjusted = corrected([pair.differences for pair in pairs], pairs[0].primary)
    return [replace(pair, differences=own) for pair, own in zip(pairs, adjusted, strict=True)]


class _Named:
    """What `RUN` or `RUN:METHOD` stands for."""

    def __init__(self, store: Path, given: str) -> None:
        name, _, method = given.partition(":")
        self.given, self.method = given, method
        self.run = find_run(store, name)
        self.parameters = Evaluate.model_validate(self.run.config)
        self.groups = {group.name: group for group in groups(self.parameters.methods)}
        if method and method not in self.groups:
            raise NoReport(f"run {self.run.run_id} has no method {method!r}; it has: {', '.join(self.groups)}")


def _pairs(a: _Named, b: _Named) -> Iterator[tuple[tuple[_Named, Group], tuple[_Named, Group]]]:
    if a.method or b.method:
        names = [(a.method or b.method, b.method or a.method)]
    elif a.run.run_id == b.run.run_id:
        names = []
    else:
        names = [(name, name) for name in a.groups if name in b.groups]
        if not names and len(a.groups) == len(b.groups) == 1:
            names = [(next(iter(a.groups)), next(iter(b.groups)))]
    names = [(old, new) for old, new in names if old in a.groups and new in b.groups]
    if not names or (a.run.run_id == b.run.run_id and names[0][0] == names[0][1]):
        raise NoReport(
            f"name the methods to compare, as {a.run.run_id}:METHOD. {a.given} has: {', '.join(a.groups)}; "
            f"{b.given} has: {', '.join(b.groups)}"
        )
    for old, new in names:
        yield (a, a.groups[old]), (b, b.groups[new])


def _compared(store: Path, a: tuple[_Named, Group], b: tuple[_Named, Group]) -> Compared:
    sides = [_side(store, *named) for named in (a, b)]
    ids = np.intersect1d(sides[0].scores.ids, sides[1].scores.ids, assume_unique=True)
    if not len(ids):
        raise NoReport(
            "the two runs share no question, so nothing can be paired: "
            + "; ".join(_asked(named.parameters, side) for (named, _), side in zip((a, b), sides, strict=True))
            + ". Give both the same questions.dataset, questions.where, questions.sample and questions.seed"
        )
    shared = [metric for metric in sides[0].scores.values if metric in sides[1].scores.values]
    differences = paired_bootstrap(*(np.stack([side.scores.of(m, ids) for m in shared]) for side in sides))
    known = {metric: difference for metric, difference in zip(shared, differences, strict=True) if difference.questions}
    primary = primary_metric([sides[0].columns[metric] for metric in known], a[0].parameters.primary)
    return Compared(sides[0], sides[1], ids, known, primary)


def _side(store: Path, named: _Named, group: Group) -> Side:
    artifacts = [named.run.methods[method.name] for method in group.methods]
    asked = read_manifest(store, artifacts[0]["asked"])
    scores = [read_manifest(store, names["scores"]) for names in artifacts]
    columns = columns_of([read_summaries(store, manifest) for manifest in scores])
    return Side(named.run, group, read_question_scores(store, asked, scores), columns)


def _asked(parameters: Evaluate, side: Side) -> str:
    questions = parameters.questions
    chosen = [f"of {questions.dataset}"] if questions.dataset else []
    chosen += [f"where {questions.where}"] if questions.where else []
    chosen += [f"with seed {questions.seed}"] if questions.sample else []
    return f"run {side.run.run_id} asked {len(side.scores.ids):,} {' '.join(chosen)}".rstrip()


def main_metric(compared: Sequence[Compared], wanted: str | None) -> str:
    """What questions are listed by: `wanted`, else the primary metric, else the first. Raises NoReport."""
    metrics = list(compared[0].differences)
    if wanted is None and metrics:
        return compared[0].primary or metrics[0]
    if wanted not in metrics:
        raise NoReport(f"no metric {wanted!r} in both runs; there are: {', '.join(metrics) or 'none'}")
    return wanted


def question_table(store: Path, compared: Compared) -> pa.Table:
    """A row for every shared question: its text, gold answers, both answers, and every metric as `a.METRIC`,
    `b.METRIC`. Of several seeds the answer is the first's."""
    asked = _rows(store, compared.a, "asked")
    keys = [int(key) for key in compared.ids]
    columns: dict[str, Any] = {
        "question_id": pa.array(keys, pa.int64()),
        "question": [asked[key]["text"] for key in keys],
        "gold_answers": pa.array([asked[key]["answers"] for key in keys], pa.list_(pa.string())),
    }
    for name, side in (("a", compared.a), ("b", compared.b)):
        answers = _rows(store, side, "candidates")
        columns[f"{name}.answer"] = pa.array([answers.get(key, {}).get("text") for key in keys], pa.string())
    for metric in compared.differences:
        for name, side in (("a", compared.a), ("b", compared.b)):
            values = side.scores.of(metric, compared.ids)
            columns[f"{name}.{metric}"] = pa.array(values, mask=np.isnan(values))
    return pa.table(columns)


def _rows(store: Path, side: Side, table: str) -> dict[int, dict[str, Any]]:
    """The first row of every question; none where the method has no such table."""
    artifacts = side.run.methods[side.group.methods[0].name]
    if table not in artifacts:
        return {}
    manifest: Manifest = read_manifest(store, artifacts[table])
    rows = manifest.read(store, table).to_pylist()
    return {row["question_id"]: row for row in reversed(rows)}


def write_comparison(store: Path, compared: Compared, table: pa.Table) -> Path:
    """The table as CSV (lists as text) and Parquet; the path of the CSV."""
    path = store / "reports" / "compare" / f"{_file_name(f'{compared.a.label} {compared.b.label}')}.csv"
    files.write_table(path.with_suffix(".parquet"), table)
    place = table.schema.get_field_index("gold_answers")
    joined = pa.array([" | ".join(answers) for answers in table["gold_answers"].to_pylist()], pa.string())
    content = csv_bytes(table.set_column(place, "gold_answers", joined))
    files.write_bytes(path, content)
    return path


def _file_name(label: str) -> str:
    """A method's name may be longer than that of a file."""
    name = "".join(sign if sign.isalnum() else "-" for sign in label)
    kept = name.encode()[:150].decode(errors="ignore")
    return name if kept == name else f"{kept}-{sha256(label.encode()).hexdigest()[:8]}"
