"""significance: a table of figures, methods in rows, datasets in columns → which differences are more than chance."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy

from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.datasets.files import check_source
from vitalfew.tasks.reports.shown.text import listed, one_line
from vitalfew.tasks.reports.statistics.ranks import li, quade

Scores = dict[str, dict[str, float]]
"""A table of figures, by method and dataset; every method has every dataset."""


@dataclass(frozen=True, slots=True)
class ComparedMethod:
    """A method against the control, which itself has no z and no p. `z` > 0: it ranks behind the control.

    `mean`: over the datasets; `ranking`: Quade's, 1 is best; `significant`: both Quade's test and Li's procedure say
    so.
    """

    method: str
    mean: float
    ranking: float
    z: float | None = None
    p: float | None = None
    significant: bool | None = None


@dataclass(frozen=True, slots=True)
class Significance:
    """Quade's test over all methods (`f`: None where infinite), Li's threshold, the methods in the table's order."""

    datasets: tuple[str, ...]
    higher_is_better: bool
    control: str
    alpha: float
    f: float | None
    degrees: tuple[int, int]
    p: float
    threshold: float
    methods: tuple[ComparedMethod, ...]

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "conclusion": list(conclusion(self))}


def significance(
    scores: Scores, higher_is_better: bool = True, control: str | None = None, alpha: float = 0.05
) -> Significance:
    """Every method against `control`, by default the one that ranks best. Raises InputError for an unknown control."""
    names, values = [*scores], [[*row.values()] for row in scores.values()]
    test = quade(values, higher_is_better)
    if control is not None and control not in scores:
        known = ", ".join(map(repr, scores))
        raise InputError(f"the table has no method {control!r} to compare with; it has {known}")
    chosen = int(np.argmin(test.rankings)) if control is None else names.index(control)
    z = test.z(chosen)
    p = 2 * scipy.stats.norm.sf(np.abs(z))
    threshold = li(np.delete(p, chosen).tolist(), alpha)
    methods = []
    for row, method in enumerate(names):
        tested = float(z[row]), float(p[row]), test.p <= alpha and bool(p[row] <= threshold)
        own = () if row == chosen else tested
        methods.append(ComparedMethod(method, float(np.mean(values[row])), float(test.rankings[row]), *own))
    f = test.f if math.isfinite(test.f) else None
    datasets = (*scores[names[0]],)
    found = (alpha, f, test.degrees, test.p, threshold, tuple(methods))
    return Significance(datasets, higher_is_better, names[chosen], *found)


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
    for word, sign in (("better", 1), ("worse", -1)):
        if names := [one_line(method.method) for method in different if sign * (method.z or 0) > 0]:
            yield f"Li's procedure: {control} is significantly {word} than {listed(names, 10)}."
    if not different:
        yield f"Li's procedure: no method differs significantly from {control} (no p is at most {test.threshold:.4g})."


def read_scores(path: Path) -> Scores:
    """Read .csv, .tsv or .parquet; the first column names the methods. Raises InputError that names row and column."""
    (_, *datasets), *rows = _cells(path)
    if len(datasets) < 2 or len(rows) < 2:
        raise InputError(f"{path}: {len(rows)} method(s) on {len(datasets)} dataset(s): at least 2 of each are needed")
    methods: Scores = {}
    for number, (name, *cells) in enumerate(rows, start=1):
        method = str(name or "").strip()
        if not method or method in methods:
            fault = f"names the method {method!r} a second time" if method else "names no method"
            raise InputError(f"{path}: row {number} {fault} in its first column. Every row needs a different name")
        methods[method] = {
            dataset: _figure(cell, f"{path}: row {number} ({method}), column {dataset!r}")
            for dataset, cell in zip(datasets, cells, strict=True)
        }
    return methods


def _cells(path: Path) -> list[tuple[Any, ...]]:
    """The columns' names, and then the rows. Raises InputError."""
    separators = {".csv": ",", ".tsv": "\t", ".parquet": "", ".pq": ""}
    if (kind := path.suffix.lower()) not in separators:
        raise InputError(f"{path}: a table must be a .csv, .tsv or .parquet file. Save it as one of these")
    check_source(path)
    try:
        if separator := separators[kind]:
            table = pl.read_csv(path, separator=separator, infer_schema=False)
        else:
            table = pl.read_parquet(path)
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path} cannot be read: {error}. Save it again") from None
    return [tuple(table.columns), *(row for row in table.rows() if any(row))]  # a blank line is no row


def _figure(cell: object, where: str) -> float:
    """A cell as a number. Raises InputError where it is empty or no finite number."""
    try:
        value = float(cell)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        value = math.nan
    if math.isfinite(value):
        return value
    fault = "is empty" if cell in (None, "") else f"is {str(cell)[:40]!r}, not a finite number"
    raise InputError(
        f"{where} {fault}. Every method needs a figure on every dataset: fill it in, or leave that row out"
    )
