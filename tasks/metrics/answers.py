"""Answers against gold answers: accuracy, exact match, token F1, ROUGE, choices and sets of answers; and their length.

They leave out a question whose generator failed, and all but the length one without gold answers. An empty answer is
wrong.

**Accuracy, exact match, F1** are the best over a question's gold answers, as SQuAD's evaluation script compares texts
(Rajpurkar et al., 2016, arXiv 1606.05250, section 6.1; F1 of empty texts as in its version for SQuAD 2.0), here their
comparable forms (tasks/comparable.py): lower case, without ASCII punctuation and the articles a, an and the, white
space as one blank. Nothing else is equated: "7" is not "seven".

Deviations: a gold answer that consists of articles or punctuation ("A", "The", "-") is compared with its articles, or
else with its punctuation, as is the output; SQuAD's script gives an empty output full marks for it. The `^` of a
superscript is a blank. A letter of a script without blanks is a word, as in CMRC 2018 and MLQA for Chinese.

**Choice.** An output is read as a person would mark it: by the label that it begins with ("B", "**(B)**", "B: wind", "B
is right"), else the one label that it calls the answer ("I think the answer is B."), else the option whose words it
contains; of several the longest that holds the others ("sea water" before "water"), or none. The options are the lines
"A: its text" below a question's first one, as the dataset `arc` writes them; a question without such lines is a claim,
its options the verdicts of `pubhealth`. Numbered options also have letters, A for 1 (Self-RAG's prompt). "not true" and
"untrue" are false. A gold answer is an option's text, or its label alone; else the question is left out.

**Sets of answers.** PFE-Self-RAG (J. Mahani Math. Res. 15(2), 2026) counts a set as right if any member is: `set_any`.
A larger set can only gain by it. Beside it, for the same question:

- `set_drawn`: the share of the set's members that are right, the expected accuracy of one drawn from it;
- `random_set_any`: the expected `set_any` of a random set of the same size, of the same candidates: of n candidates, r
  of them right, C(n − r, m) of the C(n, m) sets of m have no right member;
- `first_random_any`: the same for the set's first answer, which the critic chose, with random others;
- `oracle`: whether any candidate is right, the most that a choice can reach.

The n leaves out candidates with an error, which no selector takes. An answer is right if the metric `score.right_by`
gives it 1. One answer is a set of one.

**The likelihood of the gold answer**: the natural logarithm of the probability that `likelihood.model` gives the first
gold answer after the prompt with the method's contexts, from the table `likelihoods` (tasks/rate.py). It needs no
answer, and is not bounded below: one impossible answer counts as much as many that are a little less likely.

**ROUGE-L and ROUGE-LSum**, by Google's `rouge-score`; F-measures, the best over the gold answers: Lin, "ROUGE: A
Package for Automatic Evaluation of Summaries", 2004, section 3. Words are lower-case runs of a–z and 0–9, not stemmed;
a gold answer without any is passed over. ROUGE-LSum expects a line break after every sentence: texts are split with
Punkt's rules and this project's English abbreviations alone, so that a text has the same score in every corpus.
"""

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from math import comb
from typing import Any, ClassVar, Literal

from pydantic import Field

from vitalfew.tasks.comparable import comparable
from vitalfew.tasks.metrics.base import (
    ANSWER,
    GOLD_ANSWERS,
    LIKELIHOODS,
    Answer,
    Case,
    Column,
    Metric,
    MetricOptions,
    PerQuestion,
    judged,
)
from vitalfew.tasks.splitters.tokens import UNSPACED

JUDGED = (ANSWER, GOLD_ANSWERS)
"""The needs of every metric of an answer's correctness."""
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_RAISED = re.compile(r"\^(?=[-+]?\d)")
_UNSPACED = re.compile(f"[{UNSPACED}]")
_LATIN = re.compile("[a-z0-9]")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
RIGHT = 0.5
"""Two answers agree if their token F1 is at least this."""


def normalise(text: str) -> str:
    """SQuAD's normalisation of the comparable form."""
    return _without_articles(comparable(text))


def has_answer(text: str, answers: Iterable[str]) -> bool:
    """Whether a text has one of the answers, as a run of whole words after SQuAD's normalisation."""
    there = f" {normalise(text)} "
    return any(f" {answer} " in there for answer in map(normalise, answers) if answer)


def alike(output: str, gold: str) -> tuple[str, str]:
    """Both normalised, or less so, in the same way, where nothing would be left of the gold answer."""
    output, gold = comparable(output), comparable(gold)
    form = next((form for form in _FORMS if form(gold)), _folded)
    return form(output), form(gold)


def _without_articles(text: str) -> str:
    """SQuAD's order: lower case, punctuation, articles, white space."""
    return _folded(_ARTICLES.sub(" ", _without_punctuation(text.lower())))


def _without_punctuation(text: str) -> str:
    return _folded(_RAISED.sub(" ", text).translate(_PUNCTUATION))


def _folded(text: str) -> str:
    spaced = text if text.isascii() else _UNSPACED.sub(r" \g<0> ", text)
    return " ".join(spaced.lower().split())


_FORMS = (_without_articles, _without_punctuation, _folded)


class _BestOfGold(PerQuestion):
    """A number from 0 to 1 for an output and a gold answer, the greatest over the gold answers."""

    version: ClassVar[str] = "3"  # since 3, of the comparable form; 2, no empty output equals articles or punctuation

    def row(self, case: Case) -> tuple[float, ...] | None:
        if (output := judged(case)) is None:
            return None
        return (max(self.match(output, *alike(output, gold)) for gold in case.answers),)

    def match(self, output: str, normalised: str, gold: str) -> float:
        """`output` is as the model gave it; both are compared in the form of `alike`."""
        raise NotImplementedError


class Accuracy(_BestOfGold):
    """1 if an output contains a gold answer, else 0.

    An answer is judged as it is served: a sentence may hold a gold answer. ParetoRAG counts an output of more than 15
    words as wrong (section 4.1, appendix F); PFE-Self-RAG's binary match (section 6.4) does not. `score.max_words` is
    such a limit, in words between white space of the raw output; `accuracy_cut` is 1 where it alone makes an answer
    wrong. The output contains an answer if both are normalised and the answer is a run of whole words. This is stricter
    than comparing characters: "no" is not in "I do not know", nor "May" in "Mayor". A gold answer that is an article,
    such as the letter A of a multiple choice, counts where no word follows it: "The answer is A." has it, "A dog." does
    not. So accuracy is never below exact match for answers within the limit.
    """

    class Options(MetricOptions):
        max_words: int | None = Field(
            None,
            ge=1,
            description="Maximum number of words in an answer; a longer answer counts as wrong. Default: no limit.",
        )

    shown = (Column("accuracy", "accuracy", needs=JUDGED),)

    def columns(self) -> Sequence[Column]:
        return self.shown if self.options.max_words is None else (*self.shown, _CUT)

    def row(self, case: Case) -> tuple[float, ...] | None:
        found, limit = super().row(case), self.options.max_words
        if found is None or limit is None or case.answer is None:
            return found
        (holds,) = found
        is_short = words(case.answer.text) <= limit
        return (holds, 0.0) if is_short else (0.0, holds)

    def match(self, output: str, normalised: str, gold: str) -> float:
        if normalise(gold):
            return float(f" {gold} " in f" {normalised} ")
        # An article or a sign by itself is an answer if no word follows it.
        alone = re.compile(rf"(?<!\w){re.escape(gold)}(?!\s*\w)")
        return float(normalised == gold or bool(gold and alone.search(_folded(comparable(output)))))


CUT = "accuracy_cut"
"""The column of a limit of words: 1 for an answer that holds a gold answer and is longer."""
_CUT = Column(CUT, "right, but too long", direction="neither", needs=JUDGED, detail=True)


def words(text: str) -> int:
    """Count the words of an answer: the runs between white space."""
    return len(text.split())


class AnswerWords(PerQuestion):
    """Number of words in the answer, between white space; a failed one is left out."""

    shown = (Column("answer_words", "answer words", "words", "neither", (ANSWER,)),)

    def row(self, case: Case) -> tuple[float] | None:
        return (float(words(case.answer.text)),) if case.answer and not case.answer.error else None


class ExactMatch(_BestOfGold):
    """1 if the normalised output equals a normalised gold answer, else 0 (SQuAD)."""

    shown = (Column("exact_match", "exact match", needs=JUDGED),)

    def match(self, output: str, normalised: str, gold: str) -> float:
        return float(normalised == gold)


class F1(_BestOfGold):
    """Harmonic mean of precision and recall of the output's words, repetitions counted (SQuAD)."""

    shown = (Column("f1", "F1", needs=JUDGED),)

    def match(self, output: str, normalised: str, gold: str) -> float:
        return _token_f1(normalised, gold)


def _token_f1(one: str, other: str) -> float:
    given, due = one.split(), other.split()
    if not given or not due:
        return float(given == due)
    return 2 * (Counter(given) & Counter(due)).total() / (len(given) + len(due))


def is_right(answer: str, golds: Iterable[str]) -> bool:
    """Whether an answer has a token F1 of at least `RIGHT` with a gold answer. An empty one is wrong."""
    normalised = normalise(answer)
    return bool(normalised) and any(agree(normalised, normalise(gold)) for gold in golds)


def agree(one: str, other: str) -> bool:
    """Whether two answers, normalised, have a token F1 of at least `RIGHT`."""
    return _token_f1(one, other) >= RIGHT


VERDICTS = ("true", "false", "mixture", "unproven")
_OPTION = re.compile(r"^([A-Z]|\d{1,2}): (.+)$", re.MULTILINE)
_AFTER = r"\s*(?:[)(\],;!*\"”]|[.:,](?!\d)|-+\s|[–—]|\n|$)| is (?:the )?(?:correct|right|best|answer)\b"
_LABEL = rf"([A-Z]|\d{{1,2}})(?={_AFTER})"
_FIRST = re.compile(r"^\W*(?:(?:the )?(?:correct |best )?(?:answer|option)(?: is)?\W+)?" + _LABEL, re.IGNORECASE)
_STATED = re.compile(r"\banswer(?: is)?\W+(?:option )?" + _LABEL, re.IGNORECASE)
_NEGATED = re.compile(r"\b(?:not true|isn'?t true|untrue|incorrect)\b", re.IGNORECASE)


class Choice(PerQuestion):
    """1 if the option or verdict that an answer names is the right one, else 0 (ARC, PubHealth)."""

    version = "4"  # since 4, of the comparable form; 3, letters name numbered options; 2, "the answer is B" anywhere
    shown = (Column("choice", "choice", needs=JUDGED),)

    def row(self, case: Case) -> tuple[float] | None:
        if (output := judged(case)) is None:
            return None
        choices, answers = options(case.question), case.answers
        pairs = {label: [alike(text, answer) for answer in answers] for label, text in choices.items()}
        right = {label for label, texts in pairs.items() if any(one == gold for one, gold in texts)}
        right = right or {*choices} & {answer.strip() for answer in answers}
        return (float(chosen(output, choices) in right),) if right else None


def options(question: str) -> dict[str, str]:
    """Label → text of a question's options; of a claim, the verdicts by themselves."""
    lines = {label: text.strip() for label, text in _OPTION.findall(question)}
    return lines or {verdict: verdict for verdict in VERDICTS}


def chosen(output: str, choices: Mapping[str, str]) -> str | None:
    """The label of the option that an output names; None where it names none, or more than one."""
    if label := _label(output.strip(), choices):
        return label
    text = f" {normalise(_NEGATED.sub('false', output))} "
    words = {label: f" {normalise(option)} " for label, option in choices.items()}
    named = [label for label, option in words.items() if option.strip() and option in text]
    widest = [label for label in named if all(words[other] in words[label] for other in named)]
    return widest[0] if len(widest) == 1 else None


def _label(output: str, choices: Mapping[str, str]) -> str | None:
    first = _FIRST.match(output)
    if first and (label := _of(first[1], choices)):
        return label
    stated = {_of(label, choices) for label in _STATED.findall(output)} - {None}
    return stated.pop() if len(stated) == 1 else None


def _of(label: str, choices: Mapping[str, str]) -> str | None:
    """The label as the question has it; None where no option has it, nor the number that a letter stands for."""
    number = str(ord(label.upper()) - ord("A") + 1) if label.isalpha() else label
    return next((own for own in (label.upper(), number) if own in choices), None)


RIGHT_BY: dict[str, type[Metric]] = {"accuracy": Accuracy, "exact_match": ExactMatch, "choice": Choice}


class RightOptions(Accuracy.Options):
    """The settings of metrics of sets; max_words is that of `accuracy`."""

    right_by: Literal["accuracy", "exact_match", "choice"] = Field(
        "accuracy", description="Metric that decides if an answer of the set is right."
    )


class _OfSet(PerQuestion):
    """A metric of sets of answers."""

    version = "4"  # the version of what decides if an answer is right

    Options = RightOptions

    def __init__(self, options: RightOptions) -> None:
        super().__init__(options)
        self.metric: Metric = RIGHT_BY[options.right_by](options)

    def right(self, case: Case, answers: Sequence[Answer]) -> list[bool]:
        """True for the right answers. Those with an error have no place; [] where the case cannot be judged."""
        if judged(case) is None:
            return []
        single = [replace(case, answer=answer) for answer in answers if not answer.error]
        values = next(iter(self.metric.score(single).values()))  # a limit of words has a column of its own
        return [value == 1 for value in values]


class AnswerSet(_OfSet):
    """Chance of a right answer: in the set, drawn from it, in a random set of its size, among all candidates."""

    shown = tuple(
        Column(name, name.replace("_", " "), needs=JUDGED)
        for name in ("set_any", "set_drawn", "random_set_any", "first_random_any", "oracle")
    )

    def row(self, case: Case) -> tuple[float, ...] | None:
        selected, candidates = self.right(case, case.selected), self.right(case, case.candidates)
        if not selected:
            return None
        size, every, right = len(selected), len(candidates), sum(candidates)
        by_chance = any_right(size, every, right)
        with_first = 1.0 if selected[0] else any_right(size - 1, every - 1, right)
        return float(any(selected)), sum(selected) / size, by_chance, with_first, float(right > 0)


class SetSize(_OfSet):
    """Number of answers in the set, of different answers, and of right answers."""

    shown = (
        Column("set_size", "set size", "answers", "neither", (ANSWER,)),
        Column("set_distinct", "set distinct", "answers", "neither", (ANSWER,)),
        Column("set_right", "set right", "answers", "neither", JUDGED),
    )

    def row(self, case: Case) -> tuple[float | None, ...] | None:
        answers = [normalise(answer.text) for answer in case.selected if not answer.error]
        selected = self.right(case, case.selected)
        right = float(sum(selected)) if selected else None
        return (float(len(answers)), float(len(set(answers))), right) if answers else None


def any_right(size: int, every: int, right: int) -> float:
    """The probability that a random set of `size` of `every` candidates holds one of the `right`."""
    return 1 - comb(every - right, size) / comb(every, size)


class AnswerLikelihood(PerQuestion):
    """How probable a language model finds the gold answer after the prompt, in nats, in all and per token."""

    shown = (
        Column("answer_likelihood", "log-likelihood of the gold answer", "nats", needs=(GOLD_ANSWERS, LIKELIHOODS)),
        Column("answer_likelihood_per_token", "the same per token", "nats", needs=(GOLD_ANSWERS, LIKELIHOODS)),
    )

    def row(self, case: Case) -> tuple[float, float] | None:
        if case.likelihood is None or not case.answers:
            return None
        nats, tokens = case.likelihood
        return nats, nats / tokens


class Rouge(PerQuestion):
    """ROUGE-L and ROUGE-LSum (F-measure, 0 to 1; the best over the gold answers)."""

    shown = (Column("rouge_l", "ROUGE-L", needs=JUDGED), Column("rouge_lsum", "ROUGE-LSum", needs=JUDGED))
    kinds = ("rougeL", "rougeLsum")  # as `rouge-score` calls them

    @cached_property
    def _splitter(self) -> Any:
        from vitalfew.tasks.splitters.nltk_punkt import untrained

        return untrained()

    def row(self, case: Case) -> list[float] | None:
        output, scorer = judged(case), rouge_scorer(*self.kinds)
        gold = [self._lines(answer) for answer in case.answers if _LATIN.search(answer.lower())]
        if output is None or not gold:
            return None
        best = scorer.score_multi(gold, self._lines(output))
        return [float(best[kind].fmeasure) for kind in self.kinds]

    def _lines(self, text: str) -> str:
        """The text with a line break after every sentence."""
        return "\n".join(text[start:end].strip() for start, end in self._splitter.split(text))


@cache
def rouge_scorer(*kinds: str) -> Any:
    """The scorer of `rouge-score`, without stemming."""
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import DefaultTokenizer

    return RougeScorer([*kinds], tokenizer=DefaultTokenizer(use_stemmer=False))
