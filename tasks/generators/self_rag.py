"""`self_rag`: a model that judges itself as it writes, by Self-RAG's reflection tokens (Asai et al., 2023, arXiv
2310.11511, table 1).

Having read a context it writes whether that is relevant, an answer, how far the context supports it, and how useful it
is: "[Relevant]Paris.[Fully supported][Utility:5]". A judgement is one token of a group, and the probabilities of the
whole group at its place are what the critic `reflection` reads. A group is looked at where one of its tokens was
written first; the paper's program takes relevance at the first place, which is where a trained model writes it. The
answer is what is left without the tokens.

On demand (`retrieval: adaptive`) the model is first asked without contexts, and gets them where the probability of its
[Retrieval] token, against [No Retrieval], exceeds a threshold (section 3.3).
"""

import dataclasses
import re
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from vitalfew.configs.evaluation import CHOOSES_PROMPTS
from vitalfew.configs.options import Batching
from vitalfew.configs.section import NOT_IN_FINGERPRINT
from vitalfew.tasks.generators.base import Generator, Prompt, WithEngine
from vitalfew.tasks.models.causal.engines.base import Completion, Engine, EngineUnavailable, LocalOptions, Probe
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.registry import make_engine

RELEVANCE = ("[Relevant]", "[Irrelevant]")
SUPPORT = ("[Fully supported]", "[Partially supported]", "[No support / Contradictory]")
UTILITY = tuple(f"[Utility:{grade}]" for grade in range(1, 6))
RETRIEVAL = ("[Retrieval]", "[No Retrieval]")
OTHERS = ("[Continue to Use Evidence]", "<paragraph>", "</paragraph>")
"""Tokens that no probability is asked of, and that a model may lack."""

JUDGEMENTS = Probe((*RELEVANCE, *SUPPORT, *UTILITY), groups=(RELEVANCE, SUPPORT, UTILITY))
ON_DEMAND = Probe(RETRIEVAL)
_TOKENS = re.compile("|".join(map(re.escape, (*JUDGEMENTS.tokens, *RETRIEVAL, *OTHERS))))


class SelfRag(WithEngine):
    """Self-RAG: a model with reflection tokens (generate.model) for the critic `reflection`; can retrieve on demand."""

    example: ClassVar[tuple[str, ...]] = ("generate.model=selfrag/selfrag_llama2_7b",)

    class Options(Generator.Options, LocalOptions, Batching):
        engine: Annotated[str, NOT_IN_FINGERPRINT] = Field(
            "transformers", description="Engine that runs the model: transformers or vllm."
        )
        retrieval: Annotated[Literal["always", "never", "adaptive"], CHOOSES_PROMPTS] = Field(
            "always",
            description="Use of contexts: always, never, or adaptive (where the model's Retrieve token asks for them).",
        )
        threshold: Annotated[float, CHOOSES_PROMPTS] = Field(
            0.2,
            ge=0,
            le=1,
            description="Probability of [Retrieval], against [No Retrieval], above which adaptive retrieval adds "
            "contexts.",
        )

    prompt: ClassVar[str] = "self_rag"

    def __init__(self, options: Options) -> None:
        """Raises EngineUnavailable also for a model that lacks one of the reflection tokens."""
        super().__init__(options, make_engine(options.engine, options, "generate"))
        _require_tokens(self.engine, options)

    def without_contexts(self, prompts: Sequence[Prompt]) -> tuple[list[bool], int]:
        if self.options.retrieval != "adaptive":
            return [self.options.retrieval == "never"] * len(prompts), 0
        completions = self.engine.complete([undecided(prompt.text) for prompt in prompts], ON_DEMAND)
        pairs = [[each.probabilities.get(token, 0.0) for token in RETRIEVAL] for each in completions]
        bare = [not yes > self.options.threshold * (yes + no) for yes, no in pairs]
        return bare, sum(each.computed for each in completions)

    def generate(self, prompts: Sequence[Prompt], tick: Tick = no_tick) -> list[Completion]:
        completions = self.engine.complete([prompt.text for prompt in prompts], JUDGEMENTS, tick)
        return [dataclasses.replace(completion, text=freed(completion.text)) for completion in completions]


def _require_tokens(engine: Engine, options: SelfRag.Options) -> None:
    vocabulary = engine.vocabulary
    if vocabulary is None:
        raise EngineUnavailable(
            f"generator 'self_rag': the engine {options.engine!r} has no vocabulary in which to look up "
            "reflection tokens; --set generate.engine=transformers (or vllm)"
        )
    if missing := [token for token in (*JUDGEMENTS.tokens, *RETRIEVAL) if token not in vocabulary]:
        others = f" and {len(missing) - 1} other reflection tokens" if len(missing) > 1 else ""
        raise EngineUnavailable(
            f"generator 'self_rag': the vocabulary of {options.model} lacks the token "
            f"{missing[0]!r}{others}; use a model trained with Self-RAG's tokens, for example "
            "selfrag/selfrag_llama2_7b, or another generator"
        )


def freed(text: str) -> str:
    """An answer without reflection tokens."""
    return " ".join(_TOKENS.sub(" ", text).split())


def undecided(prompt: str) -> str:
    """A prompt without contexts, up to where the model says whether it wants some."""
    return prompt.removesuffix(RETRIEVAL[1])
