"""What the report says of sets of answers."""

from tests.support.reports import report, summaries
from vitalfew.tasks.reports.contents import MethodResult
from vitalfew.tasks.reports.shown.notes import gains, notes


def method(name: str, found: float, by_chance: float, size: float) -> MethodResult:
    values = summaries(
        set_any=found, random_set_any=by_chance, first_random_any=by_chance + 0.01, set_drawn=0.4, set_size=size
    )
    return MethodResult(name, {}, values)


ONE = method("Self-RAG", 0.5, 0.45, 1.0)


def test_the_share_of_the_gain_that_is_the_sets_size() -> None:
    (line,) = gains(report(ONE, method("nearest", 0.55, 0.45, 1.0), method("full set", 0.6, 0.575, 1.8)))
    assert line.startswith(
        "full set: 1.80 answers per question. Share of questions answered right by any of them: 0.600, "
        "by one drawn from them: 0.400"
    )
    gets = "a random set of the same size gets 75% of it and its first answer with random others gets 85% of it"
    assert line.endswith(f"The gain over Self-RAG (0.500) is 0.100; {gets}.")
    assert line in notes(report(ONE, method("full set", 0.6, 0.575, 1.8)))


def test_no_gain_and_none_by_chance() -> None:
    less, all_its_own = gains(report(ONE, method("a", 0.49, 0.6, 2.0), method("b", 0.6, 0.5, 2.0)))
    assert less.endswith("No gain over Self-RAG (0.500).")
    assert all_its_own.endswith(
        "a random set of the same size gets none of it and its first answer with random others gets 10% of it."
    )
    assert gains(report(MethodResult("plain", {}, summaries(accuracy=0.5)))) == []
    assert gains(report()) == []
