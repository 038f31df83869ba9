"""What a run says of a claim: it holds, does not hold, or is open, and then how many questions would settle it.

A claim "at least V" with a margin m is one of non-inferiority (Piaggio et al., Reporting of Noninferiority and
Equivalence Randomized Trials, JAMA 308(24), 2012): it holds where the whole interval lies above V − m, and does not
where it lies below. Without a margin two equal methods are never told apart: "no worse" stays open however many
questions are asked.
"""

import math
from typing import Literal

from vitalfew.tasks.reports.statistics.bootstrap import MIN_QUESTIONS, Interval
from vitalfew.tasks.reports.statistics.power import questions_needed

HOLDS, FAILS, OPEN = "holds", "does not hold", "open"
_HALF = 1.959964
"""Half the width of a 95 % interval, in standard errors."""
_FINE = 100
"""What lies nearer to a line than such a part of its interval is on it: no number of questions is worth telling."""


def verdict(claim: Literal["at_least", "at_most"], goal: float, margin: float, ours: Interval) -> str:
    """`goal`, `margin`: in the unit of ours. Where ours is one measurement and has no interval, `ours.questions` is 0,
    and its value decides."""
    sign = 1 if claim == "at_least" else -1
    if ours.mean is None:
        return ""
    if ours.low is None or ours.high is None:
        if ours.questions:
            return f"{OPEN}: at least {MIN_QUESTIONS} questions are needed"
        return HOLDS if sign * ours.mean >= sign * goal - margin else FAILS
    worst, best = sorted((sign * ours.low, sign * ours.high))
    if worst >= sign * goal - margin:
        return f"{HOLDS}, superior" if margin and worst > sign * goal else HOLDS
    if best < sign * goal - margin:
        return FAILS
    return f"{OPEN}: {_settled(ours, goal - sign * margin)}"


def _settled(ours: Interval, line: float) -> str:
    """How many questions tell such a value from the line, if it stays what it is; rounded up to two digits."""
    mean, low, high = (value or 0.0 for value in (ours.mean, ours.low, ours.high))
    sd = (high - low) / (2 * _HALF) * math.sqrt(ours.questions)
    far = abs(mean - line) * _FINE > high - low
    needed = questions_needed(sd, mean - line) if far else None
    if needed is None:
        return "our value is on the line"
    unit = 10 ** max(0, len(str(needed)) - 2)
    return f"about {math.ceil(needed / unit) * unit:,} questions would settle it"
