"""Printed tables of a paper, in its units, and formulas over their cells. A cell is "TABLE / ROW / COLUMN"."""

from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from statistics import fmean
from typing import Self

from pydantic import Field, model_validator

from vitalfew.configs.section import Config

PERCENT = "%"

Number = int | float
Value = tuple[Number, str]
"""With its unit."""


class Table(Config):
    """A printed table, or the part of it whose columns are alike."""

    what: str = Field(min_length=1, description="Contents of the cells.")
    columns: dict[str, str] = Field(min_length=1, description="Unit by column: %, share, tokens, s, or '' for none.")
    rows: dict[str, tuple[Number | None, ...]] = Field(min_length=1, description="Cells by row; null: an empty cell.")

    @model_validator(mode="after")
    def _rectangular(self) -> Self:
        uneven = [name for name, cells in self.rows.items() if len(cells) != len(self.columns)]
        if uneven:
            raise ValueError(f"these rows must have {len(self.columns)} cells: {', '.join(uneven)}")
        return self

    def cells(self, row: str, column: str) -> list[Value]:
        """The cells of the rows and columns that match; * matches any text."""
        return [
            (cell, unit)
            for name, cells in self.rows.items()
            for (head, unit), cell in zip(self.columns.items(), cells, strict=True)
            if cell is not None and fnmatchcase(name, row) and fnmatchcase(head, column)
        ]


class Formula(Config):
    """A value computed of cells. Exactly one of the settings is given; a term is a cell or a formula."""

    minus: "tuple[Term, Term] | None" = Field(None, description="First term minus the second.")
    over: "tuple[Term, Term] | None" = Field(None, description="First term divided by the second.")
    mean: "tuple[Term, ...] | None" = Field(
        None, description="Mean of the terms; * in a row or column matches any text."
    )
    least: "tuple[Term, ...] | None" = Field(None, description="Minimum of the terms; * as in mean.")

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if len(self.given()) != 1:
            raise ValueError(f"set exactly one of {', '.join(type(self).model_fields)}")
        return self

    def given(self) -> "dict[str, tuple[Term, ...]]":
        """The operation that it is, with its terms."""
        return {name: terms for name in type(self).model_fields if (terms := getattr(self, name))}


Term = str | Formula

OPERATIONS: dict[str, Callable[..., float]] = {
    "minus": lambda first, second: first - second,
    "over": lambda first, second: first / second,
    "mean": lambda *values: fmean(values),
    "least": lambda *values: min(values),
}


def value(tables: Mapping[str, Table], term: Term) -> Value:
    """Compute a term. Raises ValueError if it names no cell, names several where one is needed, or mixes units."""
    if isinstance(term, str):
        found = cells(tables, term)
        if len(found) > 1:
            raise ValueError(f"{term!r} must name one cell, but names {len(found)}")
        return found[0]
    ((operation, terms),) = term.given().items()
    single = operation in {"minus", "over"}
    values = [
        each
        for part in terms
        for each in (cells(tables, part) if isinstance(part, str) and not single else [value(tables, part)])
    ]
    units = {unit for _, unit in values}
    if len(units) > 1:
        raise ValueError(f"the terms of a formula must have one unit, got {', '.join(sorted(units))}")
    return OPERATIONS[operation](*(number for number, _ in values)), "" if operation == "over" else units.pop()


def cells(tables: Mapping[str, Table], name: str) -> list[Value]:
    """The cells of that name, at least one. Raises ValueError where there is none."""
    table, row, column = [*name.split(" / "), "", ""][:3]
    found = tables[table].cells(row, column) if table in tables else []
    if not found:
        raise ValueError(f"there is no cell {name!r} (TABLE / ROW / COLUMN); tables: {', '.join(tables) or 'none'}")
    return found
