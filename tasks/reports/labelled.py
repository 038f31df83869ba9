"""The judge's verdicts and people's reviews of a run's answers, as figures: by judge alone, by labels alone, by both.

A label is the verdict that most reviewers of an answer gave. There is none where as many say otherwise, and `unsure`
counts for nothing; both are counted. A method of several seeds has the mean of their labels where all have one.

The judge says whether an answer is correct. Where no question has gold answers, the share of its claims that the
contexts support takes that place: labels correct any such figure, however far it lies from the truth.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from vitalfew.configs.evaluation import Evaluate
from vitalfew.storage.reviews import Review
from vitalfew.storage.runs import Run
from vitalfew.tasks.reports.answers import MethodAnswers, answering, reviews_of, same_text
from vitalfew.tasks.reports.contents import ComparedPair, Labelled, LabelledMethod
from vitalfew.tasks.reports.methods import compared_with
from vitalfew.tasks.reports.runs import Group, groups
from vitalfew.tasks.reports.statistics.agreement import GivenVerdict, agreement, distinct
from vitalfew.tasks.reports.statistics.bootstrap import Interval
from vitalfew.tasks.reports.statistics.prediction_powered import TIE, over_all, powered_difference, powered_means

_RIGHT = {"right": 1.0, "wrong": 0.0}
_UNSURE = "unsure"
_CORRECT, _SUPPORTED = "correct", "supported"
Known = dict[int, float]
"""By question, a judge's verdict or a label, 0 to 1."""


class _Labels(NamedTuple):
    """The labels of a subject by question, and how many lack one because people were unsure, or split."""

    of: Mapping[int, str]
    unsure: int
    split: int


def labelled(store: Path, run: Run, parameters: Evaluate) -> Labelled | None:
    """None where neither a judge nor a person said anything. Raises NoReport where an artifact was removed since."""
    reviews = reviews_of(store, run)
    if not reviews and not any("verdicts" in tables for tables in run.methods.values()):
        return None
    answers = {name: MethodAnswers.of(store, run, name, [name]) for name in answering(run)}
    asked = {name: own.texts.keys() for name, own in answers.items()}
    there = [
        review
        for review in reviews
        if all(review.question_id in asked.get(name, ()) for name in (review.method, review.other) if name)
    ]
    ones = [review for review in there if review.other is None]
    twos = [review for review in there if review.other is not None]
    baselines = {method.name for method in parameters.methods if parameters.is_baseline(method)}
    order = sorted(answers, key=lambda name: name in baselines)  # a baseline is the second of a pair
    preferences = _preferences(parameters, answers)
    judged, verdicts = _judged(answers)
    labels = {name: _labels(review for review in ones if review.method == name) for name in answers}
    pairs = dict.fromkeys(frozenset({review.method, review.other or ""}) for review in twos)
    # Only a verdict of right or wrong can be the same as a person's.
    both = distinct(_with_judge(verdicts if judged == _CORRECT else {name: {} for name in answers}, labels, answers))
    sure = [review for review in there if review.verdict != _UNSURE]
    on_answers = (
        GivenVerdict(review.reviewer, _item(answers, review.method, review.question_id), review.verdict)
        for review in sure
        if review.other is None
    )
    on_pairs = (
        GivenVerdict(review.reviewer, f"{review.question_id} {sorted((review.method, review.other))}", review.said)
        for review in sure
        if review.other is not None
    )
    return Labelled(
        judged=judged,
        methods=tuple(_methods(parameters, answers, verdicts, labels)),
        pairs=tuple(_pair(sorted(pair, key=order.index), twos, answers, preferences) for pair in pairs),
        on_answers=agreement(on_answers),
        on_pairs=agreement(on_pairs),
        with_judge=agreement(both),
        same_as_judge=sum(times > 1 for times in Counter((each.item, each.verdict) for each in both).values()),
        gone=len(reviews) - len(there),
    )


def _judged(answers: Mapping[str, MethodAnswers]) -> tuple[str, dict[str, Known]]:
    """The verdicts by method, with what they are of: correct, else supported, else ''."""
    for name in (_CORRECT, _SUPPORTED):
        verdicts = {method: own.verdicts(name) for method, own in answers.items()}
        if any(verdicts.values()):
            return name, verdicts
    return "", {method: {} for method in answers}


def _labels(reviews: Iterable[Review]) -> _Labels:
    """The majority's verdicts; `said` names the better of two methods."""
    said: dict[int, list[str]] = defaultdict(list)
    for review in reviews:
        said[review.question_id].append(review.said)
    sure = {question: [each for each in given if each != _UNSURE] for question, given in said.items()}
    ranked = {question: Counter(given).most_common(2) for question, given in sure.items()}
    split = {question for question, most in ranked.items() if len(most) > 1 and most[0][1] == most[1][1]}
    labels = {question: most[0][0] for question, most in ranked.items() if most and question not in split}
    return _Labels(labels, sum(not most for most in ranked.values()), len(split))


def _methods(
    parameters: Evaluate,
    answers: Mapping[str, MethodAnswers],
    verdicts: Mapping[str, Known],
    labels: Mapping[str, _Labels],
) -> Iterable[LabelledMethod]:
    rows, against = groups(parameters.methods), compared_with(parameters)
    for row, other in zip(rows, against, strict=True):
        if not all(method.name in answers for method in row.methods):
            continue
        baseline = rows[other] if other is not None else None
        if baseline and not all(method.name in answers for method in baseline.methods):
            baseline = None
        questions = _questions(row, answers)
        both = [*sorted({*questions} & {*_questions(baseline, answers)})] if baseline else []
        judge, human = _values(row, questions, verdicts, labels)
        own, own_labels = _values(row, both, verdicts, labels)
        theirs = _values(baseline, both, verdicts, labels) if baseline else None
        yield LabelledMethod(
            name=row.name,
            share=powered_means([judge], [human])[0],
            against=baseline.name if baseline else None,
            difference=powered_difference(*theirs, own, own_labels) if theirs and both else None,
            answers=len(questions),
            unsure=sum(labels[method.name].unsure for method in row.methods),
            split=sum(labels[method.name].split for method in row.methods),
        )


def _questions(group: Group, answers: Mapping[str, MethodAnswers]) -> list[int]:
    """The questions that all methods of a group answer, ascending."""
    return sorted(set.intersection(*({*answers[method.name].texts} for method in group.methods)))


def _values(
    group: Group, questions: Sequence[int], verdicts: Mapping[str, Known], labels: Mapping[str, _Labels]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Judge and labels, float64 (n,) both, NaN where a seed lacks one."""
    names = [method.name for method in group.methods]
    judge = [[verdicts[name].get(question, np.nan) for question in questions] for name in names]
    human = [[_RIGHT.get(labels[name].of.get(question, ""), np.nan) for question in questions] for name in names]
    return np.mean(judge, axis=0, dtype=np.float64), np.mean(human, axis=0, dtype=np.float64)


def _preferences(parameters: Evaluate, answers: Mapping[str, MethodAnswers]) -> dict[tuple[str, str], Known]:
    """By method and its baseline, where both have one seed: how the judge prefers the method's answer, 0 to 1."""
    rows, against = groups(parameters.methods), compared_with(parameters)
    paired = [(row, rows[other]) for row, other in zip(rows, against, strict=True) if other is not None]
    alone = [(row.methods[0].name, other.methods[0].name) for row, other in paired
             if len(row.methods) == len(other.methods) == 1]  # fmt: skip
    return {(one, other): answers[one].verdicts("preferred") for one, other in alone if {one, other} <= answers.keys()}


def _pair(
    pair: Sequence[str],
    reviews: Iterable[Review],
    answers: Mapping[str, MethodAnswers],
    preferences: Mapping[tuple[str, str], Known],
) -> ComparedPair:
    """A pair of methods; on questions with the same answer of both, nobody's verdict counts."""
    one, other = pair
    texts, others = answers[one].texts, answers[other].texts
    both = sorted(texts.keys() & others.keys())
    differing = [question for question in both if same_text(texts[question]) != same_text(others[question])]
    wanted, alike = {*differing}, len(both) - len(differing)
    labels = _labels(each for each in reviews if {each.method, each.other} == {*pair} and each.question_id in wanted)
    values = {one: 1.0, "equal": TIE, other: 0.0}
    human = np.array([values[labels.of[question]] if question in labels.of else np.nan for question in differing])
    preferred = preferences.get((one, other), {})
    judge = np.array([preferred.get(question, np.nan) for question in differing])
    powered = powered_means([judge], [human])[0] if differing else None
    said = Counter(labels.of.values())
    return ComparedPair(
        one=one,
        other=other,
        alike=alike,
        differing=len(differing),
        verdicts=(said[one], said["equal"], said[other]),
        share=over_all(powered.both, alike) if powered else Interval(TIE, None, None, alike),
        labels=over_all(replace(powered.labels, questions=len(differing)), alike) if powered and preferred else None,
        judge=over_all(replace(powered.judge, questions=len(differing)), alike) if powered and preferred else None,
        halved_by=powered.halved_by if powered and not alike else None,
        unsure=labels.unsure,
        split=labels.split,
    )


def _item(answers: Mapping[str, MethodAnswers], method: str, question: int) -> str:
    """A text of a question: the same of several methods is one."""
    return f"{question} {same_text(answers[method].texts[question])}"


def _with_judge(
    verdicts: Mapping[str, Known], labels: Mapping[str, _Labels], answers: Mapping[str, MethodAnswers]
) -> Iterator[GivenVerdict]:
    """The labels beside the judge's verdicts that the same answers are right or wrong."""
    for method, own in labels.items():
        for question, label in own.of.items():
            if question in verdicts[method]:
                item = _item(answers, method, question)
                yield GivenVerdict("people", item, label)
                yield GivenVerdict("the judge", item, "right" if verdicts[method][question] == 1 else "wrong")
