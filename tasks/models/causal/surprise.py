"""The surprise of a text's tokens for a causal language model: minus the natural logarithm of their probability.

Rows are padded on the right, without a mask: what stands after a token changes nothing for a causal model.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy
from transformers import DynamicCache

from vitalfew.configs.options import Batching
from vitalfew.tasks.models.batches import batches, padded_rows
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable
from vitalfew.tasks.models.causal.engines.transformers import Transformers, all_cores
from vitalfew.tasks.models.causal.prefill import continues
from vitalfew.tasks.models.readings import Reading, Values, finite, remembered, settled
from vitalfew.tasks.models.ticks import Share, Tick, no_tick

Told = tuple[NDArray[np.int64], NDArray[np.float32]]
"""A text's tokens in order: where they end in it (code points), and their surprise in nats."""


class Surprise:
    """A causal language model of Hugging Face. The first row loads it, not the constructor."""

    def __init__(self, name: str | None, options: Batching, section: str) -> None:
        """`section`: of the settings, for messages. Raises ConfigError, EngineUnavailable, with the remedy."""
        chosen = Transformers.Options(
            model=name,
            temperature=0,
            max_tokens=1,
            **options.model_dump(include={"device", "precision", "batch_tokens"}),
        )
        self.section = section
        self.engine = Transformers(chosen, section)
        if self.engine.local.is_seq2seq:
            raise EngineUnavailable(
                f"{self.engine.local.directory} is an encoder-decoder, but a causal model is needed: --set "
                f"{section}.model=NAME"
            )
        # Smaller than for answers: a batch has logits of its whole vocabulary at every position.
        self.batch_tokens = options.batch_tokens or (16_384 if self.engine.uses_gpu else 512)
        self.uses_gpu, self.workers = self.engine.uses_gpu, self.engine.workers

    def identity(self) -> dict[str, Any]:
        return {**self.engine.identity(), "batch_tokens": self.batch_tokens}

    @property
    def limit(self) -> int:
        """Tokens of a row, with what comes before it."""
        return (self.engine.local.prompt_limit or 2048) + 1 - len(self._start)

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of plain texts, without special tokens and without a chat template."""
        return self.engine.local.tokenizer(list(texts), add_special_tokens=False)["input_ids"]

    def places(self, texts: Sequence[str]) -> list[tuple[list[int], list[int]]]:
        """Return the token ids of plain texts, and the places where the tokens end in their text (code points). Raises
        EngineUnavailable."""
        tokenizer = self.engine.local.tokenizer
        if not tokenizer.is_fast:
            raise EngineUnavailable(
                f"{self.engine.local.directory}: its tokenizer does not give the positions of tokens; use a "
                f"model with a tokenizer.json: --set {self.section}.model=NAME"
            )
        if not texts:
            return []
        encoded = tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True)
        ends = [[end for _, end in offsets] for offsets in encoded["offset_mapping"]]
        return [*zip(encoded["input_ids"], ends, strict=True)]

    def read(self, pairs: Sequence[tuple[str, str]], tick: Tick) -> list[Told]:
        """Return the surprise of a text's tokens for every pair (text before it, text). A pair is read once, and
        remembered across methods, ratios and runs. A text that is too long is read in parts, always after the text
        before it. Raises EngineUnavailable."""
        befores = [*dict.fromkeys(before for before, _ in pairs)]
        texts = [*dict.fromkeys(text for _, text in pairs)]
        ids = dict(zip(befores, self.encode(befores) if befores else (), strict=True))
        placed = dict(zip(texts, self.places(texts), strict=True))

        def read(due: Sequence[tuple[str, str]]) -> list[Reading]:
            return self._read([(ids[before], placed[text][0]) for before, text in due], tick)

        values = remembered({**self.identity(), "of": "surprise"}, pairs, read)
        ends = {text: np.array(own, np.int64) for text, (_, own) in placed.items()}
        return [(ends[text], surprise) for (_, text), surprise in zip(pairs, values, strict=True)]

    def answers(self, pairs: Sequence[tuple[str, str]], tick: Tick = no_tick) -> list[Values | str]:
        """Return the surprise of an answer's tokens after a prompt, float32 (n,), for every pair (prompt, answer), or
        why it is not known: the model has no room for both. A prompt is one user message; to a model without a chat
        template it is a text, and a blank comes before the answer unless the prompt ends in one. A pair is read once,
        as by `read`. Raises EngineUnavailable."""
        local = self.engine.local
        befores = [*dict.fromkeys(before for before, _ in pairs)]
        ids = dict(zip(befores, local.encode(befores), strict=True))
        shown = [answer if local.is_chat or before[-1:].isspace() else f" {answer}" for before, answer in pairs]
        requests = [(before, text) for (before, _), text in zip(pairs, shown, strict=True)]
        tokens = self.encode(shown) if shown else []
        rows = {request: (ids[request[0]], own) for request, own in zip(requests, tokens, strict=True)}
        lengths = {request: len(before) + len(own) for request, (before, own) in rows.items()}
        able = [request for request in requests if lengths[request] <= self.limit]
        tick(len(requests) - len(able), 0)

        def read(due: Sequence[tuple[str, str]]) -> list[Reading]:
            share, whole = Share(len(due), tick), sum(lengths[request] for request in due)
            # The chat template has the model's own beginning.
            some = [rows[request] for request in due]
            found = self.of(some, lambda _, tokens: share(tokens, tokens / whole), started=False)
            share.reach(1.0)
            return [Reading(settled(own), lengths[request]) for own, request in zip(found, due, strict=True)]

        values = remembered({**self.identity(), "of": "answer"}, able, read, tick)
        known = dict(zip(able, values, strict=True))
        lacking = "the prompt has {} tokens and the answer {}; at most {} fit"
        return [known.get(each, lacking.format(*map(len, rows[each]), self.limit)) for each in requests]

    def _read(self, rows: Sequence[tuple[Sequence[int], Sequence[int]]], tick: Tick) -> list[Reading]:
        size = max(1, self.limit // 2)
        parts = [(row, at) for row, (_, ids) in enumerate(rows) for at in range(0, len(ids), size)]
        split = [([*rows[row][0], *rows[row][1][:at]], rows[row][1][at : at + size]) for row, at in parts]
        found: list[list[NDArray[np.float32]]] = [[np.empty(0, np.float32)] for _ in rows]
        lengths = [0] * len(rows)
        for (row, _), (before, ids), surprise in zip(parts, split, self.of(split, tick), strict=True):
            found[row].append(surprise)
            lengths[row] += min(len(before), self.limit - len(ids)) + len(ids)
        return [Reading(settled(np.concatenate(own)), length) for own, length in zip(found, lengths, strict=True)]

    @cached_property
    def _start(self) -> list[int]:
        """The start of every row, so that its first token has a probability."""
        tokenizer = self.engine.local.tokenizer
        start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else tokenizer.eos_token_id
        return [] if start is None else [int(start)]

    def of(
        self, rows: Sequence[tuple[Sequence[int], Sequence[int]]], tick: Tick, started: bool = True
    ) -> list[NDArray[np.float32]]:
        """Return the surprise in nats, float32 (n,), of every row (tokens before it, its tokens). The tokens before it
        lose their beginning where the model has no room. Without a start token (`started`), which some models lack,
        the surprise of the very first token is 0. A row has one token at least and `limit` at most."""
        start = self._start if started else []
        whole = [[*start, *before[max(0, len(before) + len(ids) - self.limit) :], *ids] for before, ids in rows]
        found: dict[int, NDArray[np.float32]] = {}
        lengths = [len(ids) for ids in whole]
        for batch in batches(lengths, self.batch_tokens):
            own = [len(rows[row][1]) for row in batch]
            for row, surprise in zip(batch, self._batch([whole[row] for row in batch], own), strict=True):
                found[row] = finite(surprise)
            tick(0, sum(lengths[row] for row in batch))
        return [found[row] for row in range(len(rows))]

    @torch.inference_mode()
    def _batch(self, rows: Sequence[Sequence[int]], own: Sequence[int]) -> list[NDArray[np.float32]]:
        """`own`: the number of the last tokens of a row whose surprise is returned."""
        ids, _ = padded_rows(rows, 0)
        first = min(len(row) - count for row, count in zip(rows, own, strict=True))
        begin = max(0, first - 1)  # a token's probability is the output at the token before it
        with all_cores():
            output = self.engine.model(ids.to(self.engine.device), logits_to_keep=ids.shape[1] - begin, use_cache=False)
            return [
                _losses(output.logits[number], ids[number, : len(row)], begin, count)
                for number, (row, count) in enumerate(zip(rows, own, strict=True))
            ]


def _losses(logits: torch.Tensor, ids: torch.Tensor, begin: int, count: int) -> NDArray[np.float32]:
    """Return the surprise of the last `count` ids; `logits`: (positions from `begin` on, vocabulary)."""
    start = len(ids) - count
    known = max(start, 1)
    of_them = logits[known - 1 - begin : len(ids) - 1 - begin].float()
    losses = cross_entropy(of_them, ids[known:].to(of_them.device), reduction="none").cpu().numpy()
    return np.concatenate([np.zeros(known - start, np.float32), losses])


class Running:
    """A row that a causal model reads on, part by part, while parts of it are dropped: what stays is read once.

    The model's cache holds the tokens that were read; only the beginning of the next part is kept, where it will stand.
    The row has no start token, as in the package llmlingua: the surprise of the very first token is 0.
    Memory: keys and values of the row. `before`: token ids that it begins with, whose surprise is not asked for."""

    def __init__(self, model: Surprise, before: Sequence[int], tick: Tick) -> None:
        self.model, self.tick = model, tick
        self.kept = [*before]
        self.cache: Any = None
        self.cached = 0
        self.last: torch.Tensor | None = None
        """The logits at the last token that was kept."""

    def of(self, ids: Sequence[int], keep: int) -> NDArray[np.float32]:
        """Return the surprise of these tokens after the row, float32 (n,), and add the first `keep` of them to it. A
        row that is too long loses its beginning, and is then read again at every call, as is every row by a model whose
        layers do not see all tokens before."""
        if len(self.kept) + len(ids) > self.model.limit or not continues(self.model.engine.model):
            self.cache, self.cached, self.last = None, 0, None
            [surprise] = self.model.of([(self.kept, ids)], self.tick, started=False)
        else:
            surprise = finite(self._of(ids, keep))
        self.kept += ids[:keep]
        return surprise

    @torch.inference_mode()
    def _of(self, ids: Sequence[int], keep: int) -> NDArray[np.float32]:
        if self.cache is None:
            self.cache, self.cached, self.last = DynamicCache(config=self.model.engine.model.config), 0, None
        new = self.kept[self.cached :]
        whole = torch.tensor([[*new, *ids]], device=self.model.engine.device)
        with all_cores():
            output = self.model.engine.model(
                whole, past_key_values=self.cache, use_cache=True, logits_to_keep=len(ids) + bool(new)
            )
            logits = output.logits[0].float()
            if not new and self.last is not None:
                logits = torch.cat([self.last[None], logits])
            # A token's probability is the output at the token before it; the very first has none before it.
            unknown = len(ids) + 1 - len(logits)
            of_them = torch.tensor(ids[unknown:], device=logits.device, dtype=torch.long)
            losses = cross_entropy(logits[:-1], of_them, reduction="none").cpu().numpy()
        self.tick(0, len(new) + len(ids))
        self.cached = len(self.kept) + keep
        for layer in self.cache.layers:
            layer.keys, layer.values = layer.keys[:, :, : self.cached], layer.values[:, :, : self.cached]
        place = len(logits) - 1 - len(ids) + keep
        self.last = logits[place].clone() if place >= 0 else None
        return np.concatenate([np.zeros(unknown, np.float32), losses])
