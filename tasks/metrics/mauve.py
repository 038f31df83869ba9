"""MAUVE: how close the distribution of the answers is to that of the gold ones, by the authors' `mauve-text`.

Pillutla et al., 2021 (arXiv 2102.01454), section 3 and 2023 (arXiv 2212.14578): features of all texts are quantised
together (k-means, a bucket for ten answers), and the two histograms compared along their divergence curve. 0 to 1, 1
for equal histograms; it says nothing about any single answer. All settings are the package's.

Features are a GPT-2's last state at the last token, as in the paper, where one is on this machine: `score.mauve_model`,
else the first of `GPT2` in the local Hugging Face cache; without one, the vectors of the encoder minilm. The column's
name says which ("mauve_gpt2-large", "mauve_minilm"): numbers of different features cannot be compared.

The human text of a question is its first gold answer. A question without gold answers, or with a blank or no answer,
is left out. Below `LEAST` questions there is no number, and the authors ask for some thousands: fewer make it larger.
MAUVE compares how all answers look together, not whether they are right: shuffled gold answers have 1. ALCE puts the
question before both texts. Here that would drown short ones: with minilm, on 1,000 SQuAD questions, the passage's first
80 characters as answer have 0.14 without the question and 0.99 with it.
"""

from collections.abc import Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from vitalfew.configs.installing import install_command
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.section import NOT_IN_FINGERPRINT, ModelName
from vitalfew.storage.indexes.types import one_thread
from vitalfew.tasks.encoders.transformer import HuggingFace, MiniLM, TransformerEncoder
from vitalfew.tasks.metrics.answers import JUDGED
from vitalfew.tasks.metrics.base import Case, Column, MetricOptions, OfAllAnswers, judged
from vitalfew.tasks.models.files import find_model

LEAST = 20
"""Questions that two buckets, the fewest, take."""

GPT2 = tuple(f"{owner}gpt2{size}" for size in ("-large", "-medium", "") for owner in ("openai-community/", ""))
"""Looked for in this order; gpt2-large is the authors' choice."""


class Mauve(OfAllAnswers):
    """MAUVE of all answers against the first gold answers; the column's name says which model gave the features."""

    class Options(MetricOptions):
        mauve_model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
            None,
            description="GPT-2 model that computes the features: a directory or a Hugging Face name. Default: the "
            "largest in the local cache up to gpt2-large, else the encoder minilm.",
        )

    def __init__(self, options: Options) -> None:
        """Raises ConfigError without `mauve-text`, FileNotFoundError where `score.mauve_model` is not there."""
        if find_spec("mauve") is None:
            raise ConfigError(f"the metric mauve needs the package mauve-text (GPL-3.0): {install_command('mauve')}")
        super().__init__(options)
        self.model = _gpt2(options.mauve_model)

    def columns(self) -> tuple[Column]:
        features = self.model[0] if self.model else "minilm"
        return (Column(f"mauve_{features}", f"MAUVE {features}", needs=JUDGED),)

    def identity(self) -> dict[str, Any]:
        return self.encoder.identity()

    @cached_property
    def encoder(self) -> TransformerEncoder:
        if self.model is None:
            return MiniLM(MiniLM.Options(precision="fp32"))
        directory = str(self.model[1])
        return HuggingFace(
            HuggingFace.Options(
                encoder="huggingface", model=directory, pooling="last", similarity="dot", precision="fp32"
            )
        )

    def figures(self, cases: Sequence[Case]) -> tuple[list[float | None], int]:
        texts = [(case.answers[0], output) for case in cases if (output := judged(case))]
        pairs = [(gold, output) for gold, output in texts if gold.strip() and output.strip()]
        value = self._mauve(*map(list, zip(*pairs, strict=True))) if len(pairs) >= LEAST else None
        return [value], len(cases) - len(pairs)

    def _mauve(self, gold: list[str], outputs: list[str]) -> float:
        from mauve import compute_mauve

        # Sorted: which texts there are decides, not the order of the questions.
        human, machine = (self.encoder.encode(sorted(texts)).vectors for texts in (gold, outputs))
        with one_thread():
            return float(compute_mauve(p_features=human, q_features=machine).mauve)


def _gpt2(setting: str | None) -> tuple[str, Path] | None:
    """Name and directory of the model that computes the features; None for the encoder minilm."""
    if setting:
        return setting.rstrip("/").rpartition("/")[2], find_model(setting, "score.mauve_model")
    for name in GPT2:
        try:
            return name.rpartition("/")[2], find_model(name, "score.mauve_model")
        except FileNotFoundError:
            continue
    return None
