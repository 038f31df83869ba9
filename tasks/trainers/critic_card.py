"""What a critic's card tells: discrimination, calibration, and how much its judgements leave to choose."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from vitalfew.tasks.critics.base import Judgement
from vitalfew.tasks.critics.calibration import Calibration, reliability
from vitalfew.tasks.metrics.answers import normalise
from vitalfew.tasks.selectors import Critiqued, front, front_sizes, rank_correlations
from vitalfew.tasks.trainers.discrimination import RELEVANT, Column, Discrimination
from vitalfew.tasks.trainers.judgements import LabelledCandidate

CANDIDATES = 5
"""Of a front, as in PFE-Self-RAG (section 4.1): a question's first ones."""
NAMES = {"isrel": "ISREL", "issup": "ISSUP", "isuse": "ISUSE", "isrel_issup": "ISREL · ISSUP"}


@dataclass(frozen=True, slots=True)
class Fronts:
    """Means over the questions. `size`: candidates on the front of F1 and F2, of `CANDIDATES`; `answers`: different
    answers among these; `single`: the share of fronts of one candidate; `correlation`: Spearman's, of F1 and F2."""

    unit: str
    questions: int
    size: float
    answers: float
    single: float
    correlation: float


def fronts(unit: str, judgements: Sequence[LabelledCandidate], critiques: Sequence[Judgement]) -> Fronts:
    """Of each question's first candidates; `judgements`: question by question, best context first."""
    places: dict[str, list[int]] = {}
    for number, judgement in enumerate(judgements):
        places.setdefault(judgement.candidate.question, []).append(number)
    rows = [numbers[:CANDIDATES] for numbers in places.values()]
    shape = len(rows), max(map(len, rows), default=0)
    scores, same, usable = np.full((3, *shape), np.nan), np.full(shape, -1, np.int64), np.zeros(shape, bool)
    for line, numbers in enumerate(rows):
        texts = [normalise(judgements[number].candidate.answer) for number in numbers]
        for place, number in enumerate(numbers):
            found = critiques[number]
            scores[:, line, place] = found.isrel, found.issup, found.isuse
            same[line, place], usable[line, place] = texts.index(texts[place]), not found.error
    isrel, issup, isuse = scores
    matrix = Critiqued(isrel, issup, isuse, np.full(shape, np.nan), same, usable)
    sizes, on_front = front_sizes(matrix), front(matrix)
    answers = [len(set(same[line, on_front[line]])) for line in range(len(rows))]
    correlations = rank_correlations(matrix)
    known = correlations[~np.isnan(correlations)]
    correlation = float(known.mean()) if len(known) else float("nan")
    return Fronts(
        unit, len(rows), float(np.nanmean(sizes)), float(np.mean(answers)), float(np.mean(sizes == 1)), correlation
    )


def discrimination_table(figures: Sequence[Discrimination]) -> str:
    rows = "\n".join(
        f"| {row.unit}s | {NAMES[row.aspect]}{' of relevant contexts' if row.among == RELEVANT else ''} "
        f"| {row.auc:.3f} | {row.low:.3f}-{row.high:.3f} | {row.ece:.3f} | {row.questions:,} | {row.candidates:,} "
        f"| {100 * row.positive:.0f} |"
        for row in figures
    )
    return f"""| contexts | aspect | AUC | 95 % | ECE | questions | candidates | positive, % |
|---|---|---|---|---|---|---|---|
{rows}"""


def reliability_table(measured: Mapping[str, Column]) -> str:
    """Ten bins a judgement; a cell is the mean probability, the share that is true, and the candidates."""
    bins = {aspect: reliability(scores, truth) for aspect, (scores, truth, _) in measured.items()}
    count = len(next(iter(bins.values())))
    lines = [
        f"| {place / count:.1f}-{(place + 1) / count:.1f} | "
        + " | ".join(
            f"{found[place].told:.2f} → {found[place].true:.2f} ({found[place].size:,})" if found[place].size else "-"
            for found in bins.values()
        )
        + " |"
        for place in range(count)
    ]
    head = f"| probability | {' | '.join(NAMES[aspect] for aspect in bins)} |\n|{'---|' * (len(bins) + 1)}"
    return "\n".join([head, *lines])


def fronts_table(rows: Sequence[Fronts]) -> str:
    lines = "\n".join(
        f"| {row.unit}s | {row.questions:,} | {row.size:.2f} | {row.answers:.2f} | {100 * row.single:.0f} "
        f"| {row.correlation:.2f} |"
        for row in rows
    )
    return f"""| contexts | questions | candidates on the front | different answers | fronts of one, % | F1 with F2 |
|---|---|---|---|---|---|
{lines}"""


def lines_text(calibration: Calibration) -> str:
    """The fitted lines, as log-odds."""
    return "; ".join(
        f"{NAMES[aspect]} {line['slope']:.2f} x {line['offset']:+.2f}"
        for aspect, line in calibration.settings().items()
    )
