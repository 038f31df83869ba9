"""Questions that were written from a corpus of the store, as a dataset, without a file in between: `written:NAME`.

A dataset knows no store. So where a plan is built, `located` puts the file of the latest finished set of the name in
the name's place: what is asked, and its fingerprint, follow from the questions alone, not from when they were written.

The records are those of the file that `vitalfew questions export` writes, so that a question has the same id in both.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar, Final

import pyarrow as pa

from vitalfew.storage import files, schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.runs import WRITING, read_runs
from vitalfew.tasks.datasets.base import InputError, Record
from vitalfew.tasks.datasets.rows import Row, RowDataset
from vitalfew.tasks.datasets.tables import ColumnOptions, rows_of
from vitalfew.tasks.registry import UnknownName

FORMAT: Final = "written"


class Written(RowDataset):
    """Questions that `vitalfew questions write` has written in this store, by the name of their set.

    They have their answers, the passages in which these stand, and their halves. A set that was written again is
    another data set. To edit questions, export them and ask the file.
    """

    example: ClassVar[str] = "written:handbook"
    takes_name: ClassVar[bool] = True
    has_passages: ClassVar[bool] = False
    names_gold: ClassVar[bool] = True

    def files(self) -> list[Path]:
        if not self.source().is_absolute():
            raise InputError(f"{FORMAT}:{self.source()} is a set of questions of a store, and no store was given here")
        return super().files()

    def rows(self) -> Iterator[tuple[int, Any]]:
        try:
            table = files.read_table(self.source(), schemas.WRITTEN_QUESTIONS.names)
        except (files.Damaged, OSError, pa.ArrowException) as error:
            raise InputError(f"{error}. Write the questions again: vitalfew questions write --index INDEX") from error
        return enumerate(rows_of(table), start=1)

    def read(self, row: Row, number: int) -> Iterator[Record]:
        return ColumnOptions().records(as_line(row))


def as_line(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of `written_questions` as the format `jsonl` has it: the gold passages are those of the documents in which
    the quotes stand, however an index cuts them, and the id names the half."""
    places = dict.fromkeys((place["source"], place["quote"]) for place in row["gold_places"])
    sources, quotes = [source for source, _ in places], [quote for _, quote in places]
    line: dict[str, Any] = {"id": f"{row['half']}/{row['question_id']}", "question": row["text"]}
    line |= {"answers": row["answers"], "source": sources if all(sources) else [], "quote": quotes}
    for name in ("source", "quote"):
        line[name] = line[name][0] if len(line[name]) == 1 else line[name]
    return {key: value for key, value in {**line, "kind": row["kind"]}.items() if value}


def located(store: Path, specification: str) -> str:
    """The specification of a dataset, with the file of the questions in place of `written:NAME`. Raises UnknownName,
    and InputError where no questions were written."""
    name = specification.removeprefix(f"{FORMAT}:")
    if name == specification or "/" in name:
        return specification
    artifact = written(store, name)
    artifact.completed()
    return f"{FORMAT}:{files.local(artifact.path(0, 'written_questions'))}"


def written(store: Path, name: str) -> Artifact:
    """The latest finished set of written questions of a name. Raises UnknownName, and InputError where there is none
    at all."""
    runs = [run for run in read_runs(store) if run.flow == WRITING and run.state == "completed"]
    own = [run for run in runs if run.name == name]
    if not runs:
        raise InputError("no questions were written in this store. Write some: vitalfew questions write --index INDEX")
    if not own:
        remedy = "A set has the name of its index, or that of --name. Write one: vitalfew questions write --index INDEX"
        raise UnknownName("set of written questions", name, sorted({run.name for run in runs}), remedy)
    return Artifact(store.absolute(), *own[-1].fingerprints[-1].split("/"))
