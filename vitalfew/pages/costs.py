"""The page Costs: what work took in a period, by method, stage, model, day or run; quotes; the traffic of servers."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import polars as pl
from nicegui import ui

from vitalfew.pages import costs_traffic, parts
from vitalfew.pages.site import Site

PERIODS = {
    "today": "today",
    "7": "the last 7 days",
    "week": "last week (Monday to Sunday)",
    "30": "the last 30 days",
    "all": "all time",
}
GROUPS = {"method": "method", "stage": "stage", "model": "model", "day": "day", "run": "run"}
_MEASURES = ("usd", "usd_nothing_known", "tokens", "wall_seconds", "cpu_seconds", "gpu_seconds")
SERIES = 10
"""Groups that a chart tells apart."""
_STYLE = ".q-table td, .q-table th { min-width: 7.5rem }"
_NO_MODEL = "(no model)"
_NO_RUN = "vitalfew index DATASET --name NAME"


@dataclass
class View:
    """The choice of a period and a grouping."""

    period: str
    by: str

    @property
    def address(self) -> str:
        return f"/costs?period={self.period}&by={self.by}"

    def days(self) -> tuple[date | None, date | None]:
        return span(self.period, datetime.now(UTC).date())


def span(period: str, today: date) -> tuple[date | None, date | None]:
    """The first and the last day of a period (UTC); None and None of all time."""
    if period == "all":
        return None, None
    if period == "week":
        monday = today - timedelta(days=today.weekday() + 7)
        return monday, monday + timedelta(days=6)
    return today - timedelta(days=0 if period == "today" else int(period) - 1), today


def draw(site: Site) -> None:
    ui.add_css(_STYLE)
    given = ui.context.client.request.query_params
    period, by = given.get("period", "7"), given.get("by", "method")
    view = View(period if period in PERIODS else "7", by if by in GROUPS else "method")

    def change(what: str) -> Callable[[str], None]:
        def changed(value: str) -> None:
            setattr(view, what, value)
            ui.navigate.to(view.address)  # which adds the path that the pages are below

        return changed

    with ui.element("div").classes("row"):
        parts.choice("Period (UTC)", PERIODS, view.period, change("period"))
        parts.choice("By", GROUPS, view.by, change("by"))
    parts.later(lambda: site.store.costs(), lambda found: _show(found, view), "Reading the costs")
    parts.later(lambda: _quoted(site, view), _show_quoted, "Reading the quotes")
    costs_traffic.draw(site, *view.days())


def _show(every: pl.DataFrame, view: View) -> None:
    since, until = view.days()
    rows = every if since is None else every.filter(pl.col("day").is_between(since, until))
    if every.is_empty():
        parts.hint(f"This store has no costs yet. Index something first: {_NO_RUN}")
        return
    if rows.is_empty():
        parts.hint(f"No work was done in this period ({_days(since, until)}). The last was on {every['day'].max()!s}.")
        ui.link("Show all time", View("all", view.by).address)
        return
    rows = rows.with_columns(_group(view.by).alias("group"))
    parts.heading(f"{PERIODS[view.period].capitalize()}: {parts.usd(_sum(rows, 'usd'))} USD paid")
    parts.hint(_total(rows, since, until))
    _chart(rows, since, until)
    grouped = _grouped(rows, view.by)
    parts.frame_table(f"Costs by {view.by}", _columns(grouped, view.by), grouped, *_order(view.by))
    parts.downloads(f"costs-by-{view.by}-{view.period}", lambda: grouped)
    _explain(view.by)


def _group(by: str) -> pl.Expr:
    if by == "day":
        return pl.col("day").cast(pl.String)
    if by == "run":
        return pl.concat_str(pl.col("name").fill_null(""), pl.lit(" "), pl.col("run_id")).str.strip_chars()
    return pl.col(by).fill_null(_NO_MODEL)


def _grouped(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    sums = [pl.col(name).sum() for name in _MEASURES]
    if by == "method":
        sums.append(pl.col("usd").filter(pl.col("shared_by") > 1).sum().alias("usd_shared"))
    grouped = rows.group_by("group").agg(sums).rename({"group": by})
    total = grouped["usd"].sum()
    share = pl.col("usd") / total if total else pl.lit(None, pl.Float64)
    order, descending = _order(by)
    grouped = grouped.sort(order, by, descending=[descending, False])
    return grouped.with_columns(share.alias("share"), pl.col("tokens").round(0).cast(pl.Int64))


def _order(by: str) -> tuple[str, bool]:
    return ("day", True) if by == "day" else ("usd", True)


def _columns(grouped: pl.DataFrame, by: str) -> list[parts.Shown]:
    def number(name: str, label: str, write: Callable[[float | None], str]) -> parts.Shown:
        return parts.Shown(name, label, write, number=True)

    shown = [
        parts.Shown(by, f"{by} (UTC)" if by == "day" else by),
        number("usd", "USD paid", parts.usd),
        number("share", "share", lambda value: "" if value is None else f"{value:.1%}"),
        number("usd_nothing_known", "USD if nothing had been known", parts.usd),
        number("tokens", "model tokens", parts.figure()),
        number("wall_seconds", "wall seconds", parts.figure(1)),
        number("cpu_seconds", "CPU seconds", parts.figure(1)),
    ]
    if grouped["gpu_seconds"].sum():
        shown.append(number("gpu_seconds", "GPU seconds", parts.figure(1)))
    if by == "method":
        shown.append(number("usd_shared", "USD of work shared with other methods", parts.usd))
    return shown


def _days(since: date | None, until: date | None) -> str:
    if since is None or until is None:
        return "all days"
    return f"{since:%a} {since}" if since == until else f"{since:%a} {since} to {until:%a} {until}"


def _sum(rows: pl.DataFrame, name: str) -> float:
    return float(rows[name].sum())


def _total(rows: pl.DataFrame, since: date | None, until: date | None) -> str:
    usd, unknown, tokens, wall, cpu, gpu = (_sum(rows, name) for name in _MEASURES)
    held = f", {gpu:,.0f} seconds of GPUs" if gpu else ""
    return (
        f"{_days(since, until)} (UTC), {rows['run_id'].n_unique()} runs: {parts.usd(usd)} USD paid, and "
        f"{parts.usd(unknown)} USD if nothing had been known before; {tokens:,.0f} model tokens, "
        f"{wall:,.0f} wall seconds, {cpu:,.0f} CPU seconds{held}."
    )


def _chart(rows: pl.DataFrame, since: date | None, until: date | None) -> None:
    worked = sorted(rows["day"].unique().to_list())
    first, last = since or worked[0], until or worked[-1]
    days = [first + timedelta(days=place) for place in range((last - first).days + 1)]
    if len(days) > 400:
        days = worked
    largest = rows.group_by("group").agg(pl.col("usd").sum()).sort("usd", descending=True)["group"].to_list()
    named = largest if len(largest) <= SERIES else largest[: SERIES - 1]
    others = f"{len(largest) - len(named)} others"
    told = pl.when(pl.col("group").is_in(named)).then(pl.col("group")).otherwise(pl.lit(others)).alias("group")
    sums = rows.with_columns(told).group_by("group", "day").agg(pl.col("usd").sum())
    by = {(group, day): usd for group, day, usd in sums.iter_rows()}
    names = named + [others] * (len(largest) > len(named))
    parts.chart(
        "USD paid by day",
        {
            "tooltip": {"trigger": "axis"},
            "legend": {"type": "scroll", "top": 0},
            "grid": {"containLabel": True, "left": 10, "right": 20, "top": 60, "bottom": 10},
            "xAxis": {"type": "category", "data": [str(day) for day in days]},
            "yAxis": {"type": "value", "name": "USD paid"},
            "series": [
                {"type": "bar", "stack": "usd", "name": name, "data": [by.get((name, day), 0) for day in days]}
                for name in names
            ],
        },
    )


def _explain(by: str) -> None:
    parts.hint(
        "USD paid: what the work of this period cost at the prices in configs/prices.yaml on its day, cancelled work "
        "included. USD if nothing had been known: what it would have cost without the answers, readings and vectors "
        "that earlier work had computed, which are reused."
    )
    if by == "method":
        parts.hint(
            "Work that several methods of a run share, such as encoding the questions or one search for two methods, "
            "is split among them equally, so that the rows add up to the total; the last column says how much of the "
            "USD paid is such a part. An index is not made for one method: its work is “indexing (no method)”."
        )
    ui.link("The same in SQL", "/sql?sql=FROM%20spending_by_method()").classes("hint")


_QUOTED = """
SELECT r.started, coalesce(r.name, q.run_id) AS name, q.run_id, q.stage, sum(q.quoted_usd) AS quoted_usd,
    sum(q.usd) AS usd, sum(q.quoted_wall_seconds) AS quoted_wall_seconds, sum(q.wall_seconds) AS wall_seconds
FROM quoted() AS q LEFT JOIN runs AS r USING (run_id) GROUP BY ALL ORDER BY r.started DESC, usd DESC
"""


def _quoted(site: Site, view: View) -> pl.DataFrame:
    since, until = view.days()
    rows = site.store.sql(_QUOTED)
    return rows if since is None else rows.filter(pl.col("started").dt.date().is_between(since, until))


def _show_quoted(rows: pl.DataFrame) -> None:
    parts.heading("Quoted and actual")
    if rows.is_empty():
        parts.hint(
            "No run of this period was quoted. A quote estimates the tokens, time and USD of a run before it: "
            "vitalfew plan DATASET, or vitalfew plan EXPERIMENT --index NAME"
        )
        return
    worded = rows.with_columns(
        pl.struct(name, f"quoted_{name}").map_elements(_words, pl.String).alias(f"{name}_words")
        for name in ("usd", "wall_seconds")
    )
    columns = [
        parts.Shown("name", "run for"),
        parts.Shown("run_id", "run"),
        parts.Shown("stage", "stage"),
        parts.Shown("quoted_usd", "USD quoted", parts.usd, number=True),
        parts.Shown("usd", "USD actual", parts.usd, number=True),
        parts.Shown("usd_words", "USD, in words"),
        parts.Shown("quoted_wall_seconds", "wall seconds quoted", parts.figure(1), number=True),
        parts.Shown("wall_seconds", "wall seconds actual", parts.figure(1), number=True),
        parts.Shown("wall_seconds_words", "seconds, in words"),
    ]
    parts.frame_table("Quoted and actual", columns, worded)


def _words(pair: dict[str, float | None]) -> str:
    """How an actual figure compares with the quoted one."""
    actual, quoted = pair.values()
    if not quoted or actual is None:
        return "not quoted" if actual else ""
    ratio = actual / quoted
    if ratio >= 2:
        return f"{ratio:,.1f} times the quote"
    change = round(abs(ratio - 1) * 100)
    return "as quoted" if change < 5 else f"{change} % {'above' if ratio > 1 else 'below'} the quote"
