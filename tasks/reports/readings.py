"""Retrieval against reader: whether questions fail because their answer was not retrieved, or because it was not read.

A question's answer is there where a gold answer's text stands in the contexts of the prompt (`answer_shown`,
`first_rank_missing` or `answer_kept`), or, where none was scored, in its first hits (`answer_recall@k`, the largest k).
It is read where accuracy (else exact match) counts the answer as right. A question that is answered right without that
is in neither count: the reader knew it, or the text says it in other words.
"""

import numpy as np

from vitalfew.tasks.reports.contents import MethodResult, ReaderCounts, Report
from vitalfew.tasks.reports.runs import QuestionScores, Values
from vitalfew.tasks.reports.shown.text import shortened
from vitalfew.tasks.reports.statistics.bootstrap import MIN_QUESTIONS

RECALL = "answer_recall@"
RIGHT = ("accuracy", "exact_match")
HALF = 0.5
"""A generator that answers fewer of the questions whose answer it was shown loses more than it gets: whatever a method
brings it, most of that is lost."""
_NAME = 48
_MOST = 6


def reading(scores: QuestionScores, top_k: int, unit: str = "hit") -> ReaderCounts | None:
    """The counts of a method; None where one of the two was not scored. `top_k`: hits of a question, at most;
    `unit`: the kind of a hit."""
    right = next((scores.values[metric] for metric in RIGHT if metric in scores.values), None)
    if right is None:
        return None
    there, where, whole = _there(scores, top_k, unit)
    if there is None:
        return None
    known = ~np.isnan(right) & ~np.isnan(there)
    found = known & (there >= HALF)
    answered = found & (right >= HALF)
    return ReaderCounts(int(known.sum()), int(found.sum()), int(answered.sum()), where, whole) if known.any() else None


def _there(scores: QuestionScores, top_k: int, unit: str) -> tuple[Values | None, str, bool]:
    """By question whether the answer is there (1.0 or 0.0), in what, and whether the reader saw all of that."""
    values = scores.values
    if "answer_shown" in values:
        return values["answer_shown"], "the contexts", True
    if "first_rank_missing" in values:
        return 1.0 - values["first_rank_missing"], "the contexts", True
    if "answer_kept" in values:  # unknown where no hit has the answer: a context has it no more
        return np.nan_to_num(values["answer_kept"]), "the contexts", True
    recalls = {int(name.removeprefix(RECALL)): own for name, own in values.items() if name.startswith(RECALL)}
    if not recalls:
        return None, "", True
    hits, contexts = min(max(recalls), top_k), values.get("contexts")
    cut = contexts is not None and not np.isnan(contexts).all() and float(np.nanmean(contexts)) < hits
    return recalls[max(recalls)], f"the first {hits} {unit}s" if hits > 1 else f"the first {unit}", not cut


def sentences(report: Report) -> list[str]:
    """A sentence for every method, or for the baselines and the best where there are many."""
    return [_sentence(method, own) for method in _worded(report) if (own := method.reading)]


def _worded(report: Report) -> list[MethodResult]:
    if len(report.methods) <= _MOST:
        return [*report.methods]
    places = report.baselines()[:1]
    others = [place for place in range(len(report.methods)) if place not in places]
    sign = -1 if report.primary and report.column(report.primary).direction == "lower" else 1
    best = sorted(others, key=lambda place: -sign * (report.value(report.methods[place], report.primary) or 0.0))
    return [report.methods[place] for place in [*places, *best[:1]]]


def _sentence(method: MethodResult, own: ReaderCounts) -> str:
    missed, unread = own.questions - own.held, own.held - own.answered
    after = "the reader" if own.whole else "refiner or reader"
    if missed > unread:
        verdict = f"retrieval fails more ({missed:,} against {unread:,})"
    elif missed < unread:
        verdict = f"{after} fails more ({unread:,} against {missed:,})"
    else:
        verdict = f"retrieval fails as often as {after} ({missed:,} and {missed:,})" if missed else "neither fails"
    return (
        f"{shortened(method.label, _NAME)}: the answer was among {own.where} of {own.held:,} of {own.questions:,} "
        f"{'question' if own.questions == 1 else 'questions'} and answered right in {own.answered:,}: {verdict}."
    )


def warning(report: Report) -> list[str]:
    """A sentence where all methods answer with one generator, and it loses most of what they bring it."""
    read = [method for method in report.methods if method.reading and method.reading.held >= MIN_QUESTIONS]
    generators = {method.generator for method in read}
    if len(read) < 2 or len(generators) > 1 or any(_share(method) >= HALF for method in read):
        return []
    best = max(read, key=_share)
    own, generator = best.reading, best.generator
    assert own is not None
    return [
        f"All methods answer with {generator or 'one generator'}, which answers at most {own.answered:,} of "
        f"{own.held:,} questions right whose answer is among {own.where} ({shortened(best.label, _NAME)}): a better "
        "generator would change more than a better method."
    ]


def _share(method: MethodResult) -> float:
    return method.reading.answered / method.reading.held if method.reading and method.reading.held else 0.0
