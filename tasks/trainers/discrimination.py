"""How well a critic separates good from bad candidates of a pipeline: areas under the ROC curve (AUC), and calibration.

For every question BM25 retrieves contexts among all passages, or among all their sentences, and the reader answers from
every one. The context is relevant if it holds the gold answer at its marked place; the answer is right if its token F1
with a gold answer is at least `RIGHT`, and supported if it is right and its context has a gold answer's text.

ISSUP is asked of relevant contexts, as Self-RAG asks it; ISREL · ISSUP is then the probability of both, of any context.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
from sklearn.metrics import roc_auc_score

from vitalfew.tasks.generators.base import Generator, Prompt
from vitalfew.tasks.metrics.answers import is_right
from vitalfew.tasks.raters.base import Judgement, RatedContext
from vitalfew.tasks.raters.calibration import calibration_error
from vitalfew.tasks.selectors.fronts import critiqued, front, front_sizes, rank_correlations
from vitalfew.tasks.trainers.articles import CharSpan, MarkedQuestion, Material, contains_answer
from vitalfew.tasks.trainers.examples import ranked
from vitalfew.tasks.trainers.judgements import LabelledCandidate

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


def candidates(
    material: Material, questions: Sequence[MarkedQuestion], unit: Unit, reader: Generator, relevant_only: bool = False
) -> list[LabelledCandidate]:
    """Return the reader's answers from the `RETRIEVED` contexts of the material that BM25 ranks highest for a question,
    best first; or only from the relevant ones among them."""
    places = list(_places(material, unit))
    texts = [material.passages[number].text[start:end].rstrip() for number, (start, end) in places]
    rankings = ranked(texts, questions, RETRIEVED)
    found = [
        (asked, place)
        for asked, ranking in zip(questions, rankings, strict=True)
        for place in ranking
        if not relevant_only or _is_relevant(asked, places[place])
    ]
    answers = reader.generate([Prompt("", asked.question, (texts[place],)) for asked, place in found])
    return [
        _judgement(asked, places[place], texts[place], answer.text)
        for (asked, place), answer in zip(found, answers, strict=True)
    ]


def _places(material: Material, unit: Unit) -> Iterator[tuple[int, CharSpan]]:
    for number, text in material.passages.items():
        for span in text.sentences if unit == "sentence" else ((0, len(text.text)),):
            yield number, span


def _is_relevant(asked: MarkedQuestion, place: tuple[int, CharSpan]) -> bool:
    number, (start, end) = place
    return number == asked.passage and any(start <= first and last <= end for first, last in asked.spans)


def _judgement(asked: MarkedQuestion, place: tuple[int, CharSpan], text: str, answer: str) -> LabelledCandidate:
    useful = is_right(answer, asked.answers)
    supported = useful and contains_answer(text, asked.answers)
    return LabelledCandidate(RatedContext(asked.question, text, answer), _is_relevant(asked, place), supported, useful)


def columns(critiques: Sequence[Judgement], judgements: Sequence[LabelledCandidate]) -> dict[str, Column]:
    """Return the column of every aspect, in the order of `ASPECTS`."""
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
    """Return a row for every aspect in `measured`: its `auc` over `candidates` on contexts that are `unit`s, of which a
    share is `positive`.

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
    """Return the area under the ROC curve; NaN if all labels are true, or all false."""
    return float(roc_auc_score(truth, scores)) if 0 < truth.sum() < len(truth) else float("nan")


def interval(
    truth: np.ndarray, scores: np.ndarray, questions: np.ndarray, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """Return the 95 % interval of a bootstrap that draws questions with all their candidates; NaN for no resamples."""
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
