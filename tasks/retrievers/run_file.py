"""`run_file`: rankings that another tool made, read from a file in the place of a search.

A TREC run has a line `question Q0 passage rank score tag` a passage; its order is that of the scores, as trec_eval has
it, and of equal ones that of the ranks. Questions and passages are called as `vitalfew export run` calls them: by
their source's names, white space and "%" as in URLs or as they are, or by their content ids. A file whose first
character is a bracket has `ctxs` as the data set `ctxs` reads them (DPR, Self-RAG), or the `context` of HotpotQA:
questions by their id or text (of multiple choice the first line), contexts by their text, in the file's order.

The file is read once for every batch of questions, of which alone the rankings are kept. A question that it lacks has
no hits, and a file that has none of the questions is an error. A passage that the index lacks, one that is ranked
twice, and a score that is no finite number are errors that name the line. A text that is
ranked by several of its names is a hit once, at the best of their ranks.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple
from urllib.parse import unquote

from pydantic import Field

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import RetrieveConfig, Unit
from vitalfew.configs.section import NOT_IN_FINGERPRINT, AbsolutePath
from vitalfew.storage import files
from vitalfew.storage.ids import passage_id
from vitalfew.storage.indexes import TopK
from vitalfew.storage.indexes.opened import OpenedIndex
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.datasets.comprehension import hotpotqa_texts
from vitalfew.tasks.datasets.delimited import lines_of
from vitalfew.tasks.datasets.files import check_source, open_source
from vitalfew.tasks.datasets.rows import RowError, id_of, json_rows, list_of, object_of, text_of
from vitalfew.tasks.retrievers.base import QuestionBatch, Retriever, Scored, top_of

_EXPECTS = "a TREC run, or questions with ctxs"


class Ranked(NamedTuple):
    """A passage by its name, with the place in the file that names it."""

    passage: str
    score: float
    rank: float
    number: int


class RunFile(Retriever):
    """Another tool's rankings of an index's passages: a TREC run, or the contexts (ctxs) of DPR and Self-RAG."""

    example: ClassVar[tuple[str, ...]] = ("retrieve.file=naive.run",)

    class Options(RetrieveConfig, extra="forbid"):
        file: Annotated[AbsolutePath | None, NOT_IN_FINGERPRINT] = Field(
            None, description="File of rankings: a TREC run, or questions with ctxs."
        )

    unit: Unit = "passage"

    def __init__(self, options: Options) -> None:
        """Raises ConfigError, InputError where there is no such file."""
        if options.file is None:
            raise ConfigError("retriever 'run_file' needs a file of rankings: --set retrieve.file=FILE")
        self.file: Path = options.file
        check_source(self.file)

    def identity(self) -> dict[str, Any]:
        return {"file": files.checksum(self.file)}

    def retrieve(self, questions: QuestionBatch, index: OpenedIndex, k: int) -> TopK:
        """Raises InputError."""
        best = {place: ranking[:k] for place, ranking in self.rankings(questions).items()}
        located = self._located(best, index)
        return top_of([located.get(line, []) for line in range(len(questions.texts))], k)

    def rankings(self, questions: QuestionBatch) -> dict[int, list[Ranked]]:
        """Return the rankings of the questions that the file has, best first, by the question's place. Raises
        InputError."""
        keys = {key: place for place, known in enumerate(_keys(questions)) for key in reversed(known)}
        rankings: dict[int, dict[str, Ranked]] = {}
        for question, ranked in self._rows(keys):
            ranking = rankings.setdefault(question, {})
            if ranked.passage in ranking:
                raise InputError(
                    f"{self.file}, line {ranked.number}: {ranked.passage!r} is ranked twice; leave one out"
                )
            ranking[ranked.passage] = ranked
        return {
            place: sorted(ranking.values(), key=lambda ranked: (-ranked.score, ranked.rank))
            for place, ranking in rankings.items()
        }

    def fault(self, names: Sequence[str], texts: Sequence[str]) -> str:
        theirs = dict.fromkeys(self._named())
        if not theirs:
            return f"{self.file} is empty"
        alike = {name.casefold() for name in theirs} & {name.casefold() for name in (*names, *texts) if name}
        why = "; they differ in upper and lower case" if alike else ""
        first = f"the first in it is {next(iter(theirs))[:80]!r}, the first asked {(names[0] or texts[0])[:80]!r}"
        return f"{self.file} has none of the questions asked: {first}{why}. Name them alike"

    def _named(self) -> Iterator[str]:
        """The questions of the file."""
        if self._is_json():
            yield from (str(row.get("id") or row.get("_id") or row["question"]) for _, row in json_rows(self.file, ""))
            return
        with open_source(self.file) as source:
            yield from (unquote(fields[0]) for line in lines_of(source) if (fields := line.text.split()))

    def _is_json(self) -> bool:
        with open_source(self.file) as source:
            return source.peek(1 << 12).lstrip()[:1] in (b"[", b"{")

    def _located(self, best: Mapping[int, list[Ranked]], index: OpenedIndex) -> dict[int, list[Scored]]:
        """The rankings with the passages' places in the index, every passage once."""
        places = index.called({ranked.passage for ranking in best.values() for ranked in ranking})
        located = {}
        for line, ranking in best.items():
            units: dict[int, Scored] = {}
            for ranked in ranking:
                if ranked.passage not in places:
                    raise InputError(
                        f"{self.file}, line {ranked.number}: index {index.name!r} has no passage {ranked.passage!r}; "
                        "name the index that was ranked, or index the contexts in the file: vitalfew index ctxs:FILE"
                    )
                place = places[ranked.passage]
                units.setdefault(place[0], (ranked.score, place))  # of the names of a text the best ranked
            located[line] = [*units.values()]
        return located

    def _rows(self, keys: Mapping[str, int]) -> Iterator[tuple[int, Ranked]]:
        """The rankings of these questions, which are given by their keys."""
        return self._ctxs(keys) if self._is_json() else self._trec(keys)

    def _trec(self, keys: Mapping[str, int]) -> Iterator[tuple[int, Ranked]]:
        with open_source(self.file) as source:
            for line in lines_of(source):
                fields = line.text.split()
                if not fields and not line.fault:
                    continue
                try:
                    question, _, passage, rank, score, _ = fields
                    ranked = Ranked(unquote(passage), float(score), float(rank), line.number)
                except ValueError as error:
                    raise InputError(
                        f"{self.file}, line {line.number}: expected `question Q0 passage rank score tag`"
                    ) from error
                if not math.isfinite(ranked.score + ranked.rank):
                    raise InputError(
                        f"{self.file}, line {line.number}: rank {rank} and score {score} have to be finite numbers"
                    )
                if (place := keys.get(unquote(question))) is not None:
                    yield place, ranked

    def _ctxs(self, keys: Mapping[str, int]) -> Iterator[tuple[int, Ranked]]:
        for number, row in json_rows(self.file, _EXPECTS):
            try:
                fields = object_of(row)
                name = id_of(fields, "_id" if "_id" in fields else "id")
                known = (keys.get(key) for key in (name, text_of(fields, "question")))
                place = next((place for place in known if place is not None), None)
                if place is None:
                    continue
                texts = _contexts(fields)
            except RowError as error:
                raise InputError(f"{self.file}, line {number}: {error.detail}") from error
            for rank, text in enumerate(dict.fromkeys(filter(None, texts))):
                yield place, Ranked(str(passage_id(text)), -float(rank), rank, number)


def _contexts(row: dict[str, Any]) -> list[str]:
    """The texts of a question's contexts, as the data sets `ctxs` and `hotpotqa` read them. Raises RowError."""
    if "ctxs" not in row and "context" in row:
        return hotpotqa_texts(row)
    return [text_of(object_of(one), "text", blank=True) for one in list_of(row, "ctxs")]


def _keys(questions: QuestionBatch) -> Iterator[tuple[str, ...]]:
    """The possible names of every question, the surest first."""
    names = questions.names or [("", "")] * len(questions.texts)
    for (identity, name), text in zip(names, questions.texts, strict=True):
        yield tuple(filter(None, (identity, name, text, text.partition("\n")[0])))
