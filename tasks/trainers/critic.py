"""`critic`: questions with answers marked in their passages → the weights of the critic `embedded`.

The critic starts from a reader's weights and judges that reader's answers, so the articles that the critic holds out
must have been held out from the reader too. The loss has three parts, one a judgement: the cross entropy of whether a
context has the answer (ISREL); the marginal likelihood of where, as the reader learns it (ISSUP, which follows from
what a context answers); the cross entropy of whether an answer is right, without a context (ISUSE). Then a line for
each judgement makes probabilities of its log-odds, fitted to candidates of the articles that choose the weights.
"""

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from pydantic import Field
from torch import Tensor

from vitalfew.tasks.metrics.answers import RIGHT
from vitalfew.tasks.models.small.reader import CriticModel
from vitalfew.tasks.models.small.tuned import settings_file
from vitalfew.tasks.models.small.windows import Batch
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.raters.base import Judgement
from vitalfew.tasks.raters.calibration import Bin, Calibration, LogisticLine, reliability
from vitalfew.tasks.raters.embedded import Embedded
from vitalfew.tasks.trainers.bert import FromReader, FromReaderOptions
from vitalfew.tasks.trainers.examples import SpanWindow, span_loss
from vitalfew.tasks.trainers.judgements import (
    ASPECTS,
    FIRST,
    RETRIEVED,
    UNITS,
    Column,
    JudgementSampler,
    LabelledCandidate,
    candidates,
    columns,
    discrimination,
    fronts,
    lessons,
)

logger = logging.getLogger("vitalfew")

CARD_QUESTIONS, CARD_RELEVANT = 300, 1000
"""Questions asked for the card, and those of which the relevant contexts alone are, for ISSUP."""


class CriticTrainer(FromReader):
    """The embedded critic: is a context relevant, does it support the reader's answer, is the answer right?"""

    class Options(FromReaderOptions, extra="forbid"):
        negatives: float = Field(
            1.5, ge=0, description="Mean number of contexts without the answer per question and pass."
        )
        check_questions: int = Field(
            200, ge=1, description="Questions asked after every pass, to choose and calibrate the weights."
        )

    use: ClassVar[str] = "critique.model"
    called: ClassVar[str] = "the critic"
    version: ClassVar[str] = "2"
    headings: ClassVar[dict[str, str]] = {
        "unit": "contexts",
        "auc": "AUC",
        "low": "95 % from",
        "high": "to",
        "ece": "ECE",
    }

    def network(self) -> CriticModel:
        return self.prepared(CriticModel)

    @cached_property
    def sampler(self) -> JudgementSampler:
        return JudgementSampler(self.learnt, self.options.negatives, self.options.seed, self.reader)

    def rows(self, epoch: int) -> list[SpanWindow]:
        self.for_inference(self.reader)
        return lessons(self.tokenizer, self.sampler.contexts(epoch), self.sampler.answers(epoch))

    def losses(self, rows: Sequence[SpanWindow], batch: Batch) -> dict[str, Tensor]:
        logits = self.model(batch)
        read = [number for number, row in enumerate(rows) if row.useful is None]
        told = [number for number, row in enumerate(rows) if row.useful is not None]
        return {
            "isrel": self.cross_entropy(logits.relevant[read], [bool(rows[number].starts) for number in read]),
            "issup": span_loss(logits.start, logits.end, rows),
            "isuse": self.cross_entropy(logits.useful[told], [bool(rows[number].useful) for number in told]),
        }

    def _candidates(
        self, titles: Sequence[str], questions: int, relevant_only: bool = False
    ) -> dict[str, list[LabelledCandidate]]:
        """Candidates of some of the articles' questions, by unit."""
        self.for_inference(self.reader)
        asked = self.part(titles).sample(questions, self.options.seed)
        return {unit: candidates(self.whole, asked, unit, self.reader, relevant_only) for unit in UNITS}

    @cached_property
    def _chosen_by(self) -> list[LabelledCandidate]:
        """The candidates of the articles that choose the weights."""
        return _pooled(self._candidates(self.split.choosing, self.options.check_questions))

    def quality(self, directory: Path) -> float:
        """The mean AUC of ISREL and ISSUP; 0 if all candidates have the same label."""
        critiques = _judged(self.critic(directory), self._chosen_by)
        rows = discrimination("both", columns(critiques, self._chosen_by), resamples=0)
        areas: dict[str, float] = {row["aspect"]: row["auc"] for row in rows}
        logger.info("validation articles: AUC %s", ", ".join(f"{name} {area:.3f}" for name, area in areas.items()))
        mean = (areas["isrel"] + areas["issup"]) / 2
        return mean if mean == mean else 0.0

    def critic(self, directory: Path) -> Embedded:
        return self.for_inference(Embedded(Embedded.Options(model=str(directory), **self.computing)))

    def _calibration(self, critic: Embedded) -> Calibration:
        """Fit lines to the critic's log-odds on the articles that choose the weights: ISREL's and ISUSE's to candidates
        as retrieved, ISSUP's to the relevant ones of all questions."""
        relevant = _pooled(self._candidates(self.split.choosing, len(self.whole.questions), relevant_only=True))
        told, told_relevant = (critic.evidence([row.candidate for row in rows]) for rows in (self._chosen_by, relevant))
        return Calibration(
            _line([each.isrel for each in told], [row.relevant for row in self._chosen_by]),
            _line([each.issup for each in told_relevant], [row.supported for row in relevant]),
            _line([each.isuse for each in told], [row.useful for row in self._chosen_by]),
        )

    def finish(self, directory: Path, tick: Tick) -> dict[str, bytes]:
        critic = self.critic(directory)
        critic.calibration = self._calibration(critic)
        measured: dict[str, dict[str, Column]] = {}
        choice = []
        relevant = self._candidates(self.split.held_out, CARD_RELEVANT, relevant_only=True)
        for unit, judgements in self._candidates(self.split.held_out, CARD_QUESTIONS).items():
            critiques = _judged(critic, judgements, tick)
            of_relevant = columns(_judged(critic, relevant[unit], tick), relevant[unit])
            measured[unit] = columns(critiques, judgements) | {"issup": of_relevant["issup"]}
            choice.append(fronts(unit, judgements, critiques))
        rows = [row for unit, found in measured.items() for row in discrimination(unit, found)]
        calibration = critic.calibration.settings()
        return self.described(
            "critic",
            rows,
            more={"fronts": choice},
            files=settings_file(self.base, calibration=calibration),
            calibration=calibration,
            bins=_bins(measured),
            retrieved=RETRIEVED,
            right=RIGHT,
            candidates=FIRST,
        )


def _judged(critic: Embedded, rows: Sequence[LabelledCandidate], tick: Tick = no_tick) -> list[Judgement]:
    return critic.rate([row.candidate for row in rows], tick)


def _line(logits: Sequence[float | None], truth: Sequence[bool]) -> LogisticLine:
    """Fit a line to the candidates for which there was evidence."""
    known = [(logit, true) for logit, true in zip(logits, truth, strict=True) if logit is not None]
    return LogisticLine.fitted([logit for logit, _ in known], [true for _, true in known])


def _pooled(by_unit: Mapping[str, Sequence[LabelledCandidate]]) -> list[LabelledCandidate]:
    return [judgement for judgements in by_unit.values() for judgement in judgements]


def _bins(measured: Mapping[str, Mapping[str, Column]]) -> list[tuple[Bin, ...]]:
    """Ten bins of every aspect's probabilities, all units together, in the order of `ASPECTS`."""
    pooled = [
        [np.concatenate([found[aspect][part] for found in measured.values()]) for part in (0, 1)] for aspect in ASPECTS
    ]
    return [*zip(*(reliability(scores, truth) for scores, truth in pooled), strict=True)]
