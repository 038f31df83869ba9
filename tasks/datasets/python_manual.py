"""The manual that every Python carries, `pydoc_data.topics`, with questions on it that were written for Vital Few.

The topics are those of help("TOPICS"): a large part of the language reference and some pages of the library reference,
of the Python that runs this.

A topic, as Sphinx's text builder writes it, is cut into passages of some 60 to 150 words. The text has headings with an
underline, paragraphs wrapped at 70 columns, and grammar, code, tables and definitions, which differ in indentation. A
passage is a run of paragraphs under one heading. A paragraph keeps what it introduces: the code or grammar after a
colon, the first words of a definition after its name. Nothing is lost but underlines and wraps.

A language model wrote the questions of python_manual.yaml one by one, reading the passages of Python 3.11; nobody else
has judged them. Each names its gold passages by topic and some words of them, which are looked for again in every
version's text, because versions differ a little: where a passage or the answer in it is gone, the question becomes a
Reject. A fact that is in two places has the gold passage that its question was written on.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, pairwise, takewhile
from pathlib import Path
from textwrap import dedent
from typing import Any, ClassVar, Literal

from pydantic import Field

from vitalfew.configs.loading import read_yaml
from vitalfew.storage.ids import content_id, passage_id
from vitalfew.tasks.datasets.base import Dataset, DatasetOptions, InputError, Passage, Question, Record, Span
from vitalfew.tasks.datasets.rows import RowError, attempt

QUESTIONS = Path(__file__).with_suffix(".yaml")
HALVES = ("development", "test")
_SENTENCE_END = re.compile(r"[.?!:][\"”)]*(?=\s+[^a-z\s])|(?=\n\n)")


class PythonManual(Dataset):
    """The manual in this Python's pydoc_data.topics, with questions written for it; reads no file.

    Passages of some 60 to 150 words, titled "topic › heading", come before the questions. A passage's source id is
    TOPIC#NUMBER, and a question's HALF/KIND/NUMBER, so that `questions.where="source_id LIKE 'development/%'"` asks
    one half. With half=development or half=test, questions of the other half are left out. A text that occurs in
    several topics is kept once. A question whose passage or answer this version lacks is rejected ("no_gold_passage").
    """

    example: ClassVar[str] = "python_manual:half=development"
    reads_path: ClassVar[bool] = False

    class Options(DatasetOptions):
        half: Literal["development", "test", "all"] = Field(
            "all",
            description="development: questions to choose settings with; test: questions to report figures on; or all",
        )

    options: Options

    def files(self) -> list[Path]:
        return [QUESTIONS]

    def identity(self) -> dict[str, Any]:
        return {"topics": content_id(*(part for topic in sorted(_topics().items()) for part in topic))}

    def records(self) -> Iterator[tuple[int, Record]]:
        passages = {topic: list(_passages(topic, text)) for topic, text in sorted(_topics().items())}
        asked = (attempt(name, _question, name, entry, passages) for name, entry in _entries(self.options.half))
        records: Iterator[Record] = chain(*passages.values(), asked)
        yield from enumerate(records, start=1)


def _topics() -> dict[str, str]:
    try:
        from pydoc_data.topics import topics
    except ImportError as error:
        raise InputError(
            f"this Python has no manual ({error}); use a Python with a complete standard library"
        ) from None
    return topics


def _passages(topic: str, text: str) -> Iterator[Passage]:
    sections = cut(text)
    name = next((heading for heading, _ in sections if heading), topic)
    number = 0
    for heading, passages in sections:
        title = name if heading in ("", name) else f"{name} › {heading}"
        for passage in passages:
            number += 1
            yield Passage(title, passage, f"{topic}#{number}")


def _entries(half: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (source id, question) of one half, or of both. `gold` maps the topic of each passage to some of its words,
    in order."""
    content = read_yaml(QUESTIONS)
    for name in HALVES if half == "all" else (half,):
        numbers: Counter[str] = Counter()
        for entry in content[name]:
            numbers[entry["kind"]] += 1
            yield f"{name}/{entry['kind']}/{numbers[entry['kind']]}", entry


def _question(source_id: str, entry: dict[str, Any], passages: dict[str, list[Passage]]) -> Question:
    """Return a question. Raises RowError if a passage, or every answer, is not in this version's manual."""
    answers = tuple(entry["answers"])
    found = [_find(topic, words, passages.get(topic, [])) for gold in entry["gold"] for topic, words in gold.items()]
    if not any(_pattern(answer).search(passage.text) for answer in answers for passage, _ in found):
        raise RowError("no_gold_passage", f"no gold passage says {answers[0]!r}")
    gold = tuple(dict.fromkeys(passage_id(passage.text) for passage, _ in found))
    return Question(entry["ask"], answers, gold, tuple(dict.fromkeys(span for _, span in found)), source_id)


def _find(topic: str, words: str, passages: list[Passage]) -> tuple[Passage, Span]:
    """Return the only passage with these words, and the sentence that has them. Raises RowError unless it is the only
    one."""
    pattern = _pattern(words)
    found = [(passage, match) for passage in passages if (match := pattern.search(passage.text))]
    if len(found) != 1:
        raise RowError("no_gold_passage", f"{len(found)} passages of the topic {topic!r} say {words!r}")
    ((passage, match),) = found
    ends = [end.end() for end in _SENTENCE_END.finditer(passage.text)]
    start = max((end for end in ends if end <= match.start()), default=0)
    start += len(passage.text[start:]) - len(passage.text[start:].lstrip())
    end = min((end for end in ends if end >= match.end()), default=len(passage.text))
    return passage, Span(passage_id(passage.text), start, end)


def _pattern(words: str) -> re.Pattern[str]:
    """Return a pattern of these words in this order, whatever quotes, marks and white space are between them."""
    return re.compile(r"(?<!\w)" + r"\W+".join(re.findall(r"\w+", words)) + r"(?!\w)")


FEWEST, MOST = 60, 150
"""Words of a passage: an open one is closed before a definition if it has the fewest, and before any paragraph that
would take it beyond the most. A paragraph is never cut, so one with much code is longer."""
_WIDTH = 70
_UNDERLINE = re.compile(r"([*=\-~^\"])\1+")
_FOOTNOTES = re.compile(r"-\[ (.+) \]-")
_NOTE = re.compile(r"(Note|See also|Warning|Important|Tip|Hint|Caution):")
_ITEM = re.compile(r'(\*|\d+\.|\[\d+\]) |"[^"\n]+"\n')
_SUITE = r"^ *(?:if|for|while|def|class|with|try|except|else|async)\b.*:\n +\S"
_VERBATIM = re.compile(rf"::=|^ *>>> |^ *(?:\+[-=]{{3}}|\|[ =])|^ *@\w|{_SUITE}", re.MULTILINE)
_NAME = re.compile(r' *[\w."]+(\(|\[|"$)')
_LONGEST_NAME = 8
"""Words of what a definition explains, at most; something longer that does not end leads on to code."""
_ENDED = tuple('.:!?;,)”"')


@dataclass(slots=True)
class _Block:
    """Lines between blank lines. `verbatim`: their breaks and indentation count; `code`: what comes after a blank line
    and is no less indented is of the same block; `glued`: it stays with the block before."""

    source: str
    verbatim: bool = False
    code: bool = False
    glued: bool = False

    @property
    def indent(self) -> int:
        return len(self.source) - len(self.source.lstrip(" "))

    @property
    def names(self) -> bool:
        """Return whether it names what the indented blocks after it define: it is no sentence."""
        return not self.source.endswith(_ENDED) or bool(_NAME.match(self.source))

    @property
    def words(self) -> int:
        return len(self.source.split())

    def text(self) -> str:
        return dedent(self.source) if self.verbatim else _unwrapped(self.source.split("\n"))


def cut(text: str) -> list[tuple[str, list[str]]]:
    """Return every heading of a topic, in order, with the passages under it, up to the next one of any level."""
    return [(heading, [*_packed(_linked(source))]) for heading, source in _sections(text)]


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield (heading, text under it)."""
    heading, body, lines = "", list[str](), [line.rstrip() for line in text.split("\n")]
    for above, line, below in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        footnotes = _FOOTNOTES.fullmatch(line)
        if footnotes or _underlines(below, line):
            yield heading, "\n".join(body)
            heading, body = footnotes[1] if footnotes else line, []
        elif not _underlines(line, above):
            body.append(line)
    yield heading, "\n".join(body)


def _underlines(line: str, heading: str) -> bool:
    return 0 < len(heading) == len(line) and bool(_UNDERLINE.fullmatch(line))


def _linked(source: str) -> list[_Block]:
    """Return the blocks of a section, each marked as verbatim or not, glued to the one before it or not."""
    blocks: list[_Block] = []
    for part in filter(None, re.split(r"\n{2,}", source.strip("\n"))):
        block = _Block(part, verbatim=bool(_VERBATIM.search(part)))
        if blocks and blocks[-1].code and block.indent >= blocks[-1].indent:
            blocks[-1].source += f"\n\n{part}"
            continue
        if blocks:
            _link(block, blocks[-1])
        blocks.append(block)
    return blocks


def _link(block: _Block, before: _Block) -> None:
    """Mark a block by the one before it."""
    deeper = block.indent > before.indent
    introduced = before.source.endswith(":") or (before.words > _LONGEST_NAME and not before.source.endswith(_ENDED))
    prose = _NOTE.fullmatch(before.source.strip()) or _ITEM.match(block.source.lstrip())
    block.verbatim = block.verbatim or (deeper and introduced and not prose)
    block.code = deeper and block.verbatim
    goes_on = before.verbatim and before.indent > block.indent and block.source.lstrip()[0].islower()
    goes_on = goes_on and not _NAME.match(block.source)
    block.glued = block.verbatim or introduced or goes_on or (deeper and before.names and not before.verbatim)


def _packed(blocks: list[_Block]) -> Iterator[str]:
    """Yield the passages of a section; a last one that is short joins the one before it, if there is room."""
    passages: list[list[_Block]] = []
    for number, block in enumerate(blocks):
        open_words = _words(passages[-1]) if passages else 0
        glued = takewhile(lambda after: after.glued, blocks[number + 1 :])
        full = open_words + block.words + _words(glued) > MOST
        defines = number > 0 and block.names and block.indent < blocks[number - 1].indent
        if not passages or (not block.glued and (full or (defines and open_words >= FEWEST))):
            passages.append([])
        passages[-1].append(block)
    if len(passages) > 1 and _words(passages[-1]) < FEWEST and _words(passages[-2] + passages[-1]) <= MOST:
        passages[-2:] = [passages[-2] + passages[-1]]
    for passage in passages:
        yield "\n\n".join(block.text() for block in passage)


def _words(blocks: Iterable[_Block]) -> int:
    return sum(block.words for block in blocks)


def _unwrapped(lines: list[str]) -> str:
    """Join lines, but for breaks that the width does not explain: the next word would have had room."""
    text = lines[0].strip()
    for line, following in pairwise(lines):
        word = following.split(maxsplit=1)[0]
        if len(line) + 2 + len(word) <= _WIDTH:
            text += "\n"
        elif not re.search(r"\w-$", line):
            text += " "
        text += following.strip()
    return text
