"""`openai`: a server that speaks OpenAI's chat completions (vLLM, llama.cpp, OpenAI, …) answers the rendered prompt."""

from collections.abc import Mapping
from typing import ClassVar

from pydantic import ConfigDict

from configs.evaluation import GenerateConfig
from tasks.generators.base import ByEngine
from tasks.models.engines.openai import OpenAI


class OpenAIGenerator(ByEngine):
    """A server that speaks OpenAI's chat completions, at generate.base_url or OPENAI_BASE_URL."""

    example: ClassVar[tuple[str, ...]] = ("generate.model=gpt-4o-mini",)

    class Options(GenerateConfig, OpenAI.Options):
        model_config = ConfigDict(extra="forbid")

    version: ClassVar[str] = OpenAI.version
    secrets: ClassVar[Mapping[str, str]] = OpenAI.secrets

    def __init__(self, options: Options) -> None:
        self.use(OpenAI(options, "generate"))
