"""Any Hugging Face encoder on PyTorch: length-sorted batches filled by tokens, bf16 where the hardware has it.

Fast on a CPU for three reasons, each measured by `make bench-encode`: bf16 matrix products, batches without padding
to speak of (texts sorted by length in windows, filled up to a number of tokens small enough for the CPU's cache), and
tokenisation of the next window on another thread while the model computes. Everything but the matrix products is done
in float32, pooling and normalisation among it, which keeps the cosine to a float32 model above 0.9995.

`late` is ParetoRAG's core/context split (arXiv 2502.08178, section 3) with late chunking's pooling (arXiv 2409.04701):
the paper encodes core and context apart; here both are means over the token states of one pass over the passage.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from tokenizers import Encoding, Tokenizer
from transformers import AutoConfig, AutoModel

from storage.parquet import checksum
from tasks.encoders.base import Encoded, LateEncoded, Spans, Tick, Vectors

WINDOW = 8192
"""Texts sorted by length together: enough to fill batches evenly, few enough to hold in memory."""


def _no_tick(tokens: int, share: float) -> None:
    """Nobody watches."""


@dataclass(frozen=True)
class Window:
    """A run of consecutive tokens of a passage, and which sentence each of its tokens belongs to (-1: none)."""

    passage: int
    ids: list[int]
    sentences: list[int]


class TransformerEncoder(ABC):
    """A model directory with weights (safetensors) and `tokenizer.json`; mean pooling, unit length.

    A preset is a subclass that says where its model is and how many tokens it takes.
    """

    version: ClassVar[str] = "1"
    max_tokens: ClassVar[int] = 256

    def __init__(self, precision: str = "auto", batch_tokens: int | None = None) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.uses_gpu = self.device.type == "cuda"
        self.dtype = torch.bfloat16 if precision == "bf16" or (precision == "auto" and native_bf16()) else torch.float32
        self.batch_tokens = batch_tokens or (65_536 if self.uses_gpu else 2048)

    @abstractmethod
    def model_directory(self) -> Path:
        """Where the model lies. Raises FileNotFoundError that says how to provide it."""

    def identity(self) -> dict[str, Any]:
        directory = self.model_directory()
        files = [*directory.glob("*.safetensors"), directory / "tokenizer.json", directory / "config.json"]
        return {
            "class": type(self).__name__,
            "version": self.version,
            "files": {file.name: checksum(file) for file in sorted(files)},
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": self.device.type,
            "batch_tokens": self.batch_tokens,
            "max_tokens": self.max_tokens,
        }

    @cached_property
    def dimension(self) -> int:
        return int(AutoConfig.from_pretrained(self.model_directory()).hidden_size)

    @cached_property
    def tokenizer(self) -> Tokenizer:
        tokenizer = Tokenizer.from_file(str(self.model_directory() / "tokenizer.json"))
        tokenizer.no_padding()
        tokenizer.no_truncation()
        return tokenizer

    @cached_property
    def model(self) -> torch.nn.Module:
        # One thread: parallelism comes from workers, and a result must not depend on the number of cores.
        torch.set_num_threads(1)
        # oneDNN keeps a compiled kernel per shape of batch: 1024 of them, by default, are some hundred megabytes.
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "16")
        # PyTorch's fused attention is the slower one for bf16 on CPUs (by a tenth of a whole pass, passages of SQuAD).
        attention = "eager" if self.dtype == torch.bfloat16 and not self.uses_gpu else "sdpa"
        model = AutoModel.from_pretrained(
            self.model_directory(), dtype=torch.float32, attn_implementation=attention, use_safetensors=True
        )
        # Only matrix products are done in `dtype` (autocast, in _forward, does the rest in float32): as fast as a model
        # that is bf16 throughout, and half as far from float32.
        for module in model.modules():
            if isinstance(module, torch.nn.Linear):
                module.to(self.dtype)
        return model.to(self.device).eval()

    def encode(self, texts: Sequence[str], tick: Tick = _no_tick) -> Encoded:
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        tokens = truncated = 0
        for start, window in self._tokenised(texts):
            ids = [_cut(encoding, self.max_tokens) for encoding in window]
            truncated += sum(len(encoding.ids) > self.max_tokens for encoding in window)
            tokens += (window_tokens := sum(map(len, ids)))
            share = len(window) / len(texts)
            for batch in _batches([len(row) for row in ids], self.batch_tokens):
                states, mask = self._forward([ids[row] for row in batch])
                means = (states * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
                vectors[start + np.array(batch)] = _unit_rows(means.cpu().numpy())
                done = sum(len(ids[row]) for row in batch)
                tick(done, share * done / window_tokens)
        return Encoded(vectors, tokens, truncated)

    def encode_questions(self, texts: Sequence[str]) -> Encoded:
        return self.encode(texts)

    def encode_late(self, passages: Sequence[str], spans: Sequence[Spans], tick: Tick = _no_tick) -> LateEncoded:
        counts = np.array([len(each) for each in spans])
        first = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        # One row more than there are sentences, for the tokens that belong to none.
        sums = torch.zeros((int(first[-1]) + 1, self.dimension), device=self.device)
        totals = torch.zeros((len(passages), self.dimension), device=self.device)
        tokens = 0
        for start, encodings in self._tokenised(passages):
            windows = [
                window
                for row, encoding in enumerate(encodings, start)
                for window in self._windows(row, encoding, spans[row], int(first[row]))
            ]
            tokens += (window_tokens := sum(len(window.ids) for window in windows))
            share = len(encodings) / len(passages)
            for batch in _batches([len(window.ids) for window in windows], self.batch_tokens):
                self._pool_late([windows[row] for row in batch], sums, totals)
                done = sum(len(windows[row].ids) for row in batch)
                tick(done, share * done / window_tokens)
        of_sentence = np.repeat(np.arange(len(passages)), counts)
        core, whole = sums[:-1].cpu().numpy(), totals.cpu().numpy()
        context = whole[of_sentence] - core
        context[np.repeat(counts == 1, counts)] = 0
        return LateEncoded(_unit_rows(core), _unit_rows(context), _unit_rows(whole), tokens)

    def _tokenised(self, texts: Sequence[str]) -> Iterator[tuple[int, list[Encoding]]]:
        """(first row, encodings) of each window of texts; the next one is tokenised while this one is being used."""

        def tokenise(start: int) -> list[Encoding]:
            return self.tokenizer.encode_batch(texts[start : start + WINDOW])

        with ThreadPoolExecutor(1) as ahead:
            upcoming = ahead.submit(tokenise, 0)
            for start in range(0, len(texts), WINDOW):
                window = upcoming.result()
                if start + WINDOW < len(texts):
                    upcoming = ahead.submit(tokenise, start + WINDOW)
                yield start, window

    def _forward(self, ids: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        """Token states float32 (n, longest, d) and mask float32 (n, longest)."""
        longest = max(map(len, ids))
        padded = np.zeros((len(ids), longest), dtype=np.int64)
        mask = np.zeros((len(ids), longest), dtype=np.int64)
        for row, tokens in enumerate(ids):
            padded[row, : len(tokens)] = tokens
            mask[row, : len(tokens)] = 1
        padding = torch.from_numpy(mask).to(self.device)
        half = torch.autocast(self.device.type, dtype=self.dtype, enabled=self.dtype != torch.float32)
        with torch.inference_mode(), half:
            states = self.model(
                input_ids=torch.from_numpy(padded).to(self.device),
                attention_mask=None if mask.all() else padding,  # without one, attention has a faster path
            ).last_hidden_state
        return states.float(), padding.float()

    def _windows(self, passage: int, encoding: Encoding, spans: Spans, first: int) -> list[Window]:
        """Cut a passage's tokens into windows that fit the model, between sentences where that is possible."""
        # An Encoding builds its lists anew at every access.
        tokens, offsets = encoding.ids, encoding.offsets
        inner = np.flatnonzero(np.array(encoding.special_tokens_mask) == 0)
        bounds = (int(inner[0]), int(inner[-1]) + 1) if len(inner) else (len(tokens), len(tokens))
        prefix, suffix = tokens[: bounds[0]], tokens[bounds[1] :]
        tokens, offsets = tokens[slice(*bounds)], offsets[slice(*bounds)]
        sentences = np.searchsorted([start for start, _ in spans], [start for start, _ in offsets], side="right") - 1
        room = self.max_tokens - len(prefix) - len(suffix)
        windows, begin = [], 0
        while True:
            end = min(begin + room, len(tokens))
            if end < len(tokens) and sentences[end] == sentences[end - 1]:
                boundary = int(np.searchsorted(sentences, sentences[end]))
                end = boundary if boundary > begin else end  # a sentence longer than a window is cut where it must be
            owners = (sentences[begin:end] + first).tolist()
            ids = prefix + tokens[begin:end] + suffix
            windows.append(Window(passage, ids, [-1] * len(prefix) + owners + [-1] * len(suffix)))
            begin = end
            if begin >= len(tokens):
                return windows

    def _pool_late(self, windows: Sequence[Window], sums: torch.Tensor, totals: torch.Tensor) -> None:
        """Add the token states of the windows to their sentences' and their passages' sums."""
        states, mask = self._forward([window.ids for window in windows])
        kept = states[mask.bool()]
        sentences = np.concatenate([window.sentences for window in windows])
        passages = np.repeat([window.passage for window in windows], [len(window.ids) for window in windows])
        sums.index_add_(0, torch.from_numpy(sentences).to(self.device) % len(sums), kept)
        totals.index_add_(0, torch.from_numpy(passages).to(self.device), kept)


def native_bf16() -> bool:
    if torch.cuda.is_available():
        return torch.cuda.is_bf16_supported()
    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") or capabilities.get("bf16"))


def _cut(encoding: Encoding, limit: int) -> list[int]:
    """Token ids, `limit` at most; the special tokens at the end stay."""
    ids: list[int] = encoding.ids
    if len(ids) <= limit:
        return ids
    tail = 0
    while encoding.special_tokens_mask[-1 - tail]:
        tail += 1
    return ids[: limit - tail] + ids[len(ids) - tail :]


def _batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Rows in batches of like length, longest first, padded size `budget` tokens at most (one row always fits)."""
    order = sorted(range(len(lengths)), key=lambda row: (-lengths[row], row))
    start = 0
    while start < len(order):
        size = max(1, budget // max(1, lengths[order[start]]))
        yield order[start : start + size]
        start += size


def _unit_rows(vectors: Vectors) -> Vectors:
    """Rows scaled to length 1; a zero row stays zero."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.maximum(lengths, 1e-12, dtype=np.float32)
