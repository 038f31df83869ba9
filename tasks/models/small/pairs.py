"""Networks that read a question and a text together: the base of cross-encoders, cross-encoders, and CRAG's evaluator.

A cross-encoder is a sequence classifier with one logit, as sentence-transformers' `CrossEncoder` saves it (Nogueira &
Cho, 2019, arXiv 1901.04085: passage re-ranking with BERT). transformers reads it, from safetensors alone:
sentence-transformers (6.2) gives the same scores where a pair fits into the model, but replaces missing weights by
random numbers (any BERT passes for a cross-encoder), and cuts a pair that does not fit.

A pair that does not fit is read in parts, all with the whole question, and the best part counts (MaxP: Dai & Callan,
2019, arXiv 1905.09217). Of a question at most half of the model's tokens are read.
"""

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from math import exp
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from tokenizers import Encoding, Tokenizer
from tokenizers.processors import TemplateProcessing
from torch import Tensor, nn

from vitalfew.configs.options import Batching
from vitalfew.tasks.models.batches import padded_rows, read_parts
from vitalfew.tasks.models.device import InBatches, require_device
from vitalfew.tasks.models.encoder.recipe import least_limit, read_config, read_json, read_tokenizer, usable_positions
from vitalfew.tasks.models.files import UnsupportedModel, digests, find_model, require_safetensors
from vitalfew.tasks.models.loading import loading, pretrained
from vitalfew.tasks.models.readings import LEAST, Reading, Values, finite, remembered
from vitalfew.tasks.models.ticks import Tick, no_tick

Pair = tuple[str, str]
"""A question and a text."""
SEPARATOR = "[SEP]"
"""The text between question and text for CRAG's evaluator."""


class PairReading(NamedTuple):
    """A pair's score, a logit; from a network that judges tokens, also the text's tokens as (start, end, probability of
    being kept), in code points of the text."""

    score: float
    tokens: tuple[tuple[int, int, float], ...] = ()


class PairModel(InBatches):
    """A directory with a network that reads pairs. The first `read` loads it, not the constructor."""

    version: ClassVar[str] = "1"
    cpu_tokens: ClassVar[int] = 4096
    workers: int | None = 1  # a model uses all cores itself
    judged: ClassVar[int] = 1
    """The sequence of a row whose tokens are judged: 0 the first, 1 the second."""

    def __init__(self, name: str, options: Batching, section: str) -> None:
        """`section`: of the settings, for messages. Raises FileNotFoundError, UnsupportedModel, with the remedy."""
        self.section = section
        self.folder = find_model(name, f"{section}.model")
        require_safetensors(self.folder, f"{section}.model")
        self.config = self.read_config()
        super().__init__(options)

    def files(self) -> dict[str, str]:
        return digests([self.folder], self.folder)

    def read_config(self) -> Any:
        return read_config(self.folder)

    @abstractmethod
    def load(self) -> nn.Module:
        """The network, float32."""

    @abstractmethod
    def outputs(self, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor | None]:
        """The scores of a batch, (n,), and where the network judges tokens their probabilities, (n, longest)."""

    @cached_property
    @loading()
    def network(self) -> nn.Module:
        require_device(self.device, self.dtype, self.section)
        return self.load().to(self.device).eval()

    @cached_property
    def limit(self) -> int:
        """Tokens of a pair, special ones included."""
        stated = read_json(self.folder / "tokenizer_config.json").get("model_max_length")
        return least_limit(stated, usable_positions(self.config))

    @cached_property
    def tokenizer(self) -> Tokenizer:
        return read_tokenizer(self.folder)

    def read(self, pairs: Sequence[Pair], tick: Tick = no_tick) -> list[PairReading]:
        """A reading of every pair, in order; remembered across methods, ratios and runs."""
        values = remembered(self.identity(), pairs, lambda due: self._read(due, tick), tick)
        return [_unpacked(own) for own in values]

    def _read(self, pairs: Sequence[Pair], tick: Tick) -> list[Reading]:
        parts = [(encoding, *encoding.overflowing) for encoding in self._encoded(pairs)]
        read = read_parts(parts, lambda part: (part.ids, part.type_ids), self.batch_tokens, tick, self._readings)
        return [
            Reading(_packed([reading for _, reading in own]), sum(len(part.ids) for part, _ in own)) for own in read
        ]

    def _encoded(self, pairs: Sequence[Pair]) -> list[Encoding]:
        self.tokenizer.no_truncation()
        questions = list(dict.fromkeys(question for question, _ in pairs))
        encodings = self.tokenizer.encode_batch(questions, add_special_tokens=False)
        half = self.limit // 2
        ends = [encoding.offsets[half - 1][1] if len(encoding.ids) > half else None for encoding in encodings]
        cut = {question: question[:end] for question, end in zip(questions, ends, strict=True)}
        self.tokenizer.enable_truncation(self.limit, strategy="only_second")
        return self.tokenizer.encode_batch([(cut[question], text) for question, text in pairs])

    @torch.inference_mode()
    def _readings(self, parts: Sequence[Encoding]) -> list[PairReading]:
        # RoBERTa recognises padding by its id.
        ids, mask = padded_rows([part.ids for part in parts], getattr(self.config, "pad_token_id", 0) or 0)
        inputs = {"input_ids": ids.to(self.device), "attention_mask": mask.to(self.device)}
        if getattr(self.config, "type_vocab_size", 0) > 1:
            inputs["token_type_ids"] = padded_rows([part.type_ids for part in parts], 0)[0].to(self.device)
        with torch.autocast(self.device.type, dtype=self.dtype, enabled=self.dtype != torch.float32):
            scores, keep = self.outputs(inputs)
        judged = [()] * len(parts) if keep is None else keep.float().cpu().tolist()
        readings = []
        for part, score, own in zip(parts, scores.float().cpu().tolist(), judged, strict=True):
            rows = zip(part.sequence_ids, part.offsets, own, strict=False)  # padding follows a row's tokens
            tokens = tuple((*offsets, value) for sequence, offsets, value in rows if sequence == self.judged)
            readings.append(PairReading(score, tokens))
        return readings


class CrossEncoder(PairModel):
    """A sequence classifier of Hugging Face with one logit. A default prompt that sentence-transformers saved precedes
    every question."""

    head: ClassVar[str] = "classifier"

    def __init__(self, name: str, options: Batching, section: str) -> None:
        super().__init__(name, options, section)
        about = read_json(self.folder / "config_sentence_transformers.json")
        self.prompt: str = (about.get("prompts") or {}).get(about.get("default_prompt_name")) or ""
        if self.config.num_labels != 1:
            raise UnsupportedModel(
                f"{self.folder} has {self.config.num_labels} logits, but a cross-encoder that ranks has one: "
                f"--set {section}.model=NAME, for example cross-encoder/ms-marco-MiniLM-L6-v2"
            )

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), **({"prompt": self.prompt} if self.prompt else {})}

    def load(self) -> nn.Module:
        from transformers import AutoModelForSequenceClassification

        advice = "it is not a cross-encoder, and random numbers would replace them"
        model = pretrained(AutoModelForSequenceClassification, self.folder, advice, dtype=torch.float32)
        return exact_heads(model, self.head)

    def outputs(self, inputs: dict[str, Tensor]) -> tuple[Tensor, None]:
        return self.network(**inputs).logits[:, 0], None

    def read(self, pairs: Sequence[Pair], tick: Tick = no_tick) -> list[PairReading]:
        return super().read([(self.prompt + question, text) for question, text in pairs], tick)

    def relevance(self, score: float) -> float:
        """A score as 0 to 1, by the logistic function, as in sentence-transformers; in float64, so that unlike logits
        do not become equal."""
        return 1 / (1 + exp(-score)) if score >= 0 else exp(score) / (1 + exp(score))


class Evaluator(CrossEncoder):
    """CRAG's retrieval evaluator (Yan et al., 2024, arXiv 2401.15884, section 4.2): an encoder-decoder with one logit.

    T5-large, tuned to give 1 for a relevant pair and -1 for another (mean squared error). It reads
    "question [SEP] text" as one text. The authors cut it after 512 tokens; here a longer one is read in parts, as
    with every cross-encoder. They publish their checkpoint as pickles behind a link, so that it takes a copy in
    safetensors; it was not at hand, and tests use a tiny model of its architecture.
    """

    head: ClassVar[str] = "classification_head"

    @cached_property
    def tokenizer(self) -> Tokenizer:
        tokenizer = read_tokenizer(self.folder)
        end = tokenizer.id_to_token(self.config.eos_token_id)
        # The head reads the state at the one end token, which stands after question and text together.
        tokenizer.post_processor = TemplateProcessing(
            single=f"$A {end}", pair=f"$A $B:1 {end}:1", special_tokens=[(end, self.config.eos_token_id)]
        )
        return tokenizer

    def read(self, pairs: Sequence[Pair], tick: Tick = no_tick) -> list[PairReading]:
        return super().read([(f"{question} {SEPARATOR}", text) for question, text in pairs], tick)

    def relevance(self, score: float) -> float:
        """The score's -1 to 1 as 0 to 1; a regression can leave that range."""
        return min(1.0, max(0.0, (score + 1) / 2))


def cross_encoder(name: str, options: Batching, section: str) -> CrossEncoder:
    """The cross-encoder in a directory, an encoder or CRAG's T5. Raises FileNotFoundError, UnsupportedModel."""
    config = read_config(find_model(name, f"{section}.model"))
    kind = Evaluator if getattr(config, "is_encoder_decoder", False) else CrossEncoder
    return kind(name, options, section)


class InFloat32(nn.Module):
    """A head in float32, whatever the rest is: in bf16 a logit has three digits, and many logits are equal."""

    def __init__(self, head: nn.Module) -> None:
        super().__init__()
        self.head = head

    def forward(self, states: Tensor, **options: Any) -> Tensor:
        with torch.autocast(states.device.type, enabled=False):
            logits: Tensor = self.head(states.float(), **options)
        return logits


def exact_heads(model: Any, *names: str) -> Any:
    """The model with its heads of these names in float32."""
    for name in names:
        if isinstance(head := getattr(model, name, None), nn.Module):
            setattr(model, name, InFloat32(head))
    return model


def _packed(parts: Sequence[PairReading]) -> Values:
    """The best score of a pair's parts, then start, end and probability of every token, in order: float32 is exact for
    whole numbers up to 16 million."""
    score = finite(np.array([max(part.score for part in parts)], np.float32), LEAST)
    tokens = sorted(token for part in parts for token in part.tokens)
    return np.concatenate([score, np.array(tokens, np.float32).reshape(-1)])


def _unpacked(values: Values) -> PairReading:
    score, *rest = values.tolist()
    triples = zip(rest[::3], rest[1::3], rest[2::3], strict=True)
    return PairReading(score, tuple((int(start), int(end), probability) for start, end, probability in triples))
