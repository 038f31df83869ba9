"""Prompts in segments: a prefix, blocks that do not see one another, and a control text that asks for something.

A control is a short text with a task: whether a block is of use (assess), or an answer (generate). Segments are turned
into tokens apart, so that a block has the same tokens whatever comes before it, and special tokens that are in a
question or a block are read as plain text. With a chat template, the whole is one user message: the template is
rendered around a marker and cut there, the head joins the prefix, and the tail joins both controls.

Training and answering have to see the same tokens: both make them here. The wording is ours, as Sparse RAG (Zhu et al.
2024, arXiv 2405.16178) prints none.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import BaseModel, Field
from transformers import PreTrainedTokenizerBase

from vitalfew.configs.loading import ConfigError

PREFIX = "Question: {}\n"
BLOCK = "\nPassage: {}\n"
MARKER = "SEGMENTSGOHERE"


class Controls(BaseModel):
    """The texts of both controls, and the words that a block is rated with."""

    assess_control: str = Field(
        "\nDoes this passage help to answer the question? Say yes or no:",
        min_length=1,
        description="Text that asks the model to rate the passage before it.",
    )
    generate_control: str = Field(
        "\nAnswer in a few words:", min_length=1, description="Text that asks the model for the answer."
    )
    yes: str = Field("yes", min_length=1, description="Rating of a useful passage: one token of the model.")
    no: str = Field("no", min_length=1, description="Rating of any other passage: one token of the model.")


@dataclass(frozen=True, slots=True)
class Segments:
    """Token ids of a prompt: of its prefix and of its blocks."""

    prefix: list[int]
    blocks: list[list[int]]


class Segmenter:
    """Makes segments for one tokenizer. `assess` and `generate`: the controls' token ids; `yes` and `no`: single ids.

    Raises ConfigError, with the remedy, for a yes/no word of several tokens and a chat template that cannot be cut.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, controls: Controls, template: str | None = None) -> None:
        """`template`: a chat template for a tokenizer that lacks one."""
        self.tokenizer, self.controls = tokenizer, controls
        self.template = template or tokenizer.chat_template
        self.head, self.tail = self._cut()
        self.assess = self._own(controls.assess_control + self.tail)
        self.generate = self._own(controls.generate_control + self.tail)
        self.yes, self.no = (self._rating(name, getattr(controls, name)) for name in ("yes", "no"))
        if self.yes == self.no:
            raise ConfigError(f"yes and no must be two different words, got {controls.yes!r} for both")

    def segments(self, question: str, contexts: Sequence[str]) -> Segments:
        """Return the prefix with the question, and a block for every context."""
        start = self._own(self.head, special=self.template is None)
        prefix = start + self._own(PREFIX.format(question), plain=True)
        return Segments(prefix, [self._own(BLOCK.format(context), plain=True) for context in contexts])

    def text(self, question: str, contexts: Sequence[str]) -> str:
        """Return the message that asks for an answer, in one piece."""
        blocks = "".join(BLOCK.format(context) for context in contexts)
        return f"{PREFIX.format(question)}{blocks}{self.controls.generate_control}".strip()

    def rating_text(self, question: str, context: str) -> str:
        """Return the message that asks whether a context is of use."""
        return f"{PREFIX.format(question)}{BLOCK.format(context)}{self.controls.assess_control}".strip()

    def answer(self, text: str) -> list[int]:
        """Return the ids of an answer as the model should write it after a control, with the end token."""
        end = self.tokenizer.eos_token_id
        return self._behind(text, plain=True) + ([] if end is None else [end])

    def _cut(self) -> tuple[str, str]:
        """Return the text of the chat template before a message, and the text after it."""
        if not self.template:
            return "", ""
        rendered = self.tokenizer.apply_chat_template(
            [{"role": "user", "content": MARKER}],
            chat_template=self.template,
            tokenize=False,
            add_generation_prompt=True,
        )
        head, *rest = str(rendered).split(MARKER)
        if len(rest) != 1:
            raise ConfigError(
                f"the chat template shows a message {len(rest)} times and cannot be cut into segments. Use a model "
                "whose template shows it once, or a copy without chat_template"
            )
        return head, rest[0]

    def _rating(self, name: str, word: str) -> int:
        ids = self._behind(word)
        if len(ids) != 1 and len(bare := self._own(word)) == 1:  # a token of its own, as special tokens are
            ids = bare
        if len(ids) != 1:
            pieces = self.tokenizer.convert_ids_to_tokens(ids)
            raise ConfigError(f"{name} must be one token of the model, got {word!r} with {len(ids)} tokens ({pieces})")
        return ids[0]

    def _behind(self, text: str, plain: bool = False) -> list[int]:
        """Return the ids of a text after a control: with a space, unless the chat template ends in white space."""
        spaced = text if self.tail != self.tail.rstrip() else f" {text}"
        # A tokenizer of SentencePiece's kind begins every text with a space of its own: "." takes it away.
        before, both = self._own(".", plain=plain), self._own(f".{spaced}", plain=plain)
        if spaced != text and both[: len(before)] == before:
            return both[len(before) :]
        return self._own(spaced, plain=plain)

    def _own(self, text: str, special: bool = False, plain: bool = False) -> list[int]:
        """`special`: with those that begin a text; `plain`: special tokens in the text are spelled out."""
        ids: list[int] = self.tokenizer(text, add_special_tokens=special, split_special_tokens=plain)["input_ids"]
        ends = special and len(ids) > 0 and ids[-1] == self.tokenizer.eos_token_id
        return ids[:-1] if ends and ids[-1] != self.tokenizer.bos_token_id else ids
