"""What sets of answers gain, and how much of it any set of their size would.

A set counts as right if any member is, so it gains by its size alone: a random set of the same size, drawn from the
same candidates, tells how much.
"""

from vitalfew.tasks.reports.contents import MethodResult, Report
from vitalfew.tasks.reports.shown.columns import figure
from vitalfew.tasks.reports.shown.text import shortened

ANY, DRAWN, SIZE = "set_any", "set_drawn", "set_size"
CONTROLS = {
    "random_set_any": "a random set of the same size",
    "first_random_any": "its first answer with random others",
}
_NAME = 60


def gains(report: Report) -> list[str]:
    """A sentence for every method that gives several answers, against its baseline."""
    pairs = [(own, report.methods[own.against]) for own in report.methods if own.against is not None]
    return [line for method, baseline in pairs if (line := _gain(report, method, baseline))]


def _gain(report: Report, method: MethodResult, against: MethodResult) -> str:
    baseline = shortened(against.label, _NAME)
    single = report.measures(against).get(ANY)
    one = single.value if single else None
    values = {metric: summary.value for metric, summary in report.measures(method).items()}
    any_right, drawn, size = (values.get(metric) for metric in (ANY, DRAWN, SIZE))
    controls = [(name, value) for metric, name in CONTROLS.items() if (value := values.get(metric)) is not None]
    if one is None or any_right is None or drawn is None or size is None or size <= 1:
        return ""
    sentence = (
        f"{shortened(method.label, _NAME)}: {size:.2f} answers per question. Share of questions answered right by any "
        f"of them: {figure(any_right)}, by one drawn from them: {figure(drawn)}, "
        + ", ".join(f"by any of {name}: {figure(value)}" for name, value in controls)
    )
    gain = any_right - one
    if gain <= 0:
        return f"{sentence}. No gain over {baseline} ({figure(one)})."
    shares = [f"{name} {_share(value - one, gain)}" for name, value in controls]
    return f"{sentence}. The gain over {baseline} ({figure(one)}) is {gain:.3f}; {' and '.join(shares)}."


def _share(part: float, gain: float) -> str:
    return f"gets {part / gain:.0%} of it" if part > 0 else "gets none of it"
