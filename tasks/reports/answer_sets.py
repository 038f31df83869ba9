"""What sets of answers gain, and how much of it any set of their size would.

A set counts as right if any member is, so it gains by its size alone: a random set of the same size, drawn from the
same candidates, tells how much.
"""

from tasks.reports.columns import figure
from tasks.reports.results import MethodResult, Report
from tasks.reports.text import shortened

ANY, RANDOM, DRAWN, SIZE = "set_any", "random_set_any", "set_drawn", "set_size"
_NAME = 60


def gains(report: Report) -> list[str]:
    """A sentence for each method that gives several answers, against its baseline."""
    pairs = [(each, report.methods[each.against]) for each in report.methods if each.against is not None]
    return [line for method, baseline in pairs if (line := _gain(report, method, baseline))]


def _gain(report: Report, method: MethodResult, against: MethodResult) -> str:
    baseline = shortened(against.label, _NAME)
    single = report.measures(against).get(ANY)
    one = single.value if single else None
    values = {metric: summary.value for metric, summary in report.measures(method).items()}
    found, by_chance, drawn, size = (values.get(metric) for metric in (ANY, RANDOM, DRAWN, SIZE))
    if one is None or found is None or by_chance is None or drawn is None or size is None or size <= 1:
        return ""
    said = (
        f"{shortened(method.label, _NAME)}: {size:.2f} answers a question, any of them right in {figure(ANY, found)}, "
        f"one drawn from them in {figure(DRAWN, drawn)}, any of a random set of the same size in "
        f"{figure(RANDOM, by_chance)}"
    )
    gain, without = found - one, by_chance - one
    if gain <= 0:
        return f"{said}: no gain over {baseline} ({figure(ANY, one)})."
    share = f"{without / gain:.0%} of it" if without > 0 else "nothing of it"
    return f"{said}. Of its gain over {baseline} ({figure(ANY, one)}), {gain:.3f}, the random set gets {share}."
