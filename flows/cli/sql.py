"""The command `sql`: a query, or a prompt for queries."""

import sys
from typing import Annotated, Literal

from typer import Argument, Option

from vitalfew.configs.loading import ConfigError
from vitalfew.flows.cli import options, show


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
        from vitalfew.flows.cli.prompt import prompt

        connect(store).close()  # reports a missing store at once
        prompt(store, format)
    else:
        with limited(store, sys.stdin.read() if query is None else query, timeout) as rows:
            show.rows(rows, format)
