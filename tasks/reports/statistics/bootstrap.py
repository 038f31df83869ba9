"""Intervals of means over questions: Wilson's for shares, by bootstrap for any other mean (Efron and Tibshirani, An
Introduction to the Bootstrap, 1993, ch. 13).

A metric that is 0 or 1 for every question has Wilson's score interval (Probable Inference, the Law of Succession, and
Statistical Inference, JASA 22, 1927). Resamples of a few questions rarely hold a rare value: of a metric of 0.1 over 10
questions, 95 % bootstrap intervals hold the truth in 65 %, Wilson's in 93 %; of 0.05 over 30 questions in 80 and 94 %.

For any other metric, and for differences, questions are drawn again with replacement, the same ones for every row, so
that rows stay comparable. The interval is the expanded percentile interval of Hesterberg (What Teachers Should Know
About the Bootstrap, The American Statistician 69(4), 2015): its percentiles lie further out by what Student's t asks
for, because plain percentiles are too narrow with few questions (at 10 of them, 95 % intervals hold about 90 %). From
some hundred questions on both are the same.

With more than MANY questions, a mean whose distribution is not skewed any more (SKEWED) is as good as normally
distributed: the interval is then Student's, whose ends lie within a hundredth of its width from those of the bootstrap.

Deviation: a question without a value is left out of its row only, so that the size of a row's resample varies a little.
That widens the interval by less than half a percent at 100 questions.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

CONFIDENCE, RESAMPLES, SEED = 0.95, 10_000, 0
MIN_QUESTIONS = 10
"""Fewer questions than these have no interval and no p: resamples of so few say little about the next question."""
ENOUGH = 30
"""With fewer questions, intervals of differences may be too narrow: with 10 to 20 of them and rare answers, 95 %
intervals hold the truth in 72 to 94 %."""
MANY = 20_000
"""Questions above which resamples take seconds, and are drawn only where a formula would err."""
SKEWED = 0.01
"""The skewness of a mean over 6, by which its percentiles lie off those of Student's t (Hall, The Bootstrap and
Edgeworth Expansion, 1992, section 2.4), in standard errors: above this a mean is resampled."""
CHUNK = 2**20
"""Numbers in one block of resamples: 8 MiB of float64."""
KEPT = 4 * CHUNK
"""Numbers of a set of resamples that is kept for the next metric, at most: 32 MiB."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A mean over `questions`, None without any; `low`, `high`: its interval, None below MIN_QUESTIONS."""

    mean: float | None
    low: float | None
    high: float | None
    questions: int


def mean_interval(
    values: ArrayLike, *, may_be_share: Sequence[bool] | None = None, resamples: int = RESAMPLES
) -> list[Interval]:
    """The mean of every row with its interval: Wilson's where all its values are 0 or 1, else `resampled_interval`.

    `may_be_share`: by row; an amount is not a share, also where it is 0 or 1 for every question. Default: all may be.
    """
    resampled = resampled_interval(values, resamples)
    rows = [row[~np.isnan(row)] for row in matrix(values)]
    return [
        _wilson(row, interval) if may_be and np.isin(row, (0.0, 1.0)).all() else interval
        for row, interval, may_be in zip(rows, resampled, may_be_share or [True] * len(rows), strict=True)
    ]


def resampled_interval(values: ArrayLike, resamples: int = RESAMPLES) -> list[Interval]:
    """The mean of every row with its bootstrap interval.

    `values`: float64 (m, n), a question per column; NaN: no value. The interval is the same only for the same order of
    questions: sort them by id first. Takes memory for (resamples, m) float64 and some blocks of CHUNK. Raises
    ValueError for another shape or an infinite value.
    """
    table = matrix(values)
    known = ~np.isnan(table)
    rows = [row[kept] for row, kept in zip(table, known, strict=True)]
    if any(is_normal := [_is_normal(row) for row in rows]):
        left = table[~np.array(is_normal)]
        resampled = iter(resampled_interval(left, resamples) if len(left) else [])
        return [_student(row) if one else next(resampled) for row, one in zip(rows, is_normal, strict=True)]
    means = _resampled_means(np.where(known, table, 0.0), known, resamples)
    return [_interval(row, drawn) for row, drawn in zip(rows, means.T, strict=True)]


def ratio_interval(values: ArrayLike, references: ArrayLike) -> Interval:
    """The mean of `values` over that of `references`, with its interval: both are of the same resamples of questions.

    Both float64 (n,), a question per place; one without either value is left out. No ratio where the references' mean
    is 0, and no interval where that of a resample is. Raises as `mean_interval`.
    """
    table = matrix(np.stack([np.asarray(values, dtype=np.float64), np.asarray(references, dtype=np.float64)]))
    table = table[:, ~np.isnan(table).any(axis=0)]
    n = table.shape[1]
    own, other = table.mean(axis=1) if n else (0.0, 0.0)
    if not other:
        return Interval(None, None, None, n)
    means = _resampled_means(table, np.ones_like(table, dtype=np.bool_), RESAMPLES)
    if n < MIN_QUESTIONS or not means[:, 1].all():
        return Interval(float(own / other), None, None, n)
    return Interval(float(own / other), *_ends(means[:, 0] / means[:, 1], n), n)


def best_row(values: ArrayLike) -> tuple[int, int, int] | None:
    """Which row has the highest mean (of several the first), and the first and the last of those between which it lies
    in so many of the resamples.

    `values`: float64 (m, n), rows in the order of the setting that they differ in. Questions that any row lacks are
    left out; None where fewer than MIN_QUESTIONS are left. Raises as `mean_interval`.
    """
    table = matrix(values)
    table = table[:, ~np.isnan(table).any(axis=0)]
    if table.shape[1] < MIN_QUESTIONS:
        return None
    rows = np.sort(_resampled_means(table, np.ones_like(table, dtype=np.bool_), RESAMPLES).argmax(axis=1))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(rows, [tail, 1 - tail], method="nearest")
    return int(table.mean(axis=1).argmax()), int(low), int(high)


def matrix(values: ArrayLike) -> NDArray[np.float64]:
    """As float64 (m, n). Raises ValueError for another shape or an infinite value."""
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2:
        raise ValueError(f"needs a row per method and a column per question, got the shape {table.shape}")
    if np.isinf(table).any():
        raise ValueError("an infinite value has no mean: use NaN for a question without a value")
    return table


def blocks(resamples: int, questions: int) -> Iterator[int]:
    """Cuts so many resamples into blocks of at most CHUNK numbers (one resample at the least)."""
    rows = max(1, CHUNK // max(1, questions))
    for start in range(0, resamples, rows):
        yield min(rows, resamples - start)


Draw = Callable[[int, int], Iterator[NDArray[np.float64]]]
"""From resamples and questions to what is drawn, block by block."""


def drawn_once(draw: Draw, resamples: int, questions: int) -> Iterable[NDArray[np.float64]]:
    """Draw, or reuse, resamples. All metrics of a report are of the same questions, and so of the same resamples: these
    are drawn once, and kept where they take no more than KEPT numbers."""
    if resamples * questions > KEPT:
        return draw(resamples, questions)
    return _kept(draw, resamples, questions)


@lru_cache(4)
def _kept(draw: Draw, resamples: int, questions: int) -> list[NDArray[np.float64]]:
    return [*draw(resamples, questions)]


def _wilson(values: NDArray[np.float64], interval: Interval) -> Interval:
    """Replace the ends of a share's interval, if it has any."""
    if interval.low is None:
        return interval
    # The formula of SciPy's `binomtest`, which takes most of a second to import.
    n, hits, z = len(values), int(values.sum()), float(special.ndtri(0.5 + 0.5 * CONFIDENCE))
    share, whole = hits / n, 2 * (n + z**2)
    center = (2 * n * share + z**2) / whole
    half = z / whole * math.sqrt(4 * n * share * (1 - share) + z**2)
    return replace(interval, low=center - half if hits else 0.0, high=center + half if hits < n else 1.0)


def _interval(values: NDArray[np.float64], means: NDArray[np.float64]) -> Interval:
    n = len(values)
    low, high = _ends(means, n) if n >= MIN_QUESTIONS else (None, None)
    return Interval(float(values.mean()) if n else None, low, high, n)


def _is_normal(values: NDArray[np.float64]) -> bool:
    """Return true if the mean of many values is as good as normally distributed."""
    if len(values) <= MANY:
        return False
    apart = values - values.mean()
    spread = np.sqrt((apart**2).mean())
    return bool(spread == 0 or abs((apart**3).mean()) <= 6 * SKEWED * np.sqrt(len(values)) * spread**3)


def _student(values: NDArray[np.float64]) -> Interval:
    n, mean = len(values), float(values.mean())
    far = float(special.stdtrit(n - 1, (1 + CONFIDENCE) / 2) * values.std(ddof=1) / np.sqrt(n))
    return Interval(mean, mean - far, mean + far, n)


def _ends(drawn: NDArray[np.float64], n: int) -> tuple[float, float]:
    """The expanded percentiles of what the resamples of n questions came to."""
    tail = special.ndtr(-np.sqrt(n / (n - 1)) * special.stdtrit(n - 1, (1 + CONFIDENCE) / 2))
    low, high = np.nanquantile(drawn, [tail, 1 - tail])  # NaN: a resample that drew none of the row's questions
    return float(low), float(high)


def _resampled_means(values: NDArray[np.float64], known: NDArray[np.bool_], resamples: int) -> NDArray[np.float64]:
    """(resamples, m): the means of rows in every resample, from how often it drew the questions."""
    m, n = values.shape
    columns = np.concatenate([values, known]).T
    means = []
    for times in drawn_once(_times, resamples, n):
        sums = times @ columns
        with np.errstate(invalid="ignore"):
            means.append(sums[:, :m] / sums[:, m:])
    return np.concatenate(means)


def _times(resamples: int, questions: int) -> Iterator[NDArray[np.float64]]:
    """How often resamples drew the questions, (rows, questions), block by block."""
    generator = np.random.default_rng(SEED)
    for rows in blocks(resamples, questions):
        drawn = generator.integers(0, max(1, questions), (rows, questions))
        places = drawn + questions * np.arange(rows)[:, None]
        times = np.bincount(places.ravel(), minlength=rows * questions)
        yield times.reshape(rows, questions).astype(np.float64)
