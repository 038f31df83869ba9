"""significance: a table of figures, methods in rows, datasets in columns → which differences are more than chance.

Do methods differ over several datasets? Quade's test and Li's procedure, as in PFE-Self-RAG (tables 2 to 4).

Quade (Using Weighted Rankings in the Analysis of Complete Blocks with Additive Block Effects, JASA 74, 1979) ranks the
methods on every dataset and weights a dataset by the rank of its range (best minus worst): the datasets' figures must
therefore have one unit. Ties get average ranks. Formulas for the average rankings and z: García et al. (Advanced
Nonparametric Tests for Multiple Comparisons in the Design of Experiments, Information Sciences 180, 2010). The
procedure: Li (A Two-Step Rejection Procedure for Testing Multiple Hypotheses, J. Stat. Plan. Inference 138, 2008).

Deviation: for its table 2 the PFE-Self-RAG paper prints F = 12.40, and F is 10.68. KEEL's `Friedman.java`, by which we
take the paper's figure to have been made, gives 12.405 for two reasons, which touch neither rankings nor z. It centres
the ranks on (k + 1) / 2 in whole numbers, on 4 instead of 4.5 for 8 methods. And for the sum of squares it has the
closed formula of rankings without ties, where the table has some. Here both are computed, as in R's quade.test.
"""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy
from numpy.typing import NDArray

from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.datasets.files import check_source
from vitalfew.tasks.reports.shown.text import listed, one_line

_DIGITS = 12  # after these, relative to the largest of the table, two figures are the same, averaged in another order
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
    """Every method against `control`, by default the one that ranks best. Raises InputError for an unknown control, and
    ValueError for an alpha that is not between 0 and 1."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha}")
    if control is not None and control not in scores:
        raise InputError(f"the table has no method {control!r} to compare with; it has {', '.join(map(repr, scores))}")
    names, table = [*scores], np.array([[*row.values()] for row in scores.values()])
    f, degrees, whole, rankings = quade(table if higher_is_better else -table)
    chosen = int(np.argmin(rankings)) if control is None else names.index(control)
    (k, n), behind = table.shape, rankings - rankings[chosen]
    z = behind / math.sqrt(k * (k + 1) * (2 * n + 1) * (k - 1) / (18 * n * (n + 1)))
    p = 2 * scipy.stats.norm.sf(np.abs(z))
    # Li: with the largest p at most alpha all are significant, else those up to (1 − p_last) / (1 − alpha) · alpha. It
    # has little power where the largest p is near 1: one method that equals the control hides the others.
    last = float(np.delete(p, chosen).max())
    threshold = alpha if last <= alpha else (1 - last) / (1 - alpha) * alpha
    methods = []
    for row, name in enumerate(names):
        tested = float(z[row]), float(p[row]), whole <= alpha and bool(p[row] <= threshold)
        own = () if row == chosen else tested
        methods.append(ComparedMethod(name, float(table[row].mean()), float(rankings[row]), *own))
    finite = f if math.isfinite(f) else None
    datasets = (*scores[names[0]],)
    return Significance(
        datasets, higher_is_better, names[chosen], alpha, finite, degrees, whole, threshold, tuple(methods)
    )


def quade(table: NDArray[np.float64]) -> tuple[float, tuple[int, int], float, NDArray[np.float64]]:
    """Quade's test on finite float64 (k, n), a method per row, a dataset per column, at least 2 of each, more is
    better: F (infinite where all datasets agree), its degrees of freedom, p, and (k,) average ranks weighted by
    dataset."""
    k, n = table.shape
    table = table / (np.abs(table).max() or 1)
    ranks = scipy.stats.rankdata(np.round(-table, _DIGITS), axis=0)
    weights = scipy.stats.rankdata(np.round(np.ptp(table, axis=0), _DIGITS))
    weighted = weights * (ranks - (k + 1) / 2)
    # Multiples of 1/4, whose sums are exact: where the datasets agree, `left` is 0 and not nearly 0.
    between = float((weighted.sum(axis=1) ** 2).sum())
    left = n * float((weighted**2).sum()) - between
    degrees = (k - 1, (n - 1) * (k - 1))
    if left:
        f = (n - 1) * between / left
        p = float(scipy.stats.f.sf(f, *degrees))
    elif between:
        # All datasets rank alike: as likely as that many equal permutations (Conover, Practical Nonparametric
        # Statistics, 1999, section 5.8).
        f, p = math.inf, math.factorial(k) ** -(n - 1.0)
    else:  # no method differs from another on any dataset
        f, p = 0.0, 1.0
    return f, degrees, p, ranks @ weights / weights.sum()


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
    kind = path.suffix.lower()
    if kind not in (".csv", ".tsv", ".parquet"):
        raise InputError(f"{path}: a table must be a .csv, .tsv or .parquet file. Save it as one of these")
    check_source(path)
    try:
        separator = "," if kind == ".csv" else "\t"
        whole = (
            pl.read_parquet(path) if kind == ".parquet" else pl.read_csv(path, separator=separator, infer_schema=False)
        )
    except pl.exceptions.PolarsError as error:
        raise InputError(f"{path} cannot be read: {error}. Save it again") from None
    (_, *datasets), rows = whole.columns, [row for row in whole.rows() if any(row)]  # a blank line is no row
    if len(datasets) < 2 or len(rows) < 2:
        raise InputError(f"{path}: {len(rows)} method(s) on {len(datasets)} dataset(s): at least 2 of each are needed")
    methods: Scores = {}
    for number, (name, *cells) in enumerate(rows, start=1):
        method = str(name or "").strip()
        if not method or method in methods:
            fault = f"names the method {method!r} a second time" if method else "names no method"
            raise InputError(f"{path}: row {number} {fault} in its first column. Every row needs a different name")
        where = f"{path}: row {number} ({method}), column"
        pairs = zip(datasets, cells, strict=True)
        methods[method] = {dataset: _figure(cell, f"{where} {dataset!r}") for dataset, cell in pairs}
    return methods


def _figure(cell: Any, where: str) -> float:
    """A cell as a number. Raises InputError where it is empty or no finite number."""
    try:
        value = float(cell)
    except (TypeError, ValueError):
        value = math.nan
    if math.isfinite(value):
        return value
    fault = "is empty" if cell in (None, "") else f"is {str(cell)[:40]!r}, not a finite number"
    raise InputError(
        f"{where} {fault}. Every method needs a figure on every dataset: fill it in, or leave that row out"
    )
