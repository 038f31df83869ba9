"""A decoder that makes a vector of a text: the last layer's state of its last token, as it is.

The end-of-text token is the last one where tokenizer_config.json asks for it (`add_eos_token`), whether or not
tokenizer.json adds it: some embedding models of Mistral's kind contradict themselves there, and transformers 5 follows
the latter. The vector is not scaled to length 1, whatever the model's files say for comparing vectors: who reads it
need not compare.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from vitalfew.configs.options import Batching
from vitalfew.tasks.models.batches import batches, cut
from vitalfew.tasks.models.causal.engines.transformers import all_cores
from vitalfew.tasks.models.device import InBatches, precision_of
from vitalfew.tasks.models.encoder.kernels import Computation
from vitalfew.tasks.models.encoder.recipe import Preset, RecipeOptions, read_json, read_recipe
from vitalfew.tasks.models.encoder.tower import Tower, Vectors
from vitalfew.tasks.models.files import find_model

ALONE = 16
"""Tokens that a shorter text counts as in a batch."""


class LastToken(InBatches):
    """A directory with such a decoder. The first `vectors` loads it, not the constructor."""

    version: ClassVar[str] = "1"
    cpu_tokens: ClassVar[int] = 4096

    def __init__(self, name: str, options: Batching, tokens: int, setting: str) -> None:
        """`tokens`: of a text, at most, special ones included; `setting`: the key that names the model, for messages.

        Raises FileNotFoundError, UnsupportedModel, with the remedy."""
        super().__init__(options)
        folder = find_model(name, setting)
        given = RecipeOptions(pooling="last", similarity="dot", question_prompt="", passage_prompt="")
        recipe = read_recipe(folder, Preset(), given)
        precision = precision_of(self.dtype)
        way = Computation("plain" if precision == "fp32" else "half", precision, self.batch_tokens)
        self.tower = Tower(folder, recipe, setting, self.device, way)
        self.tower.check()
        self.limit = min(tokens, recipe.max_tokens)

    def files(self) -> dict[str, str]:
        files: dict[str, str] = self.tower.identity()["files"]
        return files

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), **self.tower.identity(), "limit": self.limit}

    @property
    def dimension(self) -> int:
        return self.tower.dimension

    @cached_property
    def _end(self) -> int | None:
        """The token that every text ends with."""
        stated = read_json(self.tower.folder / "tokenizer_config.json")
        end = stated.get("eos_token")
        end = end["content"] if isinstance(end, dict) else end
        return self.tower.tokenizer.token_to_id(end) if stated.get("add_eos_token") and end else None

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of each text, cut to the limit; the special ones at its end stay."""
        rows = []
        for encoding in self.tower.tokenizer.encode_batch(list(texts)):
            ends = [] if self._end is None or encoding.ids[-1:] == [self._end] else [self._end]
            rows.append(cut(encoding, self.limit - len(ends)) + ends or [self.tower.padding])
        return rows

    def vectors(self, ids: Sequence[list[int]]) -> Vectors:
        """float32 (n, d), of texts in the model's tokens."""
        vectors = np.empty((len(ids), self.dimension), np.float32)
        _ = self.tower.head  # loads the model, and has it take one thread
        with all_cores():
            # The least that `batch_tokens` can be is a text alone, however short.
            for rows in batches([max(len(row), ALONE) for row in ids], self.batch_tokens):
                vectors[rows] = self.tower.vectors([ids[row] for row in rows])
        return vectors
