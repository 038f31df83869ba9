"""`embedded`: a small cross-encoder on all-MiniLM-L6-v2, so that a critique costs no download.

Question, answer and context are read together, [CLS] question [SEP] answer [SEP] context [SEP], and the state of [CLS]
gives three probabilities, for Self-RAG's three aspects (Asai et al., 2023, arXiv 2310.11511, section 3.1): ISREL, that
the context has the answer to the question; ISSUP, that this answer is right by this context; ISUSE, that it is right.
Deviations: a probability in place of reflection tokens, usefulness is rightness, and it is told from question and
answer with the help of the context, as a small model knows little else.

A long context is read in overlapping windows, and the best of them counts. Of an answer the first `MAX_ANSWER` tokens
are read. Where the answer is empty, ISSUP and ISUSE are 0; where the context is, all three are. Trained by
`vitalfew train critic`.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar

import torch
from pydantic import ConfigDict, Field
from tokenizers import Tokenizer
from torch import Tensor

from configs.evaluation import CritiqueConfig
from configs.options import Batching
from configs.section import NOT_IN_FINGERPRINT, ModelName
from tasks.critics.base import Candidate, CriticUnavailable, Judgement, Tick, no_tick, uncritical
from tasks.models.batches import batches
from tasks.models.device import choose_device, choose_dtype, require_device
from tasks.models.tuned import TunedEncoder, Weights, read_tokenizer, widened
from tasks.models.weights import shipped
from tasks.models.windows import MAX_ANSWER, MAX_QUESTION, Batch, Window, encoded, padded, special, windows


class CriticModel(TunedEncoder):
    """Token types: question, context, what the context shares with the question, and the answer."""

    types: ClassVar[int] = 4
    outputs: ClassVar[int] = 3

    def forward(self, batch: Batch) -> Tensor:
        """Logits of ISREL, ISSUP and ISUSE, float32 (n, 3)."""
        return self.logits(batch)[:, 0]

    @torch.no_grad()
    def begin_from(self, reader: Mapping[str, Tensor]) -> None:
        """Take over a reader's updates, once prepared for training; every aspect begins as its answerability."""
        for name, parameter in self.trained().items():
            given = reader[name].float()
            if name.startswith("head."):
                given = given[-1:].expand_as(parameter)
            parameter.copy_(widened(given, len(parameter)))


class Embedded:
    """A small cross-encoder, embedded: is the context relevant, is the answer supported and right; no download."""

    class Options(CritiqueConfig, Batching):
        model_config = ConfigDict(extra="forbid")

        model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
            None, description="A directory that `vitalfew train` wrote; default: the bundled critic."
        )

    version: ClassVar[str] = "2"
    workers: int | None = None

    def __init__(self, options: Options) -> None:
        self.options = options
        self.directory = Path(options.model) if options.model else embedded()
        try:
            self.weights = Weights.at(
                self.directory,
                "leave critique.model out for the embedded critic, or name what `vitalfew train critic --out` wrote",
            )
        except (FileNotFoundError, KeyError) as error:
            raise CriticUnavailable(f"embedded: {error}") from error
        self.device = choose_device(options.device)
        self.dtype = choose_dtype(options.precision, self.device)
        self.uses_gpu = self.device.type == "cuda"
        self.batch_tokens = options.batch_tokens or (65_536 if self.uses_gpu else 2048)

    def identity(self) -> dict[str, Any]:
        return {
            "class": type(self).__name__,
            "version": self.version,
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": self.device.type,
            "batch_tokens": self.batch_tokens,
            "files": self.weights.digests(),
        }

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return read_tokenizer(self.weights.base)

    @cached_property
    def model(self) -> CriticModel:
        require_device(self.device, self.dtype, "critique")
        torch.set_num_threads(1)  # parallelism comes from workers
        model = CriticModel(self.weights.base, self.dtype)
        model.merge(self.weights.tensors())
        return model.for_inference(self.device, self.batch_tokens)

    def critique(self, batch: Sequence[Candidate], tick: Tick = no_tick) -> list[Judgement]:
        questions = encoded(self.tokenizer, [candidate.question for candidate in batch])
        lengths = {text: len(encoding.ids) for text, encoding in questions.items()}
        readable = [candidate for candidate in batch if lengths[candidate.question] <= MAX_QUESTION]
        tick(len(batch) - len(readable), 0)
        windows_of = judged_windows(self.tokenizer, readable)
        scores = self._read({window for parts in windows_of for window in parts}, len(readable), tick)
        judgements = iter(
            [
                _judgement(candidate, [scores[part] for part in parts])
                for candidate, parts in zip(readable, windows_of, strict=True)
            ]
        )
        return [
            next(judgements)
            if (length := lengths[candidate.question]) <= MAX_QUESTION
            else uncritical(f"the question has {length} tokens, the critic takes {MAX_QUESTION}")
            for candidate in batch
        ]

    def relevance(self, pairs: Sequence[tuple[str, str]], tick: Tick = no_tick) -> list[float]:
        """ISREL of (question, context) pairs, from 0 to 1: a scorer of contexts that needs no answer. 0 where the
        context is empty, or the question longer than `MAX_QUESTION` tokens."""
        return [found.isrel for found in self.critique([Candidate(*pair, "") for pair in pairs], tick)]

    @torch.inference_mode()
    def _read(self, distinct: set[Window], candidates: int, tick: Tick) -> dict[Window, list[float]]:
        """ISREL, ISSUP and ISUSE of every window."""
        # In an order of their own, so that what is in a batch does not depend on the order of the candidates.
        rows = sorted(distinct, key=lambda window: (window.ids, window.types, window.start))
        padding = special(self.tokenizer, "[PAD]")
        read: dict[Window, list[float]] = {}
        ticked = 0
        for numbers in batches([len(row.ids) for row in rows], self.batch_tokens):
            some = [rows[number] for number in numbers]
            scores = self.model(padded(some, padding, self.device)).sigmoid()
            read |= zip(some, scores.tolist(), strict=True)
            share = candidates * len(read) // len(rows)
            tick(share - ticked, sum(len(window.ids) for window in some))
            ticked = share
        tick(candidates - ticked, 0)
        return read


def judged_windows(tokenizer: Tokenizer, batch: Sequence[Candidate]) -> list[list[Window]]:
    """What the model reads of each candidate, whose question must be of `MAX_QUESTION` tokens at most."""
    texts = encoded(tokenizer, [text for candidate in batch for text in (candidate.question, candidate.context)])
    answers = encoded(tokenizer, [candidate.answer for candidate in batch])
    for encoding in answers.values():
        encoding.truncate(MAX_ANSWER)
    return [
        windows(tokenizer, texts[candidate.question], texts[candidate.context], answers[candidate.answer])
        for candidate in batch
    ]


def _judgement(candidate: Candidate, scores: Sequence[Sequence[float]]) -> Judgement:
    """The best of each aspect over a candidate's windows."""
    if not scores:
        return Judgement(0.0, 0.0, 0.0)
    isrel, issup, isuse = map(max, zip(*scores, strict=True))
    return Judgement(isrel, issup, isuse) if candidate.answer.strip() else Judgement(isrel, 0.0, 0.0)


def embedded() -> Path:
    """The directory of the critic that comes with the project."""
    return shipped("critic")
