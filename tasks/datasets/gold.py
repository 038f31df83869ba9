"""Gold by place: the passages that questions name by file, heading or quote.

A place is a source, a quote, or both. A source is the source_id of a passage without `&part=…`: a file of a folder
(`npm-ci.md`), a heading or a page of it (`npm-ci.md#description`, `rules.pdf#page=3`), or the name of a row; it may
begin with the folder that was indexed (`docs/npm-ci.md`). Gold are

- of a quote, the passages that have it in its comparable form; the quote's span is a supporting fact;
- of a source without a quote, its passages that hold an accepted answer; where none does, all of them.

A source is compared with the names that exist, whole first, and only then is a part of it a heading: `C#.md` is a file.
A name that is written alike goes before one that has the same comparable form alone.

The corpus is read shard by shard, and texts only where a source or a quote asks for them.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalfew.storage.artifacts import Artifact
from vitalfew.tasks.comparable import comparable, find
from vitalfew.tasks.datasets.documents.blocks import slug

_PART = re.compile(r"[#&]part=\d+$")
_PLACE = re.compile(r"#(page=\d+|[\w-]+)$")
"""A heading or a page at the end of a source_id; a file's name may have the sign as well."""
WHOLE = -1
"""The start and the end of a gold passage without a quote."""
_MARKS = str.maketrans("", "", "*_`")

Gold = tuple[int, int, int]
"""A passage, and the quote's start and end in it (code points), or WHOLE."""
Name = tuple[bool, str]
"""Whether a name is as it is written, or in its comparable form; and the name."""
ANYWHERE: Name = (True, "")


@dataclass
class _Place:
    """A place that a question names. `names`: what its source may mean, the surest first; `found`: of those that exist,
    the passages that the place asks for, with whether they hold an accepted answer."""

    question: int
    number: int
    quote: str
    names: Sequence[Name]
    answers: Sequence[str]
    found: dict[Name, list[tuple[Gold, bool]]] = field(default_factory=dict)

    def look(self, name: Name, passage: int, text: str) -> None:
        """Note a passage of a name, if it is gold."""
        from vitalfew.tasks.metrics.ranking import first_correct  # slowly

        found = self.found.setdefault(name, [])
        if not self.quote:
            found.append(((passage, WHOLE, WHOLE), bool(first_correct(self.answers, [text]))))
        elif span := find(text, self.quote):
            found.append(((passage, *span), True))

    def gold(self) -> list[Gold]:
        """The passages of the first name that exists: those with an answer, or else all."""
        found: list[tuple[Gold, bool]] = next((self.found[name] for name in self.names if name in self.found), [])
        return sorted(gold for gold, holds in found if holds) or sorted(gold for gold, _ in found)


def find_gold(questions: Iterable[Mapping[str, Any]], corpus: Artifact) -> NDArray[np.int64]:
    """The gold passages of rows of `questions` with places, int64 (n, 5): question, number of the place among the
    question's, passage, and the quote's start and end in it (code points), or WHOLE. A place that the corpus lacks has
    none. `corpus`: an artifact with `passages`."""
    places = [
        _Place(row["question_id"], number, each["quote"], _meant(each["source"]), row["answers"])
        for row in questions
        for number, each in enumerate(row["gold_places"])
    ]
    by_name = defaultdict[Name, list[_Place]](list)
    for place in places:
        for name in place.names:
            by_name[name].append(place)
    anywhere = by_name.pop(ANYWHERE, [])
    for record in corpus.completed().shards if places else ():
        _look_by_name(corpus, record.shard, by_name)
        _look_anywhere(corpus, record.shard, anywhere)
    rows = [(place.question, place.number, *gold) for place in places for gold in place.gold()]
    return np.array(rows, np.int64).reshape(-1, 5)


def _look_by_name(corpus: Artifact, shard: int, wanted: Mapping[Name, list[_Place]]) -> None:
    named = corpus.read(shard, columns=["source", "source_id", "also"]).to_pylist() if wanted else []
    rows = [(row, name) for row, passage in enumerate(named) for name in sorted(wanted.keys() & _names(passage))]
    if rows:
        table = corpus.read(shard, columns=["passage_id", "text"]).take(pa.array([row for row, _ in rows]))
        for (_, name), passage in zip(rows, table.to_pylist(), strict=True):
            for place in wanted[name]:
                place.look(name, passage["passage_id"], passage["text"])


def _look_anywhere(corpus: Artifact, shard: int, wanted: Sequence[_Place]) -> None:
    quotes = [(place, _bare(place.quote)) for place in wanted]
    for passage in corpus.read(shard, columns=["passage_id", "text"]).to_pylist() if wanted else ():
        text = _bare(passage["text"])
        for place, quote in quotes:
            if quote in text:  # quick, and true wherever `find` finds it
                place.look(ANYWHERE, passage["passage_id"], passage["text"])


def _bare(text: str) -> str:
    """The comparable form, folded by case, without marks of emphasis: also those whose partner is beyond a quote."""
    return comparable(text).casefold().translate(_MARKS).strip()


def file_of(source_id: str) -> str:
    """The file of a passage of a folder; any other name as it is."""
    return _PLACE.sub("", _PART.sub("", source_id))


def _meant(source: str) -> list[Name]:
    """The names that a source may mean, the surest first; ANYWHERE without a source."""
    source = source.strip().removeprefix("./")
    if not source:
        return [ANYWHERE]
    texts = [text for given in (source, unquote(source)) for text in (given, *_with_slug(given))]
    return [*dict.fromkeys(name for text in texts for name in _forms(text))]


def _forms(name: str) -> tuple[Name, Name]:
    return (True, name), (False, comparable(name))


def _with_slug(source: str) -> Iterator[str]:
    """A source with the name of its heading, which may be given as it is written; the longest file first."""
    for mark in reversed([match.start() for match in re.finditer("#", source)]):
        yield f"{source[:mark]}#{slug(source[mark + 1 :])}"


def _names(passage: Mapping[str, Any]) -> set[Name]:
    """The names that a question may mean a passage by: those of its files and of its headings or pages, or of its rows,
    without and with the folder that was indexed."""
    whole = [_PART.sub("", name) for name in (passage["source_id"], *passage["also"])]
    names = {*whole, *map(file_of, whole)} - {""}
    kind, _, folder = passage["source"].partition(":")
    if kind == "folder":
        names |= {f"{folder}/{name}" for name in names}
    return {form for name in names for form in _forms(name)}
