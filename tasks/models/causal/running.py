"""A row that a causal model reads on, part by part, while parts of it are dropped: what stays is read once.

What was read stays in the model's cache; of the next part only its beginning is kept, which stands where it will stand.
No start token stands before it, as in the package llmlingua: the very first token is no surprise (0).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy
from transformers import DynamicCache

from vitalfew.tasks.models.causal.engines.transformers import all_cores
from vitalfew.tasks.models.causal.prefill import continues
from vitalfew.tasks.models.causal.surprise import Surprise, TokenTick
from vitalfew.tasks.models.readings import finite


class Running:
    """Memory: keys and values of the row. `before`: token ids that it begins with, and that are not asked for."""

    def __init__(self, model: Surprise, before: Sequence[int], tick: TokenTick) -> None:
        self.model, self.tick = model, tick
        self.kept = [*before]
        self.cache: Any = None
        self.cached = 0
        self.last: torch.Tensor | None = None
        """The logits at the last token that was kept."""

    def of(self, ids: Sequence[int], keep: int) -> NDArray[np.float32]:
        """The surprise of these tokens behind the row, float32 (n,); the first `keep` of them belong to it from then
        on. Of a row that is too long the beginning is forgotten, and it is read anew each time, as it is by a model
        whose layers do not see all tokens before."""
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
        self.tick(len(new) + len(ids))
        self.cached = len(self.kept) + keep
        for layer in self.cache.layers:
            layer.keys, layer.values = layer.keys[:, :, : self.cached], layer.values[:, :, : self.cached]
        place = len(logits) - 1 - len(ids) + keep
        self.last = logits[place].clone() if place >= 0 else None
        return np.concatenate([np.zeros(unknown, np.float32), losses])
