"""Generators whose language model runs on this machine and answers the rendered prompt.

`transformers`: any causal or sequence-to-sequence language model of Hugging Face. `vllm`: the offline engine of vLLM,
which computes only once the text that many prompts begin with.
"""

from typing import ClassVar

from vitalfew.tasks.generators.base import ByEngine
from vitalfew.tasks.models.causal.engines.transformers import Transformers
from vitalfew.tasks.models.causal.engines.vllm import Vllm


class TransformersGenerator(ByEngine):
    """A Hugging Face language model in generate.model, by name or directory. The first answer loads it."""

    example: ClassVar[tuple[str, ...]] = ("generate.model=HuggingFaceTB/SmolLM2-135M-Instruct",)

    class Options(ByEngine.Options, Transformers.Options):
        pass

    runs_on = Transformers
    version: ClassVar[str] = Transformers.version


class VllmGenerator(ByEngine):
    """vLLM's offline engine, with a model's directory or name in generate.model. The first answer starts it."""

    example: ClassVar[tuple[str, ...]] = ("generate.model=HuggingFaceTB/SmolLM2-135M-Instruct",)

    class Options(ByEngine.Options, Vllm.Options):
        pass

    runs_on = Vllm
    version: ClassVar[str] = Vllm.version
