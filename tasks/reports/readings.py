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
_MOST = 4


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


def sentences(report: Report, chosen: MethodResult | None = None) -> list[str]:
    """A sentence for every method; of more than `_MOST` for the first baseline and the `chosen` one."""
    shown = report.methods
    if len(shown) > _MOST:
        kept = [shown[place] for place in report.baselines()[:1]] + ([chosen] if chosen else [])
        shown = tuple(method for method in shown if any(method is each for each in kept))
    return [_sentence(method, own) for method in shown if (own := method.reading)]


def _sentence(method: MethodResult, own: ReaderCounts) -> str:
    missed, unread = own.questions - own.held, own.held - own.answered
    after = "the model" if own.whole else "the refiner or the model"
    line = (
        f"{shortened(method.label, _NAME)}: retrieval misses the answer to {missed:,} of {own.questions:,} "
        f"{'question' if own.questions == 1 else 'questions'} (in {own.where})"
    )
    others = f"the other {own.held:,}" if missed else "them"
    return f"{line}; {after} gets {unread:,} of {others} wrong." if own.held else f"{line}."


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
        f"{generator or 'The generator'} answers at most {own.answered:,} of {own.held:,} questions right whose answer "
        f"it is shown ({shortened(best.label, _NAME)}). A better generator would change more than a better method."
    ]


def _share(method: MethodResult) -> float:
    return method.reading.answered / method.reading.held if method.reading and method.reading.held else 0.0
