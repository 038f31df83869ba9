"""How metrics are shown: which by default, in what order, under which heading, with how many digits."""

from collections.abc import Sequence

from tasks.reports.results import STAGE_SECONDS, STAGE_USD, Report

FIRST = ("accuracy", "exact_match", "f1")
LAST = ("prompt_tokens", "contexts", "seconds", "usd")
HIDDEN = ("answer_recall", "completion_tokens")
"""By default in the tables on the disk and in the page only."""
UNITS = {"seconds": "s", STAGE_SECONDS: "s", "usd": "USD", STAGE_USD: "USD"}
HEADINGS = {STAGE_SECONDS: "seconds, all stages", STAGE_USD: "USD, all stages", "usd": "USD", "f1": "F1"}


def default_columns(report: Report) -> list[str]:
    """Quality, then retrieval, then cost; without what no method has a value for.

    Seconds and USD are the generator's own where it was measured, else those of all stages.
    """
    known = [metric for metric in report.metrics() if any(value is not None for value in report.values(metric))]
    hidden = {STAGE_SECONDS if "seconds" in known else "", STAGE_USD if "usd" in known else "", *HIDDEN}
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
