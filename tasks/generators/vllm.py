"""`vllm`: the offline engine of vLLM answers the rendered prompt; what many prompts begin with is computed once."""

from typing import ClassVar

from pydantic import ConfigDict

from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.tasks.generators.base import ByEngine
from vitalfew.tasks.models.causal.engines.vllm import Vllm


class VllmGenerator(ByEngine):
    """vLLM's offline engine, with a model's directory or name in generate.model. The first answer starts it."""

    example: ClassVar[tuple[str, ...]] = ("generate.model=HuggingFaceTB/SmolLM2-135M-Instruct",)

    class Options(GenerateConfig, Vllm.Options):
        model_config = ConfigDict(extra="forbid")

    version: ClassVar[str] = Vllm.version

    def __init__(self, options: Options) -> None:
        self.use(Vllm(options, "generate"))
