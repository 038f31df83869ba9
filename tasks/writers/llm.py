"""Questions by a language model: it writes question, answer and quote, and every one of its claims is checked.

The passage stands between tags that it cannot end, and the prompt says that what stands there is material, not an
instruction (asking.py). A server that takes JSON schemas is held to the form of a reply. A question is kept if

- the reply has a JSON object with question, answer and quote (words around it, such as a code fence, do not matter);
- the quote stands in the passage letter by letter, but for white space and the shape of quotation marks, which models
  change where they write JSON, and the answer in the quote;
- the question has no word of the answer (English function words aside), in whatever case;
- no run of words that it has in common with the passage is longer than `write.copied_words`;
- the same model answers it with the passage, and does not answer it without: two further requests for a question that
  passed all else (`write.verify`). An answer counts if it has the words of the gold answer in their order.

**Two hops** (`write.two_hops`): a passage comes with a second one that has a name or number in common with it, and the
question is to take both. Quote and answer stand in one of them. The same model must give the answer with both, and with
neither alone. A passage without such a second one gets an ordinary question.

**Unanswerable** (`write.unanswerable`): a question that only sounds as if the passage answered it, without an answer
and without gold passages. The same model must say that it is not answered: by the passage, and by a second one that
has a name in common with it. Other passages of the corpus are not asked.

Both are shares of the passages that are tried; which one gets what depends on its id. Anything else is a refusal with
its reason. Replies are the model's most probable tokens.
"""

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any, ClassVar, Self

from pydantic import Field, ValidationError, model_validator

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.writing import WriteConfig
from vitalfew.tasks.models.causal.engines.base import Completion, Engine, EngineChoice
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.registry import make_engine
from vitalfew.tasks.writers import asking
from vitalfew.tasks.writers.asking import KINDS, TWO_HOPS, UNANSWERABLE, AnsweredForm, QuestionForm, UnansweredForm
from vitalfew.tasks.writers.base import GivenPassage, PartnerPassage, Refusal, Writer, WrittenQuestion
from vitalfew.tasks.writers.replies import checked, checked_unanswerable, has_answer, row_of

CHARACTERS = 4
"""Characters of a prompt per token, for a quote."""
Found = WrittenQuestion | Refusal


class LlmWriter(Writer):
    """A language model (write.model, write.engine) writes question, answer and quote, which are checked one by one."""

    example: ClassVar[tuple[str, ...]] = ("write.model=HuggingFaceTB/SmolLM2-1.7B-Instruct",)

    class Options(WriteConfig, EngineChoice, extra="forbid"):
        max_tokens: int = Field(250, ge=16, description="Maximum number of tokens in a reply.")
        copied_words: int = Field(
            7, ge=1, description="Most words in a row that a question may have in common with its passage."
        )
        verify: bool = Field(
            True,
            description="Keep a question only if the model answers it with the passage and not without: two further "
            "requests for every question that passed the other checks, four for one of two hops, one for an "
            "unanswerable one.",
        )
        two_hops: float = Field(
            0.1,
            ge=0,
            le=1,
            description="Share of the passages that are tried for a question that takes two passages, with a name or "
            "number in common.",
        )
        unanswerable: float = Field(
            0.1,
            ge=0,
            le=1,
            description="Share of the passages that are tried for a question which the passage does not answer: it "
            "measures whether answers abstain.",
        )

        @model_validator(mode="after")
        def _are_shares(self) -> Self:
            if self.two_hops + self.unanswerable > 1:
                raise ValueError(
                    f"two_hops and unanswerable are shares of one whole, got {self.two_hops} and {self.unanswerable}"
                )
            return self

    def __init__(self, options: Options) -> None:
        """Raises ConfigError, EngineUnavailable where there is no such model."""
        super().__init__(options)
        if options.model is None:
            raise ConfigError("writer 'llm' needs a model: --set write.model=NAME (Hugging Face) or a directory")
        self.engine: Engine = make_engine(options.engine, options, "write", temperature=0.0)
        self.uses_gpu, self.workers = self.engine.uses_gpu, self.engine.workers
        self.needs_partners = bool(self._shares)

    @property
    def _shares(self) -> Mapping[str, float]:
        """The shares of the kinds that are not ordinary and are asked for."""
        shares = {TWO_HOPS: self.options.two_hops, UNANSWERABLE: self.options.unanswerable}
        return {kind: share for kind, share in shares.items() if share}

    def identity(self) -> dict[str, Any]:
        prompts = asking.prompts_of([*self._shares])
        return {**super().identity(), "prompts": prompts, "engine": self.engine.identity()}

    def tokens(self, characters: float) -> float:
        """As if every passage got the kind that takes most."""
        passages = 2 if self.options.two_hops else 1
        prompt, verifying = len(asking.ASKING) + passages * characters, len(asking.WITH) + characters
        requests = 3 if self.options.two_hops else 1
        read = prompt + (requests * verifying + passages * characters + len(asking.WITHOUT)) * self.options.verify
        replies = 1 + (requests + 1) * self.options.verify
        return read / CHARACTERS + replies * self.options.max_tokens

    def write(self, passages: Sequence[GivenPassage], tick: Tick = no_tick) -> list[Found]:
        kinds = [self._kind(passage) for passage in passages]
        found: list[Found | None] = [None] * len(passages)
        for form in (QuestionForm, UnansweredForm):
            due = [place for place, kind in enumerate(kinds) if (kind == UNANSWERABLE) == (form is UnansweredForm)]
            prompts = [asking.asking(kinds[place], passages[place]) for place in due]
            replies = self.engine.complete(prompts, None, tick, form.model_json_schema()) if prompts else []
            for place, reply in zip(due, replies, strict=True):
                found[place] = self._checked(kinds[place], passages[place], reply)
        whole = [each for each in found if each is not None]
        return self._verified(passages, whole, tick) if self.options.verify else whole

    def _kind(self, passage: GivenPassage) -> str:
        """The kind of question that a passage gets."""
        digest = blake2b(f"{self.options.seed} {passage.passage_id} kind".encode(), digest_size=4).digest()
        left = int.from_bytes(digest, "little") / 2**32
        for kind, share in self._shares.items():
            if left < share and (kind != TWO_HOPS or passage.partner):
                return kind
            left -= share
            if left < 0:
                break
        return [*KINDS][passage.passage_id % len(KINDS)]

    def _checked(self, kind: str, passage: GivenPassage, reply: Completion) -> Found:
        if kind == UNANSWERABLE:
            return checked_unanswerable(reply, passage, self.options.copied_words)
        taken: list[GivenPassage | PartnerPassage] = _with_partner(passage) if kind == TWO_HOPS else [passage]
        return checked(reply, taken, self.options.copied_words)

    def _verified(self, passages: Sequence[GivenPassage], found: Sequence[Found], tick: Tick) -> list[Found]:
        """Refuse the questions that the model's answers rule out. All requests of a form are one batch."""
        due = [(place, each) for place, each in enumerate(found) if isinstance(each, WrittenQuestion)]
        requests = {place: _verifying(each, passages[place]) for place, each in due}
        replies: dict[int, list[Completion]] = {place: [] for place in requests}
        for form in (None, AnsweredForm.model_json_schema()):
            asked = [(place, prompt) for place, each in due if bool(each.answer) == (form is None)
                     for prompt in requests[place]]  # fmt: skip
            prompts = [prompt for _, prompt in asked]
            answers = self.engine.complete(prompts, None, _tokens_of(tick), form) if prompts else []
            for (place, _), reply in zip(asked, answers, strict=True):
                replies[place].append(reply)
        verified = list(found)
        for place, each in due:
            verified[place] = _refused(each, replies[place]) or each
        return verified


def _tokens_of(tick: Tick) -> Tick:
    return lambda rows, tokens: tick(0, tokens)


def _with_partner(passage: GivenPassage) -> list[GivenPassage | PartnerPassage]:
    return [passage, passage.partner] if passage.partner else [passage]


def _verifying(question: WrittenQuestion, passage: GivenPassage) -> list[str]:
    """The requests that verify a question: with all it takes, without anything, and with a part."""
    if not question.answer:
        return [asking.prompt(asking.ANSWERED, _with_partner(passage), question=question.text)]
    taken = _with_partner(passage) if question.kind == TWO_HOPS else [passage]
    parts = [[each] for each in taken] if len(taken) > 1 else []
    return [
        asking.prompt(asking.WITH, taken, question=question.text),
        asking.WITHOUT.format(question=question.text),
        *(asking.prompt(asking.WITH, part, question=question.text) for part in parts),
    ]


def _refused(question: WrittenQuestion, replies: Sequence[Completion]) -> Refusal | None:
    """Why the replies to the requests that verify a question rule it out; None if they do not."""
    if error := next((reply.error for reply in replies if reply.error), ""):
        return Refusal("no_reply", error)
    if not question.answer:
        return _answered(question, replies[0].text)
    said = f"{question.text!r}, answer {question.answer!r}, reply "
    knowing, guessing, *alone = (reply.text for reply in replies)
    if not has_answer(knowing, question.answer):
        return Refusal("not_answered", said + repr(knowing[:120]))
    if has_answer(guessing, question.answer):
        return Refusal("known_without", said + repr(guessing[:120]))
    if half := next((text for text in alone if has_answer(text, question.answer)), ""):
        return Refusal("one_passage_suffices", said + repr(half[:120]))
    return None


def _answered(question: WrittenQuestion, reply: str) -> Refusal | None:
    said = f"{question.text!r}: got {reply[:120]!r}"
    try:
        verdict = AnsweredForm.model_validate(row_of(reply))
    except ValidationError:
        return Refusal("not_in_form", f'the reply must be {{"answered": true}} or {{"answered": false}}; {said}')
    return Refusal("answered", said) if verdict.answered else None
