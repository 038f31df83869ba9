"""Verdicts of a judge and of people on answers, as rows of two tables and in sentences."""

from collections.abc import Callable, Iterator

from vitalfew.tasks.reports.contents import ComparedPair, Labelled
from vitalfew.tasks.reports.shown.columns import figure, signed
from vitalfew.tasks.reports.shown.text import one_line
from vitalfew.tasks.reports.statistics.agreement import ReviewersAgreement
from vitalfew.tasks.reports.statistics.bootstrap import MIN_QUESTIONS, Interval
from vitalfew.tasks.reports.statistics.prediction_powered import PoweredInterval

HEADS = ("method", "by", "right", "95 % interval", "n", "halved by")
DIFFERENCE_HEADS = ("method", "by", "difference", "95 % interval", "n", "halved by")
Row = tuple[str, str, str, str, str, str]


def shares(labelled: Labelled) -> list[Row]:
    """Under `HEADS`: for every method the share of right answers by judge, by labels and by both."""
    return [row for own in labelled.methods for row in _rows(own.name, own.share, figure)] if _has_any(labelled) else []


def differences(labelled: Labelled) -> list[Row]:
    """Under `DIFFERENCE_HEADS`: the same, minus the baseline's on the same questions."""
    compared = [own for own in labelled.methods if own.difference and own.against and _has_any(labelled)]
    many = len({own.against for own in compared}) > 1
    return [
        row
        for own in compared
        if own.difference
        for row in _rows(f"{own.name} – {own.against}" if many else own.name, own.difference, signed)
    ]


def _has_any(labelled: Labelled) -> bool:
    """Return whether anybody said of a single answer that it is right or wrong."""
    return any(own.share.judge.questions or own.share.labels.questions for own in labelled.methods)


def compared_with(labelled: Labelled) -> str:
    """The baseline of all differences; 'its baseline' where there are several."""
    names = {own.against for own in labelled.methods if own.against}
    return one_line(next(iter(names))) if len(names) == 1 else "its baseline"


def _rows(name: str, own: PoweredInterval, shown: Callable[[float | None], str]) -> Iterator[Row]:
    """Rows for whatever there is; a method of which nobody said anything has one that says so."""
    has_judge, has_labels = own.judge.questions > 0, own.labels.questions > 0
    more = "" if own.reason else f"{own.halved_by:,} more" if own.halved_by else "–"
    kinds = [("judge", own.judge, "")] if has_judge else []
    kinds += [("labels", own.labels, "" if has_judge else more)] if has_labels else []
    kinds += [("both", own.both, more)] if has_judge and has_labels else []
    for by, interval, halved in kinds or [("", own.labels, "")]:
        figures = shown(interval.mean), _interval(interval, shown), f"{interval.questions:,}"
        yield (one_line(name), by, *figures, halved)


def _interval(own: Interval, shown: Callable[[float | None], str]) -> str:
    if own.mean is None:
        return "–"
    return "too few" if own.low is None or own.high is None else f"{shown(own.low)} to {shown(own.high)}"


def sentences(labelled: Labelled) -> list[str]:
    """Say what people prefer, what the tables mean and leave out, and who agrees with whom."""
    return [*map(_preferred, labelled.pairs), *_meaning(labelled), *_left_out(labelled), *_agreements(labelled)]


def _meaning(labelled: Labelled) -> Iterator[str]:
    has_labels = any(own.share.labels.questions for own in labelled.methods)
    what = "answers that it calls correct" if labelled.judged == "correct" else "claims that the contexts support"
    if labelled.judged:
        yield (
            f"By the judge alone: the share of {what}. Its interval does not include the judge's errors: it says where "
            "its verdicts lie, not where the truth does."
        )
    if labelled.judged and not has_labels:
        yield "Nobody has labelled answers yet, so nothing corrects the judge: vitalfew review RUN --one."
    if has_labels:
        which = "Labels alone and both take" if labelled.judged else "The labels' figures take"
        yield (
            f"{which} the labelled questions for a random sample, as `vitalfew review` asks them. An interval needs "
            f"{MIN_QUESTIONS} labels. Halved by: about how many labels more would halve it; –: not even labels on all "
            "questions."
        )


def _left_out(labelled: Labelled) -> Iterator[str]:
    unsure = sum(own.unsure for own in labelled.methods)
    split = sum(own.split for own in labelled.methods)
    if unsure or split:
        yield (
            f"Without a label: {unsure:,} answers of which reviewers were unsure, {split:,} on which they were split. "
            "They are left out, as if that did not depend on whether an answer is right."
        )
    if labelled.gone:
        yield f"Left out: {labelled.gone:,} reviews of answers that are not in this run any more."


def _agreements(labelled: Labelled) -> Iterator[str]:
    for what, own in (("right and wrong", labelled.on_answers), ("pairs", labelled.on_pairs)):
        if own.items:
            yield f"{own.reviewers:,} reviewers on {what}, {own.items:,} that two or more have seen: {_alpha(own)}."
    if labelled.with_judge.items:
        same = f"the same of {labelled.same_as_judge:,} of {labelled.with_judge.items:,} labelled answers"
        yield f"The judge and people say {same}; {_alpha(labelled.with_judge)}."


def _alpha(own: ReviewersAgreement) -> str:
    if own.alpha is None:
        return f"no alpha, as {own.reason}"
    return f"Krippendorff's alpha {own.alpha:.2f}"


def _preferred(pair: ComparedPair) -> str:
    one, other = one_line(pair.one), one_line(pair.other)
    first, equal, second = pair.verdicts
    reviewed = sum(pair.verdicts)
    said = f"{one} against {other}: the same answer to {pair.alike:,} of {pair.alike + pair.differing:,} questions"
    if not pair.differing:
        return f"{said}, so neither is better."
    said += (
        f"; of the {pair.differing:,} others people compared {reviewed:,}: {one} is better on {first:,}, {other} on "
        f"{second:,}, neither on {equal:,}"
    )
    if pair.unsure or pair.split:
        said += f", unsure {pair.unsure:,}, split {pair.split:,}"
    share = pair.share
    if share.mean is None:
        return f"{said}."
    if share.low is None or share.high is None:
        return f"{said}. Too few for an interval: it needs {MIN_QUESTIONS}."
    ends = f"{figure(share.low)} to {figure(share.high)}"
    said += f". It wins {figure(share.mean)} of all questions, a tie counting half ({ends}; 0.5: neither is better)"
    if pair.judge and pair.labels:
        alone = (f"{who} alone {figure(own.mean)} ({_interval(own, figure)})"
                 for who, own in (("people", pair.labels), ("the judge", pair.judge)))  # fmt: skip
        said += f", by people and the judge; {', '.join(alone)}"
    return f"{said}; {pair.halved_by:,} more reviews would halve that." if pair.halved_by else f"{said}."
