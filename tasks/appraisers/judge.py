"""`judge`: a language model rates a refined context from 0 to 10, once for faithfulness and once for completeness.

Oreo's evaluation of what it writes (arXiv 2502.13019, section 4.5, tables 7 and 8), there by Qwen2.5-Instruct. The
prompts are ours: they ask for the same two grades on the same scale, each with a reason, of the question, the hits and
the context. Any generator will do. A reply has to begin with its grade, with or without words such as "Score:" before
it; any other is an error, and so is a grade beyond 10 or on another scale.
"""

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import ConfigDict, Field, SerializeAsAny

from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.configs.probing import AppraiseConfig
from vitalfew.tasks.appraisers.base import Appraisal, Refined
from vitalfew.tasks.generators.base import Generator, Prompt
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.ticks import Tick
from vitalfew.tasks.registry import make, options_type, with_options

_GIVEN = "Question: {question}\n\nRetrieved passages:\n{hits}\n\nEvidence text:\n{context}\n\n"
_REPLY = (
    "Begin your reply with the grade, a number from 0 to 10 that may have decimals. Give your reason in one or two "
    "sentences behind it.\nGrade:"
)
ASKING = {
    "faithfulness": (
        "An evidence text was made from passages that were retrieved for a question. Grade how true it is to them: "
        "does everything that it says on the question stand in the passages, with the same meaning? What it adds, "
        "distorts or leaves out of what the question needs lowers the grade.\n\n"
        + _GIVEN
        + "10 means that all of it stands in "
        "the passages and nothing is distorted, 0 that it has nothing to do with them. " + _REPLY
    ),
    "completeness": (
        "An evidence text was made from passages that were retrieved for a question, to answer it from. Grade how "
        "much of what the passages say towards the answer is in it. What it leaves out of that lowers the grade, and "
        "so does anything that comes from elsewhere.\n\n"
        + _GIVEN
        + "10 means that it has all that a full and right answer "
        "takes, 0 that nothing in it helps. " + _REPLY
    ),
}
BRIEF = {"temperature": 0.0, "max_tokens": 120}
"""Settings of a generator that has them, unless others are given."""
_GRADE = re.compile(
    r"\A[^\w-]*(?:(?:(?:the|my)\W+)?(?:(?:grade|score|rating|faithfulness|completeness|is|of)\b[^\w-]*)+)?"
    r"(\d+(?:\.\d+)?)(?![\d%])(?:\s*(?:/|out of)\s*(\d+))?",
    re.IGNORECASE,
)


class Judge:
    """Any generator (appraise.judge) grades faithfulness and completeness from 0 to 10 and gives its reasons."""

    example: ClassVar[tuple[str, ...]] = ("appraise.judge={generator: transformers, model: smollm2}",)

    class Options(AppraiseConfig):
        model_config = ConfigDict(extra="forbid")

        judge: SerializeAsAny[GenerateConfig] = Field(
            GenerateConfig(generator="transformers"), description="Generator that grades, with its settings."
        )

        def asked(self) -> GenerateConfig:
            """The generator with all its settings."""
            known = options_type(self.judge).model_fields
            given = {name: value for name, value in BRIEF.items() if name in known}
            return with_options(GenerateConfig.model_validate({**given, **self.judge.given()}), "appraise.judge")

        def identity(self) -> dict[str, Any]:
            return {**super().identity(), "judge": self.asked().identity()}

    version: ClassVar[str] = "1"

    def __init__(self, options: Options) -> None:
        """Raises what the generator's constructor raises."""
        self.generator: Generator = make(options.asked(), "appraise.judge")
        self.uses_gpu = self.generator.uses_gpu
        self.workers = self.generator.workers

    def identity(self) -> dict[str, Any]:
        own = {"class": type(self).__name__, "version": self.version, "asking": ASKING}
        return {**own, "generator": self.generator.identity()}

    def appraise(self, batch: Sequence[Refined], tick: Tick) -> list[Appraisal]:
        grades: list[dict[str, float]] = [{} for _ in batch]
        reasons: list[list[str]] = [[] for _ in batch]
        errors = [""] * len(batch)
        for aspect in ASKING:
            prompts = [_prompt(aspect, each) for each in batch]
            counted = tick if aspect == "completeness" else _tokens_alone(tick)
            for row, reply in enumerate(self.generator.generate(prompts, counted)):
                grade, reason = graded(reply)
                if grade is None:
                    errors[row] = errors[row] or f"{aspect}: {reason}"
                else:
                    grades[row][aspect] = grade
                    reasons[row].append(f"{aspect}: {reason}")
        return [
            Appraisal(None, None, error=error)
            if error
            else Appraisal(own["faithfulness"], own["completeness"], "\n".join(said))
            for own, said, error in zip(grades, reasons, errors, strict=True)
        ]


def _tokens_alone(tick: Tick) -> Tick:
    """A context counts as appraised with the last of its grades."""
    return lambda contexts, tokens: tick(0, tokens)


def graded(reply: Completion) -> tuple[float | None, str]:
    """The grade and its reason, or None and why there is no grade."""
    if reply.error:
        return None, reply.error
    found = _GRADE.match(reply.text)
    if not found or float(found[1]) > 10 or (found[2] or "10") != "10":
        return None, f"the reply must begin with a grade from 0 to 10, got {reply.text[:80]!r}"
    return float(found[1]), reply.text[found.end() :].lstrip(" \t\r\n.,;:*–—-").rstrip()


def _prompt(aspect: str, refined: Refined) -> Prompt:
    hits = "\n".join(f"[{number}] {hit}" for number, hit in enumerate(refined.hits, 1))
    text = ASKING[aspect].format(question=refined.question, hits=hits, context=refined.context)
    return Prompt(text, refined.question, (refined.context,))
