"""Comma-separated values (RFC 4180) and similar files, whose columns the options name; passages or questions."""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field, field_validator

from vitalfew.tasks.datasets.base import DatasetOptions, InputError, Record
from vitalfew.tasks.datasets.columns import TableOptions, present_columns
from vitalfew.tasks.datasets.delimited import Dialect, columns_of, delimited_rows
from vitalfew.tasks.datasets.files import FileDataset
from vitalfew.tasks.datasets.rows import records_of


class CsvOptions(TableOptions):
    """How the file is written, and which columns hold what."""

    delimiter: str = Field(default=",", description="field delimiter: one character, or `tab`")
    quoted: bool = Field(
        default=True, description="quotes enclose fields; false if they are ordinary characters, as in many TSV files"
    )
    columns: str | None = Field(
        default=None,
        min_length=1,
        description="column names, separated by commas, for a file whose first row is data",
    )

    @field_validator("delimiter")
    @classmethod
    def _is_one_character(cls, value: str) -> str:
        value = {"tab": "\t", "\\t": "\t"}.get(value.lower(), value)
        if len(value) != 1 or value in '"\r\n':
            raise ValueError("expected one character, neither a quote nor a line break; write `tab` for a tab")
        return value


class Csv(FileDataset):
    """Passages, or questions, of a file of comma- or tab-separated values.

    The first row names the columns unless columns= does. By default a row is a passage with the columns text, title
    and id, of which only the text is required, or a question with the columns question and answers: one answer, a
    JSON list, or several answers separated by separator=. Options name other columns. A quoted field may hold
    delimiters, line breaks and doubled quotes. If a quote is not closed, only the line it is in is rejected. For
    tab-separated values, set delimiter=tab.
    """

    example: ClassVar[str] = "csv:data/notes.csv?text=body&title=headline"
    Options: ClassVar[type[DatasetOptions]] = CsvOptions
    options: CsvOptions

    def records(self) -> Iterator[tuple[int, Record]]:
        dialect = Dialect(self.options.delimiter, self.options.quoted)
        names = tuple(self.options.columns.split(",")) if self.options.columns else None
        present = names or columns_of(self.source(), dialect)
        try:
            present_columns(self.options, present, self.source())
        except InputError as error:
            hint = f". If {dialect.delimiter!r} does not separate its columns, set delimiter="
            raise InputError(f"{error}{hint if len(present) == 1 else ''}") from None
        return records_of(delimited_rows(self.source(), dialect, names), self.options.records)
