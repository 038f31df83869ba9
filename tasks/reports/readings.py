"""Retrieval, refiner or reader: whether questions fail because their answer was not retrieved, was dropped between the
hits and the prompt, or was not read.

A question's answer is there where a gold answer's text stands in the contexts of the prompt (`answer_shown`,
`first_rank_missing` or `answer_kept`), or, where none was scored, in its first hits (`answer_recall@k`, the largest k).
It is read where accuracy (else exact match) counts the answer as right. A question that is answered right without that
is in neither count: the reader knew it, or the text says it in other words. Where the gold passage or facts were found,
and no gold answer stands in them, it is the gold answer that is worded otherwise, and the report says so.
"""

from collections.abc import Mapping

import numpy as np

from vitalfew.tasks.reports.contents import MethodResult, ReaderCounts, Report
from vitalfew.tasks.reports.runs import QuestionScores, Values
from vitalfew.tasks.reports.shown.text import count, shortened
from vitalfew.tasks.reports.statistics.bootstrap import MIN_QUESTIONS

RECALL, PASSAGES = "answer_recall@", "passage_recall@"
RIGHT = ("accuracy", "exact_match")
HALF = 0.5
"""A generator that answers fewer of the questions whose answer it was shown loses more than it gets: whatever a method
brings it, most of that is lost."""
_NAME = 48
_MOST = 4


def reading(scores: QuestionScores, top_k: int, unit: str = "hit", is_refined: bool = False) -> ReaderCounts | None:
    """The counts of a method; None where one of the two was not scored. `top_k`: hits of a question, at most;
    `unit`: the kind of a hit; `is_refined`: a refiner stands between hits and prompt."""
    values = scores.values
    right = next((values[metric] for metric in RIGHT if metric in values), None)
    shown, (found, where) = _shown(values), _found(values, top_k, unit)
    there = found if shown is None else shown
    if right is None or there is None:
        return None
    known = ~np.isnan(right) & ~np.isnan(there)
    if not known.any():
        return None
    held = known & (there >= HALF)
    dropped = known & ~held & (found >= HALF) if found is not None else np.zeros_like(known)
    whole = shown is not None or not (is_refined or _is_cut(values, top_k))
    if shown is not None and (found is None or not is_refined):
        where = "the contexts"
    answered, is_told_apart = held & (right >= HALF), found is not None or not is_refined
    worded = known & ~held & ~dropped & (_gold(values, unit) >= 1.0)
    return ReaderCounts(
        int(known.sum()), int(held.sum()), int(answered.sum()), where, whole, int(dropped.sum()), is_told_apart,
        int(worded.sum()),
    )  # fmt: skip


def _gold(values: Mapping[str, Values], unit: str) -> Values:
    """Return, by question, the share of its gold facts that the contexts show, or of its gold passages among the whole
    passages that were searched for the answer; 0 where neither was scored."""
    passages = values.get(f"{PASSAGES}{_last(values)}") if unit == "passage" else None
    scored = [np.nan_to_num(own) for own in (values.get("sp_recall"), passages) if own is not None]
    return np.max(scored, axis=0) if scored else np.zeros_like(next(iter(values.values())))


def _shown(values: Mapping[str, Values]) -> Values | None:
    """By question whether the prompt holds the answer, 1.0 or 0.0; None where that was not scored."""
    if "answer_shown" in values:
        return values["answer_shown"]
    if "first_rank_missing" in values:
        return 1.0 - values["first_rank_missing"]
    # Unknown where no hit has the answer: no context has it then.
    return np.nan_to_num(values["answer_kept"]) if "answer_kept" in values else None


def _found(values: Mapping[str, Values], top_k: int, unit: str) -> tuple[Values | None, str]:
    """By question whether the hits hold the answer, 1.0 or 0.0, and which hits; None where that was not scored."""
    if not (last := _last(values)):
        kept = values.get("answer_kept")
        return None if kept is None else np.where(np.isnan(kept), 0.0, 1.0), f"the {unit}s"
    hits = min(last, top_k)
    return values[f"{RECALL}{last}"], f"the first {hits} {unit}s" if hits > 1 else f"the first {unit}"


def _last(values: Mapping[str, Values]) -> int:
    """The largest k of the scored recalls of answers; 0 without any."""
    return max((int(name.removeprefix(RECALL)) for name in values if name.startswith(RECALL)), default=0)


def _is_cut(values: Mapping[str, Values], top_k: int) -> bool:
    """Return whether prompts have fewer contexts than hits were searched for the answer."""
    contexts = values.get("contexts")
    if contexts is None or np.isnan(contexts).all():
        return False
    return float(np.nanmean(contexts)) < min(_last(values), top_k)


def sentences(report: Report, chosen: MethodResult | None = None) -> list[str]:
    """A sentence for every method; of more than `_MOST` for the first baseline and the `chosen` one."""
    shown = report.methods
    if len(shown) > _MOST:
        kept = [shown[place] for place in report.baselines()[:1]] + ([chosen] if chosen else [])
        shown = tuple(method for method in shown if any(method is each for each in kept))
    return [_sentence(method, own) for method in shown if (own := method.reading)]


def _sentence(method: MethodResult, own: ReaderCounts) -> str:
    missed, unread = own.questions - own.held - own.dropped - own.worded, own.held - own.answered
    before = "retrieval" if own.is_told_apart else "retrieval or the refiner"
    after = "the model" if own.whole else "the refiner or the model"
    line = (
        f"{shortened(method.label, _NAME)}: {before} misses the answer to {missed:,} of "
        f"{count(own.questions, 'question')} (in {own.where})"
    )
    if own.dropped:
        line += f"; of {own.dropped:,} it is retrieved but does not reach the prompt"
    if own.worded:
        line += f"; for {own.worded:,} the gold text was found, and no gold answer stands in it: check the gold answers"
    others = f"the other {own.held:,}" if own.held < own.questions else "them"
    return f"{line}; {after} gets {unread:,} of {others} wrong." if own.held else f"{line}."


def warning(report: Report) -> list[str]:
    """A sentence where all methods answer with one generator, and it loses most of what they show it. Methods of which
    only the hits were searched for the answer, and not what a refiner made of them, do not count."""
    read = [
        method
        for method in report.methods
        if method.reading and method.reading.whole and method.reading.held >= MIN_QUESTIONS
    ]
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
