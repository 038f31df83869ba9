"""Questions by a small language model: it gets a sentence and the answer, and writes the question alone.

A model of half a billion parameters copies neither quotes nor answers reliably: by Qwen2.5-Coder-0.5B-Instruct (Q4_K_M,
dequantised; bf16 on an H200) the writer `llm` kept 1 question of 515 passages of SQuAD, and 2 of 800 of NQ. So sentence
and answer are drawn as the writer `cloze` draws its sentence and gap, and the model is asked for a question to that
answer. The question is kept under the conditions of the writer `llm`, and verified in the same way. There is none of
two hops, and none without an answer.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic import ConfigDict, Field

from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.causal.fence import fenced
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.writers import asking
from vitalfew.tasks.writers.base import GivenPassage, Refusal, WrittenQuestion
from vitalfew.tasks.writers.checks import common_run, gives_away
from vitalfew.tasks.writers.cloze import Cloze
from vitalfew.tasks.writers.llm import CHARACTERS, AskingWriter
from vitalfew.tasks.writers.replies import kind_of


class SentenceWriter(AskingWriter):
    """A language model writes a question to a sentence and the name or number in it: for models that cannot quote."""

    example: ClassVar[tuple[str, ...]] = ("write.model=HuggingFaceTB/SmolLM2-360M-Instruct",)
    needs_sentences: ClassVar[bool] = True

    class Options(AskingWriter.Options):
        model_config = ConfigDict(extra="forbid")

        max_tokens: int = Field(60, ge=16, description="Maximum number of tokens in a reply.")

    def identity(self) -> dict[str, Any]:
        prompts = [asking.ASKING_FOR, asking.WITH, asking.WITHOUT]
        return {**super().identity(), "prompts": prompts, "engine": self.engine.identity(), "draws": Cloze.version}

    def tokens(self, characters: float) -> float:
        verifying = (len(asking.WITH) + len(asking.WITHOUT) + characters) * self.options.verify
        return (len(asking.ASKING_FOR) + characters + verifying) / CHARACTERS + self.options.max_tokens

    def write(self, passages: Sequence[GivenPassage], tick: Tick = no_tick) -> list[WrittenQuestion | Refusal]:
        found = Cloze(self.options).write(passages)
        due = [(place, each) for place, each in enumerate(found) if isinstance(each, WrittenQuestion)]
        prompts = [_prompt(passages[place], each) for place, each in due]
        replies = self.engine.complete(prompts, tick=tick) if prompts else []
        for (place, drawn), reply in zip(due, replies, strict=True):
            found[place] = _checked(reply, drawn, passages[place].text, self.options.copied_words)
        tick(len(passages) - len(due), 0)
        return self._verified(passages, found, tick) if self.options.verify else found


def _prompt(passage: GivenPassage, drawn: WrittenQuestion) -> str:
    sentence, answer = fenced("sentence", drawn.quote), fenced("answer", drawn.answer)
    return asking.prompt(asking.ASKING_FOR, [passage], sentence=sentence, answer=answer)


def _checked(reply: Completion, drawn: WrittenQuestion, passage: str, most: int) -> WrittenQuestion | Refusal:
    """The question of a reply, or the first check that it fails."""
    if reply.error or not reply.text.strip():
        return Refusal("no_reply", reply.error or "the reply is empty")
    question = reply.text.strip().splitlines()[0].removeprefix("Question:").strip(" \"'*")
    what = repr(question[:200])
    if not question.endswith(("?", "？")):
        return Refusal("not_in_form", f"the reply must be a question, got {reply.text[:120]!r}")
    if word := gives_away(question, drawn.answer):
        return Refusal("gives_away", f"{what}: answer {drawn.answer[:120]!r}, word {word!r}")
    if (run := common_run(question, passage)) > most:
        return Refusal("copied", f"{what}: {run} words in a row are the passage's, at most {most} may be")
    return WrittenQuestion(question, drawn.answer, drawn.quote, kind_of(question))
