"""A search among some passages of an index: those that fulfil an SQL condition on the table `passages`.

The condition is asked of a shard at a time, of its columns without texts unless it names them. Of every table shard a
bit per passage is kept.
"""

import re
from functools import lru_cache

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vitalfew.configs.schema import Unit
from vitalfew.storage.catalog.database import changing
from vitalfew.storage.indexes.units import Units

Mask = NDArray[np.bool_]
Bits = NDArray[np.uint8]
_ROW = "vitalfew_row"
_TEXT = re.compile(r"\btext\b", re.IGNORECASE)


class BadCondition(ValueError):
    """A condition that is not SQL, names no column of `passages`, or may choose others the next time."""


class Selection:
    """The units of the passages for which `condition` is true. Raises BadCondition at its first use."""

    def __init__(self, units: Units, condition: str) -> None:
        self.units, self.condition = units, condition
        self.bits = lru_cache(None)(self._bits)
        self._passages = lru_cache(None)(self._of_shard)

    def mask(self, unit: Unit, shard: int) -> Mask:
        """True for the units of a table shard to search, (units,)."""
        bits, count = self._passages(shard)
        mask = np.unpackbits(bits, count=count).view(np.bool_)
        return mask if unit == "passage" else np.repeat(mask, self.units.outline(shard).sizes)

    def _bits(self, unit: Unit, first: int, last: int) -> Bits:
        """The masks of the table shards from `first` to before `last`, eight units a byte, the first one lowest. Kept
        for the next search."""
        masks = [self.mask(unit, shard) for shard in range(first, last)]
        return np.packbits(np.concatenate(masks), bitorder="little")

    def _of_shard(self, shard: int) -> tuple[Bits, int]:
        """The bits of a table shard's passages, and their number."""
        artifact = self.units.artifacts["passages"]
        names = artifact.schema(shard).names
        columns = [name for name in names if name != "text" or _TEXT.search(self.condition)]
        rows = artifact.read(shard, columns=columns)
        chosen = np.zeros(rows.num_rows, np.bool_)
        chosen[self._rows(rows.append_column(_ROW, pa.array(np.arange(rows.num_rows))))] = True
        return np.packbits(chosen), rows.num_rows

    def _rows(self, passages: pa.Table) -> NDArray[np.int64]:
        with duckdb.connect(config={"threads": 1, "python_enable_replacements": False}) as connection:
            connection.register("passages", passages)
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            try:
                condition = duckdb.SQLExpression(self.condition)
                rows = connection.view("passages").filter(condition).project(_ROW).fetchnumpy()[_ROW]
                found = changing(connection, str(condition), {"passages"})
            except duckdb.Error as error:
                known = ", ".join(name for name in passages.column_names if name != _ROW)
                fault = str(error).partition("\n")[0].rstrip("!. ")
                raise BadCondition(
                    f'retrieve.where (--where) "{self.condition}": {fault}. Write an SQL condition on the columns '
                    f"{known}, for example \"metadata->>'category' = 'guide'\""
                ) from None
        if found:
            raise BadCondition(
                f'retrieve.where (--where) "{self.condition}": the result of {found} may change, but the same settings '
                "must search the same passages"
            )
        return np.asarray(rows, np.int64)
