"""`transformers`: any causal or sequence-to-sequence language model of Hugging Face, in safetensors, on PyTorch.

Prompts are sorted by length into batches of a number of tokens (answers included). A causal model whose layers see all
tokens before reads what they begin with once, and the rest without padding it to the longest (prefill.py). For
others the library's `generate` gets a batch, padded on the left (on the right for an encoder).

A prompt has random numbers that do not depend on its batch (sampling.py), and temperature 0 takes the most probable
token. But another batch has other shapes, which changes the last bits of the logits; in bf16 or fp16 this can flip a
choice between two nearly equal tokens. `precision=fp32` makes that rare, `batch_tokens=16` (every prompt alone) rules
it out. Beams, penalties and warpers in a model's settings are not used.
"""

import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, GenerationConfig

from vitalfew.configs.options import Batching
from vitalfew.tasks.models.batches import batches
from vitalfew.tasks.models.causal.adapters import adapter_of
from vitalfew.tasks.models.causal.engines.base import Completion, EngineUnavailable, LocalOptions, Probe
from vitalfew.tasks.models.causal.language_model import LocalEngine, LocalModel
from vitalfew.tasks.models.causal.prefill import continued, continues
from vitalfew.tasks.models.causal.sampling import RowSampler, until_end
from vitalfew.tasks.models.device import InBatches, require_device
from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.models.loading import loading, pretrained


class SingleRow(nn.Linear):
    """A linear layer without bias that multiplies a single row, a token of an answer, by PyTorch's matrix-vector
    product. oneDNN, to which PyTorch hands a linear layer in bf16, is made for many rows; for one the product is faster
    (1.2 to 1.4 times for the shapes of SmolLM2, two hyperthreads of a Xeon with AMX)."""

    def forward(self, input: Tensor) -> Tensor:
        if input.numel() != self.in_features:
            return super().forward(input)
        return torch.mv(self.weight, input.reshape(-1)).reshape(*input.shape[:-1], self.out_features)


def quicker_rows(model: Any) -> Any:
    """Make linear layers without bias `SingleRow`s where that is faster: in bf16 on a CPU. Return the model."""
    for module in model.modules():
        plain = type(module) is nn.Linear and module.bias is None
        if plain and module.weight.device.type == "cpu" and module.weight.dtype == torch.bfloat16:
            module.__class__ = SingleRow
    return model


logger = logging.getLogger("vitalfew")

PLAIN: dict[str, Any] = {
    "do_sample": False, "num_beams": 1, "repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "min_length": 0,
    "encoder_no_repeat_ngram_size": 0, "length_penalty": 1.0, "early_stopping": False,
}  # fmt: skip
"""Turns off the options that a model's generation_config.json may turn on."""


class Transformers(InBatches, LocalEngine):
    """A Hugging Face language model on PyTorch, by name or directory. The first answer loads it."""

    class Options(LocalOptions, Batching):
        """A causal or sequence-to-sequence model."""

    version: ClassVar[str] = "2"
    cpu_tokens: ClassVar[int] = 8192

    def __init__(self, options: Options, section: str, length: str = "max_tokens") -> None:
        """For messages: `section`, and `length`, its name for max_tokens."""
        self.options = options
        self.local = LocalModel(options, section, length)
        self.adapter = adapter_of(options.adapter, section)
        super().__init__(options)
        # On a CPU one model uses all cores: most machines cannot hold a copy of the weights for every core.
        self.workers = None if self.uses_gpu else 1

    def files(self) -> dict[str, str]:
        return self.local.files()

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), **self._adapted()}

    def _load(self) -> None:
        _ = self.model

    def _batches(self, lengths: Sequence[int]) -> Iterable[Sequence[int]]:
        return batches([length + self.options.max_tokens for length in lengths], self.batch_tokens)

    def _batch(
        self, ids: Sequence[list[int]], seeds: Sequence[int], probe: Probe | None, probed: Mapping[str, int]
    ) -> list[Completion]:
        """The seconds are divided among the prompts by tokens."""
        sampler = RowSampler(self.options.temperature, seeds, self.device, sorted(set(probed.values())))
        start = time.perf_counter()
        with all_cores(), torch.inference_mode():
            limit = probe.limit(self.options.max_tokens) if probe else self.options.max_tokens
            if continues(self.model):
                output = continued(self.model, ids, sampler, limit, self.ends)
            else:
                output = self._generated(ids, sampler, limit)
        seconds = time.perf_counter() - start
        written = [until_end(row, self.ends) for row in output.tolist()]
        share = seconds / sum(len(prompt) + len(tokens) for prompt, tokens in zip(ids, written, strict=True))
        return [
            self.local.completion(
                len(prompt),
                tokens,
                share * (len(prompt) + len(tokens)),
                sampler.logprob(row, len(tokens)),
                self.ends,
                sampler.probabilities(row, probe.places(probed, tokens) if probe else {}, probed),
            )
            for row, (prompt, tokens) in enumerate(zip(ids, written, strict=True))
        ]

    def _generated(self, ids: Sequence[list[int]], sampler: RowSampler, limit: int) -> Tensor:
        """Return what the library's `generate` writes, int64 (n, at most limit)."""
        stated = self.local.tokenizer.pad_token_id
        padding = int(stated if stated is not None else min(self.ends, default=0))
        side = "right" if self.local.is_seq2seq else "left"  # a causal model continues a row at its right end
        rows = [torch.tensor(prompt) for prompt in ids]
        tokens = pad_sequence(rows, True, padding, side).to(self.device)
        mask = pad_sequence([torch.ones_like(row) for row in rows], True, 0, side).to(self.device)
        settings = GenerationConfig(
            **PLAIN, max_new_tokens=limit, eos_token_id=sorted(self.ends) or None, pad_token_id=padding
        )
        output = self.model.generate(
            input_ids=tokens, attention_mask=mask, generation_config=settings, logits_processor=[sampler]
        )
        skip = 1 if self.local.is_seq2seq else tokens.shape[1]  # the decoder's start, or the prompts
        return output[:, skip:]

    @cached_property
    def ends(self) -> set[int]:
        """The token ids that end an answer."""
        stated = self.model.generation_config.eos_token_id
        ends = {stated} if isinstance(stated, int) else set(stated or ())
        return ends | ({self.local.tokenizer.eos_token_id} - {None})

    @cached_property
    @loading()
    def model(self) -> Any:
        """A PreTrainedModel. Raises EngineUnavailable if it generates no text, or if weights are missing."""
        require_device(self.device, self.dtype, self.local.section)
        kind: Any = AutoModelForSeq2SeqLM if self.local.is_seq2seq else AutoModelForCausalLM
        try:
            model = pretrained(kind, self.local.directory, "random numbers would replace them", dtype=self.dtype)
        except UnsupportedModel as error:
            raise EngineUnavailable(str(error)) from None
        except (OSError, ValueError) as error:
            reason = (str(error).splitlines() or ["?"])[0]
            raise EngineUnavailable(f"{self.local.directory} is not a model that generates text: {reason}") from None
        model = model.to(self.device).eval()
        return quicker_rows(self.adapter.merged(model).eval() if self.adapter else model)


_latest: list[Transformers] = []


def shared(options: LocalOptions, section: str) -> Transformers:
    """Return an engine with the options that engines have: the latest one, with its loaded model, if these options and
    the model's files are the same. So a sweep over a generator's or refiner's options loads its model once."""
    own = {name: getattr(options, name) for name in Transformers.Options.model_fields}
    made = Transformers(Transformers.Options(**own), section)
    for other in _latest:
        if other.options == made.options and other.identity() == made.identity():
            return other
    _latest[:] = [made]
    return made


@contextmanager
def all_cores() -> Iterator[None]:
    """Set PyTorch's threads to all cores of this process (Ray gives a worker one), and restore them afterwards."""
    before = torch.get_num_threads()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(cores)
    try:
        yield
    finally:
        torch.set_num_threads(before)
