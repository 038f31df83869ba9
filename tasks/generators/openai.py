"""`openai`: a server that speaks OpenAI's chat completions (vLLM, llama.cpp, OpenAI, …) answers the rendered prompt."""

from typing import ClassVar

from vitalfew.tasks.generators.base import ByEngine
from vitalfew.tasks.models.causal.engines.openai import OpenAI


class OpenAIGenerator(ByEngine):
    """A server with OpenAI's chat completions API, at generate.base_url or OPENAI_BASE_URL.

    The key in OPENAI_API_KEY goes only to the host of OPENAI_BASE_URL (to api.openai.com if that is not set),
    whatever generate.base_url says; VITALFEW_API_KEYS=HOST=VARIABLE,HOST:PORT=VARIABLE names the keys of other hosts.
    """

    example: ClassVar[tuple[str, ...]] = ("generate.model=gpt-4o-mini",)

    class Options(ByEngine.Options, OpenAI.Options):
        pass

    runs_on = OpenAI
    version: ClassVar[str] = OpenAI.version
    secrets = staticmethod(OpenAI.secrets)
