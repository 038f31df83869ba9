"""Text from corpora, configurations and models, made fit to be shown, and to be written into files."""

import csv
import re
import shlex
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_FORMULA = tuple("=+-@\t\r\n＝＋－＠")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_PICTURES = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n"} | {0x7F: 0x2421}
_PICTURES |= dict.fromkeys(range(0x80, 0xA0), 0xFFFD)
# No file can hold half a surrogate pair; XML takes no noncharacters.
_PICTURES |= dict.fromkeys([*range(0xD800, 0xE000), 0xFFFE, 0xFFFF], 0xFFFD)


def printable(text: str) -> str:
    """Text of a corpus for a terminal: control characters, which might command it, as their pictures."""
    return text.translate(_PICTURES)


def one_line(text: str) -> str:
    """Printable, with every run of white space as one space."""
    return printable(" ".join(text.split()))


def no_formula(text: str) -> str:
    """Text for a cell of a spreadsheet, which would compute what begins as a formula does: behind an apostrophe (OWASP,
    CSV injection). A number stays one."""
    return f"'{text}" if text.startswith(_FORMULA) and not _NUMBER.fullmatch(text) else text


def shortened(text: str, length: int) -> str:
    """At most `length` characters (3 or more): the middle gives way, because names of a grid differ at their ends."""
    if len(text) <= length:
        return text
    tail = (length - 1) // 2
    return f"{text[: length - 1 - tail]}…{text[len(text) - tail :]}"


def count(number: int, thing: str) -> str:
    """So many things, in words."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def listed(names: list[str], limit: int = 3) -> str:
    """'a, b and 2 others'."""
    if len(names) <= limit + 1:
        return ", ".join(names)
    return f"{', '.join(names[:limit])} and {len(names) - limit} others"


def sql_command(sql: str, store: str) -> str:
    """The shell command that asks this of a store: SQL in double quotes where that is safe, because it has single
    ones."""
    argument = shlex.quote(sql) if set(sql) & set('"$`\\!') else f'"{sql}"'
    return f"vitalfew sql {argument}{at_store(store)}"


def at_store(store: str) -> str:
    """The option of a command that names a store; '' for the default one."""
    return "" if store == "store" else f" --store {shlex.quote(printable(store))}"


def significant(value: float, digits: int = 3) -> str:
    """So many significant digits, never with an exponent: 0.00123, 12.3, 1,234."""
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    return f"{float(f'{value:.{digits}g}'):.12f}".rstrip("0").rstrip(".") or "0"


def write_csv(reader: "pa.RecordBatchReader", file: IO[str]) -> int:
    """Write rows as CSV, in which no text is a formula for a spreadsheet; return how many."""

    def cell(value: Any) -> Any:
        return no_formula(value) if isinstance(value, str) else value

    count = 0
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(no_formula, reader.schema.names))
    for batch in reader:
        writer.writerows(map(cell, row) for row in zip(*(each.to_pylist() for each in batch.columns), strict=True))
        count += batch.num_rows
    return count


def write_parquet(reader: "pa.RecordBatchReader", file: IO[bytes]) -> int:
    """Write rows as Parquet; return how many."""
    import pyarrow.parquet as pq

    count = 0
    with pq.ParquetWriter(file, reader.schema, compression="zstd") as writer:
        for batch in reader:
            writer.write_batch(batch)
            count += batch.num_rows
    return count
