"""The sentences that a report begins with: what was shown, what it costs, how many questions are missing, and the
method to begin with."""

import math
from dataclasses import replace

from rich.console import Console

from tests.support import reports
from tests.support.reports import summaries
from vitalfew.tasks.reports.beginning import beginning
from vitalfew.tasks.reports.contents import AskedQuestions, MethodResult, ReaderCounts, Report, StageCost
from vitalfew.tasks.reports.readings import sentences, warning
from vitalfew.tasks.reports.recommendation import GAPPED, MARGIN, recommendation, recommended
from vitalfew.tasks.reports.shown.markdown import markdown_report
from vitalfew.tasks.reports.shown.notes import gains, headline, paid
from vitalfew.tasks.reports.shown.page import page
from vitalfew.tasks.reports.shown.terminal import terminal_report
from vitalfew.tasks.reports.statistics.paired import Difference


def against(
    mean: float, p: float | None, low: float | None = -0.1, high: float | None = 0.1, questions: int = 149
) -> Difference:
    return Difference(mean, low, high, p, 0.4, None, questions, 9, 11, questions - 20, p)


def compared(**methods: tuple[float, float, Difference]) -> Report:
    """naive RAG of 1,000 prompt tokens, and methods with their accuracy, their tokens and their difference to it."""

    def named(name: str, value: float, tokens: float, **differences: Difference) -> MethodResult:
        return MethodResult(name, {}, summaries(accuracy=value, prompt_tokens=tokens), differences=differences)

    others = (named(name, value, tokens, accuracy=own) for name, (value, tokens, own) in methods.items())
    return reports.report(named("naive RAG", 0.7, 1000.0), *others)


# The recommendation


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
    assert math.ceil(((1.959964 + 0.841621) * 0.4 / 0.05) ** 2) - 149 == 354


def test_what_is_shown_to_be_better_is_taken_with_its_interval_and_its_price() -> None:
    report = compared(
        best=(0.9, 2000.0, against(0.2, 0.001, 0.1, 0.3)), good=(0.8, 500.0, against(0.1, 0.01, 0.02, 0.18))
    )
    assert recommendation(report) == (
        "Take best: shown to be better than naive RAG in accuracy, +0.200 (95 % interval +0.100 to +0.300), with 200 % "
        "of naive RAG's prompt tokens. Cheapest in prompt tokens of the 2 that are: good, shown to be better than "
        "naive RAG in accuracy, +0.100 (95 % interval +0.020 to +0.180), with 50 % of naive RAG's prompt tokens."
    )


def test_without_the_price_of_its_tokens_no_method_is_the_cheapest_in_usd() -> None:
    report = compared(
        best=(0.9, 2000.0, against(0.2, 0.001, 0.1, 0.3)), good=(0.8, 500.0, against(0.1, 0.01, 0.02, 0.18))
    )
    paid = zip(report.methods, (1.0, 3.0, 2.0), strict=True)
    costs = [replace(own, costs=(StageCost("generate", whole_usd=usd),)) for own, usd in paid]
    assert "Cheapest in USD" in recommendation(replace(report, methods=costs))
    unpriced = [replace(own, unpriced=("openai:large",)) for own in costs]
    assert "Cheapest in prompt tokens" in recommendation(replace(report, methods=unpriced))


def test_below_thirty_questions_nothing_is_recommended() -> None:
    report = compared(ParetoRAG=(0.867, 190.0, against(0.133, 0.01, 0.0, 0.333, 29)))
    assert recommendation(report) == (
        "Nothing is recommended: 29 questions are too few to choose by; ask at least 30. Detecting a difference of "
        "0.05 takes about 503 questions (80 % power)."
    )
    assert recommended(report) is None


def test_every_output_begins_with_it() -> None:
    report = compared(ParetoRAG=(0.68, 70.0, against(-0.02, 0.7)))
    line = recommendation(report)
    console = Console(width=80)
    with console.capture() as printed:
        console.print(terminal_report(report, 80))
    assert " ".join(printed.get().split()).startswith(line)
    text = page(report, plots=[])
    assert text.index("Nothing is shown to be better") < text.index("<h1>")
    assert markdown_report(report).startswith("**Nothing is shown to be better or worse than naive RAG in accuracy.")


# The method to begin with


def begun(mean: float, p: float, questions: int = 200, gapped: int = 200) -> Report:
    """naive RAG, and spans with a difference to it."""
    report = compared(spans=(0.7 + mean, 200.0, against(mean, p, mean - 0.05, mean + 0.05, questions)))
    return replace(report, asked=AskedQuestions(questions, "written:handbook", gapped=gapped))


def test_a_lead_by_sentences_with_a_gap_is_not_a_proof() -> None:
    begin = beginning(begun(0.2, 0.001), is_written=True)
    assert (begin.method, begin.is_chosen) == ("spans", True)
    assert "So this lead is not a proof" in " ".join(begin.why)
    assert recommendation(begun(0.2, 0.001)).startswith(f"{GAPPED} By them alone: take spans: shown to be better")


def test_questions_of_people_choose_what_the_report_recommends() -> None:
    report = begun(0.2, 0.001, gapped=0)
    assert beginning(report, is_written=False).why == (recommendation(report),)
    assert recommended(report) is report.methods[1]
    assert beginning(begun(-0.3, 0.001, gapped=0), is_written=False).method == "naive RAG"
    assert beginning(begun(0.0, 0.9, gapped=0), is_written=False).method == "spans"  # with fewer tokens


def test_a_cached_prompt_is_cheaper_cut_above_so_many_tokens() -> None:
    """300 tokens at p, and 60 more for the cutting, cost as much as 576 of which half are charged a quarter of p."""
    questions = reports.report().asked.questions
    cut = MethodResult(
        "spans",
        {},
        summaries(prompt_tokens=300.0),
        costs=(StageCost("refine", whole_usd=60e-6 * questions),),
        against=0,
        token_prices=(1.0, 0.25),
    )
    whole = MethodResult("naive RAG", {}, summaries(prompt_tokens=1000.0, cached_tokens=900.0))
    (line, _) = paid(reports.report(whole, cut))
    assert line == (
        "spans: with 50% of the prompt cached, cutting it to 300.0 tokens pays above 576 tokens at these prices; naive "
        "RAG's has 1,000.0, 90% of them cached in this run: above 1,108."
    )
    assert len(paid(reports.report(whole, replace(cut, token_prices=(1.0, 1.0))))) == 1


# A line for each method


def test_a_method_has_its_quality_its_certainty_and_its_price() -> None:
    report = compared(ours=(0.682, 320.0, against(-0.018, 0.7, -0.116, 0.08, 112)))
    (line,) = headline(report)
    assert line == (
        "ours: accuracy 0.682, -0.018 against naive RAG (-0.116 to +0.080, not distinguishable at n = 112: "
        "corrected p = 0.70); 320.0 prompt tokens, 32 % of naive RAG's."
    )
    assert line.split(";")[0] in markdown_report(report).replace("\\", "")
    assert headline(reports.one()) == []


def test_the_share_of_the_gain_that_is_the_sets_size() -> None:
    def method(name: str, found: float, size: float) -> MethodResult:
        values = summaries(set_any=found, random_set_any=0.575, first_random_any=0.585, set_drawn=0.4, set_size=size)
        return MethodResult(name, {}, values)

    (line,) = gains(reports.report(method("Self-RAG", 0.5, 1.0), method("full set", 0.6, 1.8)))
    assert line.startswith("full set: 1.80 answers per question.")
    gets = "a random set of the same size gets 75% of it and its first answer with random others gets 85% of it"
    assert line.endswith(f"The gain over Self-RAG (0.500) is 0.100; {gets}.")


def read(*counts: tuple[int, int, int]) -> Report:
    """Methods with their questions, those whose hits hold an answer, and those of these that were answered right."""
    methods = (
        MethodResult(f"m{place}", {}, {}, reading=ReaderCounts(*own, "the first 10 hits"), generator="reader")
        for place, own in enumerate(counts)
    )
    return reports.report(*methods)


def test_one_generator_that_loses_most_is_a_warning() -> None:
    (said,) = sentences(read((10, 9, 4)))
    assert said.endswith("of 9 of 10 questions and answered right in 4: the reader fails more (5 against 1).")
    (line,) = warning(read((100, 90, 30), (100, 80, 39)))
    assert line.startswith("All methods answer with reader, which answers at most 39 of 80 questions right")
    assert warning(read((100, 90, 30), (100, 80, 40))) == []
    assert warning(read((8, 7, 1), (8, 7, 1))) == []  # too few to say
