"""The scores of a method question by question, as arrays that methods can be compared by."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from vitalfew.storage.artifacts import Manifest

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class QuestionScores:
    """`ids`, int64 (n,): the questions, ascending; `values`: by metric, float64 (n,), NaN where a question gave no
    ground for it."""

    ids: npt.NDArray[np.int64]
    values: dict[str, Values]

    def of(self, metric: str, ids: npt.NDArray[np.int64]) -> Values:
        """The metric of these questions, which must be among `ids`; NaN throughout where it was not scored."""
        if metric not in self.values:
            return np.full(len(ids), np.nan)
        return self.values[metric][np.searchsorted(self.ids, ids)]


def read_question_scores(store: Path, asked: Manifest, scores: Sequence[Manifest]) -> QuestionScores:
    """Of one method, or the means over several seeds of it (over those that scored the question)."""
    ids = np.sort(asked.read(store, "asked", ["question_id"])["question_id"].to_numpy())
    tables = [manifest.read(store, "scores") for manifest in scores]
    metrics = dict.fromkeys(metric for table in tables for metric in pc.unique(table["metric"]).to_pylist())
    return QuestionScores(ids, {metric: _mean([_values(table, metric, ids) for table in tables]) for metric in metrics})


def _mean(values: Sequence[Values]) -> Values:
    if len(values) == 1:
        return values[0]
    stacked = np.stack(values)
    known = ~np.isnan(stacked)
    counts = known.sum(axis=0)
    totals = np.where(known, stacked, 0.0).sum(axis=0)
    return np.divide(totals, counts, out=np.full(totals.shape, np.nan), where=counts > 0)


def _values(table: pa.Table, metric: str, ids: npt.NDArray[np.int64]) -> Values:
    rows = table.filter(pc.equal(table["metric"], metric))
    values = np.full(len(ids), np.nan)
    values[np.searchsorted(ids, rows["question_id"].to_numpy())] = rows["value"].to_numpy()
    return values
