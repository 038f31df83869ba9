"""ask: the questions that every method gets: a condition, a half and a seeded choice, in shards of some hundred.

Settings are chosen on the questions of one half, figures reported on those of the other. A data set all of whose
questions are called development/… or test/… names its halves; any other set is halved by a hash of the question's
id, which is the hash of its content: a question is in the same half wherever it stands.

A question that names its gold by place gets the passages that are there in the corpus that is searched (gold.py). One
that names a place which the corpus lacks is asked all the same, and `rejects` has the place.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, get_args

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vitalfew.configs.evaluation import Half, Questions
from vitalfew.storage import files, schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.catalog.database import changing
from vitalfew.storage.ids import shard_of
from vitalfew.storage.manifests import File
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.datasets.gold import WHOLE, find_gold
from vitalfew.tasks.stage import Progress, ShardResult, Stage

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
HALVING_SEED = 2502_08178
HALVES: tuple[Half, ...] = get_args(Half)
HASHED = "hashed"
"""Note of a shard: the number of its questions whose half was decided by a hash."""
LOST = "lost"
"""Note of a shard: the number of its questions that name a place which the corpus lacks."""


class Ask(Stage):
    """Stage `ask` over the table `questions` of a load artifact. `corpus`: the load artifact of the passages that are
    searched, where it is another and the questions may name places in it."""

    name: ClassVar[str] = "ask"
    table: ClassVar[str] = "asked"
    section: ClassVar[str] = "questions"
    version: ClassVar[str] = "2"  # since 2, places are found in the comparable form, and by every name of a passage

    def __init__(self, store: Path, load: Artifact, config: Questions, corpus: Artifact | None = None) -> None:
        searched = {"corpus": corpus} if corpus and corpus != load else {}
        super().__init__(store, {"passages": load, **searched}, config)

    config: Questions

    def config_identity(self) -> dict[str, Any]:
        """Without the data set, whose content the load artifact stands for, and without a half that is not asked."""
        left_out = {"dataset"} if self.config.half else {"dataset", "half"}
        return self.config.model_dump(mode="json", exclude=left_out)

    def method_identity(self) -> dict[str, Any]:
        return {}

    def _array(self, name: str) -> Path:
        return self.artifact.file(f"{name}.npy")

    def _prepared(self, name: str) -> np.ndarray:
        """An array of `prepare`. Raises FileNotFoundError, Damaged."""
        return files.read_array(self.artifact.prepared_file(self._array(name)))

    def prepared(self) -> list[Path]:
        return [self._array(name) for name in ("chosen", "gold", *(["hashed"] if self.config.half else []))]

    def prepare(self, progress: Progress) -> None:
        """Choose the questions. Raises InputError if there are none, or if the condition is invalid."""
        ids, own = self._of_half(*self._matching())
        if self.config.sample is not None:
            chosen = np.argsort(mixed(ids, self.config.seed), kind="stable")[: self.config.sample]
            ids, own = ids[np.sort(chosen)], own[np.sort(chosen)]
        files.write_array(self._array("chosen"), ids)
        gold = find_gold(self._placed(ids), self.inputs.get("corpus", self.inputs["passages"]))
        files.write_array(self._array("gold"), gold)
        if self.config.half:
            files.write_array(self._array("hashed"), ids[own < 0])

    def _placed(self, ids: np.ndarray) -> Iterator[dict[str, Any]]:
        """The rows of these questions that name places."""
        chosen, columns = pa.array(ids), ["question_id", "answers", "gold_places"]
        for file in self._files("questions"):
            rows = files.read_table(self.inputs["passages"].store / file.path, columns)
            yield from rows.filter(pc.and_(pc.is_in(rows["question_id"], chosen), _has_places(rows))).to_pylist()

    def _of_half(self, ids: np.ndarray, own: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Those of the half that is asked, if one is. Raises InputError if there are none."""
        if not self.config.half:
            return ids, own
        hashed = (mixed(ids, HALVING_SEED) >> np.uint64(63)).astype(np.int64)
        asked = np.where(own < 0, hashed, own) == HALVES.index(self.config.half)
        if not asked.any():
            raise InputError(
                f"questions.half = {self.config.half}: none of the {len(ids):,} questions is in that half. Ask more "
                "questions, or ask all of them and choose no settings: --set choose=null"
            )
        return ids[asked], own[asked]

    def _matching(self) -> tuple[np.ndarray, np.ndarray]:
        """The ids of the questions that fulfil the condition, int64, ascending, and the half to which the data set
        assigns them: 0 or 1, or -1 where it names no halves."""
        with TemporaryDirectory(prefix="vitalfew-") as spill, duckdb.connect(config=_BOUNDED) as connection:
            connection.execute("SET temp_directory = ?", [spill])
            self._load(connection)
            try:
                # Whoever wrote the experiment wrote the condition: it is one expression, and reaches no file.
                connection.execute("SET enable_external_access = false")
                connection.execute("SET lock_configuration = true")
                condition = duckdb.SQLExpression(self.config.where or "true")
                connection.view("titled").filter(condition).create_view("matching")
                if found := changing(connection, str(condition), _READABLE):
                    raise InputError(
                        f"questions.where = {self.config.where}: the result of {found} may change, but the same "
                        "settings must choose the same questions. For a random choice, use questions.sample and "
                        "questions.seed"
                    )
                rows = connection.sql(_HALVED).fetchnumpy()
            except duckdb.Error as error:
                raise InputError(f"questions.where = {self.config.where}: {error}") from None
            if not len(rows["question_id"]):
                raise InputError(self._none(connection))
        return np.asarray(rows["question_id"], np.int64), np.asarray(rows["own"], np.int64)

    def _load(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Copy the questions and the titles of their gold passages, so that memory follows the questions. Raises
        Damaged."""
        store = self.inputs["passages"].store
        for table in ("questions", "passages"):
            whole = [file.checked(store) for file in self._files(table)]  # DuckDB does not see a flipped bit
            connection.from_parquet([str(files.local(path)) for path in whole]).create_view(f"all_{table}")
        connection.execute(_QUESTIONS)
        connection.execute(_PASSAGES)
        connection.execute("DROP VIEW all_questions; DROP VIEW all_passages")
        connection.execute(_TITLED)

    def _none(self, connection: duckdb.DuckDBPyConnection) -> str:
        sources = connection.sql("SELECT source, count(*) FROM questions GROUP BY ALL ORDER BY ALL").fetchall()
        if not sources:
            return (
                "no questions: the data sets of this index contain none. Name others with "
                "--set questions.dataset=FORMAT:PATH (see `vitalfew datasets`). `written:NAME` has those that "
                "`vitalfew questions write` made"
            )
        there = ", ".join(f"{count:,} of {source}" for source, count in sources)
        return f"questions.where = {self.config.where}: no question matches it; there are {there}"

    def _files(self, table: str) -> list[File]:
        return [file for file in self.inputs["passages"].completed().files() if file.table == table]

    def ids(self) -> np.ndarray:
        """The ids of the chosen questions, int64, in order. Raises FileNotFoundError, Damaged."""
        return self._prepared("chosen")

    def shards(self) -> list[int]:
        return list(range(-(-len(self.ids()) // self.config.batch)))

    def total_rows(self) -> int:
        return len(self.ids())

    def work(self, shard: int, progress: Progress) -> ShardResult:
        ids = self.ids()[shard * self.config.batch :][: self.config.batch]
        column = pc.field("question_id")
        within = (column >= int(ids[0])) & (column <= int(ids[-1]))
        # Both are in the order of ids: a shard of these questions is in few of those that were loaded.
        loaded = self._files("questions")
        first, last = shard_of(ids[[0, -1]], len(loaded))
        store = self.inputs["passages"].store
        rows = files.read_tables((store / file.path for file in loaded[first : last + 1]), where=within)
        rows = rows.filter(pc.is_in(rows["question_id"], pa.array(ids))).sort_by("question_id")
        asked, rejects = self._with_gold(_as_asked(rows))
        progress(rows.num_rows, 0)
        notes = {HASHED: int(np.isin(ids, self._prepared("hashed")).sum())} if self.config.half else {}
        tables = {"asked": asked}
        if rejects:
            notes[LOST] = len({row["offset"] for row in rejects})
            tables["rejects"] = pa.Table.from_pylist(rejects, schemas.REJECTS)
        return ShardResult(len(ids), tables, notes=notes)

    def _with_gold(self, asked: pa.Table) -> tuple[pa.Table, list[dict[str, Any]]]:
        """Questions with the gold that is at their places, and rows of `rejects` for places without any."""
        if not pc.any(_has_places(asked)).as_py():
            return asked, []
        found = defaultdict[tuple[int, int], list[dict[str, int]]](list)
        for question, place, passage, start, end in self._prepared("gold").tolist():
            found[question, place].append({"passage_id": passage, "start": start, "end": end})
        rows, rejects = asked.to_pylist(), []
        for row in rows:
            identity, places = row["question_id"], row["gold_places"]
            golds = [found[identity, number] for number in range(len(places))]
            groups = {passage: group for group, passage in enumerate(row["gold_passages"])}
            for group, gold in enumerate(filter(None, golds), start=len(groups)):
                for each in gold:
                    groups.setdefault(each["passage_id"], group)
            row["gold_passages"], row["gold_groups"] = [*groups], [*groups.values()]
            row["supporting_facts"] += [each for gold in golds for each in gold if each["start"] != WHOLE]
            for place, gold in zip(places, golds, strict=True):
                if not gold:
                    origin = {"stage": self.name, "source": row["source"], "offset": identity}
                    rejects.append(origin | {"reason": "no_gold_passage", "detail": _not_found(place)})
        return pa.Table.from_pylist(rows, schemas.ASKED), rejects


def _has_places(rows: pa.Table) -> pa.ChunkedArray:
    return pc.greater(pc.list_value_length(rows["gold_places"]), 0)


def _as_asked(rows: pa.Table) -> pa.Table:
    """Rows of `questions`, whose gold passages have no groups yet."""
    for field in schemas.ASKED:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.array([[]] * rows.num_rows, field.type))
    return rows.select(schemas.ASKED.names).cast(schemas.ASKED)


_LACKS = "the corpus has no "
_HOW = ": the question is asked without it; `source_id` in `passages` has the names"


def _not_found(place: dict[str, str]) -> str:
    """Say of a place that the corpus lacks it."""
    source, quote = place["source"], place["quote"]
    named = " in ".join(filter(None, [repr(quote[:200]) if quote else "", repr(source[:200]) if source else ""]))
    return f"{_LACKS}{named}{_HOW}"


def lost_place(detail: str) -> str:
    """The place alone, by the `detail` of a row of `rejects`."""
    return detail.removeprefix(_LACKS).removesuffix(_HOW)


_BOUNDED: dict[str, Any] = {
    "memory_limit": "512MB",
    "preserve_insertion_order": False,
    "python_enable_replacements": False,
    "threads": 1,
}
"""Settings of DuckDB. Rows that do not fit are spilled; the condition cannot name a variable of this module as a table.
One thread reads rows in their order, on which `LIMIT` and `first` depend."""
_READABLE = {"questions", "passages", "titled"}

_QUESTIONS = "CREATE TABLE questions AS FROM all_questions"
_PASSAGES = """
CREATE TABLE passages AS SELECT passage_id, title FROM all_passages
WHERE passage_id IN (SELECT unnest(gold_passages) FROM questions)
"""
_TITLED = """
CREATE VIEW titled AS
WITH gold AS (SELECT question_id, unnest(gold_passages) AS passage_id FROM questions),
titles AS (SELECT question_id, list(title) AS titles FROM gold JOIN passages USING (passage_id) GROUP BY ALL)
SELECT questions.*, ifnull(titles, []) AS titles FROM questions LEFT JOIN titles USING (question_id)
"""
"""Every question with the titles of its gold passages."""

_HALVED = f"""
WITH named AS (
    SELECT question_id, source, CASE {
    " ".join(f"WHEN starts_with(source_id, '{half}/') THEN {place}" for place, half in enumerate(HALVES))
} END AS own FROM matching
), halved AS (
    SELECT source FROM named GROUP BY source HAVING count(*) = count(own) AND count(DISTINCT own) = {len(HALVES)}
)
SELECT question_id, coalesce(min(own) FILTER (source IN (FROM halved)), -1) AS own
FROM named GROUP BY question_id ORDER BY question_id
"""
"""Every matching question once, with the half to which its data set assigns it."""


def mixed(ids: np.ndarray, seed: int) -> np.ndarray:
    """A random number for every id, uint64, determined by id and seed (Steele et al., SplitMix64, OOPSLA 2014): a
    question keeps its place in the random order, whatever the other questions are."""
    with np.errstate(over="ignore"):
        value = ids.astype(np.uint64) + np.uint64(seed % 2**64) * GOLDEN
        value = (value ^ (value >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        value = (value ^ (value >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return value ^ (value >> np.uint64(31))
