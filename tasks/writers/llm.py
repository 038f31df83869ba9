"""Questions by a language model: it writes question, answer and quote, and every one of its claims is checked.

The passage stands between tags that it cannot end, and the prompt says that what is there is material, not an
instruction (asking.py). A server that takes JSON schemas is held to the form of a reply. A question is kept if

- the reply has a JSON object with question, answer and quote (words around it, such as a code fence, do not matter);
- the quote is in the passage letter by letter, but for white space and the shape of quotation marks, which models
  change where they write JSON, and the answer in the quote;
- the question has no word of the answer (English function words aside), in whatever case;
- no run of words that it has in common with the passage is longer than `write.copied_words`;
- the same model answers it with the passage, and does not answer it without: two further requests for a question that
  passed all else (`write.verify`). An answer counts if it has the words of the gold answer in their order.

**Two hops** (`write.two_hops`): a passage comes with a second one that has a name or number in common with it, and the
question is to take both. Quote and answer are in one of them. The same model must give the answer with both, and with
neither alone. A passage without such a second one gets an ordinary question.

**Unanswerable** (`write.unanswerable`): a question that only sounds as if the passage answered it, without an answer
and without gold passages. The same model must say that it is not answered: by the passage, and by a second one that
has a name in common with it. Other passages of the corpus are not asked.

Both are shares of the passages that are tried; which one gets what depends on its id. Anything else is a refusal with
its reason. Replies are the model's most probable tokens.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from itertools import chain, islice
from typing import Any, ClassVar, Self

from pydantic import Field, ValidationError, model_validator

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.writing import WriteConfig
from vitalfew.tasks.models.causal.engines.base import Completion, Engine, EngineChoice
from vitalfew.tasks.models.causal.fence import unfenced
from vitalfew.tasks.models.ticks import Tick, no_tick
from vitalfew.tasks.registry import make_engine
from vitalfew.tasks.writers import asking
from vitalfew.tasks.writers.asking import (
    KINDS,
    TWO_HOPS,
    UNANSWERABLE,
    AnsweredForm,
    Form,
    QuestionForm,
    UnansweredForm,
)
from vitalfew.tasks.writers.base import GivenPassage, Refusal, Writer, WrittenQuestion
from vitalfew.tasks.writers.checks import common_run, gives_away, sentence_with, words_of

Texts = Sequence[GivenPassage]
Found = WrittenQuestion | Refusal


def checked(kind: str, reply: Completion, passages: Texts, copied_words: int) -> Found:
    """The question of a reply that was asked of these passages, or the first check that it fails."""
    given = _parsed(reply, passages, ("question",) if kind == UNANSWERABLE else ("question", "answer", "quote"))
    if isinstance(given, Refusal):
        return given
    question, *claimed = given
    if not question:
        return Refusal("no_question")
    if kind == UNANSWERABLE:
        return _copied(question, passages, copied_words) or WrittenQuestion(question, "", "", UNANSWERABLE)
    answer, quote = claimed
    what = repr(question[:200])
    found = {each.passage_id: _as_written(quote, _in_line(each.text)) for each in passages}
    there = next((each for each in passages if found[each.passage_id]), None)
    if there is None:
        return Refusal("quote_not_in_passage", f"{what}: quote {quote[:120]!r}")
    quote = found[there.passage_id]
    stands = answer.translate(_MARKS).casefold() in quote.translate(_MARKS).casefold()
    if not (stands and words_of(answer) and has_answer(quote, answer)):  # "10" is not in "2010"
        return Refusal("answer_not_in_quote", f"{what}: answer {answer[:120]!r}, quote {quote[:120]!r}")
    if word := gives_away(question, answer):
        return Refusal("gives_away", f"{what}: answer {answer[:120]!r}, word {word!r}")
    if copied := _copied(question, passages, copied_words):
        return copied
    if len(passages) == 1:
        return WrittenQuestion(question, answer, quote, kind_of(question))
    return WrittenQuestion(question, answer, quote, TWO_HOPS, _gold(passages, there, quote))


def _gold(passages: Texts, there: GivenPassage, quote: str) -> dict[int, str]:
    """The quote of every passage: of the one without the answer, a sentence with the name that both have."""
    shared = passages[-1].shared
    return {each.passage_id: quote if each is there else sentence_with(shared, each.text) for each in passages}


def _copied(question: str, passages: Texts, most: int) -> Refusal | None:
    run = max(common_run(question, each.text) for each in passages)
    if run <= most:
        return None
    return Refusal("copied", f"{question[:200]!r}: {run} words in a row are the passage's, at most {most} may be")


_MARKS = str.maketrans(dict.fromkeys('"‘’“”`', "'"))


def _as_written(copied: str, text: str) -> str:
    """A model's copy as the text has it, in the text's quotation marks; empty if it is not there."""
    at = text.translate(_MARKS).find(copied.translate(_MARKS)) if copied else -1
    return text[at : at + len(copied)] if at >= 0 else ""


def _in_line(text: str) -> str:
    return " ".join(text.split())


_BRACES = 20
"""Places of a reply at which an object is looked for, at most."""


def row_of(reply: str) -> dict[str, object] | None:
    """The first JSON object in a reply, around which there may be words, braces or a code fence; None without one. A
    line may break within its texts."""
    decoder, start = json.JSONDecoder(strict=False), -1
    for _ in range(_BRACES):
        start = reply.find("{", start + 1)
        if start < 0:
            return None
        with suppress(ValueError, RecursionError):
            return decoder.raw_decode(reply, start)[0]
    return None


def _parsed(reply: Completion, passages: Texts, fields: Sequence[str]) -> list[str] | Refusal:
    """The fields of a reply, in one line; the first one, a question, must be there."""
    if reply.error or not reply.text.strip():
        return Refusal("no_reply", reply.error or "the reply is empty")
    row = row_of(reply.text) or {}
    values = [row.get(name, "") for name in fields]
    if fields[0] not in row or not all(isinstance(value, str) for value in values):
        cut = "; it was cut, set a higher write.max_tokens" if reply.finish_reason == "length" else ""
        return Refusal(
            "not_in_form", f"the reply must be a JSON object with {', '.join(fields)}, got {reply.text[:120]!r}{cut}"
        )
    source = " ".join(each.text for each in passages)
    return [_in_line(unfenced(str(value), source)) for value in values]


def kind_of(question: str) -> str:
    """The kind of a question by its first words: a key of KINDS, or `other`."""
    start = " ".join(words_of(question)[:2])
    named = {"which": "what", "how much": "how many", "whom": "who", "whose": "who"}
    return next((named.get(word, word) for word in [*KINDS, *named] if f"{start} ".startswith(f"{word} ")), "other")


def has_answer(reply: str, answer: str) -> bool:
    """Return whether a reply has all words of an answer in their order."""
    return common_run(answer, reply) == len(words_of(answer))


CHARACTERS = 4
"""Characters of a prompt per token, for a quote."""


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
            description="Keep a question only if the model answers it with the passage and not without. A question "
            "that passed the other checks takes two more requests; one with two hops four, an unanswerable one one.",
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
        forms = [UnansweredForm if kind == UNANSWERABLE else QuestionForm for kind in kinds]
        asked = [*zip(map(asking.asking, kinds, passages), forms, strict=True)]
        found = [
            checked(kind, reply, _taken(kind, passage), self.options.copied_words)
            for kind, passage, reply in zip(kinds, passages, self._replies(asked, tick), strict=True)
        ]
        return self._verified(passages, found, tick) if self.options.verify else found

    def _replies(self, asked: Sequence[tuple[str, type[Form] | None]], tick: Tick) -> list[Completion]:
        """The replies to prompts, each with the form of its reply. All prompts of a form are one batch."""
        replies: dict[int, Completion] = {}
        for form in dict.fromkeys(form for _, form in asked):
            due = [place for place, (_, own) in enumerate(asked) if own is form]
            schema = form.model_json_schema() if form else None
            found = self.engine.complete([asked[place][0] for place in due], None, tick, schema)
            replies |= zip(due, found, strict=True)
        return [replies[place] for place in range(len(asked))]

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

    def _verified(self, passages: Sequence[GivenPassage], found: Sequence[Found], tick: Tick) -> list[Found]:
        """Refuse the questions that the model's answers rule out."""
        due = [(place, each) for place, each in enumerate(found) if isinstance(each, WrittenQuestion)]
        requests = [_verifying(each, passages[place]) for place, each in due]
        replies = iter(self._replies([*chain(*requests)], lambda rows, tokens: tick(0, tokens)))
        verified = list(found)
        for (place, each), asked in zip(due, requests, strict=True):
            verified[place] = _refused(each, [*islice(replies, len(asked))]) or each
        return verified


def _taken(kind: str, passage: GivenPassage) -> list[GivenPassage]:
    """The passages that a question of a kind takes."""
    return [passage, passage.partner] if kind == TWO_HOPS and passage.partner else [passage]


def _verifying(question: WrittenQuestion, passage: GivenPassage) -> list[tuple[str, type[Form] | None]]:
    """The requests that verify a question, with the forms of their replies: with all it takes, without anything, and
    with a part."""
    if not question.answer:
        known = _taken(TWO_HOPS, passage)
        return [(asking.prompt(asking.ANSWERED, known, question=question.text), AnsweredForm)]
    taken = _taken(question.kind, passage)
    parts = [[each] for each in taken] if len(taken) > 1 else []
    knowing, *alone = (asking.prompt(asking.WITH, part, question=question.text) for part in (taken, *parts))
    return [(each, None) for each in (knowing, asking.WITHOUT.format(question=question.text), *alone)]


def _refused(question: WrittenQuestion, replies: Sequence[Completion]) -> Refusal | None:
    """Why the replies to the requests that verify a question rule it out; None if they do not."""
    if error := next((reply.error for reply in replies if reply.error), ""):
        return Refusal("no_reply", error)
    knowing, *others = (reply.text for reply in replies)
    if not question.answer:
        said = f"{question.text!r}: got {knowing[:120]!r}"
        try:
            verdict = AnsweredForm.model_validate(row_of(knowing))
        except ValidationError:
            return Refusal("not_in_form", f'the reply must be {{"answered": true}} or {{"answered": false}}; {said}')
        return Refusal("answered", said) if verdict.answered else None
    guessing, *alone = others
    said = f"{question.text!r}, answer {question.answer!r}, reply "
    if not has_answer(knowing, question.answer):
        return Refusal("not_answered", said + repr(knowing[:120]))
    if has_answer(guessing, question.answer):
        return Refusal("known_without", said + repr(guessing[:120]))
    if half := next((text for text in alone if has_answer(text, question.answer)), ""):
        return Refusal("one_passage_suffices", said + repr(half[:120]))
    return None
