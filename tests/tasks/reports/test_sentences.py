"""What a report says: which method to begin with and why, what it costs, where it fails."""

import math
from dataclasses import replace

from tests.support import reports
from tests.support.reports import summaries
from vitalfew.tasks.reports.advice import GAPPED, MARGIN, MEASURED, WRITTEN, advice, recommendation
from vitalfew.tasks.reports.contents import AskedQuestions, MethodResult, ReaderCounts, Report, StageCost
from vitalfew.tasks.reports.readings import warning
from vitalfew.tasks.reports.shown import grids
from vitalfew.tasks.reports.shown.notes import paid
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


# What to do


def test_a_tie_begins_with_the_cheapest_of_the_best() -> None:
    report = compared(
        Oreo=(0.66, 20.0, against(-0.04, 0.7, -0.2, 0.1)),
        ParetoRAG=(0.72 - MARGIN, 70.0, against(-0.0, 0.7, -0.101, 0.06)),
        MMR=(0.72, 500.0, against(0.02, 0.6)),
    )
    headline, why = recommendation(report).splitlines()
    assert headline.endswith("Begin with ParetoRAG, the cheapest of the best.")
    assert "It may be worse by up to 10 points. In this sample MMR is ahead by 2 points" in why
    assert "About 354 more questions would show a difference of 5 points." in why
    assert math.ceil(((1.959964 + 0.841621) * 0.4 / 0.05) ** 2) - 149 == 354


def test_what_is_shown_to_be_better_is_taken_with_its_interval_and_its_price() -> None:
    report = compared(
        best=(0.9, 2000.0, against(0.2, 0.001, 0.1, 0.3)), good=(0.8, 500.0, against(0.1, 0.01, 0.02, 0.18))
    )
    headline, why = recommendation(report).splitlines()
    assert headline == "Begin with best."
    assert "+20 points (95 % interval +10 to +30 points)" in why
    assert "good is shown to be better, too, and cheaper: 25 % of the prompt tokens of best." in why


def test_machine_seconds_choose_nothing() -> None:
    """USD are compared where every model has a price; else prompt tokens are."""
    report = compared(many=(0.7, 900.0, against(0.0, 0.9)), few=(0.7, 100.0, against(0.0, 0.9)))
    costs = zip(report.methods, (3.0, 1.0, 2.0), strict=True)
    timed = tuple(replace(own, costs=(StageCost("generate", whole_usd=usd),)) for own, usd in costs)
    chosen = advice(replace(report, methods=timed))
    assert "Begin with few" in chosen.headline
    assert "10 % of the prompt tokens of naive RAG" in chosen.why
    priced = advice(replace(report, methods=tuple(replace(own, token_prices=(1.0, 1.0)) for own in timed)))
    assert "Begin with many" in priced.headline
    assert "It takes 1 USD per 1,000 questions, naive RAG 3." in priced.why
    unpriced = tuple(replace(own, token_prices=(1.0, 1.0), unpriced=("openai:large",)) for own in timed)
    assert "Begin with few" in advice(replace(report, methods=unpriced)).headline


def test_below_thirty_questions_it_is_too_early() -> None:
    report = compared(ParetoRAG=(0.867, 190.0, against(0.167, 0.3, 0.0, 0.333, 20)))
    assert recommendation(report).startswith("Too early to choose: 20 of at least 30 questions.")
    assert advice(report).method is None


def test_the_table_has_four_columns_with_marks_questions_and_what_is_paid() -> None:
    report = compared(
        good=(0.8, 500.0, against(0.1, 0.01)), bad=(0.5, 20.0, against(-0.2, 0.01)), alike=(0.7, 9.0, against(0.0, 0.9))
    )
    costs = (StageCost("generate", whole_usd=0.5, whole_seconds=20.0),)
    methods = [replace(method, costs=costs) for method in report.methods]
    methods[1] = replace(methods[1], summaries=summaries(questions=400, accuracy=0.8, prompt_tokens=500.0))
    table = grids.compared(replace(report, methods=tuple(methods)))
    assert table.heads == ["method", "accuracy", "prompt tokens", "USD per 1,000 questions"]
    quality = ["70 %, n = 1,000", "80 %, n = 400 ▲", "50 %, n = 1,000 ▼", "70 %, n = 1,000 ≈"]
    assert [cells[0].text for _, cells in table.rows] == quality
    assert [cell.text for cell in table.rows[1][1][1:]] == ["500", "0.5"]
    assert "Baseline: naive RAG." in table.caption
    unpriced = grids.compared(replace(report, methods=(*methods[:3], replace(methods[3], unpriced=("openai:large",)))))
    assert unpriced.heads[-1] == "seconds"


# Questions that were written


def begun(mean: float, p: float, questions: int = 200, gapped: int = 200) -> Report:
    """naive RAG, and spans with a difference to it."""
    report = compared(spans=(0.7 + mean, 200.0, against(mean, p, mean - 0.05, mean + 0.05, questions)))
    return replace(report, asked=AskedQuestions(questions, "written:handbook", gapped=gapped))


def test_a_lead_by_sentences_with_a_gap_is_not_a_proof() -> None:
    made = advice(begun(0.2, 0.001))
    assert (made.headline, made.caveat) == ("Begin with spans.", GAPPED)
    tie = advice(begun(0.0, 0.9))
    assert tie.headline.startswith("Begin with naive RAG: no method is shown to be better")
    few = advice(begun(0.2, 0.3, questions=20))
    assert few.method is not None
    assert (few.method.name, few.is_chosen, MEASURED.format("spans") in few.why) == ("spans", False, True)


def test_other_questions_choose_by_their_figures() -> None:
    ahead, behind, alike = (advice(begun(*own, gapped=0)) for own in ((0.2, 0.001), (-0.3, 0.001), (0.0, 0.9)))
    assert ahead.caveat == WRITTEN
    chosen = [made.method.name for made in (ahead, behind, alike) if made.method]
    assert chosen == ["spans", "naive RAG", "spans"]  # the last one with fewer tokens


# Costs, answers in sets, and readings


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
    assert "pays above 576 tokens at these prices" in line
    assert line.endswith("above 1,108.")  # of naive RAG's 1,000 tokens 90 % were cached


def read(*counts: tuple[int, int, int]) -> Report:
    """Methods with their questions, those whose hits hold an answer, and those of these that were answered right."""
    methods = (
        MethodResult(f"m{place}", {}, {}, reading=ReaderCounts(*own, "the first 10 hits"), generator="reader")
        for place, own in enumerate(counts)
    )
    return reports.report(*methods)


def test_one_generator_that_loses_most_is_a_warning() -> None:
    (line,) = warning(read((100, 90, 30), (100, 80, 39)))
    assert line.startswith("reader answers at most 39 of 80 questions right whose answer it is shown (m1).")
    assert warning(read((100, 90, 30), (100, 80, 40))) == []
    assert warning(read((8, 7, 1), (8, 7, 1))) == []  # too few to say
