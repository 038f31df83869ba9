"""A causal language model decides between two words as the next one after a prompt: P(yes) / (P(yes) + P(no)).

Prompts that have the same beginning and the same body are a group, which is read by itself: the tokens that its prompts
begin with once, and the other tokens of every prompt after these (blocks.py). So a reading depends on nothing outside
its group. A body that is too long for the model loses its middle.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from vitalfew.configs.options import Adapted
from vitalfew.tasks.models.causal.blocks import BlockModel, Row, obstacle
from vitalfew.tasks.models.causal.controls import Controls, Segmenter
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable
from vitalfew.tasks.models.causal.engines.transformers import Transformers, all_cores, shared
from vitalfew.tasks.models.causal.prefill import shared_tokens
from vitalfew.tasks.models.readings import Reading, remembered, settled
from vitalfew.tasks.models.ticks import Tick, no_tick

Prompt = tuple[str, str, str]
"""Its beginning, its body, which may be cut, and its end."""


class Verdict:
    """A causal language model of Hugging Face that decides between two words. The first prompt loads it."""

    def __init__(self, options: Adapted, section: str, yes: str, no: str) -> None:
        """`section`: of the settings, for messages. Raises ConfigError, also for a word of several tokens, and
        EngineUnavailable, with the remedy."""
        computing = options.model_dump(include={"model", "adapter", "device", "precision", "batch_tokens"})
        self.engine = shared(Transformers.Options(temperature=0, max_tokens=1, **computing), section)
        local = self.engine.local
        if reason := obstacle(local.config):
            raise EngineUnavailable(
                f"{local.directory} {reason}; use a causal model with rotary positions (Llama, Gemma, "
                f"SmolLM): --set {section}.model=NAME"
            )
        words = Segmenter(local.tokenizer, Controls(yes=yes, no=no), local.given_template)
        self.words = words.yes, words.no
        self.uses_gpu, self.workers = self.engine.uses_gpu, self.engine.workers

    def identity(self) -> dict[str, Any]:
        return {**self.engine.identity(), "words": list(self.words)}

    @cached_property
    def model(self) -> BlockModel:
        return BlockModel(self.engine.model, self.engine.device, self.engine.batch_tokens, self.engine.ends)

    def read(self, prompts: Sequence[Prompt], tick: Tick = no_tick) -> list[float]:
        """Return for every prompt how sure the model is of yes, from 0 to 1; 0 where its beginning and its end are too
        long for the model. A prompt is read once, and remembered across methods, ratios and runs."""

        def read(due: Sequence[Prompt]) -> list[Reading]:
            groups: dict[tuple[str, str], list[Prompt]] = {}
            for prompt in due:
                groups.setdefault(prompt[:2], []).append(prompt)
            found: dict[Prompt, Reading] = {}
            for (start, body), own in groups.items():
                readings = self._group(start, body, [end for *_, end in own])
                found |= zip(own, readings, strict=True)
                tick(len(own), sum(reading.tokens for reading in readings))
            return [found[prompt] for prompt in due]

        values = remembered({**self.identity(), "of": "verdict"}, prompts, read)
        return [float(own[0]) for own in values]

    def _group(self, start: str, body: str, ends: Sequence[str]) -> list[Reading]:
        rows = self._rows(start, body, ends)
        fitting = [ids for ids in rows if ids]
        common = shared_tokens(fitting) if fitting else 0
        with all_cores():
            reads = iter(self.model.read([Row(ids[:common], ids[common:]) for ids in fitting], self.words))
        readings = [Reading(np.zeros(1, np.float32), 0) for _ in rows]
        for place in (place for place, ids in enumerate(rows) if ids):
            read = next(reads)
            sure = (read.logprobs[0] - read.logprobs[1]).sigmoid().item()
            readings[place] = Reading(settled(np.array([sure], np.float32)), read.computed)
        return readings

    def _rows(self, start: str, body: str, ends: Sequence[str]) -> list[list[int]]:
        """Return the token ids of a group's prompts; [] for a prompt that does not fit even without the body."""
        encode, limit = self.engine.local.encode, self.engine.local.prompt_limit
        rows = encode([start + body + end for end in ends])
        if limit is None or max(map(len, rows)) <= limit:
            return rows
        fits = [len(ids) <= limit for ids in encode([start + end for end in ends])]
        encoded = self.engine.local.tokenizer(body, add_special_tokens=False, return_offsets_mapping=True)
        places = encoded["offset_mapping"]  # of every token in the body (code points)
        room = len(places)
        while any(fits) and (over := max(len(ids) for ids, fit in zip(rows, fits, strict=True) if fit) - limit) > 0:
            room = max(0, room - over)
            head, tail = places[: (room + 1) // 2], places[len(places) - room // 2 :]
            kept = body[: head[-1][1] if head else 0] + body[tail[0][0] if tail else len(body) :]
            rows = encode([start + kept + end for end in ends])
        return [ids if fit else [] for ids, fit in zip(rows, fits, strict=True)]
