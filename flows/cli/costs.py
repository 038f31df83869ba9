"""The command `costs`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from vitalfew.flows.cli.terminal import DEFAULT_STORE, StoreOption, explained_errors, out
from vitalfew.tasks.datasets.base import InputError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_MEASURES = """sum(s.tokens)::BIGINT, sum(s.wall_seconds), sum(s.cpu_seconds), sum(s.gpu_seconds), sum(s.gpu_joules),
    sum(s.usd)"""
_QUOTED = {"tokens": "tokens", "wall s": "wall_seconds", "CPU s": "cpu_seconds", "MB": "disk_bytes / 1e6", "USD": "usd"}
_HEADS = ("tokens", "wall s", "CPU s", "GPU s", "GPU kJ", "USD")


def costs(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's id or a prefix of it, or the name of an experiment or index.")
    ] = "",
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Show the costs of runs by stage and model, by day, by run and by node, and compare them with the quote.

    Uses the prices in configs/prices.yaml on the day of the work. Includes the costs of artifacts that were removed
    later. In SQL: FROM spending(), FROM quoted(), and the table `costs`, a row per shard.

        vitalfew costs quickstart
    """
    with explained_errors():
        from vitalfew.storage.catalog.database import connect

        with connect(store) as connection:
            stages = _spending(connection, run, "s.stage, s.model", "sum(s.usd) DESC")
            if not stages:
                raise InputError(_nothing(run))
            out.print(_paid(("stage", "model"), stages, total=True), "")
            out.print(_paid(("day (UTC)",), _spending(connection, run, "s.day", "s.day")), "")
            out.print(_paid(("run", "for"), _spending(connection, run, "s.run_id, runs.name", "s.run_id")))
            nodes = _spending(connection, run, "s.node", "s.node NULLS LAST")
            if len(nodes) > 1:
                out.print("", _paid(("node",), [(name or "not recorded", *rest) for name, *rest in nodes]))
            _quoted(connection, run)


def _spending(connection: "DuckDBPyConnection", run: str, by: str, order: str) -> list[tuple[Any, ...]]:
    return connection.execute(
        f"SELECT {by}, {_MEASURES} FROM spending(?) AS s LEFT JOIN runs USING (run_id) GROUP BY {by} ORDER BY {order}",
        [run],
    ).fetchall()


def _nothing(run: str) -> str:
    if run:
        return f"there is no run {run!r} with costs in this store; list the runs with `vitalfew runs`"
    return "this store has no costs yet; start with `vitalfew index DATASET --name NAME`"


def _paid(keys: tuple[str, ...], rows: list[tuple[Any, ...]], total: bool = False) -> Table:
    """Make a table of costs, without the GPU columns if no GPU was used. A row has the keys, then the measures."""
    measured = [[value or 0 for value in row[len(keys) :]] for row in rows]
    kept = [place for place, head in enumerate(_HEADS) if "GPU" not in head or any(row[place] for row in measured)]
    table = Table(*keys, box=None, header_style="bold", pad_edge=False, show_footer=total)
    for place in kept:
        footer = _figure(place, sum(row[place] for row in measured)) if total else ""
        table.add_column(_HEADS[place], footer, justify="right")
    if total:
        table.columns[0].footer = "total"
    for row, values in zip(rows, measured, strict=True):
        cells = (escape("" if key is None else str(key)) for key in row[: len(keys)])
        table.add_row(*cells, *(_figure(place, values[place]) for place in kept))
    return table


def _figure(place: int, value: float) -> str:
    head = _HEADS[place]
    if head == "tokens":
        return f"{value:,}"
    return f"{value:.5f}" if head == "USD" else f"{value / 1000:,.2f}" if head == "GPU kJ" else f"{value:,.1f}"


def _quoted(connection: "DuckDBPyConnection", run: str) -> None:
    pairs = ", ".join(f"q.quoted_{name}, q.{name}" for name in _QUOTED.values())  # both keep a divisor
    rows: dict[str, list[float | None]] = {}
    for stage, *figures in connection.execute(f"SELECT q.stage, {pairs} FROM quoted(?) AS q", [run]).fetchall():
        rows[stage] = [*map(_sum, rows[stage], figures)] if stage in rows else figures
    if not rows:
        return
    table = Table("stage", box=None, header_style="bold", pad_edge=False)
    for head in _QUOTED:
        table.add_column(head, justify="right")
    for stage, figures in rows.items():
        sides = zip(figures[::2], figures[1::2], strict=True)
        table.add_row(stage, *(f"{_short(quoted)} → {_short(true)}" for quoted, true in sides))
    out.print("\nQuoted → actual:")
    out.print(table)


def _sum(one: float | None, other: float | None) -> float | None:
    return other if one is None else one if other is None else one + other


def _short(value: float | None) -> str:
    if value is None:  # the size of an artifact that was removed later
        return "removed"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}" if value >= 100 else f"{value:.2g}"
