"""gate: two generations of an index that were asked the same questions by the same methods, in one evaluation.

A method of the experiment is there twice, for either generation. Questions whose gold passages are not all in both
corpora are left out of the first figure: nobody can find what was removed on purpose, or what was not there yet. In a
second one the questions whose gold passages vanished count as lost: what was removed by accident is lost, too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from vitalfew.storage.generations import GateFigure
from vitalfew.tasks.reports.baselines import MeasuredMethod, WorsenedQuestion, paired, worsened
from vitalfew.tasks.reports.runs import find_run
from vitalfew.tasks.reports.shown.text import one_line, shortened
from vitalfew.tasks.reports.statistics.gates import DecidedMetric, GateDecision, GatedMetric, decide

WORST, _FOUND, _TEXT = 20, 3, 100
_SHOWN = {each.name for each in fields(DecidedMetric)} & {each.name for each in fields(GateFigure)}


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

    `questions`: that were compared; `vanished`: those whose gold passages the candidate has no more; `not_yet`: those
    whose gold passages the current generation lacks. `with_gold`: the questions with gold in the current generation;
    `counted`: the decision where vanished ones count as lost, None where none vanished. `figures`: by method and
    metric; `lost`: the questions that became worse, the worst of every figure first.
    """

    decision: GateDecision | None
    questions: int
    vanished: int
    not_yet: int
    with_gold: int
    counted: GateDecision | None = None
    figures: tuple[GateFigure, ...] = ()
    lost: tuple[LostQuestion, ...] = ()
    why: str = ""

    @property
    def left_out(self) -> int:
        return self.vanished + self.not_yet

    @property
    def whose(self) -> str:
        """Why questions were left out, in words; empty if none were."""
        parts = (
            (self.vanished, "lost their gold passages"),
            (self.not_yet, "have gold passages that the current generation lacks"),
        )
        return ", ".join(f"{number:,} {why}" for number, why in parts if number)


Sides = tuple[MeasuredMethod, MeasuredMethod]
"""A method of the current generation, and the same of the candidate."""


def findings(
    store: Path, run_id: str, ends: tuple[str, str], margins: Mapping[str, float], max_removed: float
) -> Findings:
    """Compare the methods of a run. `ends`: how the names of those of the current generation end, and how those of the
    candidate; `max_removed`: the accepted loss where vanished questions count, unless the margin is larger. Raises
    NoReport where an artifact was removed since."""
    current, candidate = ends
    every_side = MeasuredMethod.every(store, find_run(store, run_id))
    sides = {
        name.removesuffix(current): (side, every_side[name.removesuffix(current) + candidate])
        for name, side in every_side.items()
        if name.endswith(current)
    }
    before, now = next(iter(sides.values()))
    every = np.intersect1d(before.scores.ids, now.scores.ids, assume_unique=True)
    known_before = np.setdiff1d(every, before.without_gold)
    ids = np.setdiff1d(known_before, now.without_gold)
    vanished = np.setdiff1d(known_before, ids)
    has_gold = (pl.col("gold_passages").list.len() > 0) | (pl.col("gold_places").list.len() > 0)
    with_gold = len(np.intersect1d(before.asked.filter(has_gold)["question_id"].to_numpy(), known_before))
    counts = (len(ids), len(vanished), len(every) - len(known_before), with_gold)
    if not len(ids):
        why = f"none of the {len(every):,} questions has its gold passages in both corpora"
        return Findings(None, *counts, why=why)
    gated = {
        (method, metric): known
        for method, pair in sides.items()
        for metric, margin in margins.items()
        if (known := _gated(pair, metric, margin, ids)) is not None
    }
    if unknown := [metric for metric in margins if metric not in {metric for _, metric in gated}]:
        why = f"none of the {len(ids):,} questions has a value of {unknown[0]}"
        return Findings(None, *counts, why=why)
    decision = decide({f"{method}, {metric}": known for (method, metric), known in gated.items()})
    counted = {
        (method, metric): _counted(sides[method], metric, max(known.margin, max_removed), ids, vanished)
        for (method, metric), known in gated.items()
        if len(vanished) and known.is_share
    }
    decided = zip(gated, decision.metrics.values(), strict=True)
    figures = tuple(_figure(*named, own, len(vanished), counted.get(named)) for named, own in decided)
    most = max(1, WORST // len(gated))
    lost = [
        question
        for (method, metric), known in gated.items()
        for question in _lost(sides[method], method, metric, ids, known, most)
    ]
    second = decide({f"{method}, {metric}": own for (method, metric), own in counted.items()}) if counted else None
    return Findings(decision, *counts, second, figures, tuple(lost[:WORST]))


def _counted(
    sides: Sides, metric: str, margin: float, ids: npt.NDArray[np.int64], vanished: npt.NDArray[np.int64]
) -> GatedMetric:
    """A metric over the questions that vanished too, whose value for the candidate is the worst."""
    every = np.concatenate([ids, vanished])
    declared = next(side.metrics[metric] for side in sides if metric in side.metrics)
    before, after = (side.scores.of(metric, every) for side in sides)
    after[len(ids) :] = np.where(np.isnan(before[len(ids) :]), np.nan, 0.0 if declared.direction == "higher" else 1.0)
    return paired(declared, (before, after), margin)


def _figure(method: str, metric: str, own: DecidedMetric, vanished: int, counted: GatedMetric | None) -> GateFigure:
    means: tuple[float | None, float | None] = (None, None)
    if counted:
        sides = np.array([counted.current, counted.candidate])
        known = sides[:, ~np.isnan(sides).any(axis=0)]
        means = (float(known[0].mean()), float(known[1].mean())) if known.size else means
    shown = {name: getattr(own, name) for name in _SHOWN}
    return GateFigure(method, metric, vanished=vanished, current_counted=means[0], candidate_counted=means[1], **shown)


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


def _found(side: MeasuredMethod, questions: list[int]) -> dict[int, tuple[str, ...]]:
    """The first contexts of these questions, in short."""
    rows = side.rows_of("evidence", questions)
    rows = rows.filter(pl.col("rank") <= _FOUND).sort("question_id", "rank") if rows.height else rows
    gold = dict(zip(side.asked["question_id"], side.asked["gold_passages"].to_list(), strict=True))
    found: dict[int, tuple[str, ...]] = {}
    for row in rows.iter_rows(named=True):
        is_gold = any(span["passage_id"] in gold[row["question_id"]] for span in row["origin"])
        text = f"{'✓ ' if is_gold else ''}{shortened(one_line(row['text']), _TEXT)}"
        found[row["question_id"]] = (*found.get(row["question_id"], ()), text)
    return found
