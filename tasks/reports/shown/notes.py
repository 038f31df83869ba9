"""What the figures do not say of themselves: what could not be scored and why, errors, what the run paid."""

from collections import defaultdict

from tasks.reports.contents import BestAlpha, MethodResult, Report, StageCost
from tasks.reports.plots.answer_sets import gains
from tasks.reports.shown.columns import heading, quality_metric, significant
from tasks.reports.shown.text import listed, one_line, shortened
from tasks.reports.statistics.bootstrap import MIN_QUESTIONS
from tasks.reports.statistics.power import questions_needed, visible_difference

ANSWERED = ("accuracy", "exact_match", "choice", "f1", "rouge", "mauve")
SETS = ("set_any", "set_drawn", "set_right", "random_set_any", "first_random_any", "oracle")
_NEEDS = {
    "an answer and gold answers": (*ANSWERED, *SETS),
    "hits and gold answers": ("answer_recall",),
    "hits and gold passages": ("passage_recall", "mrr", "ndcg", "first_rank"),
    "contexts and gold passages": ("context_recall",),
    "contexts and supporting facts": ("useful_information",),
    "an answer": ("prompt_tokens", "completion_tokens", "seconds", "usd"),
}
"""What a question has to have for a metric, by the beginning of the metric's name."""
_ERROR_LENGTH = 160
_NAME_LENGTH = 60


def notes(report: Report) -> list[str]:
    """Sentences for below the table, one line each."""
    return [*warnings(report), *statistics(report), *paid(report)]


def warnings(report: Report) -> list[str]:
    """What could not be scored and why; answers that failed, with their first messages."""
    return [*_unscored(report), *_errors(report)]


def statistics(report: Report) -> list[str]:
    """What the differences rest on, and how many questions a smaller one would take."""
    metric = quality_metric(report)
    found = [method.differences[metric] for method in report.methods if metric and metric in method.differences]
    lines = [*gains(report), *(_best(report, each) for each in report.best_alphas if each.metric == metric)]
    lines += [f"Means of {len(seeds)} seeds ({', '.join(map(str, seeds))})." for seeds in _seeds(report)]
    if not metric or not found:
        return lines
    questions = max(each.questions for each in found)
    if questions < MIN_QUESTIONS:
        need = f"an interval takes {MIN_QUESTIONS} at least"
        return [
            *lines,
            f"Too few questions to tell methods apart: {questions} with a value of {heading(metric)}, {need}.",
        ]
    sd = max(each.sd or 0.0 for each in found)
    seen = visible_difference(sd, questions)
    lines.append(
        "Differences to the baseline: paired over questions; 95 % bootstrap intervals, sign-flip test, Holm's "
        "correction over the methods."
    )
    if sd and seen:
        goal = 0.05 if seen > 0.05 else 0.02 if seen > 0.02 else 0.01
        lines.append(
            f"{questions:,} questions show a difference of {seen:.3f} in {heading(metric)} four times in five; "
            f"one of {goal:g} takes {questions_needed(sd, goal):,}."
        )
    return lines


def _best(report: Report, best: BestAlpha) -> str:
    family = f" ({best.family})" if best.family else ""
    return (
        f"{heading(best.metric)} is highest at alpha {best.alpha:g}{family}; in 95 % of resamples of the questions the "
        f"best alpha lies between {best.low:g} and {best.high:g}."
    )


def _seeds(report: Report) -> list[tuple[int, ...]]:
    return [*dict.fromkeys(method.seeds for method in report.methods if method.seeds)]


def asked(report: Report) -> str:
    """One line on the questions."""
    source = report.asked
    parts = [
        f"{source.questions:,} {'question' if source.questions == 1 else 'questions'} of {one_line(source.source)}"
    ]
    if source.where:
        parts.append(f"where {one_line(source.where)}")
    if source.seed is not None:
        parts.append(f"drawn with seed {source.seed}")
    return ", ".join(parts)


def _unscored(report: Report) -> list[str]:
    """Metrics with the same gap in the same methods share a line."""
    gaps: dict[str, dict[tuple[int, int], list[str]]] = defaultdict(lambda: defaultdict(list))
    for method in report.methods:
        for metric, summary in report.measures(method).items():
            if summary.left_out or summary.value is None:
                gaps[metric][summary.left_out, summary.left_out + summary.questions].append(
                    shortened(method.label, _NAME_LENGTH)
                )
    lines: dict[tuple[int, int, str, str], list[str]] = defaultdict(list)
    for metric, found in gaps.items():
        for (left_out, total), methods in found.items():
            lines[left_out, total, _methods(methods, report), _needs(metric)].append(metric)
    return [_gap(*gap, metrics) for gap, metrics in lines.items()]


def _gap(left_out: int, total: int, methods: str, needs: str, metrics: list[str]) -> str:
    parts = (metric.partition("@") for metric in metrics)
    shown = [*dict.fromkeys(f"{heading(name)}{'@k' if at else ''}" for name, at, _ in parts)]
    names = f"{listed(shown, 6)} ({methods})"
    wants = f": {'they need' if len(shown) > 1 else 'it needs'} {needs}" if needs else ""
    if left_out >= total:
        return f"Not scored: {names}{wants}."
    return f"{left_out:,} of {total:,} questions are left out of {names}{wants}."


def _name(method: MethodResult) -> str:
    return shortened(method.label, _NAME_LENGTH)


def _needs(metric: str) -> str:
    return next((needs for needs, names in _NEEDS.items() if metric.startswith(names)), "")


def _methods(names: list[str], report: Report) -> str:
    if len(names) == len(report.methods):
        return "every method" if len(names) > 1 else names[0]
    return listed(names)


def _errors(report: Report) -> list[str]:
    found = []
    for method in report.methods:
        if method.error_rows:
            texts = "; ".join(shortened(one_line(text), _ERROR_LENGTH) for text in method.errors)
            count = f"{method.error_rows:,} of {report.asked.questions:,} questions got no answer"
            found.append(f"{_name(method)}: {count}{f': {texts}' if texts else ''}.")
    return found


def paid(report: Report) -> list[str]:
    """What this run paid, and what it took from earlier ones or from another of its methods."""
    costs = [cost for method in report.methods for cost in method.costs]
    if not costs:
        return []
    line = f"This run paid {_total([cost for cost in costs if not cost.reused])}."
    if reused := [cost for cost in costs if cost.reused]:
        stages = ", ".join(dict.fromkeys(one_line(cost.stage) for cost in reused))
        line += f" Reused and not paid again ({stages}): {_total(reused)}."
    return [line]


def _total(costs: list[StageCost]) -> str:
    seconds = sum(cost.cpu_seconds for cost in costs)
    return f"{significant(sum(cost.usd for cost in costs))} USD for {significant(seconds)} CPU s"
