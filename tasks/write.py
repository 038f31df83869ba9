"""write: passages of a corpus → questions with their answers and gold passages, by a writer (tasks/writers/base.py).

Passages are drawn over the whole corpus by document: first one passage of every document, in random order, then a
second one, and so on, so that a long file has no more of the first questions than a short one. A document is the file
of a passage (`travel.md` of `travel.md#abroad`); where its source gives it no name, its title; else the passage itself.
The order follows from the seed and the content alone.

A shard has its share of the questions and of the passages drawn. It gives the writer as many passages as questions are
missing, and again for those that were refused, until it has its share or `spare` passages were tried for every
question: a writer that asks a server is paid for no passage that is not needed. At the end, questions that are like one
of an earlier shard go too. Every passage that gave no question is a row of `rejects`.

A writer that asks of two passages gets a partner with a passage: of the drawn passages of its half, one that has a name
or a number in common with it that few others have.

Halves: every other document in the drawn order is of `development`, the others are of `test`; if there is one document
only, every other passage.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from vitalfew.configs.schema import SplitConfig
from vitalfew.configs.writing import WriteConfig
from vitalfew.storage import files, schemas
from vitalfew.storage.artifacts import Artifact, ShardRecord
from vitalfew.storage.ids import content_id
from vitalfew.storage.indexes.units import Passages
from vitalfew.tasks.ask import HALVES, mixed
from vitalfew.tasks.datasets.gold import file_of
from vitalfew.tasks.models.ticks import Tick
from vitalfew.tasks.registry import make
from vitalfew.tasks.splitters.base import Splitter, sample
from vitalfew.tasks.stage import MethodStage, Progress, RowsLost, ShardResult
from vitalfew.tasks.writers.base import REASONS, GivenPassage, Refusal, Writer, WrittenQuestion
from vitalfew.tasks.writers.checks import Earlier
from vitalfew.tasks.writers.cloze import names, numbers, words_in_lower_case

Row = dict[str, Any]
DRAWN, PARAMETERS, PARTNERS = "drawn.npy", "parameters.json", "partners.json"
"""Files that the shards are made with: the drawn passages, the splitter of their sentences, their partners."""
SAMPLE_CHARS = 2_000_000
"""Characters of the drawn passages on which the splitter of their sentences is trained, at most."""


class Write(MethodStage):
    """Stage `write` over the passages of an index. Its shards have `drafts`, kept and refused; `written_questions` and
    `rejects` are of the whole. Raises UnknownName, ConfigError, EngineUnavailable."""

    name: ClassVar[str] = "write"
    table: ClassVar[str] = "drafts"
    section: ClassVar[str] = "write"
    role: ClassVar[str | None] = "writer"
    priced: ClassVar[str] = "engine"
    config: WriteConfig
    method: Writer

    def __init__(self, store: Path, passages: Artifact, config: WriteConfig) -> None:
        super().__init__(store, {"passages": passages}, config)

    def prepared(self) -> list[Path]:
        sentences, partners = self.method.needs_sentences, self.method.needs_partners
        names = [DRAWN, *([PARAMETERS] if sentences else []), *([PARTNERS] if partners else [])]
        return [self.artifact.file(name) for name in names]

    def prepare(self, progress: Progress) -> None:
        drawn = draw(self.inputs["passages"], self.config.n * self.config.spare, self.config.seed)
        files.write_array(self.artifact.file(DRAWN), drawn)
        if self.method.needs_sentences:
            known = Passages(self.inputs["passages"])
            texts = sample((known.row(passage)["text"] for passage in drawn[:, 0].tolist()), SAMPLE_CHARS)
            files.write_json(self.artifact.file(PARAMETERS), make(SplitConfig(), "split").train(texts))
        if self.method.needs_partners:
            files.write_json(self.artifact.file(PARTNERS), self._found_partners(drawn))

    def _found_partners(self, drawn: np.ndarray) -> dict[str, tuple[int, str]]:
        """By the id of a drawn passage, its partner and what they have in common."""
        known = Passages(self.inputs["passages"])
        found = dict[str, tuple[int, str]]()
        for half in range(len(HALVES)):
            own = drawn[drawn[:, 1] == half, 0].tolist()
            pairs = partners((passage, known.row(passage)["text"]) for passage in own)
            found |= {str(passage): pair for passage, pair in pairs.items()}
        return found

    def open(self) -> None:
        """Raises FileNotFoundError, and DamagedRecord if the parameters have changed since they were written."""
        self.splitter: Splitter | None = None
        if self.method.needs_sentences:
            splitter: Splitter = make(SplitConfig(), "split")
            files.read_record(self.artifact.file(PARAMETERS), splitter.load)
            self.splitter = splitter
        self.partners: Mapping[str, tuple[int, str]] = {}
        if self.method.needs_partners:
            self.partners = files.read_record(self.artifact.file(PARTNERS), dict)

    def drawn(self) -> np.ndarray:
        """The drawn passages in their order, int64 (n, 2): id, and the place of its half in HALVES. Raises
        FileNotFoundError, Damaged."""
        return files.read_array(self.artifact.prepared_file(self.artifact.file(DRAWN)))

    def shards(self) -> list[int]:
        passages = len(self.drawn())
        return list(range(-(-min(self.config.n, passages) // self.config.batch)))

    def total_rows(self) -> int:
        return min(self.config.n, len(self.drawn()))

    def work(self, shard: int, progress: Progress) -> ShardResult:
        every = self.shards()
        total = self.total_rows()
        wanted = total // len(every) + (shard < total % len(every))
        due = self.drawn()[shard :: len(every)][: wanted * self.config.spare].tolist()
        known, earlier, rows, tokens = Passages(self.inputs["passages"]), Earlier(), list[Row](), 0
        at = kept = 0

        def tick(done: int, spent: int) -> None:
            nonlocal tokens
            tokens += spent
            progress(0, spent)

        while kept < wanted and at < len(due):
            batch = due[at : at + wanted - kept]
            at += len(batch)
            for row in self._written([(passage, HALVES[half]) for passage, half in batch], known, tick):
                _refuse_like(row, earlier)
                kept += not row["reason"]
                progress(not row["reason"], 0)
                rows.append(row)
        drafts = pa.Table.from_pylist(rows, schemas.DRAFTS)
        return ShardResult(len(rows), {"drafts": drafts}, tokens=tokens, notes={"written": kept})

    def _written(self, batch: Sequence[tuple[int, str]], known: Passages, tick: Tick) -> Iterator[Row]:
        """A row of `drafts` for every passage with its half."""
        found = self.method.write([self._given(passage, known) for passage, _ in batch], tick)
        if len(found) != len(batch):
            raise RowsLost(f"writer {self.model_name} gave {len(found)} results for {len(batch)} passages")
        for (passage, half), result in zip(batch, found, strict=True):
            yield _row(known, passage, half, result)

    def _given(self, passage_id: int, known: Passages) -> GivenPassage:
        passage = known.row(passage_id)
        text = passage["text"]
        spans = self.splitter.split(text) if self.splitter else []
        sentences = tuple(text[start:end] for start, end in spans)
        partner = None
        if pair := self.partners.get(str(passage_id)):
            other = known.row(pair[0])
            partner = GivenPassage(pair[0], other["title"], other["text"], shared=pair[1])
        return GivenPassage(passage_id, passage["title"], text, sentences, partner)

    def conclude(self, records: Sequence[ShardRecord]) -> Mapping[str, pa.Table]:
        """The questions of all shards that are not like another's, and the refusals."""
        earlier, questions, rejects = Earlier(), list[Row](), list[Row]()
        for record in records:
            for row in self.artifact.read(record.shard, "drafts").to_pylist():
                _refuse_like(row, earlier)
                if row["reason"]:
                    origin = {"stage": self.name, "source": row["source"], "offset": row["passage_id"]}
                    rejects.append(origin | {"reason": row["reason"], "detail": row["detail"]})
                else:
                    identity = content_id(row["text"], *row["answers"], row["passage_id"])
                    questions.append(row | {"question_id": identity})
        written = [{name: row[name] for name in schemas.WRITTEN_QUESTIONS.names} for row in questions]
        return {
            "written_questions": pa.Table.from_pylist(written, schemas.WRITTEN_QUESTIONS),
            "rejects": pa.Table.from_pylist(rejects, schemas.REJECTS),
        }


def _row(known: Passages, passage_id: int, half: str, result: WrittenQuestion | Refusal) -> Row:
    passage = known.row(passage_id)
    own = {name: passage[name] for name in ("passage_id", "source", "source_id")}
    own |= {"half": half, "document": document_of(passage["source_id"], passage["title"])}
    if isinstance(result, Refusal):
        said = {"reason": result.reason, "detail": result.detail or REASONS[result.reason]}
        return own | dict.fromkeys(("kind", "text", "quote"), "") | dict.fromkeys(_LISTS, ()) | said
    gold = result.gold or ({passage_id: result.quote} if result.quote else {})
    places = [{"source": file_of(known.row(each)["source_id"]), "quote": gold[each]} for each in gold]
    kept: Row = {"answers": [result.answer] if result.answer else [], "gold_passages": [*gold], "gold_places": places}
    return own | kept | {"kind": result.kind, "text": result.text, "quote": result.quote, "reason": "", "detail": ""}


_LISTS = ("answers", "gold_passages", "gold_places")


def _refuse_like(row: Row, earlier: Earlier) -> None:
    """Make a draft a refusal if an earlier question is like it."""
    if not row["reason"] and (other := earlier.like(row["text"])):
        row |= {"reason": "like_another", "detail": f"{row['text'][:200]!r} is like {other[:200]!r}"}


def document_of(source_id: str, title: str) -> str:
    """The name of the document that a passage is part of; empty if it is known by no name."""
    return file_of(source_id) or title


def draw(passages: Artifact, count: int, seed: int) -> np.ndarray:
    """The passages to write from, in their order, int64 (at most `count`, 2): id, and the place of its half in HALVES.

    Memory follows the shard and `count`: of the passages seen so far, those are kept that are drawn of them. One that
    is not never is, as further passages can only come before it."""
    pool = np.empty((0, 2), np.int64)
    for record in passages.completed().shards:
        own = list[tuple[int, int]]()
        for row in passages.read(record.shard, columns=["passage_id", "source", "source_id", "title"]).to_pylist():
            document = document_of(row["source_id"], row["title"])
            own.append((row["passage_id"], content_id(row["source"], document) if document else row["passage_id"]))
        pool = _first(np.concatenate([pool, np.array(own, np.int64).reshape(-1, 2)]), count, seed)
    _, first = np.unique(pool[:, 1], return_index=True)
    order = {document: place for place, document in enumerate(pool[np.sort(first), 1].tolist())}
    places = [order[document] for document in pool[:, 1].tolist()] if len(order) > 1 else range(len(pool))
    return np.array([pool[:, 0], [place % 2 for place in places]], np.int64).T.reshape(-1, 2)


def _first(pool: np.ndarray, count: int, seed: int) -> np.ndarray:
    """The first `count` rows (passage, document) in the order of the draw: by their number within their document."""
    by_chance = pool[np.lexsort((mixed(pool[:, 0], seed), mixed(pool[:, 1], seed)))]
    _, starts, sizes = np.unique(mixed(by_chance[:, 1], seed), return_index=True, return_counts=True)
    within = np.arange(len(pool)) - np.repeat(starts, sizes)
    return by_chance[np.argsort(within, kind="stable")[:count]]


def reasons_of(rejects: pa.Table) -> list[tuple[str, int]]:
    """The reasons of refusals with their numbers, the most frequent first."""
    return Counter(rejects["reason"].to_pylist()).most_common()


MOST_WITH = 5
"""Passages with a name or number, at most; one in more of them distinguishes nothing."""
DIGITS = 3
"""Digits of a number, at least: small numbers are everywhere."""


def partners(passages: Iterable[tuple[int, str]]) -> dict[int, tuple[int, str]]:
    """By the id of a passage, its partner's id and what both have in common: the name or number that the fewest of the
    passages have, a name before a number, then the longest. Passages with nothing in common have no partner."""
    having = defaultdict[str, list[int]](list)
    for passage, text in passages:
        for name in _terms(text):
            having[name].append(passage)
    found = dict[int, tuple[int, str]]()
    shared = [name for name, own in having.items() if 1 < len(own) <= MOST_WITH]
    for name in sorted(shared, key=lambda name: (len(having[name]), name[0].isdigit(), -len(name), name)):
        own = having[name]
        for place, passage in enumerate(own):
            found.setdefault(passage, (own[place - 1], name))
    return found


def _terms(text: str) -> set[str]:
    lower, terms = words_in_lower_case(text), set[str]()
    for line in map(str.strip, text.splitlines()):
        terms |= {line[start:end] for start, end in names(line, lower)}
        terms |= {line[start:end] for start, end in numbers(line) if sum(map(str.isdigit, line[start:end])) >= DIGITS}
    return terms
