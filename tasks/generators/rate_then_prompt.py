"""`rate_then_prompt`: a model rates every context in a request of its own, and then answers a prompt of those it keeps.

It is the variant of Sparse RAG's table 8, whose answer has the kept contexts in one prompt, read anew: for engines that
take no attention mask from a user, as vLLM, which computes the question that all requests begin with once. It is not
Sparse RAG, whose answer is written from the cache of contexts that have not seen one another (`sparse_rag`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar

from pydantic import ConfigDict, Field

from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.configs.options import Batching
from vitalfew.configs.section import NOT_IN_FINGERPRINT
from vitalfew.tasks.generators.base import ByEngine, Prompt, Rating, Stepwise
from vitalfew.tasks.generators.rating import RatingOptions
from vitalfew.tasks.models.causal.controls import Controls, Segmenter
from vitalfew.tasks.models.causal.engines.base import Completion, EngineUnavailable, LocalOptions, Probe, failed
from vitalfew.tasks.models.causal.language_model import LocalModel
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.registry import make_engine


class RateThenPrompt(ByEngine):
    """A model rates contexts one by one and answers a prompt of those it keeps: Sparse RAG's variant in table 8."""

    example: ClassVar[tuple[str, ...]] = ("generate.model=HuggingFaceTB/SmolLM2-135M-Instruct",)

    class Options(GenerateConfig, LocalOptions, Batching, RatingOptions):
        model_config = ConfigDict(extra="forbid")

        engine: Annotated[str, NOT_IN_FINGERPRINT] = Field(
            "vllm", description="Engine that runs the model: vllm or transformers."
        )

    version: ClassVar[str] = "1"
    prompt: ClassVar[str] = "sparse_rag"
    prompt_without_contexts: ClassVar[str] = "sparse_rag"

    def __init__(self, options: Options) -> None:
        options.check("generate")
        self.options = options
        self.use(make_engine(options.engine, options, "generate"))
        local = getattr(self.engine, "local", None)
        if not isinstance(local, LocalModel) or local.is_seq2seq:
            raise EngineUnavailable(
                "generator 'rate_then_prompt' needs a causal model that runs on this machine, to look up its "
                "tokens; --set generate.engine=vllm (or transformers) and a causal generate.model"
            )
        self.cut = Segmenter(local.tokenizer, options, local.given_template)
        words = local.tokenizer.convert_ids_to_tokens([self.cut.yes, self.cut.no])
        self.words = Probe(tuple(words), alone=True)

    def identity(self) -> dict[str, Any]:
        own = {"class": type(self).__name__, "version": self.version, "engine": self.engine.identity()}
        controls = {name: getattr(self.options, name) for name in (*Controls.model_fields, "score")}
        return own | {"ratings": {**own, **controls}}

    def rated(self, prompt: Prompt) -> tuple[Rating, ...]:
        return self.options.rated(prompt)

    def decisive(self, prompt: Prompt) -> tuple[str, ...] | None:
        kept = self.options.kept(prompt)
        return None if kept is None else (prompt.question, *kept)

    def generate(self, prompts: Sequence[Prompt], tick: Tick = no_tick) -> list[Completion]:
        asked, errors = self._asked(prompts)
        ready = [prompt for prompt, error in zip(asked, errors, strict=True) if not error]
        texts = [self.cut.text(prompt.question, self.options.kept(prompt) or ()) for prompt in ready]
        answers = iter(zip(ready, self.engine.complete(texts, tick=tick), strict=True))
        return [error or self._completion(*next(answers)) for error in errors]

    def _asked(self, prompts: Sequence[Prompt]) -> tuple[list[Prompt], list[Completion | None]]:
        """The prompts with the ratings of all their contexts, and the failures of those that have none."""
        if self.options.threshold is None:
            return [*prompts], [None] * len(prompts)
        due = [
            (row, place)
            for row, prompt in enumerate(prompts)
            for place in range(len(prompt.contexts))
            if not (prompt.remembered and prompt.remembered[place])
        ]
        requests = [self.cut.rating_text(prompts[row].question, prompts[row].contexts[place]) for row, place in due]
        found: list[list[Rating | None]] = [[*prompt.remembered] or [None] * len(prompt.contexts) for prompt in prompts]
        errors: list[Completion | None] = [None] * len(prompts)
        for (row, place), answer in zip(due, self.engine.complete(requests, self.words), strict=True):
            if answer.error:
                errors[row] = failed(f"context {place + 1} could not be rated: {answer.error}", answer.prompt_tokens)
            yes, no = (answer.probabilities.get(word, 0.0) for word in self.words.tokens)
            tokens = len(self.cut.segments("", [prompts[row].contexts[place]]).blocks[0])
            found[row][place] = Rating(place + 1, self.options.scored(yes, no), False, tokens)
        return [replace(prompt, remembered=tuple(some)) for prompt, some in zip(prompts, found, strict=True)], errors

    def _completion(self, prompt: Prompt, answer: Completion) -> Completion:
        """With the ratings. Of its steps no seconds are known: an engine reads many requests at once."""
        names = ("text", "prompt_tokens", "completion_tokens", "seconds", "logprob", "finish_reason", "error")
        return Stepwise(**{name: getattr(answer, name) for name in names}, ratings=self.options.rated(prompt))
