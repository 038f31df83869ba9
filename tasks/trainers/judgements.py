"""The critic's training material, and how well a critic separates good from bad candidates of a pipeline.

Contexts are drawn as for the reader, with and without the answer. For ISREL and ISSUP the critic learns where the gold
answers are in them. For ISUSE it learns to judge answers without a context. Right ones are gold answers and the
reader's; wrong ones are what the reader finds in contexts without the answer, or in the right context once the gold
answers are cut out of it, the gold answers of other questions on the passage, and other names and numbers.

It is measured by areas under the ROC curve (AUC) and calibration. For every question BM25 retrieves contexts among all
passages, or among all their sentences, and the reader answers from every one. The context is relevant if it holds the
gold answer at its marked place; the answer is right if its token F1 with a gold answer is at least `RIGHT`, and
supported if it is right and its context has a gold answer's text. ISSUP is asked of relevant contexts, as Self-RAG asks
it; ISREL · ISSUP is then the probability of both, of any context.
"""

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score
from tokenizers import Tokenizer

from vitalfew.tasks.generators.base import Generator, Prompt
from vitalfew.tasks.metrics.answers import is_right
from vitalfew.tasks.models.small.windows import MAX_QUESTION, answer_window, encoded
from vitalfew.tasks.raters.base import Judgement, RatedContext
from vitalfew.tasks.raters.calibration import calibration_error
from vitalfew.tasks.selectors.fronts import critiqued, front, front_sizes, rank_correlations
from vitalfew.tasks.trainers.articles import MarkedQuestion, Material, contains_answer
from vitalfew.tasks.trainers.examples import CANDIDATE, Sampler, SpanExample, SpanWindow, labelled, ranked

Unit = Literal["sentence", "passage"]
UNITS: tuple[Unit, ...] = ("sentence", "passage")
RETRIEVED = 10
ALL, RELEVANT = "all", "relevant"
ASPECTS = {"isrel": ALL, "issup": RELEVANT, "isuse": ALL, "isrel_issup": ALL}
"""The aspects that are measured, and the candidates that count: all, or those whose context is relevant."""
FIRST = 5
"""The number of a question's candidates from which a front is taken, as in PFE-Self-RAG (section 4.1)."""
RESAMPLES = 200
"""Bootstrap samples of the questions, for intervals."""

Column = tuple[np.ndarray, np.ndarray, np.ndarray]
"""The probabilities of an aspect's candidates, their truth, and the numbers of their questions."""

READ_RIGHT = 0.5
"""Share of the answers to a context with the right one that are the reader's; the others are the gold answer."""
WRONG_WEIGHTS = (0.5, 0.3, 0.2)
"""The kinds of wrong answers to a context with the right one: the reader's, another question's, a name or number."""
READ_STRAY = 0.8
"""Share of the answers to a context without the answer that are the reader's; the others are another question's."""


@dataclass(frozen=True, slots=True)
class LabelledCandidate:
    """A candidate with its truth. `relevant`: the context has the gold answer where it is marked; `useful`: the answer
    is right; `supported`: it is right, and the context has a gold answer's text."""

    candidate: RatedContext
    relevant: bool
    supported: bool
    useful: bool


class JudgedAnswer(NamedTuple):
    """An answer to a question, and whether it is right."""

    question: str
    answer: str
    useful: bool


class _Draft(NamedTuple):
    """An answer to a question. If `read` is not empty, the reader still has to answer from that text; a `wrong` one is
    dropped where its answer turns out right."""

    asked: MarkedQuestion
    answer: str = ""
    read: str = ""
    wrong: bool = False


class JudgementSampler:
    """Draws different examples for every pass over the questions. The same seed and pass give the same ones."""

    def __init__(self, material: Material, negatives: float, seed: int, reader: Generator) -> None:
        self.sampler, self.seed, self.reader = Sampler(material, negatives, seed), seed, reader
        self.golds: dict[int, list[str]] = {}
        for asked in material.questions:
            self.golds.setdefault(asked.passage, []).extend(dict.fromkeys(asked.answers))

    def contexts(self, epoch: int) -> list[SpanExample]:
        return [example for _, example in self.sampler.examples(epoch)]

    def answers(self, epoch: int) -> list[JudgedAnswer]:
        """The answers of one pass, drawn from its contexts. Empty ones, and those that must be wrong but are nearly
        right, are left out."""
        draw = random.Random(f"{self.seed}/{epoch}/judgements")
        drafts = [
            draft for asked, example in self.sampler.examples(epoch) for draft in self._drafts(asked, example, draw)
        ]
        prompts = [Prompt("", draft.asked.question, (draft.read,)) for draft in drafts if draft.read]
        read = iter(self.reader.generate(prompts))
        judged = []
        for draft in drafts:
            golds = draft.asked.answers
            answer = next(read).text if draft.read else draft.answer
            useful = is_right(answer, golds)
            if answer and not (draft.wrong and (useful or contains_answer(answer, golds))):
                judged.append(JudgedAnswer(draft.asked.question, answer, useful))
        return judged

    def _drafts(self, asked: MarkedQuestion, example: SpanExample, draw: random.Random) -> Iterator[_Draft]:
        context = example.context
        if example.spans:
            start, end = draw.choice(example.spans)
            yield _Draft(asked, read=context) if draw.random() < READ_RIGHT else _Draft(asked, context[start:end])
            yield self._wrong(asked, context, draw)
        elif draw.random() < READ_STRAY:
            yield _Draft(asked, read=context)
        else:
            yield _Draft(asked, draw.choice(self.golds[asked.passage]))

    def _wrong(self, asked: MarkedQuestion, context: str, draw: random.Random) -> _Draft:
        pattern = "|".join(re.escape(answer) for answer in sorted(asked.answers, key=len, reverse=True))
        left = re.sub(pattern, "", context, flags=re.IGNORECASE)
        others = [text for text in self.golds[asked.passage] if text in left]
        names = [match.group() for match in CANDIDATE.finditer(left)]
        kind = draw.choices(range(3), WRONG_WEIGHTS)[0]
        for pool in (others, names)[kind - 1 :] if kind else ():
            if pool:
                return _Draft(asked, draw.choice(pool), wrong=True)
        return _Draft(asked, read=left, wrong=True)


def lessons(tokenizer: Tokenizer, contexts: Sequence[SpanExample], answers: Sequence[JudgedAnswer]) -> list[SpanWindow]:
    """Return all windows of the contexts, and the windows of the answers whose question is not too long."""
    texts = encoded(tokenizer, [text for row in answers for text in (row.question, row.answer)])
    return labelled(tokenizer, contexts) + [
        SpanWindow(answer_window(tokenizer, texts[row.question], texts[row.answer]), useful=row.useful)
        for row in answers
        if len(texts[row.question].ids) <= MAX_QUESTION
    ]


def candidates(
    material: Material, questions: Sequence[MarkedQuestion], unit: Unit, reader: Generator, relevant_only: bool = False
) -> list[LabelledCandidate]:
    """The reader's answers from the `RETRIEVED` contexts of the material that BM25 ranks highest for a question, best
    first; or only from the relevant ones among them."""
    places = [
        (number, span)
        for number, text in material.passages.items()
        for span in (text.sentences if unit == "sentence" else ((0, len(text.text)),))
    ]
    texts = [material.passages[number].text[start:end].rstrip() for number, (start, end) in places]
    found = []
    for asked, ranking in zip(questions, ranked(texts, questions, RETRIEVED), strict=True):
        for place in ranking:
            number, (start, end) = places[place]
            marked = any(start <= first and last <= end for first, last in asked.spans)
            relevant = number == asked.passage and marked
            if relevant or not relevant_only:
                found.append((asked, texts[place], relevant))
    answers = reader.generate([Prompt("", asked.question, (text,)) for asked, text, _ in found])
    labelled = []
    for (asked, text, relevant), answer in zip(found, answers, strict=True):
        useful = is_right(answer.text, asked.answers)
        supported = useful and contains_answer(text, asked.answers)
        candidate = RatedContext(asked.question, text, answer.text)
        labelled.append(LabelledCandidate(candidate, relevant, supported, useful))
    return labelled


def columns(critiques: Sequence[Judgement], judgements: Sequence[LabelledCandidate]) -> dict[str, Column]:
    """The column of every aspect, in the order of `ASPECTS`."""
    scores = np.array([(each["isrel"], each["issup"], each["isuse"]) for each in critiques]).reshape(-1, 3)
    labels = [(each.relevant, each.supported, each.useful) for each in judgements]
    truth = np.array(labels, bool).reshape(-1, 3)
    questions = np.unique([each.candidate.question for each in judgements], return_inverse=True)[1]
    both = (scores[:, 0] * scores[:, 1], truth[:, 0] & truth[:, 1])
    of = dict(zip(ASPECTS, [*zip(scores.T, truth.T, strict=True), both], strict=True))
    among = {ALL: np.ones(len(truth), bool), RELEVANT: truth[:, 0]}
    return {
        aspect: (of[aspect][0][among[kind]], of[aspect][1][among[kind]], questions[among[kind]])
        for aspect, kind in ASPECTS.items()
    }


def discrimination(unit: str, measured: Mapping[str, Column], resamples: int = RESAMPLES) -> list[dict[str, Any]]:
    """A row for every aspect in `measured`: its `auc` over `candidates` on contexts that are `unit`s, of which a share
    is `positive`.

    `low`, `high`: its 95 % interval, percentiles of a bootstrap over questions. `among`: which candidates count, "all"
    or those whose context is "relevant". `ece`: expected calibration error. AUC is NaN if all candidates have the same
    label.
    """
    rows = []
    for aspect, (scores, truth, questions) in measured.items():
        low, high = interval(truth, scores, questions, resamples)
        rows.append(
            {
                "unit": unit,
                "aspect": aspect,
                "among": ASPECTS[aspect],
                "questions": len(np.unique(questions)),
                "candidates": len(truth),
                "positive": float(truth.mean()) if len(truth) else 0.0,
                "auc": auc(truth, scores),
                "low": low,
                "high": high,
                "ece": calibration_error(scores, truth),
            }
        )
    return rows


def auc(truth: np.ndarray, scores: np.ndarray) -> float:
    """The area under the ROC curve; NaN if all labels are true, or all false."""
    return float(roc_auc_score(truth, scores)) if 0 < truth.sum() < len(truth) else float("nan")


def interval(
    truth: np.ndarray, scores: np.ndarray, questions: np.ndarray, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """The 95 % interval of a bootstrap that draws questions with all their candidates; NaN for no resamples."""
    rows = [np.flatnonzero(questions == number) for number in np.unique(questions)]
    draw = np.random.default_rng(0)
    areas = []
    for _ in range(resamples if rows else 0):
        some = np.concatenate([rows[number] for number in draw.integers(len(rows), size=len(rows))])
        areas.append(auc(truth[some], scores[some]))
    known = [area for area in areas if not np.isnan(area)]
    return (float(np.percentile(known, 2.5)), float(np.percentile(known, 97.5))) if known else (float("nan"),) * 2


def fronts(unit: str, judgements: Sequence[LabelledCandidate], critiques: Sequence[Judgement]) -> dict[str, Any]:
    """Measure the fronts of the questions' first candidates; `judgements`: by question, best context first.

    Returns means over the questions. `size`: candidates on the front of F1 and F2, of `FIRST`; `answers`: different
    answers among these; `single`: the share of fronts of one candidate; `correlation`: Spearman's, of F1 and F2.
    """
    places: dict[str, list[int]] = {}
    for number, judgement in enumerate(judgements):
        places.setdefault(judgement.candidate.question, []).append(number)
    rows = [
        [
            {**critiques[number].scores, "text": judgements[number].candidate.answer, "error": critiques[number].error}
            for number in numbers[:FIRST]
        ]
        for numbers in places.values()
    ]
    matrix = critiqued(rows)
    sizes, on_front = front_sizes(matrix), front(matrix)
    answers = [len(set(matrix.same[line, on_front[line]])) for line in range(len(rows))]
    correlations = rank_correlations(matrix)
    known = correlations[~np.isnan(correlations)]
    return {
        "unit": unit,
        "questions": len(rows),
        "size": float(np.nanmean(sizes)),
        "answers": float(np.mean(answers)),
        "single": float(np.mean(sizes == 1)),
        "correlation": float(known.mean()) if len(known) else float("nan"),
    }
