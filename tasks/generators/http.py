"""`http`: another system of answers behind an address, asked live (tasks/models/causal/engines/http.py). It gets the
question alone and finds contexts by itself, which become the method's where its reply has them."""

from collections.abc import Sequence
from typing import ClassVar

from vitalfew.tasks.generators.base import Prompt, WithEngine
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.causal.engines.http import Http
from vitalfew.tasks.models.ticks import Tick, no_tick


class HttpGenerator(WithEngine):
    """Another RAG at generate.url, which takes a question as JSON and returns an answer, and contexts if it says them.

    VITALFEW_API_KEYS=HOST=VARIABLE names the variable with its key.
    """

    elsewhere: ClassVar[bool] = True
    version: ClassVar[str] = Http.version
    secrets = staticmethod(Http.secrets)

    class Options(WithEngine.Options, Http.Options):
        pass

    def __init__(self, options: Options) -> None:
        super().__init__(options, Http(options, "generate"))

    def decisive(self, prompt: Prompt) -> tuple[str, ...]:
        return (prompt.question,)

    def generate(self, prompts: Sequence[Prompt], tick: Tick = no_tick) -> list[Completion]:
        return self.engine.complete([prompt.question for prompt in prompts], tick=tick)
