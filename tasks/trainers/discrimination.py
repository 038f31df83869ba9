"""How well a critic separates good from bad candidates of a pipeline: areas under the ROC curve (AUC).

For every question BM25 retrieves contexts among all passages, or among all their sentences, and the reader answers from
every one. The context is relevant if it holds the gold answer at its marked place; the answer is right if its token F1
with a gold answer is at least `RIGHT`, and supported if it is right and its context has a gold answer's text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from sklearn.metrics import roc_auc_score

from tasks.critics.base import Candidate, Critic, Tick, no_tick
from tasks.generators.base import Generator, Prompt
from tasks.trainers.articles import Asked, CharSpan, Material, contains_answer
from tasks.trainers.examples import ranked
from tasks.trainers.judgements import LabelledCandidate, is_right

Unit = Literal["sentence", "passage"]
UNITS: tuple[Unit, ...] = ("sentence", "passage")
RETRIEVED = 10
ASPECTS = ("isrel", "issup", "isuse")
RESAMPLES = 200
"""Bootstrap samples of the questions, for intervals."""


@dataclass(frozen=True, slots=True)
class Discrimination:
    """AUC of an aspect over `candidates` on contexts that are `unit`s, of which a share is `positive`.

    `low`, `high`: its 95 % interval, percentiles of a bootstrap over questions. `among`: which candidates count, "all"
    or those whose context is "relevant". NaN if all candidates have the same label.
    """

    unit: str
    aspect: str
    among: str
    questions: int
    candidates: int
    positive: float
    auc: float
    low: float
    high: float


def candidates(
    material: Material, questions: Sequence[Asked], unit: Unit, reader: Generator
) -> list[LabelledCandidate]:
    """The reader's answers from the `RETRIEVED` contexts of the material that BM25 ranks highest for a question."""
    places = list(_places(material, unit))
    texts = [material.passages[number].text[start:end].rstrip() for number, (start, end) in places]
    rankings = ranked(texts, questions, RETRIEVED)
    prompts = [
        Prompt("", asked.question, (texts[place],))
        for asked, ranking in zip(questions, rankings, strict=True)
        for place in ranking
    ]
    answers = iter(reader.generate(prompts))
    return [
        _judgement(asked, places[place], texts[place], next(answers).text)
        for asked, ranking in zip(questions, rankings, strict=True)
        for place in ranking
    ]


def _places(material: Material, unit: Unit) -> Iterator[tuple[int, CharSpan]]:
    for number, text in material.passages.items():
        for span in text.sentences if unit == "sentence" else ((0, len(text.text)),):
            yield number, span


def _judgement(asked: Asked, place: tuple[int, CharSpan], text: str, answer: str) -> LabelledCandidate:
    number, (start, end) = place
    relevant = number == asked.passage and any(start <= first and last <= end for first, last in asked.spans)
    useful = is_right(answer, asked.answers)
    supported = useful and contains_answer(text, asked.answers)
    return LabelledCandidate(Candidate(asked.question, text, answer), relevant, supported, useful)


def discrimination(
    critic: Critic,
    unit: str,
    judgements: Sequence[LabelledCandidate],
    tick: Tick = no_tick,
    resamples: int = RESAMPLES,
) -> list[Discrimination]:
    """AUC of every aspect, and of support among relevant contexts only, where relevance gives no hint."""
    critiques = critic.critique([judgement.candidate for judgement in judgements], tick)
    scores = np.array([(critique.isrel, critique.issup, critique.isuse) for critique in critiques])
    truth = np.array([(judgement.relevant, judgement.supported, judgement.useful) for judgement in judgements])
    questions = np.unique([judgement.candidate.question for judgement in judgements], return_inverse=True)[1]
    every = np.ones(len(truth), bool)
    chosen = [*((aspect, "all", every) for aspect in range(len(ASPECTS))), (1, "relevant", truth[:, 0])]
    areas = []
    for aspect, among, rows in chosen:
        right, score, question = truth[rows, aspect], scores[rows, aspect], questions[rows]
        figures = auc(right, score), *interval(right, score, question, resamples)
        counts = len(np.unique(question)), len(right), float(right.mean()) if len(right) else 0.0
        areas.append(Discrimination(unit, ASPECTS[aspect], among, *counts, *figures))
    return areas


def auc(truth: np.ndarray, scores: np.ndarray) -> float:
    """NaN if all labels are true, or all false."""
    return float(roc_auc_score(truth, scores)) if 0 < truth.sum() < len(truth) else float("nan")


def interval(
    truth: np.ndarray, scores: np.ndarray, questions: np.ndarray, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """95 % interval from a bootstrap that draws questions with all their candidates; NaN for no resamples."""
    rows = [np.flatnonzero(questions == number) for number in np.unique(questions)]
    draw = np.random.default_rng(0)
    areas = []
    for _ in range(resamples if rows else 0):
        some = np.concatenate([rows[number] for number in draw.integers(len(rows), size=len(rows))])
        areas.append(auc(truth[some], scores[some]))
    known = [area for area in areas if not np.isnan(area)]
    return (float(np.percentile(known, 2.5)), float(np.percentile(known, 97.5))) if known else (float("nan"),) * 2
