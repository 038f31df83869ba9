"""What the card of a sentence filter tells: whether its best sentence is the right one, and what a threshold keeps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from vitalfew.tasks.generators.likelihood import occurrences
from vitalfew.tasks.trainers.cxmi_labels import Judged

THRESHOLDS = tuple(place / 20 for place in range(1, 20))


@dataclass(frozen=True, slots=True)
class Filtering:
    """How the sentences of some questions' hits are told apart `by` a score of them.

    `top_is_gold`: of those `with_gold`, the share whose best sentence is the gold context. Of all: `top_has_answer`,
    whose best sentence has a gold answer, `any_has_answer`, of whose sentences one has. `passed`: sentences a question
    that are passed on at the threshold, `passed_have_answer`: the share where a gold answer is among them.
    """

    by: str
    questions: int
    with_gold: int
    top_is_gold: float
    top_has_answer: float
    any_has_answer: float
    passed: float | None = None
    passed_have_answer: float | None = None


def figures(
    by: str, asked: Sequence[Judged], scores: Sequence[Sequence[float]], threshold: float | None = None
) -> Filtering:
    """`scores`: of every question's sentences."""
    tops = [passed(own, None)[:1] for own in scores]
    gold = [(one.gold, top) for one, top in zip(asked, tops, strict=True) if one.gold is not None]
    row = Filtering(
        by,
        len(asked),
        len(gold),
        _share([number in top for number, top in gold]),
        _share([*_have_answer(asked, tops)]),
        _share([*_have_answer(asked, [range(len(one.sentences)) for one in asked])]),
    )
    if threshold is None:
        return row
    kept = [passed(own, threshold) for own in scores]
    passing = round(sum(map(len, kept)) / max(1, len(kept)), 2)
    return replace(row, passed=passing, passed_have_answer=_share([*_have_answer(asked, kept)]))


def passed(scores: Sequence[float], threshold: float | None) -> list[int]:
    """The sentences that pass, by number, the best first, and the best in any case. None: the best alone."""
    order = sorted(range(len(scores)), key=lambda number: -scores[number])
    return [number for number in order if threshold is not None and scores[number] >= threshold] or order[:1]


def best_threshold(asked: Sequence[Judged], scores: Sequence[Sequence[float]]) -> float:
    """The threshold with the best F1 of the sentences that are passed on, as against the gold contexts; the lowest of
    equals."""
    gold = sum(one.gold is not None for one in asked)

    def f1(threshold: float) -> float:
        kept = [passed(own, threshold) for own in scores]
        right = sum(one.gold in own for one, own in zip(asked, kept, strict=True) if one.gold is not None)
        return 2 * right / max(1, gold + sum(map(len, kept)))

    return max(THRESHOLDS, key=f1)


def _have_answer(asked: Sequence[Judged], kept: Sequence[Sequence[int]]) -> Iterator[bool]:
    """Whether a gold answer stands in one of a question's sentences that are kept, as whole words."""
    for one, own in zip(asked, kept, strict=True):
        yield any(occurrences(one.sentences[number], one.answers) for number in own)


def _share(true: Sequence[bool]) -> float:
    return round(sum(true) / len(true), 4) if true else 0.0


def table(rows: Sequence[Filtering]) -> str:
    lines = "\n".join(
        f"| `{row.by}` | {row.questions:,} | {row.with_gold:,} | {row.top_is_gold:.3f} | {row.top_has_answer:.3f} "
        f"| {row.any_has_answer:.3f} | {_or_dash(row.passed, 1)} | {_or_dash(row.passed_have_answer, 3)} |"
        for row in rows
    )
    names = (
        "by",
        "questions",
        "with a gold context",
        "best is gold",
        "best has the answer",
        "any has the answer",
        "passed on",
    )
    return f"| {' | '.join(names)} | passed on have the answer |\n|{'---|' * (len(names) + 1)}\n{lines}"


def _or_dash(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"
