"""gate: two generations of an index that were asked the same questions by the same methods, in one evaluation.

A method of the experiment is there twice, for either generation. Questions whose gold passages are not all in both
corpora are left out: nobody can find what was removed from a corpus on purpose, or what was not there yet.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from vitalfew.storage.generations import GateFigure
from vitalfew.tasks.reports.baselines import MeasuredMethod, WorsenedQuestion, paired, worsened
from vitalfew.tasks.reports.comparison import NamedRun
from vitalfew.tasks.reports.runs import read_rows
from vitalfew.tasks.reports.shown.text import one_line, shortened
from vitalfew.tasks.reports.statistics.gates import GateDecision, GatedMetric, decide

WORST, _FOUND, _TEXT = 20, 3, 100
_SHOWN = [each.name for each in fields(GateFigure) if each.name not in ("method", "metric")]


@dataclass(frozen=True)
class LostQuestion(WorsenedQuestion):
    """A question whose value of a metric became worse, with the first contexts before and now; those of
    gold passages begin with a tick."""

    method: str
    found_before: tuple[str, ...]
    found_now: tuple[str, ...]


@dataclass(frozen=True)
class Findings:
    """`decision`: over all metrics of all methods; None where nothing could be compared, with the reason in `why`.

    `questions`: that were compared; `left_out`: those whose gold passages are not in both corpora; `figures`: by method
    and metric; `lost`: the questions that became worse, the worst of every figure first.
    """

    decision: GateDecision | None
    questions: int
    left_out: int
    figures: tuple[GateFigure, ...] = ()
    lost: tuple[LostQuestion, ...] = ()
    why: str = ""


Sides = tuple[MeasuredMethod, MeasuredMethod]
"""A method of the current generation, and the same of the candidate."""


def findings(store: Path, run_id: str, ends: tuple[str, str], margins: Mapping[str, float]) -> Findings:
    """Compare the methods of a run. `ends`: how the names of those of the current generation end, and how those of the
    candidate. Raises NoReport where an artifact was removed since."""
    named = NamedRun(store, run_id)
    current, candidate = ends
    sides = {
        name.removesuffix(current): (
            MeasuredMethod(store, named.side(store, name)),
            MeasuredMethod(store, named.side(store, name.removesuffix(current) + candidate)),
        )
        for name in named.groups
        if name.endswith(current)
    }
    before, now = next(iter(sides.values()))
    every = np.intersect1d(before.scores.ids, now.scores.ids, assume_unique=True)
    ids = np.setdiff1d(every, [*before.without_gold, *now.without_gold], assume_unique=False)
    left_out = len(every) - len(ids)
    if not len(ids):
        why = f"none of the {len(every):,} questions has its gold passages in both corpora"
        return Findings(None, 0, left_out, why=why)
    gated = {
        (method, metric): known
        for method, pair in sides.items()
        for metric, margin in margins.items()
        if (known := _gated(pair, metric, margin, ids)) is not None
    }
    if unknown := [metric for metric in margins if metric not in {metric for _, metric in gated}]:
        why = f"none of the {len(ids):,} questions has a value of {unknown[0]}"
        return Findings(None, len(ids), left_out, why=why)
    decision = decide({f"{method}, {metric}": known for (method, metric), known in gated.items()})
    decided = zip(gated, decision.metrics.values(), strict=True)
    figures = tuple(
        GateFigure(method, metric, **{name: getattr(own, name) for name in _SHOWN}) for (method, metric), own in decided
    )
    most = max(1, WORST // len(gated))
    lost = [
        question
        for (method, metric), known in gated.items()
        for question in _lost(sides[method], method, metric, ids, known, most)
    ]
    return Findings(decision, len(ids), left_out, figures, tuple(lost[:WORST]))


def _gated(sides: Sides, metric: str, margin: float, ids: npt.NDArray[np.int64]) -> GatedMetric | None:
    """None where no question has a value."""
    declared = next((side.metrics[metric] for side in sides if metric in side.metrics), None)
    if declared is None:
        return None
    before, after = (side.scores.of(metric, ids) for side in sides)
    return None if np.isnan([before, after]).all() else paired(declared, (before, after), margin)


def _lost(
    sides: Sides, method: str, metric: str, ids: npt.NDArray[np.int64], gated: GatedMetric, most: int
) -> Iterator[LostQuestion]:
    lost = [*worsened(sides[0], ids, metric, gated, most)]
    before, now = (_found(side, [question for question, _ in lost]) for side in sides)
    for question, own in lost:
        text = shortened(one_line(own.question), _TEXT)
        found = before.get(question, ()), now.get(question, ())
        yield LostQuestion(metric, text, own.before, own.after, method, *found)


def _found(measured: MeasuredMethod, questions: list[int]) -> dict[int, tuple[str, ...]]:
    """The first contexts of these questions, in short."""
    run, method = measured.side.run, measured.side.group.methods[0].name
    own = (pl.col("question_id").is_in(questions)) & (pl.col("rank") <= _FOUND)
    rows = read_rows(measured.store, run, method, "evidence").filter(own).sort("question_id", "rank")
    gold = dict(zip(measured.asked["question_id"], measured.asked["gold_passages"].to_list(), strict=True))
    found: dict[int, tuple[str, ...]] = {}
    for row in rows.iter_rows(named=True):
        is_gold = any(span["passage_id"] in gold[row["question_id"]] for span in row["origin"])
        text = f"{'✓ ' if is_gold else ''}{shortened(one_line(row['text']), _TEXT)}"
        found[row["question_id"]] = (*found.get(row["question_id"], ()), text)
    return found
