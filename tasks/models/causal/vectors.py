"""A text as one token of a causal language model: its vector by a decoder, and xRAG's projector into the model.

The vector is the last layer's state of the text's last token, as it is. The end-of-text token is the last one where
tokenizer_config.json asks for it (`add_eos_token`), whether or not tokenizer.json adds it: some embedding models of
Mistral's kind contradict themselves there, and transformers 5 follows the latter. The vector is not scaled to length 1,
whatever the model's files say for comparing vectors: who reads it need not compare.

The projector makes a token's state of a vector: two linear layers with GELU (the exact one) between them, from the
vector's size to the model's, then from that to itself (Cheng et al. 2024, arXiv 2405.13792, section 3). The published
checkpoints have it among the language model's weights, under the names below. It is computed in float32, the
authors' program takes the model's precision.

A prompt names its vectors by negative ids, -1 the first: who lays out prompts need not know that some of their tokens
are in no vocabulary, and two that begin with the same vectors still share them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor, nn

from vitalfew.configs.options import Batching
from vitalfew.tasks.models.batches import batches, cut
from vitalfew.tasks.models.causal.engines.transformers import all_cores
from vitalfew.tasks.models.device import InBatches
from vitalfew.tasks.models.encoder.networks import Computation, Vectors
from vitalfew.tasks.models.encoder.recipe import EncoderPreset, RecipeOptions, read_json, read_recipe
from vitalfew.tasks.models.encoder.tower import Tower
from vitalfew.tasks.models.files import UnsupportedModel, find_model

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
        recipe = read_recipe(folder, EncoderPreset(), given)
        way = Computation("torch", self.precision, self.batch_tokens)
        self.tower = Tower(folder, recipe, setting, self.device_name, way)
        self.tower.check()
        self.limit = min(tokens, recipe.max_tokens)

    def files(self) -> dict[str, str]:
        return self.tower.identity()["files"]

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
        """Return the token ids of every text, cut to the limit; the special tokens at its end stay."""
        rows = []
        for encoding in self.tower.tokenizer.encode_batch(list(texts)):
            ends = [] if self._end is None or encoding.ids[-1:] == [self._end] else [self._end]
            rows.append(cut(encoding, self.limit - len(ends)) + ends or [self.tower.padding])
        return rows

    def vectors(self, ids: Sequence[list[int]]) -> Vectors:
        """float32 (n, d), of texts in the model's tokens."""
        vectors = np.empty((len(ids), self.dimension), np.float32)
        _ = self.tower.network  # loads the model, and has it take one thread
        with all_cores():
            # The least that `batch_tokens` can be is a text alone, however short.
            for rows in batches([max(len(row), ALONE) for row in ids], self.batch_tokens):
                vectors[rows] = self.tower.vectors([ids[row] for row in rows])
        return vectors


PREFIX = "projector."
NAMES = ("projector.0.weight", "projector.0.bias", "projector.2.weight", "projector.2.bias")
"""Behind the prefix."""


def require_projector(folder: Path, given: int, due: int, setting: str) -> None:
    """Raises UnsupportedModel, with the remedy, where a model's directory has no projector from vectors of `given`
    numbers to states of `due`. `setting`: the key that names the model."""
    shapes = {name: tuple(weight.get_shape()) for name, weight in _stored(folder)}
    expected = dict(zip(NAMES, ((due, given), (due,), (due, due), (due,)), strict=True))
    if odd := sorted(shapes.keys() ^ expected.keys()):
        state = "lacks the weights" if odd[0] in expected else "has also"
        raise UnsupportedModel(
            f"{folder} {state} {PREFIX}{odd[0]}. It must hold a two-layer projector, as the checkpoint of a model "
            f"trained with xRAG does. Use --set {setting}=xrag-7b, or such a checkpoint's directory"
        )
    for name, shape in expected.items():
        if shapes[name] != shape:
            raise UnsupportedModel(
                f"{folder}: {PREFIX}{name} must be {shape} between vectors of {given} numbers and a model of {due}, "
                f"got {shapes[name]}. Use the encoder that the projector was trained with"
            )


def read_projector(folder: Path) -> nn.Sequential:
    """The projector, float32."""
    weights: dict[str, Tensor] = {name.removeprefix(PREFIX): weight[:].float() for name, weight in _stored(folder)}
    due, given = weights["0.weight"].shape
    projector = nn.Sequential(nn.Linear(given, due), nn.GELU(), nn.Linear(due, due))
    projector.load_state_dict(weights)
    return projector.eval()


def _stored(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield the names of the projector's weights, without the prefix, and the weights as slices of their files."""
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as weights:
            for name in weights.keys():  # noqa: SIM118 (no mapping)
                if name.startswith(PREFIX):
                    yield name.removeprefix(PREFIX), weights.get_slice(name)


class _WithVectors(nn.Module):
    """An input embedding that has states for negative ids too: -1 is the first."""

    def __init__(self, embedding: nn.Module, states: Tensor) -> None:
        super().__init__()
        self.embedding, self.states = embedding, states

    def forward(self, ids: Tensor) -> Tensor:
        words = self.embedding(ids.clamp(min=0))
        return torch.where(ids[..., None] < 0, self.states[(-1 - ids).clamp(min=0)].to(words.dtype), words)


@contextmanager
def placed(model: Any, projector: nn.Module, vectors: Vectors) -> Iterator[None]:
    """Let a causal model (PreTrainedModel) read the id -1 - n as the n-th of the vectors, float32 (n, d)."""
    embedding = model.get_input_embeddings()
    with torch.inference_mode():
        # One by one, for the same bits whatever the others are: little work beside what made the vectors.
        states = torch.stack([projector(vector) for vector in torch.from_numpy(vectors).to(model.device)])
    model.set_input_embeddings(_WithVectors(embedding, states))
    try:
        yield
    finally:
        model.set_input_embeddings(embedding)
