"""How metrics are shown: which by default, in what order, under which heading, with how many digits."""

from collections.abc import Sequence

from tasks.reports.contents import INDEX_SECONDS, INDEX_USD, STAGE_SECONDS, STAGE_USD, Report
from tasks.reports.statistics.paired import Difference

FIRST = ("accuracy", "exact_match", "f1")
LAST = ("prompt_tokens", "context_tokens", "contexts", "seconds", "usd")
HIDDEN = ("answer_recall", "completion_tokens", "useful_information_bound", INDEX_SECONDS, INDEX_USD)
"""By default in the tables on the disk and in the page only."""
DIFFERENCE_HEADS = ("metric", "difference", "95 % interval", "p", "p (Holm)", "effect", "questions", "higher", "lower")
UNITS = {"seconds": "s", STAGE_SECONDS: "s", INDEX_SECONDS: "s", "usd": "USD", STAGE_USD: "USD", INDEX_USD: "USD"}
QUALITY = ("accuracy", "f1", "exact_match", "rouge", "mauve", "useful_information", "passage_recall", "answer_recall")
LEVEL = 0.05
"""Of significance: a smaller p, corrected, tells a method apart from the baseline."""
HEADINGS = {
    STAGE_SECONDS: "seconds, all stages",
    STAGE_USD: "USD, all stages",
    INDEX_SECONDS: "index seconds",
    INDEX_USD: "index USD",
    "usd": "USD",
    "f1": "F1",
}


def default_columns(report: Report) -> list[str]:
    """Quality, then retrieval, then cost; without what no method has a value for.

    Seconds and USD are the generator's own where it was measured, else those of all stages.
    """
    known = [metric for metric in report.metrics() if any(value is not None for value in report.values(metric))]
    hidden = {STAGE_SECONDS if "seconds" in known else "", STAGE_USD if "usd" in known else "", *HIDDEN}
    hidden |= {"context_tokens"} if "prompt_tokens" in known else set()
    shown = [metric for metric in known if metric.partition("@")[0] not in hidden]
    last = (*LAST, STAGE_SECONDS, STAGE_USD)
    middle = [metric for metric in shown if metric not in FIRST and metric not in last]
    return [*(m for m in FIRST if m in shown), *middle, *(m for m in last if m in shown)]


def chosen_columns(report: Report, columns: Sequence[str] | None) -> list[str]:
    """`columns`, or the default ones. Raises ValueError for one that no method was scored on, with those there are."""
    if columns is None:
        return default_columns(report)
    known = report.metrics()
    if unknown := [column for column in columns if column not in known]:
        raise ValueError(f"{report.run_id} has no metric {', '.join(unknown)}; it has: {', '.join(known) or 'none'}")
    return [*columns]


def heading(metric: str) -> str:
    return HEADINGS.get(metric, metric.replace("_", " "))


def figure(metric: str, value: float | None) -> str:
    """A value with the digits its metric deserves; '–' where there is none."""
    name = metric.partition("@")[0]
    if value is None:
        return "–"
    if name in UNITS:
        return significant(value)
    if name == "contexts" or name.endswith("tokens"):
        return f"{value:,.1f}"
    return f"{value:.3f}" if abs(value) < 100 else f"{value:,.1f}"


def significant(value: float) -> str:
    """Three significant digits, never with an exponent: 0.00123, 12.3, 1,234."""
    if value == 0:
        return "0"
    text = f"{value:.3g}"
    return f"{float(text):,.0f}" if abs(value) >= 100 else f"{float(text):.12f}".rstrip("0").rstrip(".") or "0"


def best(report: Report, metric: str) -> set[int]:
    """Positions of the methods with the best value, ties included; empty where there is nothing to choose."""
    higher = report.higher_is_better(metric)
    values = report.values(metric)
    known = [value for value in values if value is not None]
    if higher is None or len(set(known)) < 2:
        return set()
    top = max(known) if higher else min(known)
    return {position for position, value in enumerate(values) if value == top}


def not_told_apart(report: Report, metric: str) -> set[int]:
    """Positions of the methods whose difference to the baseline is not significant, or has too few questions."""
    found = ((place, method.differences.get(metric)) for place, method in enumerate(report.methods))
    return {place for place, each in found if each and (each.p_holm is None or each.p_holm >= LEVEL)}


def quality_metric(report: Report) -> str | None:
    """What quality is measured with: accuracy if it was scored, else the next of `QUALITY`; of a recall the last k."""
    return first_scored(report, QUALITY)


def first_scored(report: Report, names: Sequence[str]) -> str | None:
    """The first metric that any method has a value for, by the beginnings of names; of several k the last."""
    for name in names:
        found = [metric for metric in report.metrics() if metric.startswith(name)]
        if found := [metric for metric in found if any(value is not None for value in report.values(metric))]:
            return found[-1] if "@" in found[-1] else found[0]
    return None


def difference_cells(metric: str, each: Difference) -> list[tuple[str, bool]]:
    """Texts under `DIFFERENCE_HEADS`, and whether they are significant."""
    told_apart = each.p_holm is not None and each.p_holm < LEVEL
    interval = "too few" if each.low is None or each.high is None else f"{_signed(each.low)} to {_signed(each.high)}"
    counts = (f"{each.questions:,}", f"{each.better:,}", f"{each.worse:,}")
    effect = "–" if each.effect is None else f"{each.effect:+.2f}"
    texts = (heading(metric), _signed(each.mean_difference), interval, _p(each.p), _p(each.p_holm), effect, *counts)
    return [(text, told_apart and place in (1, 2, 4)) for place, text in enumerate(texts)]


def _signed(value: float | None) -> str:
    if value is None:
        return "–"
    text = f"{value:+.3f}" if abs(value) < 100 else f"{value:+,.1f}"
    return f"{value:+.1e}" if value and abs(value) < 0.0005 else text


def _p(p: float | None) -> str:
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"
