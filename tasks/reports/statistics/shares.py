"""How often people prefer one of two methods, where the answers to some questions are the same text.

Such a question is a tie by definition, and the share of them is known without asking anybody. People see a random
sample of the others. That is stratified sampling (Cochran, Sampling Techniques, 1977, chapter 5) with a stratum that
does not vary: with D of N questions in the other one, whose estimate has the mean m and the half width h, the mean over
all is

    1/2 + D / N · (m − 1/2)

and the half width is the root of (D / N · h)² + z² · D / N · (1 − D / N) · (m − 1/2)² / N. The second term is there
because further questions would have another share of equal answers: intervals are of questions like these, as all
others of a report are. It is the smaller one unless nearly all labels are there.

In simulations of 100 and 300 questions, of which 30 or 70 % differ, with 15 to 200 labels, 95 % intervals hold the
truth in 93 to 99 %.
"""

import math

from scipy import special

from vitalfew.tasks.reports.statistics.bootstrap import CONFIDENCE, Interval

TIE = 0.5
"""The value of a question on which neither method is better; 1 where the first is, 0 where the second is."""


def over_all(differing: Interval, alike: int) -> Interval:
    """The interval of the mean over all questions, 0 to 1, from that over the `differing` ones, and how many are
    `alike`."""
    mean = differing.mean
    if mean is None:
        return differing
    questions = differing.questions + alike
    share = differing.questions / questions
    middle = TIE + share * (mean - TIE)
    if differing.low is None or differing.high is None:
        return Interval(middle, None, None, questions)
    between = special.ndtri((1 + CONFIDENCE) / 2) * abs(mean - TIE) * math.sqrt(share * (1 - share) / questions)
    # The ends of an interval need not lie equally far from its mean: it is cut off at 0 and 1.
    low, high = (math.hypot(share * (end - mean), between) for end in (differing.low, differing.high))
    return Interval(middle, max(0.0, middle - low), min(1.0, middle + high), questions)
