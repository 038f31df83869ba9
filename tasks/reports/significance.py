"""significance: a table of figures, methods in rows, datasets in columns → which differences are more than chance."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from vitalfew.tasks.datasets.base import InputError, Reject
from vitalfew.tasks.datasets.delimited import CSV, QUOTED_TSV, Dialect, columns_of, delimited_rows
from vitalfew.tasks.datasets.files import check_source
from vitalfew.tasks.reports.shown.text import listed, one_line
from vitalfew.tasks.reports.statistics.ranks import li, quade, two_sided

_REMEDY = "Every method needs a figure on every dataset: fill it in, or leave that row or column out"
_DIALECTS = {".csv": CSV, ".tsv": QUOTED_TSV}


@dataclass(frozen=True, slots=True)
class Scores:
    """A table of figures: `values[i][j]` is of method i on dataset j."""

    methods: tuple[str, ...]
    datasets: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]


@dataclass(frozen=True, slots=True)
class ComparedMethod:
    """A method against the control, which itself has no z and no p. `z` > 0: it ranks behind the control.

    `mean`: over the datasets; `mean_rank`: 1 is best, `ranking`: the same with Quade's weights; `significant`: both
    Quade's test and Li's procedure say so.
    """

    method: str
    mean: float
    mean_rank: float
    ranking: float
    z: float | None = None
    p: float | None = None
    p_li: float | None = None
    significant: bool | None = None


@dataclass(frozen=True, slots=True)
class Significance:
    """Quade's test over all methods (`f`: None where infinite), Li's threshold, and the methods in the table's order.

    `smallest_p`: see `Quade`.
    """

    datasets: tuple[str, ...]
    higher_is_better: bool
    control: str
    alpha: float
    f: float | None
    degrees: tuple[int, int]
    p: float
    threshold: float
    smallest_p: float
    methods: tuple[ComparedMethod, ...]

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "conclusion": list(conclusion(self))}


def significance(
    scores: Scores, higher_is_better: bool = True, control: str | None = None, alpha: float = 0.05
) -> Significance:
    """Every method against `control`, by default the one that ranks best. Raises InputError for an unknown control."""
    test = quade(scores.values, higher_is_better)
    if control is not None and control not in scores.methods:
        known = ", ".join(map(repr, scores.methods))
        raise InputError(f"the table has no method {control!r} to compare with; it has {known}")
    chosen = int(np.argmin(test.rankings)) if control is None else scores.methods.index(control)
    z = test.z(chosen)
    p_values = {row: float(two_sided(z[row])) for row in range(len(scores.methods)) if row != chosen}
    adjusted, threshold = li(list(p_values.values()), alpha)
    p_li = dict(zip(p_values, adjusted, strict=True))
    methods = [
        ComparedMethod(method, float(np.mean(values)), float(ranks.mean()), float(ranking))
        for method, values, ranks, ranking in zip(scores.methods, scores.values, test.ranks, test.rankings, strict=True)
    ]
    for row, p in p_values.items():
        is_significant = max(test.p, p_li[row]) <= alpha
        methods[row] = replace(methods[row], z=float(z[row]), p=p, p_li=p_li[row], significant=is_significant)
    return Significance(
        scores.datasets,
        higher_is_better,
        scores.methods[chosen],
        alpha,
        test.f if math.isfinite(test.f) else None,
        test.degrees,
        test.p,
        threshold,
        test.smallest_p,
        tuple(methods),
    )


def conclusion(test: Significance) -> Iterator[str]:
    """Say in plain sentences which differences are significant."""
    f = "infinite" if test.f is None else f"{test.f:.2f}"
    statistic = f"F = {f} with {test.degrees[0]} and {test.degrees[1]} degrees of freedom, p = {test.p:.4g}"
    if test.p > test.alpha:
        yield f"Quade's test finds no difference among the methods ({statistic}): all of it may be chance."
        return
    yield f"Quade's test: the methods are not all alike ({statistic})."
    control = one_line(test.control)
    different = [method for method in test.methods if method.significant]
    behind = [one_line(method.method) for method in different if method.z and method.z > 0]
    ahead = [one_line(method.method) for method in different if method.z and method.z < 0]
    if behind:
        yield f"Li's procedure: {control} is significantly better than {listed(behind, 10)}."
    if ahead:
        yield f"Li's procedure: {control} is significantly worse than {listed(ahead, 10)}."
    if not different:
        yield f"Li's procedure: no method differs significantly from {control} (no p is at most {test.threshold:.4g})."
    if test.smallest_p > test.threshold:
        yield (
            f"With {len(test.methods)} methods on {len(test.datasets)} datasets, even a method that is last everywhere "
            f"has p = {test.smallest_p:.4g} against one that is first everywhere: more datasets are needed."
        )


def read_scores(path: Path) -> Scores:
    """Read .csv, .tsv or .parquet; the first column names the methods. Raises InputError that names row and column."""
    names, rows = _read(path)
    if len(names) < 3:
        raise InputError(f"{path} has the columns {', '.join(map(repr, names))}: at least 2 datasets are needed")
    methods: dict[str, tuple[float, ...]] = {}
    for place, row in rows:
        method = str(row[names[0]] if row[names[0]] is not None else "").strip()
        if not method or method in methods:
            fault = f"names the method {method!r} a second time" if method else "names no method"
            raise InputError(f"{path}: {place} {fault} in its first column. Every row needs a different name")
        methods[method] = tuple(
            _figure(row[name], f"{path}: {place} ({method}), column {name!r}") for name in names[1:]
        )
    if len(methods) < 2:
        raise InputError(f"{path} has {len(methods)} row(s) of a method: at least 2 are needed")
    return Scores(tuple(methods), tuple(names[1:]), tuple(methods.values()))


def _read(path: Path) -> tuple[list[str], Iterator[tuple[str, dict[str, Any]]]]:
    """The columns' names, and (place, row) one by one."""
    if dialect := _DIALECTS.get(path.suffix.lower()):
        return list(columns_of(path, dialect)), _delimited(path, dialect)
    if path.suffix.lower() not in (".parquet", ".pq"):
        raise InputError(f"{path}: a table must be a .csv, .tsv or .parquet file. Save it as one of these")
    check_source(path)
    try:
        with pq.ParquetFile(path) as file:
            table = file.read()
    except pa.ArrowException as error:
        raise InputError(f"{path} cannot be read as Parquet: {error}. Save it again, or as .csv") from None
    twice = [name for name in table.column_names if table.column_names.count(name) > 1]
    if twice:
        raise InputError(f"{path} has the column {twice[0]!r} twice. Rename one")
    return table.column_names, ((f"row {number}", row) for number, row in enumerate(table.to_pylist(), start=1))


def _delimited(path: Path, dialect: Dialect) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, row in delimited_rows(path, dialect):
        if isinstance(row, Reject):
            raise InputError(f"{path}: line {number} cannot be read: {row.detail}. Correct or remove it")
        yield f"line {number}", dict(row)


def _figure(cell: object, where: str) -> float:
    if cell is None or (isinstance(cell, str) and not cell.strip()):
        raise InputError(f"{where} is empty. {_REMEDY}")
    try:
        value = float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise InputError(f"{where}: {str(cell)[:40]!r} is not a number. {_REMEDY}") from None
    if not math.isfinite(value):
        raise InputError(f"{where}: {value} is not a finite number. {_REMEDY}")
    return value
