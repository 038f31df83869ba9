"""Stages that take over rows of earlier artifacts, so that nothing is computed, or paid, twice."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact, Manifest, read_bases, whole_bases, write_bases
from vitalfew.storage.manifests import File
from vitalfew.tasks.stage import MethodStage, Progress


class ReusingStage(MethodStage):
    """A stage that reuses rows of finished artifacts of the store."""

    @abstractmethod
    def reusable(self) -> list[File]:
        """The files whose rows may be reused."""

    @property
    def _bases(self) -> Path:
        return self.artifact.file("reused.json")

    def prepared(self) -> list[Path]:
        return [self._bases]

    def prepare(self, progress: Progress) -> None:
        """Choose the files to reuse, once: a run that resumes after a kill reuses the same."""
        write_bases(self._bases, self.reusable())

    def bases(self) -> list[File]:
        """The chosen files. Raises Damaged."""
        return read_bases(self.prepared_file(self._bases))

    def finished(self, table: str) -> Iterator[Manifest]:
        """The manifests of this stage's finished artifacts that have rows of a table."""
        for directory in files.folders(self.store / table):
            if manifest := Artifact(self.store, self.table, directory.name).recorded_manifest():
                yield manifest

    def rows_of(self, bases: Sequence[File], schema: pa.Schema, query: str, ids: Sequence[int]) -> list[dict[str, Any]]:
        """The rows of a query on the rows of these files, `earlier`, and the `ids`, `due`. Columns that files of an
        older version lack are NULL."""
        if not (paths := [*whole_bases(self.store, bases)]):
            return []
        with duckdb.connect() as connection:
            connection.register("due", pa.table({"id": pa.array(ids, pa.int64())}))
            connection.register("none", schema.empty_table())
            connection.from_parquet([str(files.local(path)) for path in paths], union_by_name=True).create_view("found")
            connection.sql("FROM none UNION ALL BY NAME FROM found").create_view("earlier")
            return connection.sql(query).to_arrow_table().to_pylist()
