"""Propositions as units of retrieval: written by a model (`propositions`) or read from a file (`ready_propositions`).

`propositions`: a sequence-to-sequence model writes the facts of a passage, one fact in every unit. Dense X Retrieval
(Chen et al. 2023, arXiv 2312.06648, section 2): a proposition is a minimal, self-contained statement, and the unit of
retrieval. Its vector has no context: search with alpha=1. The preset's name, the input ("Title: … Section: …
Content: …", the section left empty), the JSON list that comes out, and the limit of 512 tokens written are those of the
authors' README (github.com/chentong0/factoid-wiki).

The authors' passages have 100 words. Here a passage that is too long for max_input_tokens (512, our choice) is
halved at the end of a word until its parts fit, so no text is left out. If the list breaks off or is not JSON, the
propositions that can be separated are kept (`incomplete` in the manifest); the authors' example drops the list. A
passage without propositions stays whole.

The published checkpoint was not available during development: tests use tiny models of its architecture.

`ready_propositions`: propositions from a file that another program wrote (split.file). A row is a passage: its
`propositions`, a list of strings, and its exact `text` or its `passage_id` (as in the table `passages`). The file is
JSON Lines, a JSON array (.json, .jsonl, also .gz) or Parquet (.parquet); other columns are ignored. A passage without a
row, or without propositions in its row, stays whole; rows of passages outside the corpus are skipped. The file is read
once for every shard of passages, and is never held in memory as a whole.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, ClassVar

import duckdb
import pyarrow as pa
from pydantic import Field

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.options import Rewriting
from vitalfew.configs.schema import SplitConfig
from vitalfew.configs.section import NOT_IN_FINGERPRINT, AbsolutePath
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.datasets.files import check_source
from vitalfew.tasks.models.causal.rewriter import Rewriter
from vitalfew.tasks.models.files import digest
from vitalfew.tasks.models.ticks import Tick, Watched, no_tick
from vitalfew.tasks.splitters.base import RewritingSplitter, Rewritten, StoredPassage
from vitalfew.tasks.splitters.tokens import count_words, first

_BETWEEN = re.compile(r'(?<!\\)"\s*,\s*"')


class Propositions(RewritingSplitter):
    """A sequence-to-sequence model writes self-contained facts as the units of retrieval (Dense X)."""

    class Options(Rewriting, SplitConfig, extra="forbid"):
        pass

    presets: ClassVar[Mapping[str, str]] = {"dense-x": "chentong00/propositionizer-wiki-flan-t5-large"}

    def __init__(self, options: Options) -> None:
        """Raises EngineUnavailable where the model is not on this machine or has another architecture."""
        self.rewriter = Rewriter(
            options.model_copy(update={"model": options.model or "dense-x"}),
            "split",
            method="propositions",
            presets=self.presets,
            max_new_tokens=512,
            max_input_tokens=512,
        )
        self.uses_gpu, self.workers = self.rewriter.uses_gpu, self.rewriter.workers

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "model": self.rewriter.identity()}

    def rewrite(self, passages: Sequence[StoredPassage], tick: Tick = no_tick) -> Rewritten:
        pieces = [(row, piece) for row, passage in enumerate(passages) for piece in self._inputs(passage)]
        watched = Watched(tick, len(passages), len(pieces))
        completions = self.rewriter.rewrite([piece for _, piece in pieces], watched)
        units: list[list[str]] = [[] for _ in passages]
        incomplete = set()
        for (row, _), completion in zip(pieces, completions, strict=True):
            propositions, whole = parse(completion.text)
            units[row] += propositions
            if not whole:
                incomplete.add(row)
        tokens = sum(completion.prompt_tokens + completion.completion_tokens for completion in completions)
        return Rewritten(units, tokens, {"incomplete": len(incomplete)})

    def _inputs(self, passage: StoredPassage) -> list[str]:
        """The model's inputs for a passage: one, or several if the passage is too long."""
        title = passage.title if self.rewriter.fits(_frame(passage.title, "")) else ""
        return [_frame(title, piece) for piece in self._pieces(title, passage.text)]

    def _pieces(self, title: str, text: str) -> list[str]:
        if len(text) < 2 or self.rewriter.fits(_frame(title, text)):
            return [text]
        half = first(text, count_words(text) // 2, None) or text[: len(text) // 2]
        return self._pieces(title, half) + self._pieces(title, text[len(half) :])


def _frame(title: str, text: str) -> str:
    return f"Title: {title}. Section: . Content: {text}"


def parse(output: str) -> tuple[list[str], bool]:
    """The propositions in a model's output, and whether the whole output is a JSON list of strings.

    If it is not, the quotation marks and commas separate the propositions; one that breaks off is left out.
    """
    with suppress(json.JSONDecodeError, RecursionError):
        listed = json.loads(output, strict=False)
        if isinstance(listed, list) and all(isinstance(proposition, str) for proposition in listed):
            return listed, True
    opening, mark, body = output.partition('["')
    if not mark or opening.strip():
        return [], False
    body, closed, _ = body.partition('"]')
    parts = _BETWEEN.split(body)
    return [_unescaped(part) for part in (parts if closed else parts[:-1])], False


def _unescaped(part: str) -> str:
    with suppress(json.JSONDecodeError):
        return str(json.loads(f'"{part}"', strict=False))
    return part


COLUMNS = {"passage_id": "BIGINT", "text": "VARCHAR", "propositions": "VARCHAR[]"}
ROW = '{"text": "the passage", "propositions": ["a fact", "another"]}'


class ReadyPropositions(RewritingSplitter):
    """Propositions from your file split.file (JSON, JSON Lines, Parquet), matched by passage text or id."""

    example: ClassVar[tuple[str, ...]] = ("split.file=propositions.jsonl",)

    class Options(SplitConfig, extra="forbid"):
        file: Annotated[AbsolutePath | None, NOT_IN_FINGERPRINT] = Field(
            None, description="File of propositions: JSON, JSON Lines or Parquet."
        )

    def __init__(self, options: Options) -> None:
        """Raises ConfigError, InputError if there is no file."""
        if options.file is None:
            raise ConfigError(f"splitter 'ready_propositions' needs --set split.file=FILE, with rows like {ROW}")
        self.file: Path = options.file
        self._checked = False
        check_source(self.file)

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "file": digest(self.file)}

    def rewrite(self, passages: Sequence[StoredPassage], tick: Tick = no_tick) -> Rewritten:
        units: list[list[str]] = [[] for _ in passages]
        seen: set[int] = set()
        for place, propositions in self._found(passages):
            if place in seen:
                raise InputError(f"{self.file} has two rows for one passage, {passages[place].text[:80]!r}")
            seen.add(place)
            units[place] = propositions
        tick(len(passages), 0)
        return Rewritten(units)

    def _found(self, passages: Sequence[StoredPassage]) -> list[tuple[int, list[str]]]:
        """(Place, propositions) of the passages that the file has. Raises InputError."""
        due = {
            "place": pa.array(range(len(passages)), pa.int64()),
            "passage_id": pa.array([passage.passage_id for passage in passages], pa.int64()),
            "text": pa.array([passage.text for passage in passages], pa.string()),
        }
        with duckdb.connect() as connection:
            connection.register("due", pa.table(due))
            try:
                rows = f"(SELECT {self._columns(connection)} FROM {self._source})"
                if not self._checked:
                    self._check(connection, rows)
                    self._checked = True
                return connection.sql(
                    f"WITH given AS {rows} SELECT place, propositions FROM given JOIN due USING (text) UNION ALL "
                    "SELECT place, propositions FROM given JOIN due USING (passage_id) WHERE given.text IS NULL"
                ).fetchall()
            except duckdb.Error as error:
                raise InputError(f"{self.file}: {str(error).splitlines()[0]}. A row is {ROW}") from error

    @property
    def _source(self) -> str:
        quoted = "'" + str(self.file).replace("'", "''") + "'"
        if self.file.suffix == ".parquet":
            return f"read_parquet({quoted})"
        columns = ", ".join(f"{name}: '{kind}'" for name, kind in COLUMNS.items())
        return f"read_json({quoted}, columns = {{{columns}}})"

    def _columns(self, connection: duckdb.DuckDBPyConnection) -> str:
        """All of COLUMNS; the ones that a Parquet file lacks are null."""
        present = connection.sql(f"FROM {self._source}").columns
        return ", ".join(f"{name if name in present else 'NULL'}::{kind} AS {name}" for name, kind in COLUMNS.items())

    def _check(self, connection: duckdb.DuckDBPyConnection, rows: str) -> None:
        """Raises InputError if a row does not identify its passage, or has no list of propositions."""
        [(nameless, empty)] = connection.sql(
            "SELECT count(*) FILTER (text IS NULL AND passage_id IS NULL), count(*) FILTER (propositions IS NULL "
            f"OR len(propositions) > len(list_filter(propositions, lambda fact: fact IS NOT NULL))) FROM {rows}"
        ).fetchall()
        if nameless or empty:
            raise InputError(
                f"{self.file}: {nameless:,} rows have neither text nor passage_id, {empty:,} have no list of "
                f"strings in propositions. A row is {ROW}"
            )
