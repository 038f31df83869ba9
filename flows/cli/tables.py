"""The command `tables`: every table, view and macro of the catalog, described."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape
from rich.table import Column
from typer import Argument, Option

from vitalfew.flows.cli import options
from vitalfew.flows.cli.terminal import out, say, table
from vitalfew.tasks.registry import UnknownName

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


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
    document(store, [*(names or []), *every])


def document(store: Path, names: list[str]) -> None:
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
        if not names:
            _overview(connection, listed, store, there)
        for name in names:
            if macro := known.get(name):
                out.print(f"[b]{escape(macro.signature)}[/]: {escape(macro.about)}", soft_wrap=True)
                say(f"    [green]{escape(macro.example)}[/]\n")
            else:
                _table(connection, name, listed[name], there)


def _overview(connection: "DuckDBPyConnection", listed: dict[str, str], store: Path, there: bool) -> None:
    from vitalfew.storage.catalog.macros import MACROS

    shown = table("table", *([Column("rows", justify="right")] if there else []), "a row is")
    for name, row in listed.items():
        shown.add_row(name, *([_rows(connection, name)] if there else []), row)
    out.print(shown)
    out.print(f"\nMacros (`vitalfew tables --macros`): {', '.join(macro.name for macro in MACROS)}")
    about = f"Rows are counted in {store}" if there else f"There is no store at {store}, so no rows are counted"
    out.print(f"{escape(about)}. Columns: vitalfew tables NAME, or --all", soft_wrap=True)


def _table(connection: "DuckDBPyConnection", name: str, row: str, there: bool) -> None:
    from vitalfew.storage.catalog.views import documented

    count = f", {_rows(connection, name)} rows" if there else ""
    out.print(f"[b]{name}[/]: a row is {row}{count}")
    shown = table("column", "type", "unit", "meaning")
    meaning = documented(connection, name)
    for column, kind, *_ in connection.sql(f"DESCRIBE {name}").fetchall():
        shown.add_row(column, escape(kind), meaning[column].unit, escape(meaning[column].about))
    out.print(shown)
    out.print()


def _rows(connection: "DuckDBPyConnection", name: str) -> str:
    ((count,),) = connection.sql(f"SELECT count(*) FROM {name}").fetchall()
    return f"{count:,}"
