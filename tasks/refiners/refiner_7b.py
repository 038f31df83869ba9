"""`refiner_7b`: a causal model copies what answers the question out of the hits, in numbered sections.

Refiner (Li et al. 2024, arXiv 2406.11357): Llama-2-7b-chat with an adapter that was trained on what larger models agree
to extract. It reads all documents at once and writes, word for word, what has to do with the question, in sections of
related content: a section has a number and a title ("1."), under it the documents that it is of ("1.1.") with what is
copied from each. That text is the context, in one piece, numbers and titles included.

The authors' repository was not at hand. Input (documents after [MONITOR] in Llama 2's system part, then the question;
the model's chat template adds the instruction's marks, with blanks) and the form of the output are written from memory;
compare them with the card of al1231/Refiner-7B before figures of that checkpoint are believed. How the documents are
joined (here by new lines), 512 new tokens, and the limit of input, which is what Llama 2 has room for, are our own.

The output is read line by line. A line is a heading if its number follows the one before it, so that "3.5 million …" is
content. Empty lines, headings with nothing behind or under their number, and what a model says again (the same heading
with the same lines) are dropped, and the numbers counted anew. Whether what was "copied" stands in the hits is not
checked, and a context has no origin.

The published adapter and its base (refine.model=llama-2-7b-chat, refine.adapter=refiner-7b) were not available during
development: tests use a tiny Llama with a LoRA.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import ClassVar

from vitalfew.tasks.refiners.causal import CausalRefiner

Number = tuple[int, ...]
Entry = tuple[Number, str, tuple[str, ...]]
"""The number of a heading (none: empty), its text without the number, and the lines under it."""

_HEADING = re.compile(r"#*\s*(\d{1,2}(?:\.\d{1,2})+|\d{1,2}(?:\.\d{1,2})*(?=\.))\.?(?:\s+(.*))?")


class Refiner7B(CausalRefiner):
    """A causal model extracts what answers the question from the hits, in numbered sections (Refiner)."""

    example: ClassVar[tuple[str, ...]] = ("refine.model=llama-2-7b-chat", "refine.adapter=refiner-7b")
    name: ClassVar[str] = "refiner_7b"
    version: ClassVar[str] = "2"
    presets: ClassVar[Mapping[str, str]] = {"llama-2-7b-chat": "meta-llama/Llama-2-7b-chat-hf"}
    max_new_tokens: ClassVar[int] = 512
    max_input_tokens: ClassVar[int] = 3584

    def frame(self, question: str, documents: str) -> str:
        return f"<<SYS>>[MONITOR]{documents}<</SYS>>{question}"

    def read(self, output: str) -> str:
        return restructured(output)


def restructured(output: str) -> str:
    """Return the sections of an output, without empty and repeated ones, numbered from 1.

    Repeated until nothing changes: a line that looks like a heading may be in order once its section is renumbered.
    """
    while (again := _renumbered(output)) != output:
        output = again
    return output


def _renumbered(output: str) -> str:
    lines: list[str] = []
    seen = set[tuple[str, tuple[str, ...]]]()
    anew: dict[Number, Number] = {(): ()}
    below = Counter[Number]()
    for number, title, body in _entries(output):
        if not (title or body) or (title, body) in seen:
            continue
        seen.add((title, body))
        for part in (number[: level + 1] for level in range(len(number))):
            if part not in anew:
                above = anew[part[:-1]]
                below[above] += 1
                anew[part] = (*above, below[above])
        if number:
            lines.append(f"{'.'.join(map(str, anew[number]))}. {title}".rstrip())
        lines += body
    return "\n".join(lines)


def _entries(output: str) -> Iterator[Entry]:
    """What was written, heading by heading."""
    number: Number = ()
    title = ""
    body: list[str] = []
    for line in filter(None, map(str.strip, output.splitlines())):
        found = _HEADING.fullmatch(line)
        of_line = tuple(map(int, found[1].split("."))) if found else ()
        if found and _follows(of_line, number):
            yield number, title, tuple(body)
            number, title, body = of_line, found[2] or "", []
        else:
            body.append(line)
    yield number, title, tuple(body)


def _follows(number: Number, last: Number) -> bool:
    """Whether a heading of this number can come next: one more on some level, and the first on those below it."""
    same = next((level for level, (a, b) in enumerate(zip(number, last, strict=False)) if a != b), len(last))
    first_here = last[same] + 1 if same < len(last) else 1
    return number[same:] == (first_here, *[1] * (len(number) - same - 1))
