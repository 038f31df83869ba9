"""`transformers`: any causal or sequence-to-sequence language model of Hugging Face answers the rendered prompt."""

from typing import ClassVar

from pydantic import ConfigDict

from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.tasks.generators.base import ByEngine
from vitalfew.tasks.models.causal.engines.transformers import Transformers


class TransformersGenerator(ByEngine):
    """A Hugging Face language model in generate.model, by name or directory. The first answer loads it."""

    example: ClassVar[tuple[str, ...]] = ("generate.model=HuggingFaceTB/SmolLM2-135M-Instruct",)

    class Options(GenerateConfig, Transformers.Options):
        model_config = ConfigDict(extra="forbid")

    version: ClassVar[str] = Transformers.version

    def __init__(self, options: Options) -> None:
        self.use(Transformers(options, "generate"))
