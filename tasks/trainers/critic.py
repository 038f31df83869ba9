"""`critic`: questions with answers marked in their passages → the weights of the critic `embedded`.

The critic starts from a reader's weights and judges that reader's answers, so the articles that the critic holds out
must have been held out from the reader too. The loss is the cross entropy of ISREL, ISSUP and ISUSE.
"""

import logging
from collections.abc import Sequence
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import torch
from pydantic import ConfigDict, Field
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from configs.loading import ConfigError
from configs.section import ModelName
from tasks.critics.embedded import CriticModel, Embedded
from tasks.generators.reader import Reader
from tasks.models.tuned import read_tokenizer
from tasks.models.windows import Batch
from tasks.trainers.base import Finished, Tick
from tasks.trainers.bert import DROPOUT, ArticleOptions, BertTrainer
from tasks.trainers.card import HELD_OUT, again_section, card_files, data_section
from tasks.trainers.discrimination import ASPECTS, RETRIEVED, UNITS, Discrimination, candidates, discrimination
from tasks.trainers.judgements import RIGHT, Aspects, JudgementSampler, LabelledCandidate, aspects
from tasks.trainers.quality import sample

logger = logging.getLogger("vitalfew")

CARD_QUESTIONS = 300


class CriticTrainer(BertTrainer[CriticModel, Aspects]):
    """The embedded critic: is a context relevant, does it support the reader's answer, is that right?"""

    class Options(ArticleOptions):
        model_config = ConfigDict(extra="forbid")

        epochs: int = Field(1, ge=1, description="Passes over the questions.")
        learning_rate: float = Field(
            5e-4, gt=0, description="Peak learning rate, after a linear rise; then it falls to 0."
        )
        negatives: float = Field(
            1.5, ge=0, description="Contexts without the answer per question and pass, on average."
        )
        check_questions: int = Field(100, ge=1, description="Questions asked after every pass, to choose the weights.")
        reader: ModelName | None = Field(
            None,
            description="The reader whose weights the critic begins from and whose answers it judges, a directory that "
            "`vitalfew train reader --out` wrote; default: the embedded one.",
        )

    use: ClassVar[str] = "critique.model"
    headings: ClassVar[dict[str, str]] = {"unit": "contexts", "auc": "AUC", "low": "95 % from", "high": "to"}

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.reader = Reader(Reader.Options(model=options.reader, device=options.device, precision=options.precision))
        self.base = self.reader.weights.name

    def begun_from(self) -> dict[str, Any]:
        return self.reader.weights.digests()

    def _unseen(self) -> list[str]:
        """Titles of the articles that the reader was not trained on, by its own list."""
        file = self.reader.directory / HELD_OUT
        return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []

    def check(self) -> None:
        """Raises ConfigError if the reader may have learnt from an article that the critic holds out."""
        if seen := sorted(set(self.split.held_out) - set(self._unseen())):
            raise ConfigError(
                f"the reader in {self.reader.directory} may have learnt from {seen[0]!r}, which the critic holds out: "
                f"its {HELD_OUT} has no such title. Train a reader on the same data, with the same held_out and seed, "
                "and name it with --set reader=DIR"
            )

    def network(self) -> CriticModel:
        weights = self.reader.weights
        self.tokenizer = read_tokenizer(weights.base)
        begin = weights.tensors()
        model = CriticModel(weights.base, self.dtype, DROPOUT)
        model.prepare_for_training(next(len(tensor[0]) for name, tensor in begin.items() if name.endswith(".b")))
        model.begin_from(begin)
        return model

    @cached_property
    def sampler(self) -> JudgementSampler:
        return JudgementSampler(self.learnt, self.options.negatives, self.options.seed, self.reader)

    def rows(self, epoch: int) -> list[Aspects]:
        self._forget()
        return aspects(self.tokenizer, self.sampler.judgements(epoch))

    def _forget(self) -> None:
        """Clear the reader's cache. It computed a cached span in another batch, with other rounding, so the training
        would depend on what this process did before."""
        self.for_inference(self.reader).kept.clear()

    def losses(self, rows: Sequence[Aspects], batch: Batch) -> dict[str, Tensor]:
        labels = torch.tensor([row.labels for row in rows], dtype=torch.float32, device=self.device)
        losses = binary_cross_entropy_with_logits(self.model(batch), labels, reduction="none").sum(0)
        return dict(zip(ASPECTS, losses.unbind(), strict=True))

    def _candidates(self, titles: Sequence[str], questions: int) -> dict[str, list[LabelledCandidate]]:
        self._forget()
        asked = sample(self.whole.of(titles).questions, questions, self.options.seed)
        return {unit: candidates(self.whole, asked, unit, self.reader) for unit in UNITS}

    @cached_property
    def _check_candidates(self) -> list[LabelledCandidate]:
        by_unit = self._candidates(self.split.choosing, self.options.check_questions)
        return [judgement for judgements in by_unit.values() for judgement in judgements]

    def quality(self, directory: Path) -> float:
        """The mean AUC of ISREL and ISSUP; 0 if all candidates have the same label."""
        rows = discrimination(self.critic(directory), "both", self._check_candidates, resamples=0)
        isrel, issup, isuse, hard = (row.auc for row in rows)
        figures = isrel, issup, hard, isuse
        logger.info("choosing articles: AUC of isrel %.3f, issup %.3f (relevant: %.3f), isuse %.3f", *figures)
        mean = (isrel + issup) / 2
        return mean if mean == mean else 0.0

    def critic(self, directory: Path) -> Embedded:
        options = self.options
        return self.for_inference(
            Embedded(Embedded.Options(model=str(directory), device=options.device, precision=options.precision))
        )

    def finish(self, directory: Path, tick: Tick) -> Finished:
        by_unit = self._candidates(self.split.held_out, CARD_QUESTIONS)
        critic = self.critic(directory)
        figures = [
            row for unit, judgements in by_unit.items() for row in discrimination(critic, unit, judgements, tick)
        ]
        rows = [asdict(row) for row in figures]
        return Finished(rows, card_files(self.options, self.precision, self.split, rows, self._card(figures)))

    def _card(self, figures: Sequence[Discrimination]) -> str:
        rows = "\n".join(
            f"| {row.unit}s | {row.aspect.upper()}{' of relevant contexts' if row.among == 'relevant' else ''} "
            f"| {row.auc:.3f} | {row.low:.3f}-{row.high:.3f} | {row.questions:,} | {row.candidates:,} "
            f"| {100 * row.positive:.0f} |"
            for row in figures
        )
        return f"""# A critic

A cross-encoder that judges a question's answer by its context: low-rank updates (float16) over the encoder that its
reader is laid over, begun from that reader's, and a head for ISREL, ISSUP and ISUSE. `adapter.safetensors` has the
weights, `tasks/critics/embedded.py` says how they are used.

{data_section(self.sources, self.whole, self.split, self.options.seed, "distractors")}

## Quality on the held-out articles
Area under the ROC curve, with its 95 % interval (bootstrap over questions). For each question BM25 retrieves
{RETRIEVED} contexts, sentences or passages, among those of all {len(self.whole.passages):,} passages, and the reader
answers from each. ISREL: the context holds the gold answer where it is marked. ISUSE: the answer's token F1 with a gold
answer is at least {RIGHT}. ISSUP: so it is, and the context has a gold answer's text. The last row of each kind asks
for ISSUP among the relevant contexts alone, where only the answer can tell.

| contexts | aspect | AUC | 95 % | questions | candidates | positive, % |
|---|---|---|---|---|---|---|
{rows}

{again_section(self.sources)}
"""
