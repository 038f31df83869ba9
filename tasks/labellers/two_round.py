"""`two_round`: a language model rates a passage, and another sees that rating and confirms or corrects it.

Sparse RAG's labels (arXiv 2405.16178, section 3.1, tables 2 and 13): each round is given the question, its accepted
answers, the passage and its title. Both rounds are kept, and the second counts. The prompts are ours. Any two
generators will do, also twice the same one; without a critic there is one round.
"""

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import ConfigDict, Field, SerializeAsAny

from vitalfew.configs.evaluation import GenerateConfig, LabelConfig
from vitalfew.tasks.generators.base import Generator, Prompt
from vitalfew.tasks.labellers.base import Label, Labelled
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.ticks import Tick
from vitalfew.tasks.registry import make, options_type, with_options

GIVEN = "Question: {question}\nAccepted answers: {answers}\nTitle: {title}\nPassage: {text}\n\n"
ROUND_ONE = (
    "Below are a question, answers to it that count as right, and a passage with its title. Decide whether the "
    "passage, read together with its title, tells a reader one of these answers. It may well not.\n\n"
    + GIVEN
    + "Reply with 1 if it does and with 0 if it does not, and with nothing else.\nReply:"
)
ROUND_TWO = (
    "Below are a question, answers to it that count as right, and a passage with its title. Somebody had to decide "
    "whether the passage, read together with its title, tells a reader one of these answers (1) or not (0), and may "
    "have been mistaken.\n\n"
    + GIVEN
    + "Their decision: {rater:.0f}\n\nCheck the passage yourself. Reply with their decision if it is right and with "
    "the other one if it is not: 1 or 0, and nothing else.\nReply:"
)
BRIEF = {"temperature": 0.0, "max_tokens": 8}
"""Settings of a generator that has them, unless others are given: the most probable reply, which is short."""
_REPLY = re.compile(r"\b(?:(1(?:\.0+)?|yes)|(0(?:\.0+)?|no))\b(?!\.\d)", re.IGNORECASE)


class TwoRound:
    """One model labels every passage, and another confirms or corrects the label; both labels are kept."""

    example: ClassVar[tuple[str, ...]] = (
        "label.rater={generator: transformers, model: smollm2}",
        "label.critic={generator: openai, model: gpt-4o-mini}",
    )

    class Options(LabelConfig):
        model_config = ConfigDict(extra="forbid")

        rater: SerializeAsAny[GenerateConfig] = Field(
            GenerateConfig(generator="transformers"), description="Generator of the first round, with its settings."
        )
        critic: SerializeAsAny[GenerateConfig | None] = Field(
            None, description="Generator that confirms or corrects the first round; null: there is one round only."
        )

        def rounds(self) -> dict[str, GenerateConfig]:
            """The rounds' generators with all their settings, by the name of the round."""
            given = {"rater": self.rater, "critic": self.critic}
            return {name: brief(section, f"label.{name}") for name, section in given.items() if section is not None}

        def identity(self) -> dict[str, Any]:
            return {**super().identity(), **{name: section.identity() for name, section in self.rounds().items()}}

    version: ClassVar[str] = "1"

    def __init__(self, options: Options) -> None:
        """Raises what the generators' constructors raise."""
        self.rounds: dict[str, Generator] = {
            name: make(section, f"label.{name}") for name, section in options.rounds().items()
        }
        self.uses_gpu = any(generator.uses_gpu for generator in self.rounds.values())
        bounds = [generator.workers for generator in self.rounds.values() if generator.workers is not None]
        self.workers = min(bounds, default=None)

    def identity(self) -> dict[str, Any]:
        asked = {name: generator.identity() for name, generator in self.rounds.items()}
        return {"class": type(self).__name__, "version": self.version, "prompts": [ROUND_ONE, ROUND_TWO], **asked}

    def label(self, batch: Sequence[Labelled], tick: Tick) -> list[Label]:
        counted = [0] * (len(self.rounds) - 1) + [1]  # a passage counts as labelled with its last round
        first = self._ask("rater", [_prompt(ROUND_ONE, passage) for passage in batch], tick, counted[0])
        if "critic" not in self.rounds:
            return [Label(rating, error=error) for rating, error in first]
        due = [number for number, (rating, _) in enumerate(first) if rating is not None]
        tick(len(batch) - len(due), 0)
        prompts = [_prompt(ROUND_TWO, batch[number], rater=first[number][0]) for number in due]
        second = dict(zip(due, self._ask("critic", prompts, tick, counted[1]), strict=True))
        labels = []
        for number, (rating, error) in enumerate(first):
            corrected, later = second.get(number, (None, ""))
            labels.append(Label(rating, corrected, error or later))
        return labels

    def _ask(self, name: str, prompts: Sequence[Prompt], tick: Tick, counted: int) -> list[tuple[float | None, str]]:
        """Of each prompt the rating, or why there is none."""
        replies = self.rounds[name].generate(prompts, tick=lambda rows, tokens: tick(rows * counted, tokens))
        return [_rating(name, reply) for reply in replies]


def brief(section: GenerateConfig, path: str) -> GenerateConfig:
    """A generator's settings, with those of BRIEF that it has and nobody gave."""
    known = options_type(section).model_fields
    added = {name: value for name, value in BRIEF.items() if name in known and name not in section.model_fields_set}
    return with_options(GenerateConfig.model_validate({**section.given(), **added}), path)


def _prompt(text: str, passage: Labelled, **more: Any) -> Prompt:
    answers = "; ".join(passage.answers)
    filled = text.format(question=passage.question, answers=answers, title=passage.title, text=passage.text, **more)
    return Prompt(filled, passage.question, (passage.text,))


def _rating(name: str, reply: Completion) -> tuple[float | None, str]:
    if reply.error:
        return None, f"{name}: {reply.error}"
    found = _REPLY.search(reply.text)
    if not found:
        return None, f"{name}: the reply must be 1 or 0, got {reply.text[:80]!r}"
    return float(bool(found.group(1))), ""
