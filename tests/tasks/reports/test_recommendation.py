"""The sentence that a report begins with: what was shown, what it costs, and how many questions are missing."""

import io
import math
from dataclasses import replace

import pytest
from rich.console import Console

from tests.support import reports
from vitalfew.library.report import Report as Api
from vitalfew.tasks.reports.contents import MethodResult, MetricSummary, Report, StageCost
from vitalfew.tasks.reports.recommendation import MARGIN, recommendation
from vitalfew.tasks.reports.shown.columns import cells
from vitalfew.tasks.reports.shown.markdown import markdown_report
from vitalfew.tasks.reports.shown.page import page
from vitalfew.tasks.reports.shown.terminal import terminal_report
from vitalfew.tasks.reports.statistics.paired import Difference


def against(
    mean: float, p: float | None, low: float | None = -0.1, high: float | None = 0.1, **given: float
) -> Difference:
    """A difference of 149 questions."""
    values = {"sd": 0.4, "questions": 149, "better": 9, "worse": 11, "equal": 129, **given}
    return Difference(mean, low, high, p, effect=None, p_holm=p, **values)  # type: ignore[arg-type]


def compared(metric: str = "accuracy", **methods: tuple[float, float, Difference]) -> Report:
    """naive RAG of 1,000 prompt tokens, and methods with their value, their tokens and their difference to it."""

    def named(name: str, value: float, tokens: float, **differences: Difference) -> MethodResult:
        summaries = reports.summaries(**{metric: value}, prompt_tokens=tokens)
        return MethodResult(name.replace("_", " "), {}, summaries, differences=differences)

    others = (named(name, value, tokens, **{metric: own}) for name, (value, tokens, own) in methods.items())
    return reports.report(named("naive RAG", 0.7, 1000.0), *others)


def test_where_nothing_is_shown_the_cheapest_of_those_not_far_below_is_named_with_what_it_may_cost() -> None:
    report = compared(
        Oreo=(0.66, 20.0, against(-0.04, 0.7, -0.2, 0.1)),
        ParetoRAG=(0.68, 70.0, against(-MARGIN, 0.7, -0.101, 0.06)),
        MMR=(0.72, 500.0, against(0.02, 0.6)),
    )
    assert recommendation(report) == (
        "Nothing is shown to be better or worse than naive RAG in accuracy. Cheapest in prompt tokens of those at most "
        "0.02 below naive RAG in this sample: ParetoRAG, with 7 % of naive RAG's prompt tokens, but perhaps worse by "
        "up to 0.101; best in this sample: MMR, +0.020. 354 more questions would detect a difference of 0.05 (80 % "
        "power, by this sample's spread)."
    )
    needed = math.ceil(((1.959964 + 0.841621) * 0.4 / 0.05) ** 2)
    assert needed - 149 == 354


@pytest.mark.parametrize(
    ("mean", "p", "start"),
    [(0.01, 0.9, "in this sample: "), (0.1, 0.001, "Take "), (0.1, None, "Best so far: ")],
)
def test_what_is_named_has_the_tokens_that_it_used_of_its_budget(mean: float, p: float | None, start: str) -> None:
    naive, ours = compared(spans=(0.7 + mean, 70.0, against(mean, p))).methods
    ours = replace(ours, budget=120, summaries={**ours.summaries, **reports.summaries(context_tokens=52.04)})
    line = recommendation(reports.report(naive, ours))
    assert f"{start}spans (52.0 of 120 tokens), " in line.replace(": shown", ", shown")


def priced(report: Report, *usd: float | None) -> Report:
    """The methods took so much in one stage, if nothing had been known; None: that is not recorded."""
    methods = (
        own if each is None else replace(own, costs=(StageCost("generate", whole_usd=each),))
        for own, each in zip(report.methods, usd, strict=True)
    )
    return replace(report, methods=tuple(methods))


def test_cheapest_is_by_all_stages_where_every_method_has_that_cost() -> None:
    report = compared(few=(0.7, 70.0, against(0.0, 0.9)), fast=(0.71, 300.0, against(0.01, 0.9)))
    line = recommendation(priced(report, 0.001, 0.002, 0.0004))
    assert "Cheapest in USD of those at most 0.02 below naive RAG in this sample: fast, with 40 % of naive " in line
    assert "RAG's USD and 30 % of its prompt tokens, but perhaps" in line
    assert "best in this sample" not in line
    line = recommendation(priced(report, 0.001, None, 0.0004))
    assert "Cheapest in prompt tokens of those at most 0.02 below naive RAG in this sample: few, with 7 % of " in line
    assert "best in this sample: fast, +0.010." in line


def test_what_is_shown_to_be_worse_is_not_named_as_the_cheapest() -> None:
    report = compared(cheap=(0.5, 20.0, against(-0.2, 0.001, -0.3, -0.1)), fair=(0.69, 400.0, against(-0.01, 0.8)))
    line = recommendation(report)
    assert line.startswith("Nothing is shown to be better than naive RAG in accuracy, and cheap is shown to be worse. ")
    assert ": fair, with 40 % of naive RAG's prompt tokens" in line


@pytest.mark.parametrize("asked", [6, 15, 29])
def test_below_thirty_questions_the_best_so_far_is_named_and_nothing_chosen(asked: int) -> None:
    ends = (None, None) if asked < 10 else (0.0, 0.333)
    p = None if asked < 10 else 0.01
    report = compared(
        Oreo=(0.6, 60.0, against(-0.1, p, *ends, questions=asked)),
        ParetoRAG=(0.867, 190.0, against(0.133, p, *ends, questions=asked)),
    )
    interval = "" if asked < 10 else " (95 % interval +0.000 to +0.333)"
    assert recommendation(report) == (
        f"No choice can be made yet: {asked} questions are too few, ask at least 30. Best so far: ParetoRAG, accuracy "
        f"0.867, +0.133 against naive RAG{interval}, with 19 % of naive RAG's prompt tokens. Detecting a difference of "
        "0.05 takes about 503 questions (80 % power)."
    )


def test_the_best_so_far_may_be_the_baseline() -> None:
    line = recommendation(compared(Oreo=(0.6, 60.0, against(-0.1, 0.5, -0.3, 0.1, questions=15))))
    assert "Best so far: naive RAG, accuracy 0.700. Detecting" in line


def test_where_all_are_worse_one_stays_with_the_baseline() -> None:
    worse = against(-0.2, 0.001, -0.3, -0.1)
    assert recommendation(compared(a=(0.5, 20.0, worse), b=(0.5, 30.0, worse))) == (
        "Stay with naive RAG: every other method is shown to be worse in accuracy."
    )


def test_what_is_shown_to_be_better_is_taken_with_its_interval_and_its_price() -> None:
    report = compared(
        best=(0.9, 2000.0, against(0.2, 0.001, 0.1, 0.3)),
        good=(0.8, 500.0, against(0.1, 0.01, 0.02, 0.18)),
        cheap=(0.7, 20.0, against(0.0, 0.9)),
    )
    assert recommendation(report) == (
        "Take best: shown to be better than naive RAG in accuracy, +0.200 (95 % interval +0.100 to +0.300), with 200 % "
        "of naive RAG's prompt tokens. Cheapest in prompt tokens of the 2 that are: good, shown to be better than "
        "naive RAG in accuracy, +0.100 (95 % interval +0.020 to +0.180), with 50 % of naive RAG's prompt tokens."
    )


def test_the_baseline_itself_may_be_the_cheapest() -> None:
    line = recommendation(compared(dear=(0.72, 3000.0, against(0.02, 0.6))))
    assert "in this sample: naive RAG itself; best in this sample: dear, +0.020." in line


def test_a_metric_that_is_better_the_lower_is_read_that_way() -> None:
    lower = replace(reports.COLUMNS["first_rank_missing"], name="lost", heading="lost")
    report = compared("lost", good=(0.5, 70.0, against(-0.2, 0.001, -0.3, -0.1)))
    methods = tuple(
        replace(own, summaries={**own.summaries, "lost": replace(own.summaries["lost"], column=lower)})
        for own in report.methods
    )
    report = replace(report, methods=methods, primary="lost")
    assert recommendation(report).startswith("Take good: shown to be better than naive RAG in lost, -0.200")


def test_equal_methods_are_told_as_equal() -> None:
    same = against(0.0, 1.0, 0.0, 0.0, sd=0.0, better=0, worse=0, equal=149)
    line = recommendation(compared(twin=(0.7, 100.0, same)))
    assert line.endswith("twin, with 10 % of naive RAG's prompt tokens and the same value on all 149 questions.")


@pytest.mark.parametrize(
    ("sd", "asked", "start", "end"),
    [
        (
            0.4,
            6,
            "6 questions are too few, ask",
            "Detecting a difference of 0.05 takes about 503 questions (80 % power).",
        ),
        (0.0, 1, "1 question is too few, ask at least 30.", "with 7 % of naive RAG's prompt tokens."),
    ],
)
def test_too_few_questions_recommend_nothing_and_mark_nothing(sd: float, asked: int, start: str, end: str) -> None:
    few = against(0.1, None, None, None, sd=sd, questions=asked)
    report = compared(other=(0.8, 70.0, few))
    methods = tuple(
        replace(own, summaries={name: replace(each, questions=asked) for name, each in own.summaries.items()})
        for own in report.methods
    )
    report = replace(report, methods=methods)
    assert recommendation(report).startswith(f"No choice can be made yet: {start}")
    assert recommendation(report).endswith(end)
    assert not any(cell.best or cell.alike for metric in report.metrics() for cell in cells(report, metric))
    assert "*" not in shown(report)
    assert "bold and has a star" not in page(report, plots=[])


@pytest.mark.parametrize(
    ("report", "line"),
    [
        (reports.no_methods(), ""),
        (reports.one(), "Nothing is recommended: ParetoRAG is the only method, compared with none."),
        (reports.nothing_scored(), "Nothing is recommended: no method has a score that says which is better."),
        (
            reports.three(),
            "Nothing is recommended: no question has a value of accuracy for a method and for its baseline.",
        ),
    ],
)
def test_where_nothing_is_to_be_compared_it_says_so(report: Report, line: str) -> None:
    assert recommendation(report) == line


def test_of_a_grid_of_baselines_alone_nothing_is_recommended() -> None:
    methods = [MethodResult(name, {}, reports.summaries(accuracy=0.5)) for name in ("naive top_k=5", "naive top_k=10")]
    report = replace(reports.report(*methods), methods=tuple(methods))
    assert "every method is a baseline" in recommendation(report)


def test_every_output_begins_with_it(tmp_path: object) -> None:
    report = compared(ParetoRAG=(0.68, 70.0, against(-0.02, 0.7)))
    line = recommendation(report)
    assert " ".join(shown(report).split()).startswith(line)
    text = page(report, plots=[])
    assert text.index("Nothing is shown to be better") < text.index("<h1>")
    assert markdown_report(report).startswith("**Nothing is shown to be better or worse than naive RAG in accuracy.")
    assert Api(tmp_path, report).recommendation == line  # type: ignore[arg-type]


def shown(report: Report, width: int = 80) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(terminal_report(report, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_summary_without_a_direction_recommends_nothing() -> None:
    report = compared(other=(0.8, 70.0, against(0.1, 0.001)))
    old = replace(reports.COLUMNS["accuracy"], direction=None)
    methods = tuple(replace(own, summaries={"accuracy": MetricSummary(old, 0.5, 149)}) for own in report.methods)
    assert "no method has a score" in recommendation(replace(report, methods=methods))


def test_in_a_metric_that_is_no_share_nothing_worse_in_the_sample_is_the_cheapest() -> None:
    report = compared("total_seconds", slow=(0.71, 20.0, against(0.01, 0.9)), fast=(0.69, 400.0, against(-0.01, 0.9)))
    line = recommendation(replace(priced(report, 0.001, 0.0001, 0.0004), primary="total_seconds"))
    assert (
        "Cheapest in USD of those not above naive RAG in this sample: fast, with 40 % of naive RAG's USD, but" in line
    )
