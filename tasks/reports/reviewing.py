"""A session in which a person reviews answers: what comes next, what a key does, what is kept. It draws nothing, so
that a terminal and a page can share it.

**The order** is random, and the same for all reviewers and runs: whoever stops early leaves a random sample of the
questions, which prediction-powered intervals take for granted (statistics/prediction_powered.py), and reviewers overlap
in what they review. Questions on which the judge is least sure do not come first, although they would teach most about
it: labels that were picked by what the judge or the methods said bias every estimate made from them.

**Two answers** with the same text are equal by definition, and nobody is asked. So only questions on which the methods
differ are reviewed, in their random order; that biases nothing, because the share of the others is known exactly
(`prediction_powered.over_all`). Which answer stands first is decided by a hash of reviewer and question.

**One answer**: the same text of several methods is shown once, and the verdict is kept for all of them. Reviews of the
same answers in another run count here too.

A skipped question is asked again in the next session. Skips and `unsure` are missing labels: figures take for granted
that they do not depend on which answer is right.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path

from vitalfew.configs.evaluation import Evaluate
from vitalfew.storage.reviews import Review, ReviewedOtherwise, add_reviews
from vitalfew.storage.runs import Run
from vitalfew.tasks.registry import method_named, nearest
from vitalfew.tasks.reports.answers import KeptPassage, MethodAnswers, answering, reviews_of, same_text
from vitalfew.tasks.reports.reviewed import checked_reviewer
from vitalfew.tasks.reports.runs import EvaluatedMethod, NoReport, find_run, read_manifest, read_summaries
from vitalfew.tasks.reports.shown.columns import primary_metric

KEYS_OF_ONE = {"r": "right", "w": "wrong", "u": "unsure"}
KEYS_OF_TWO = {"1": "1 is better", "2": "2 is better", "=": "equal", "u": "unsure"}
"""The keys of verdicts, and what they say; 1 and 2 are the answers in the order shown."""
SKIP, BACK = "s", "b"


@dataclass(frozen=True, slots=True)
class ReviewedAnswer:
    """A text, and the methods that gave it: one, or several whose answer is the same."""

    text: str
    methods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReviewItem:
    """A question with the one answer, or the two, to review, in the order in which they are shown."""

    question_id: int
    question: str
    gold: tuple[str, ...]
    answers: tuple[ReviewedAnswer, ...]

    @property
    def keys(self) -> dict[str, str]:
        return KEYS_OF_ONE if len(self.answers) == 1 else KEYS_OF_TWO


@dataclass(frozen=True, slots=True)
class ReviewProgress:
    """How many items there are, how many of them this reviewer has a verdict on, now and from this session (`given`);
    `alike`: questions that need none, because both answers are the same."""

    items: int
    reviewed: int
    given: int
    alike: int


class ReviewSession:
    """One reviewer's way through a run. `current`: the item to show, None at the end; `keys`: those of verdicts."""

    def __init__(
        self, store: Path, name: str, reviewer: str, methods: Sequence[str] = (), one_by_one: bool = False
    ) -> None:
        """`name`: of the run or its experiment; `methods`: two to compare, by default the baseline and the best of the
        others; with `one_by_one` those whose answers are reviewed, by default all. Raises NoReport where there is
        nothing to review, and ValueError for a name that is not one."""
        self.store, self.reviewer = store, checked_reviewer(reviewer)
        self.run, self.keys = find_run(store, name), KEYS_OF_ONE if one_by_one else KEYS_OF_TWO
        self.methods = _chosen(store, self.run, methods, one_by_one)
        self._answers = {method: MethodAnswers.of(store, self.run, method, [method]) for method in self.methods}
        every = self._items(one_by_one)
        self.items = [item for item in every if one_by_one or len(item.answers) == 2]
        if not every:
            names = (" or " if one_by_one else " and ").join(self.methods)
            raise NoReport(f"run {self.run.run_id}: no question has an answer from {names}; name other methods")
        self._alike, self._place = len(every) - len(self.items), -1
        self._given: set[int] = set()
        self._known = self._read()
        self._go_on()

    @property
    def current(self) -> ReviewItem | None:
        return self.items[self._place] if self._place < len(self.items) else None

    @property
    def place(self) -> int:
        """The number of the current item, from 1."""
        return self._place + 1

    @property
    def progress(self) -> ReviewProgress:
        reviewed = sum(self.verdict(item) is not None for item in self.items)
        return ReviewProgress(len(self.items), reviewed, len(self._given), self._alike)

    def verdict(self, item: ReviewItem) -> str | None:
        """The reviewer's verdict on an item, in the words of its keys; None without one."""
        names = [answer.methods[0] for answer in item.answers]
        if len(names) == 1:
            said = (self._known.get((item.question_id, frozenset({own}))) for own in item.answers[0].methods)
            return next(filter(None, said), None)
        known = self._known.get((item.question_id, frozenset(names)))
        return KEYS_OF_TWO[str(names.index(known) + 1)] if known in names else known

    def contexts(self, item: ReviewItem) -> list[list[str]]:
        """For every answer the contexts that it was written from, as its prompt had them."""
        return [self._answers[answer.methods[0]].contexts(item.question_id) for answer in item.answers]

    def passages(self, item: ReviewItem) -> list[list[list[KeptPassage]]]:
        """For every answer and every one of its `contexts` the passages that it comes from, with the spans that were
        kept: none where a model rewrote it, or where the index was removed since."""
        return [self._answers[answer.methods[0]].passages(item.question_id) for answer in item.answers]

    def press(self, key: str, seconds: float | None = None) -> str:
        """Do what a key says and go on; what the reviewer should know of it, in words, else ''. A verdict is on the
        disk when this returns. `seconds`: that the reviewer took. Raises NotWritten."""
        item = self.current
        if key == BACK:
            if self._place == 0:
                return "This is the first one."
            self._place -= 1
            self._known = self._read()
            return ""
        if item is None:
            return ""
        said = ""
        if key in item.keys:
            said = self._keep(item, key, seconds)
        elif key != SKIP:
            return "That is not one of the keys."
        self._go_on()
        return said

    def _keep(self, item: ReviewItem, key: str, seconds: float | None) -> str:
        """Keep a verdict. One that another session of this reviewer gave since the item was shown stands."""
        reviews = [*self._reviews(item, key, seconds)]
        subjects = [review.subject[2:] for review in reviews]
        shown, self._known = self._known, self._read()
        as_shown = all(self._known.get(subject) == shown.get(subject) for subject in subjects)
        try:
            changed = as_shown and any(subject in shown for subject in subjects)
            add_reviews(self.store, self.run.run_id, reviews, replace=changed)
        except ReviewedOtherwise:  # its message names the methods
            self._known = self._read()
            said = self.verdict(item)
            return f"You have said {said!r} in another session: the first one stands. Press {BACK} to change it."
        self._given.add(self._place)
        return ""

    def _reviews(self, item: ReviewItem, key: str, seconds: float | None) -> Iterator[Review]:
        if len(item.answers) == 1:
            # The time is that of the text: in the sum over methods it counts once.
            for number, method in enumerate(item.answers[0].methods):
                yield self._review(item, method, None, KEYS_OF_ONE[key], 0.0 if number else seconds)
            return
        one, other = self.methods
        shown = [answer.methods[0] for answer in item.answers]
        better = {"1": shown[0], "2": shown[1]}.get(key)
        verdict = KEYS_OF_TWO[key] if better is None else "first" if better == one else "second"
        yield self._review(item, one, other, verdict, seconds)

    def _review(self, item: ReviewItem, method: str, other: str | None, verdict: str, seconds: float | None) -> Review:
        run_id, moment = self.run.run_id, datetime.now(UTC)
        return Review(self.reviewer, moment, run_id, item.question_id, method, other, verdict, seconds)

    def _label_same_texts(self, passed: Iterable[ReviewItem]) -> None:
        """Keep verdicts of earlier sessions for the other methods with the same text: on the way past them alone, as
        labels from further on would be picked by what the methods said."""
        reviews = [
            self._review(item, method, None, said, 0.0)
            for item in passed
            if len(item.answers) == 1 and (said := self.verdict(item))
            for method in item.answers[0].methods
            if (item.question_id, frozenset({method})) not in self._known
        ]
        add_reviews(self.store, self.run.run_id, reviews)

    def _read(self) -> dict[tuple[int, frozenset[str]], str]:
        """Read what this reviewer has said so far, in this session or another."""
        reviews = reviews_of(self.store, self.run)
        return {review.subject[2:]: review.said for review in reviews if review.reviewer == self.reviewer}

    def _go_on(self) -> None:
        self._known, passed = self._read(), list[ReviewItem]()
        self._place += 1
        while (item := self.current) and self.verdict(item):
            passed.append(item)
            self._place += 1
        self._label_same_texts(passed)

    def _items(self, one_by_one: bool) -> list[ReviewItem]:
        """All questions in their order. Two answers with the same text are one."""
        asked = EvaluatedMethod.of(self.store, self.run, "", self.methods[:1]).rows("asked")
        questions = {row["question_id"]: row for row in asked.iter_rows(named=True)}
        items = []
        for number in sorted(questions, key=_hash):
            texts = [(method, self._answers[method].texts.get(number)) for method in self.methods]
            given = [(method, text) for method, text in texts if text is not None]
            if len(given) < len(self.methods) and not one_by_one:
                continue
            answers = sorted(_distinct(given), key=lambda own: _hash(self.reviewer, number, own.methods[0]))
            row = questions[number]
            shown = [(answer,) for answer in answers] if one_by_one else [tuple(answers)]
            items += [ReviewItem(number, row["text"], tuple(row["answers"]), each) for each in shown]
        return items


def _distinct(given: Sequence[tuple[str, str]]) -> list[ReviewedAnswer]:
    """The answers whose texts differ."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for method, text in given:
        alike.setdefault(same_text(text), []).append((method, text))
    return [ReviewedAnswer(same[0][1], tuple(method for method, _ in same)) for same in alike.values()]


def _hash(*parts: object) -> bytes:
    return blake2b(repr(parts).encode(), digest_size=8).digest()


def _chosen(store: Path, run: Run, given: Sequence[str], one_by_one: bool) -> list[str]:
    """The methods to review. Raises NoReport."""
    known = answering(run)
    if not known:
        raise NoReport(f"run {run.run_id} of {run.name} has no answers to review: its methods only retrieve")
    methods = list(dict.fromkeys(method_named(name, known) for name in given))
    for method in methods:
        if method not in known:
            raise NoReport(
                f"run {run.run_id} has no method {method!r} that answers{nearest(method, known)}; it has: "
                f"{'; '.join(known)}"
            )
    if one_by_one:
        return methods or known
    if len(known) == 1:
        raise NoReport(
            f"run {run.run_id} has one method that answers, and a pair takes two: review its answers --one by one"
        )
    methods = methods or _pair(store, run, known)
    if len(methods) != 2:
        raise NoReport(f"name two methods to compare, as RUN:METHOD RUN:METHOD; {run.run_id} has: {'; '.join(known)}")
    return methods


def _pair(store: Path, run: Run, known: Sequence[str]) -> list[str]:
    """The best of the methods in the primary metric, and the baseline; none where that is not known."""
    parameters = Evaluate.model_validate(run.config)
    baseline = next((own.name for own in parameters.methods if parameters.is_baseline(own) and own.name in known), None)
    others = [method for method in known if method != baseline]
    if baseline is None or len(others) == 1:
        return [*others, *([baseline] if baseline else [])]
    summaries = {name: read_summaries(store, read_manifest(store, run.methods[name]["scores"])) for name in others}
    scored = [own.column for own in next(iter(summaries.values())).values() if own.value is not None]
    metric = primary_metric(scored, parameters.primary)
    values = {name: own[metric].value for name, own in summaries.items() if metric in own}
    sign = -1 if any(column.name == metric and column.direction == "lower" for column in scored) else 1
    rated = {name: sign * value for name, value in values.items() if value is not None}
    return [max(rated, key=lambda name: rated[name]), baseline] if rated else []
