"""The commands `sql`, a query or a prompt for queries, and `tables`, what can be queried."""

import json
import sys
from collections.abc import Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from rich.markup import escape
from rich.table import Column
from rich.text import Text
from typer import Argument, Option

from vitalfew.configs.loading import ConfigError
from vitalfew.flows.cli import options
from vitalfew.flows.cli.terminal import out, say, say_error, table
from vitalfew.tasks.registry import UnknownName
from vitalfew.tasks.reports.shown.text import printable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

MOST_ROWS = 1000
"""Rows that a table at the prompt shows."""
HELP = r"""End a statement with ;. It may span several lines.
\d        tables and macros          \d NAME   columns of a table, example of a macro
\q        quit (or Ctrl-D)           Ctrl-C    drop the statement, stop a query"""
NARROW = 16
"""Characters of a column at least, if it has so many, for a table to be readable."""


def sql(
    query: Annotated[
        str | None,
        Argument(metavar="QUERY", help="One statement, e.g. `SELECT * FROM costs LIMIT 5`; default: a prompt."),
    ] = None,
    format: Annotated[
        Literal["table", "csv", "json", "parquet"],
        Option(help="Output format; in csv, text that a spreadsheet would compute begins with '."),
    ] = "table",
    timeout: Annotated[
        float, Option(min=0, metavar="SECONDS", help="Stop the query after this time; 0: never. Not at the prompt.")
    ] = 600,
    store: options.Store = options.STORE,
) -> None:
    """Query everything with SQL.

    DuckDB answers, without a server, read-only and only within the store.

        vitalfew sql "SELECT stage, sum(wall_seconds) FROM costs GROUP BY 1"
        vitalfew sql "FROM passages" --format parquet > passages.parquet

    Without a query, opens a prompt, or reads the query from standard input if that is not a terminal. For tables,
    columns and macros, see `vitalfew tables`. A query may take half of the memory.
    """
    from vitalfew.storage.catalog.database import connect, limited

    if format == "parquet" and sys.stdout.isatty():
        raise ConfigError("Parquet is for a file: vitalfew sql … --format parquet > rows.parquet")
    if query is None and sys.stdin.isatty():
        connect(store).close()  # reports a missing store at once
        prompt(store, format)
    else:
        with limited(store, sys.stdin.read() if query is None else query, timeout) as rows:
            _print(rows, format)


def prompt(store: Path, format: str) -> None:
    """Ask for statements and answer them until the user leaves; an error does not end the prompt."""
    out.print(f"{escape(str(store))}, read-only.  \\d: tables and macros, \\h: help, \\q: quit")
    while True:
        try:
            text = input("vitalfew> ")
            while not _is_whole(text):
                text += "\n" + input("     ... ")
            if (text := text.strip()) in ("\\q", "quit", "exit"):
                return
            _answer(store, text, format)
        except KeyboardInterrupt:
            print()
        except EOFError:
            return


def _answer(store: Path, text: str, format: str) -> None:
    """Answer one statement or command of the prompt; print an error of it."""
    from duckdb import Error as QueryFailed

    from vitalfew.storage.catalog.database import QueryError, limited

    command, *names = text.rstrip(";").split() or [""]
    try:
        if command == "\\d":
            _document(store, names)
        elif command == "\\h":
            out.print(HELP, markup=False)
        elif command.startswith("\\"):
            raise ValueError(f"unknown command {command}; \\h lists the commands")
        elif command:
            with limited(store, text) as rows:
                _print(rows, format, MOST_ROWS)
    except (QueryError, QueryFailed, OSError, ValueError) as error:
        say_error(str(error))


def _is_whole(text: str) -> bool:
    """Return whether the text can be answered: it is empty, a command, or a statement with its semicolon."""
    import duckdb

    typed = text.strip()
    if not typed or typed.startswith("\\") or typed in ("quit", "exit"):
        return True
    last = (len(typed) - 1, duckdb.token_type.operator)  # outside strings and comments
    return typed.endswith(";") and duckdb.tokenize(typed)[-1:] == [last]


def _print(relation: "DuckDBPyRelation", format: str, most: int | None = None) -> None:
    """Print the rows of a query, at most `most` in a table; others are streamed to standard output.

    Raises KeyboardInterrupt if the user stops the query, and DuckDB's errors, because the query runs only now.
    """
    from vitalfew.tasks.reports.shown.text import write_csv, write_parquet

    try:
        if format == "table":
            _print_table(relation, most)
        elif format == "parquet":
            write_parquet(relation.arrow(), sys.stdout.buffer)
        elif format == "csv":
            write_csv(relation.arrow(), sys.stdout)
        else:
            print("[", end="")
            for number, row in enumerate(row for batch in relation.arrow() for row in batch.to_pylist()):
                print(",\n" if number else "\n", json.dumps(row, default=_plain, ensure_ascii=False), sep="", end="")
            print("\n]")
    except RuntimeError as error:
        if str(error) == "Query interrupted":  # DuckDB's word for Ctrl-C
            raise KeyboardInterrupt from None
        raise


def _print_table(relation: "DuckDBPyRelation", most: int | None) -> None:
    """As a table if one of these cells fits the terminal, with longer cells on several lines; else row by row."""
    fetched = (relation if most is None else relation.limit(most + 1)).fetchall()
    columns, cells = relation.columns, [[_cell(value) for value in row] for row in fetched[:most]]
    widths = [max(map(len, (name, *own))) for name, *own in zip(columns, *cells, strict=True)]
    least = (max(len(name), min(width, NARROW)) for name, width in zip(columns, widths, strict=True))
    if sum(least) + len(widths) <= out.width:
        out.print(table(*map(escape, columns), rows=(map(escape, row) for row in cells)))
    else:
        for number, row in enumerate(cells, 1):
            out.print(f"row {number}", style="bold")
            pairs = zip(columns, row, strict=True)
            rows = ((Text(name, style="dim"), Text(cell, overflow="fold")) for name, cell in pairs)
            out.print(table(show_header=False, rows=rows))
    if not cells:
        out.print("(no rows)")
    if most is not None and len(fetched) > most:
        out.print(f"Showing the first {most:,} rows; there are more.")


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.6g}" if abs(value) < 1e6 else f"{value:,.0f}"
    return "" if value is None else printable(str(value))


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, (date, datetime)) else str(value)


def tables(
    names: Annotated[list[str] | None, Argument(metavar="NAME", help="Table, view or macro to describe.")] = None,
    macros: Annotated[bool, Option("--macros", help="Describe all macros, with examples.")] = False,
    everything: Annotated[bool, Option("--all", help="Describe every column of every table.")] = False,
    store: options.Store = options.STORE,
) -> None:
    """Describe the tables and macros of `sql`.

    Every column has its type, unit and meaning. Works without a store; if there is one, also counts the rows of every
    table.

        vitalfew tables hits
    """
    from vitalfew.storage.catalog.macros import MACROS
    from vitalfew.storage.catalog.views import ROWS

    every = [*(ROWS if everything else []), *([macro.name for macro in MACROS] if macros else [])]
    _document(store, [*(names or []), *every])


def _document(store: Path, names: Sequence[str]) -> None:
    """Describe these tables and macros, or list all if no names are given. Raises UnknownName."""
    from vitalfew.storage import files
    from vitalfew.storage.catalog.database import connect, without_rows
    from vitalfew.storage.catalog.macros import MACROS
    from vitalfew.storage.catalog.views import rows

    known = {macro.name: macro for macro in MACROS}
    there = files.is_folder(store)
    with connect(store) if there else without_rows() as connection:
        listed = rows(connection)
        for name in names:
            if name not in listed and name not in known:
                raise UnknownName("table or macro", name, [*listed, *known])
        for name in names:
            if macro := known.get(name):
                say(f"[b]{escape(macro.signature)}[/]: {escape(macro.about)}")
                say(f"    [green]{escape(macro.example)}[/]\n")
            else:
                _describe(connection, name, listed[name], there)
        if not names:
            shown = table("table", *([Column("rows", justify="right")] if there else []), "a row is")
            for name, row in listed.items():
                shown.add_row(name, *([_count(connection, name)] if there else []), row)
            out.print(shown)
            out.print(f"\nMacros (`vitalfew tables --macros`): {', '.join(known)}")
            about = f"Rows are counted in {store}" if there else f"There is no store at {store}, so no rows are counted"
            say(f"{escape(about)}. Columns: vitalfew tables NAME, or --all")


def _describe(connection: "DuckDBPyConnection", name: str, row: str, there: bool) -> None:
    """Print every column of a table. `there`: it has rows to count."""
    from vitalfew.storage.catalog.views import documented

    count = f", {_count(connection, name)} rows" if there else ""
    meaning, columns = documented(connection, name), connection.sql(f"DESCRIBE {name}").fetchall()
    rows = ((column, escape(kind), meaning[column].unit, escape(meaning[column].about)) for column, kind, *_ in columns)
    out.print(f"[b]{name}[/]: a row is {row}{count}")
    out.print(table("column", "type", "unit", "meaning", rows=rows), "", sep="\n")


def _count(connection: "DuckDBPyConnection", name: str) -> str:
    ((count,),) = connection.sql(f"SELECT count(*) FROM {name}").fetchall()
    return f"{count:,}"
