"""`llm`: a language model writes the evidence text from the chunks; if it lacks the answer, the model gets it.

Oreo's collection (arXiv 2502.13019, section 2.2, appendix A): the model is to take the question apart, name what it is
about, give the supporting sentences and how they lead to an answer, or say that there is none. Bootstrapping (A.2): in
further rounds the answer is given and the explanation asked for. The prompts are ours, and have no examples: one of the
paper's is wrong. From the second of those rounds on the model also sees its last text, since the same prompt would get
the same reply. Any generator will do.

The copier learns the parts of a text that repeat the chunks' words (collector.aligned).
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import Field, SerializeAsAny

from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.configs.training import CollectConfig
from vitalfew.tasks.generators.base import Generator, Prompt
from vitalfew.tasks.raters.asked import brief
from vitalfew.tasks.registry import make
from vitalfew.tasks.trainers.oreo.collector import UNKNOWN, OreoExample, Output, aligned

GIVEN = "Texts:\n{chunks}\n\nQuestion: {question}\n"
PLAIN = (
    "Here are some texts and a question. Think about which facts the question asks for, one after another. Then write "
    "a short passage that holds all that is needed to answer it: whom or what it is about, by name, what the texts say "
    "of that, and what follows. Use the texts alone, and keep to their words where you can. If they do not answer the "
    f"question, write {UNKNOWN} and nothing else.\n\n" + GIVEN + "Passage:"
)
TOLD = (
    "Here are some texts, a question and its right answer. Write a short passage that shows by what the texts say that "
    "this is the answer: name whom or what the question is about, give what the texts say of that, and state the "
    "answer in the words given. Use the texts alone.\n\n" + GIVEN + "Right answer: {answer}\n"
)
BEFORE = "An earlier passage, which does not state the answer: {earlier}\n"


class Llm:
    """A language model writes the evidence text; if the answer is missing, it is given the answer (Oreo)."""

    example: ClassVar[tuple[str, ...]] = ("collect.generator={generator: transformers, model: smollm2}",)

    class Options(CollectConfig, extra="forbid"):
        generator: SerializeAsAny[GenerateConfig] = Field(
            GenerateConfig(generator="transformers"), description="Generator that writes, with its settings."
        )
        rounds: int = Field(3, ge=0, description="Maximum number of rounds in which the generator is given the answer.")

        def writer(self) -> GenerateConfig:
            """The generator with all its settings."""
            return brief(self.generator, "collect.generator", max_tokens=200)

        def identity(self) -> dict[str, Any]:
            return {**super().identity(), "generator": self.writer().identity()}

    version: ClassVar[str] = "1"

    def __init__(self, options: Options) -> None:
        """Raises the errors of the generator's constructor."""
        self.generator: Generator = make(options.writer(), "collect.generator")
        self.attempts = 1 + options.rounds
        self.uses_gpu, self.workers = self.generator.uses_gpu, self.generator.workers

    def identity(self) -> dict[str, Any]:
        about = {"class": type(self).__name__, "version": self.version, "prompts": [PLAIN, TOLD, BEFORE]}
        return {**about, "generator": self.generator.identity()}

    def collect(self, cases: Sequence[OreoExample], earlier: Sequence[str | None]) -> list[Output]:
        pairs = zip(cases, earlier, strict=True)
        replies = self.generator.generate(
            [Prompt(asked(case, before), case.question, tuple(case.texts)) for case, before in pairs]
        )
        outputs = []
        for case, reply in zip(cases, replies, strict=True):
            tokens = reply.prompt_tokens + reply.completion_tokens
            runs = aligned(reply.text, case.texts)
            outputs.append(Output(reply.text.strip(), runs, tokens, reply.seconds, reply.error))
        return outputs


def asked(case: OreoExample, earlier: str | None) -> str:
    """The prompt for a case; `earlier`: the text written before, without the answer; None: nothing."""
    chunks = "\n".join(f"[{number}] {text}" for number, text in enumerate(case.texts, 1))
    if earlier is None:
        return PLAIN.format(chunks=chunks, question=case.question)
    before = BEFORE.format(earlier=earlier) if earlier and UNKNOWN not in earlier else ""
    told = TOLD.format(chunks=chunks, question=case.question, answer=case.answers[0])
    return f"{told}{before}Passage:"
