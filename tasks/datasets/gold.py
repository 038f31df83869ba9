"""Gold by place: the passages that questions name by file, heading or quote.

A place is a source, a quote, or both. A source is the source_id of a passage without `&part=…`: a file of a folder
(`npm-ci.md`), a heading or a page of it (`npm-ci.md#description`, `rules.pdf#page=3`), or the name of a row. Gold are

- of a quote, the passages that have it, whatever the case and the white space between its words; the quote's span is a
  supporting fact;
- of a source without a quote, its passages that hold an accepted answer; where none does, all of them.

The corpus is read shard by shard, and texts only where a source or a quote asks for them.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vitalfew.storage.artifacts import Artifact
from vitalfew.tasks.datasets.documents.blocks import slug

PART = re.compile(r"&?part=\d+$")
WHOLE = -1
"""The start and the end of a gold passage without a quote."""


@dataclass
class _Place:
    """A place that a question names, and the passages there, with the quote's span or WHOLE; `holding`: those that hold
    an accepted answer."""

    question: int
    number: int
    quote: re.Pattern[str] | None
    answers: Sequence[str]
    there: list[tuple[int, int, int]] = field(default_factory=list)
    holding: list[tuple[int, int, int]] = field(default_factory=list)

    def look(self, passage: int, text: str) -> None:
        """Note a passage that the source names, if it is gold."""
        from vitalfew.tasks.metrics.ranking import first_correct  # slowly

        if self.quote:
            if match := self.quote.search(text):
                self.there.append((passage, *match.span()))
            return
        whole = (passage, WHOLE, WHOLE)
        self.there.append(whole)
        if first_correct(self.answers, [text]):
            self.holding.append(whole)


def find_gold(questions: Iterable[Mapping[str, Any]], corpus: Artifact) -> NDArray[np.int64]:
    """The gold passages of rows of `questions` with places, int64 (n, 5): question, number of the place among the
    question's, passage, and the quote's start and end in it (code points), or WHOLE. A place that the corpus lacks has
    none. `corpus`: an artifact with `passages`."""
    by_source, anywhere = defaultdict[str, list[_Place]](list), list[_Place]()
    places = []
    for row in questions:
        for number, each in enumerate(row["gold_places"]):
            place = _Place(row["question_id"], number, _pattern(each["quote"]), row["answers"])
            places.append(place)
            for named in [by_source[name] for name in _names(each["source"])] or [anywhere]:
                named.append(place)
    for record in corpus.completed().shards if places else ():
        _look_by_source(corpus, record.shard, by_source)
        _look_anywhere(corpus, record.shard, anywhere)
    rows = [(place.question, place.number, *gold) for place in places for gold in sorted(place.holding or place.there)]
    return np.array(rows, np.int64).reshape(-1, 5)


def _look_by_source(corpus: Artifact, shard: int, wanted: Mapping[str, list[_Place]]) -> None:
    if not wanted:
        return
    names = corpus.read(shard, columns=["source_id"])["source_id"].to_pylist()
    rows = [(row, key) for row, name in enumerate(names) for key in _keys(name) if key in wanted]
    if not rows:
        return
    table = corpus.read(shard, columns=["passage_id", "text"]).take(pa.array([row for row, _ in rows]))
    for (_, key), passage in zip(rows, table.to_pylist(), strict=True):
        for place in wanted[key]:
            place.look(passage["passage_id"], passage["text"])


def _look_anywhere(corpus: Artifact, shard: int, wanted: Sequence[_Place]) -> None:
    if not wanted:
        return
    table = corpus.read(shard, columns=["passage_id", "text"])
    for place in wanted:
        assert place.quote
        holds = pc.match_substring_regex(table["text"], place.quote.pattern, ignore_case=True)
        for row in np.flatnonzero(holds.to_numpy()).tolist():
            place.look(table["passage_id"][row].as_py(), table["text"][row].as_py())


def _pattern(quote: str) -> re.Pattern[str] | None:
    """A quote as an expression that Arrow's RE2 understands as well; None without words."""
    words = [re.escape(word) for word in quote.split()]
    return re.compile(r"\s+".join(words), re.IGNORECASE) if words else None


def _names(source: str) -> set[str]:
    """The names that a source may have among `_keys`, as a heading may be given as it is written; none of ""."""
    file, mark, place = source.strip().removeprefix("./").partition("#")
    return {f"{file}{mark}{place}", f"{file}{mark}{slug(place)}"} - {""}


def _keys(source_id: str) -> Iterator[str]:
    """The names under which a question may mean a passage: its file, and its heading or page, or its name."""
    file, _, place = source_id.partition("#")
    yield file
    if place := PART.sub("", place):
        yield f"{file}#{place}"
