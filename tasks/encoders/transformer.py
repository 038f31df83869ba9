"""Any Hugging Face encoder on PyTorch: length-sorted batches filled by tokens, bf16 where the hardware has it.

It is fast on a CPU for three reasons, which `make bench-encode` measures: bf16 matrix products (`tower.py`), batches
with little padding (texts sorted by length in windows, filled up to a number of tokens small enough for the
CPU's cache), and tokenisation of the next window on another thread while the model computes.
"""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import ConfigDict, Field

from configs.loading import ConfigError
from configs.schema import EncodeConfig
from configs.section import NOT_IN_FINGERPRINT, Device, ModelName, Precision
from tasks.encoders.base import Encoded, LateEncoded, Spans, Tick
from tasks.models.batches import batches, cut, tokenised
from tasks.models.device import choose_device, choose_dtype
from tasks.models.files import find_model
from tasks.models.recipe import Preset, RecipeOptions, read_recipe

if TYPE_CHECKING:
    from tasks.models.tower import Tower


def _no_tick(tokens: int, share: float) -> None:
    """No progress is reported."""


class TransformerEncoder:
    """A model directory with weights (safetensors) and tokenizer; a second one for questions where there are two.

    A published model is a subclass whose `Preset` names the model and states what its files do not.
    """

    class Options(RecipeOptions, EncodeConfig):
        model_config = ConfigDict(extra="forbid")

        model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
            None, description="A Hugging Face name or a directory; default: the encoder's own."
        )
        question_model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
            None, description="A second model for questions, where the encoder has two (dpr)."
        )
        device: Annotated[Device, NOT_IN_FINGERPRINT] = Field(
            "auto",
            description="auto: the GPU where the machine that starts the run has one. cuda: the workers' GPUs.",
        )
        precision: Annotated[Precision, NOT_IN_FINGERPRINT] = Field(
            "auto", description="auto: bf16 where it is native, else fp16 on a GPU and fp32 on a CPU."
        )
        batch_tokens: Annotated[int | None, NOT_IN_FINGERPRINT] = Field(
            None,
            ge=16,
            description="Tokens in a batch, padding included, at most; default: 2048 on a CPU, 65536 on a GPU.",
        )

    version: ClassVar[str] = "2"
    preset: ClassVar[Preset] = Preset()

    def __init__(self, options: Options) -> None:
        self.options = options
        self.device = choose_device(options.device)
        self.dtype = choose_dtype(options.precision, self.device)
        self.uses_gpu = self.device.type == "cuda"
        self.batch_tokens = options.batch_tokens or (65_536 if self.uses_gpu else 2048)

    def model_directory(self) -> Path:
        """The model's directory. Raises FileNotFoundError, which says how to provide the model."""
        name = self.options.model or self.preset.model
        if name is None:
            raise ConfigError(
                f"encoder {self.options.encoder!r} needs a model: --set encode.model=NAME (Hugging Face) or a directory"
            )
        return find_model(name, "encode.model")

    def question_directory(self) -> Path | None:
        """The directory of the model for questions, if there is a separate one."""
        name = self.options.question_model or self.preset.question_model
        return find_model(name, "encode.question_model") if name else None

    @cached_property
    def passages(self) -> "Tower":
        return self._tower(self.model_directory(), "encode.model")

    @cached_property
    def questions(self) -> "Tower":
        directory = self.question_directory()
        if directory is None:
            return self.passages
        tower = self._tower(directory, "encode.question_model")
        if tower.dimension != self.dimension:
            raise ConfigError(
                f"{tower.directory} gives vectors of {tower.dimension} numbers, {self.passages.directory} of "
                f"{self.dimension}: encode.model and encode.question_model do not belong together"
            )
        return tower

    def _tower(self, directory: Path, setting: str) -> "Tower":
        from tasks.models.tower import Tower  # with PyTorch, which settings and docstring do without

        recipe = read_recipe(directory, self.preset, self.options)
        return Tower(directory, recipe, self.device, self.dtype, setting)

    @property
    def dimension(self) -> int:
        return self.passages.dimension

    @property
    def supports_late(self) -> bool:
        return self.passages.recipe.pooling == "mean"

    def identity(self) -> dict[str, Any]:
        passages = self.passages.identity()
        files = passages.pop("files")
        identity = {
            "class": type(self).__name__,
            "version": self.version,
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": self.device.type,
            "batch_tokens": self.batch_tokens,
            **passages,
        }
        if self.questions is not self.passages:
            questions = self.questions.identity()
            files |= {f"question/{name}": digest for name, digest in questions.pop("files").items()}
            identity["questions"] = questions
        return {**identity, "files": files}

    def encode(self, texts: Sequence[str], tick: Tick = _no_tick) -> Encoded:
        return self._encode(self.passages, self.passages.recipe.passage_prompt, texts, tick)

    def encode_questions(self, texts: Sequence[str]) -> Encoded:
        return self._encode(self.questions, self.questions.recipe.question_prompt, texts, _no_tick)

    def _encode(self, tower: "Tower", prompt: str, texts: Sequence[str], tick: Tick) -> Encoded:
        vectors = np.empty((len(texts), tower.dimension), dtype=np.float32)
        limit = tower.recipe.max_tokens
        tokens = truncated = 0
        for start, window in tokenised(tower, prompt, texts):
            ids = [cut(encoding, limit) or [tower.padding] for encoding in window]
            truncated += sum(len(encoding.ids) > limit for encoding in window)
            tokens += (window_tokens := sum(map(len, ids)))
            share = len(window) / len(texts)
            for batch in batches([len(row) for row in ids], self.batch_tokens):
                vectors[start + np.array(batch)] = tower.vectors([ids[row] for row in batch])
                done = sum(len(ids[row]) for row in batch)
                tick(done, share * done / window_tokens)
        return Encoded(vectors, tokens, truncated)

    def encode_late(self, passages: Sequence[str], spans: Sequence[Spans], tick: Tick = _no_tick) -> LateEncoded:
        from tasks.encoders.late import encode_late

        return encode_late(self.passages, self.batch_tokens, passages, spans, tick)
