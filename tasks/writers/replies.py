"""Reading a language model's replies to the writer `llm`: questions that are kept, and why others are refused."""

import json
from collections.abc import Sequence
from contextlib import suppress

from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.causal.fence import unfenced
from vitalfew.tasks.writers.asking import KINDS, TWO_HOPS, UNANSWERABLE
from vitalfew.tasks.writers.base import GivenPassage, PartnerPassage, Refusal, WrittenQuestion
from vitalfew.tasks.writers.checks import common_run, gives_away, sentence_with, words_of

Texts = Sequence[GivenPassage | PartnerPassage]


def checked(reply: Completion, passages: Texts, copied_words: int) -> WrittenQuestion | Refusal:
    """The question of a reply that was asked of these passages, or the first check that it fails."""
    given = _parsed(reply, passages, ("question", "answer", "quote"))
    if isinstance(given, Refusal):
        return given
    question, answer, quote = given
    if not question:
        return Refusal("no_question")
    what = repr(question[:200])
    found = {each.passage_id: _as_written(quote, _in_line(each.text)) for each in passages}
    there = next((each for each in passages if found[each.passage_id]), None)
    if there is None:
        return Refusal("quote_not_in_passage", f"{what}: quote {quote[:120]!r}")
    quote = found[there.passage_id]
    stands = answer.translate(_MARKS).casefold() in quote.translate(_MARKS).casefold()
    if not (stands and words_of(answer) and has_answer(quote, answer)):  # "10" does not stand in "2010"
        return Refusal("answer_not_in_quote", f"{what}: answer {answer[:120]!r}, quote {quote[:120]!r}")
    if word := gives_away(question, answer):
        return Refusal("gives_away", f"{what}: answer {answer[:120]!r}, word {word!r}")
    if copied := _copied(question, passages, copied_words):
        return copied
    if len(passages) == 1:
        return WrittenQuestion(question, answer, quote, kind_of(question))
    return WrittenQuestion(question, answer, quote, TWO_HOPS, _gold(passages, there, quote))


def _gold(passages: Texts, there: GivenPassage | PartnerPassage, quote: str) -> dict[int, str]:
    """The quote of every passage: of the one without the answer, a sentence with the name that both have."""
    shared = next(each.shared for each in passages if isinstance(each, PartnerPassage))
    return {each.passage_id: quote if each is there else sentence_with(shared, each.text) for each in passages}


def checked_unanswerable(reply: Completion, passage: GivenPassage, copied_words: int) -> WrittenQuestion | Refusal:
    """The question of a reply that is to have no answer, or the first check that it fails."""
    given = _parsed(reply, [passage], ("question",))
    if isinstance(given, Refusal):
        return given
    [question] = given
    if not question:
        return Refusal("no_question")
    return _copied(question, [passage], copied_words) or WrittenQuestion(question, "", "", UNANSWERABLE)


def _copied(question: str, passages: Texts, most: int) -> Refusal | None:
    run = max(common_run(question, each.text) for each in passages)
    if run <= most:
        return None
    return Refusal("copied", f"{question[:200]!r}: {run} words in a row are the passage's, at most {most} may be")


_MARKS = str.maketrans(dict.fromkeys('"‘’“”`', "'"))


def _as_written(copied: str, text: str) -> str:
    """A model's copy as the text has it, in the text's quotation marks; empty if it does not stand there."""
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
            row: dict[str, object] = decoder.raw_decode(reply, start)[0]
            return row
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
