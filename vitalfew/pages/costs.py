"""The page Costs: the work of a period by method, stage, model, day or run; estimates; the traffic of servers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl
from nicegui import ui

from vitalfew.flows.server.guard import PAGES as ROOT
from vitalfew.pages import parts, sql_editor
from vitalfew.pages.addresses import results
from vitalfew.pages.site import Site
from vitalfew.storage.costs import Prices, read_prices

PERIODS = {
    "today": "today",
    "7": "the last 7 days",
    "week": "last week (Monday to Sunday)",
    "30": "the last 30 days",
    "all": "all time",
}
GROUPS = ("method", "stage", "model", "day", "run")
KEYS = {by: ["run_id", "name", "flow"] if by == "run" else [by] for by in GROUPS}
"""The columns that tell groups apart."""
_MEASURES = {"usd": 7, "usd_nothing_known": 7, "tokens": 0, "wall_seconds": 1, "cpu_seconds": 1, "gpu_seconds": 1}
"""Columns that are summed, with the digits that a sum is rounded to."""
USD = "USD (machine and servers)"
SERIES = 10
"""Groups that a chart tells apart."""
_STYLE = ".q-table td, .q-table th { min-width: 7.5rem }"
_NO_MODEL = "(no model)"
_METHOD = "CASE WHEN name LIKE 'gate/%' THEN 'gate of ' || name[6:] ELSE method END AS method"
"""The methods of a gate's evaluations are those of two generations, and new ones every time."""
_WRITE_USD = (
    "value => value.toLocaleString('en', value > 0 && value < 1 ? {minimumSignificantDigits: 2, "
    "maximumSignificantDigits: 2} : {maximumFractionDigits: 2}) + ' USD'"
)
_NO_RUN = "vitalfew index DATASET --name NAME"


@dataclass(frozen=True)
class View:
    """The choice of a period and a grouping."""

    period: str
    by: str

    @property
    def address(self) -> str:
        return f"/costs?period={self.period}&by={self.by}"

    def days(self) -> tuple[date | None, date | None]:
        return span(self.period, datetime.now(UTC).date())

    @property
    def statement(self) -> str:
        """Reads the table."""
        since, until = self.days()
        sums = {
            name: f"round(sum({name}), {digits}){'' if digits else '::BIGINT'}" for name, digits in _MEASURES.items()
        }
        keys = [_METHOD] if self.by == "method" else KEYS[self.by]
        columns = [*keys, *(f"{written} AS {name}" for name, written in sums.items())]
        columns.append("round(100 * sum(usd) / nullif(sum(sum(usd)) OVER (), 0), 1) AS percent_of_usd")
        if self.by == "method":
            columns.append("round(sum(usd) FILTER (shared_by > 1), 7) AS usd_shared")
            columns.append("string_agg(DISTINCT name, ', ' ORDER BY name) AS names")
        lines = ["SELECT " + ",\n    ".join(columns), "FROM spending_by_method() LEFT JOIN runs USING (run_id)"]
        if since:
            lines.append(f"WHERE day BETWEEN DATE '{since}' AND DATE '{until}'")
        return "\n".join([*lines, f"GROUP BY ALL ORDER BY {'day' if self.by == 'day' else 'sum(usd)'} DESC"])


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

    def go(view: View) -> None:
        ui.navigate.to(view.address)  # which adds the path that the pages are below

    with ui.element("div").classes("row"):
        parts.choice("Period (UTC)", PERIODS, view.period, lambda value: go(View(value, view.by)))
        parts.choice("By", {by: by for by in GROUPS}, view.by, lambda value: go(View(view.period, value)))

    def read() -> tuple[pl.DataFrame, pl.DataFrame, Prices]:
        return site.store.costs(), site.store.sql(view.statement), read_prices(datetime.now(UTC).date())

    def drawn(found: tuple[pl.DataFrame, pl.DataFrame, Prices]) -> None:
        _show(*found, view)
        parts.later(lambda: _quoted(site, view), _show_quoted, "Reading the estimates")
        _traffic(site, *view.days())

    parts.later(read, drawn, "Reading the costs")


def _show(every: pl.DataFrame, grouped: pl.DataFrame, prices: Prices, view: View) -> None:
    """Draw all costs of a period, and their sums by group, which the statement of the view has read."""
    since, until = view.days()
    rows = every if since is None else every.filter(pl.col("day").is_between(since, until))
    if every.is_empty():
        parts.hint(f"This store has no costs yet. Index something first: {_NO_RUN}")
        return
    if rows.is_empty():
        parts.hint(f"No work was done in this period ({_days(since, until)}). The last was on {every['day'].max()!s}.")
        ui.link("Show all time", View("all", view.by).address)
        return
    rows = rows.with_columns(pl.col("model").fill_null(_NO_MODEL))
    parts.heading(f"{PERIODS[view.period].capitalize()}: {parts.usd(_sum(rows, 'usd'))} {USD}")
    parts.hint(_total(rows, since, until))
    _chart(rows.with_columns(_label(view.by).alias("group")), since, until)
    if view.by == "model":
        grouped = grouped.with_columns(pl.col("model").fill_null(_NO_MODEL))
    order, shown = "day" if view.by == "day" else "usd", grouped.rename({"percent_of_usd": "share"})
    parts.frame_table(f"Costs by {view.by}", _columns(shown, view.by), shown, order, True)
    parts.downloads(f"costs-by-{view.by}-{view.period}", lambda: grouped)
    _explain(view, prices)


def _label(by: str) -> pl.Expr:
    """The name of a group in a chart."""
    if by == "run":
        return pl.concat_str(pl.col("name").fill_null(""), pl.lit(" "), pl.col("run_id")).str.strip_chars()
    return pl.col(by).cast(pl.String)


def _columns(grouped: pl.DataFrame, by: str) -> list[parts.Shown]:
    is_method, seconds = by == "method", {"wall_seconds": "wall seconds", "cpu_seconds": "CPU seconds"}
    if grouped["gpu_seconds"].sum():
        seconds["gpu_seconds"] = "GPU seconds"
    keys = {
        "day": parts.texts(day="day (UTC)"),
        "run": [parts.Shown("run_id", "run", link=_results), *parts.texts(name="experiment or index")],
    }
    return [
        *keys.get(by, parts.texts(**{by: by})),
        *parts.numbers(parts.usd, usd=USD),
        *(parts.numbers(parts.usd, usd_shared="of which shared with other methods (USD)") if is_method else ()),
        *parts.numbers(parts.figure(1, "%"), share="share"),
        *parts.numbers(parts.usd, usd_nothing_known="USD without cache"),
        *parts.numbers(parts.figure(), tokens="model tokens"),
        *parts.numbers(parts.figure(1), **seconds),
        *(parts.texts(names="experiment or index") if is_method else ()),
    ]


def _results(row: Mapping[str, Any]) -> str:
    return results(run=row["run_id"]) if row["flow"] == "evaluate" else ""


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
        f"{_days(since, until)} (UTC), {parts.count(rows['run_id'].n_unique(), 'run')}: {parts.usd(usd)} USD, and "
        f"{parts.usd(unknown)} USD without cache; {tokens:,.0f} model tokens, "
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
    shown = [*named, others] if len(largest) > len(named) else named
    told = pl.when(pl.col("group").is_in(named)).then(pl.col("group")).otherwise(pl.lit(others)).alias("group")
    sums = rows.with_columns(told).group_by("group", "day").agg(pl.col("usd").sum())
    by = {(group, day): usd for group, day, usd in sums.iter_rows()}
    series: list[dict[str, Any]] = [
        {"type": "bar", "stack": "usd", "name": name, "data": [by.get((name, day), 0) for day in days]}
        for name in shown
    ]
    if shown is not named:
        series[-1]["itemStyle"] = {"color": "#999"}
    said = "USD by day, as bars; the table below has the sums"
    parts.chart(said, [str(day) for day in days], "USD", series, write=_WRITE_USD)


def _explain(view: View, prices: Prices) -> None:
    parts.hint(
        "Prices are those of the day of the work, from configs/prices.yaml or the file in VITALFEW_PRICES. Today: "
        f"{prices.cpu_core_hour:g} USD for an hour of a CPU core, {prices.gpu_hour:g} USD for an hour of a GPU, and "
        "the token prices of model servers. Cancelled work is included. USD without cache: what the work would have "
        "cost if no answer, reading or vector had been reused."
    )
    if view.by == "method":
        parts.hint(
            "Work that several methods of a run share, such as encoding the questions, is split among them equally, "
            "so the rows add up to the total. An index is not made for one method: its work is “indexing (no "
            "method)”. EXPERIMENT/development is the run that tuned an experiment."
        )
    parts.link("The same in SQL", f"{ROOT}{sql_editor.address(view.statement)}")


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
    parts.heading("Estimated and actual")
    if rows.is_empty():
        parts.hint(
            "No run of this period has an estimate. Get the tokens, time and USD of a run before you start it: "
            "vitalfew plan DATASET, or vitalfew plan EXPERIMENT --index NAME"
        )
        return
    worded = rows.with_columns(
        pl.struct(name, f"quoted_{name}").map_elements(_words, pl.String).alias(f"{name}_words")
        for name in ("usd", "wall_seconds")
    )
    seconds = {"quoted_wall_seconds": "wall seconds estimated", "wall_seconds": "wall seconds actual"}
    columns = [
        *parts.texts(name="run for", run_id="run", stage="stage"),
        *parts.numbers(parts.usd, quoted_usd="USD estimated", usd="USD actual"),
        *parts.texts(usd_words="USD, in words"),
        *parts.numbers(parts.figure(1), **seconds),
        *parts.texts(wall_seconds_words="seconds, in words"),
    ]
    parts.frame_table("Estimated and actual", columns, worded)


def _words(pair: dict[str, float | None]) -> str:
    """How an actual figure compares with the estimated one."""
    actual, quoted = pair.values()
    if not quoted or actual is None:
        return "no estimate" if actual else ""
    ratio = actual / quoted
    if ratio >= 2:
        return f"{ratio:,.1f} times the estimate"
    change = round(abs(ratio - 1) * 100)
    return "as estimated" if change < 5 else f"{change} % {'above' if ratio > 1 else 'below'} the estimate"


_WHEN = "{time} >= TIMESTAMPTZ '{since} 00:00:00+00' AND {time} < TIMESTAMPTZ '{until} 00:00:00+00'"


def _traffic(site: Site, since: date | None, until: date | None) -> None:
    """Draw the requests between two days (UTC)."""
    every = "day" if since is None or until is None or (until - since).days > 1 else "hour"

    end = (until or date(9998, 12, 31)) + timedelta(days=1)

    def within(time: str) -> str:
        return _WHEN.format(time=time, since=since or date(1, 1, 1), until=end)

    def read() -> dict[str, pl.DataFrame]:
        sql = site.store.sql
        traffic = sql(f"FROM traffic(every := '{every}') WHERE {within('time')} ORDER BY time DESC")
        if traffic.is_empty():
            return {"all": sql("SELECT count(*) AS requests, max(received) AS last FROM requests")}
        chosen = f"FROM requests WHERE {within('received')}"
        columns = "received, path, configuration, status, error, question"
        return {
            "traffic": traffic,
            "slow": sql(f"SELECT seconds, prompt_tokens, {columns} {chosen} ORDER BY seconds DESC LIMIT {parts.ROWS}"),
            "unanswered": sql(f"SELECT {columns} {chosen} AND error <> '' ORDER BY received DESC LIMIT {parts.ROWS}"),
        }

    parts.later(read, lambda found: _show_traffic(found, every), "Reading the requests")


def _show_traffic(found: dict[str, pl.DataFrame], every: str) -> None:
    parts.heading("Answers outside of evaluations")
    parts.hint(
        "The requests to vitalfew serve. Answers of the page Ask, of vitalfew answer and of Python are not recorded; "
        "they show their own cost."
    )
    if "all" in found:
        (row,) = found["all"].iter_rows(named=True)
        if row["requests"]:
            parts.hint(f"There were no requests in this period; the last of {row['requests']:,} was on {row['last']}.")
        else:
            parts.hint("No server has answered a request yet. Start one: vitalfew serve RUN:METHOD --index NAME")
        return
    traffic = found["traffic"]
    requests, usd = int(traffic["requests"].sum()), float(traffic["usd"].sum())
    parts.hint(f"{parts.count(requests, 'request')}: {parts.usd(usd)} USD (machine and servers)")
    _traffic_chart(traffic, every)
    parts.frame_table(f"Requests by {every}", _traffic_columns(every), traffic, "time", True)
    parts.downloads("requests", lambda: traffic)
    parts.heading("Slowest requests")
    seconds = parts.numbers(parts.figure(2), seconds="seconds")
    tokens = parts.numbers(parts.figure(), prompt_tokens="prompt tokens")
    parts.frame_table("Slowest requests", [*seconds, *tokens, *_REQUEST], found["slow"])
    parts.heading("Requests without an answer")
    nothing = "All requests got an answer."
    parts.frame_table("Requests without an answer", _REQUEST, found["unanswered"], nothing=nothing)


def _time(value: object) -> str:
    return f"{value:%Y-%m-%d %H:%M:%S}" if value else ""


_REQUEST = [
    parts.Shown("received", "received (UTC)", _time),
    *parts.texts(path="path", configuration="configuration"),
    parts.Shown("status", "HTTP status", number=True),
    *parts.texts(error="error", question="question (if the server keeps them)"),
]


def _traffic_columns(every: str) -> list[parts.Shown]:
    tokens = {
        "prompt_tokens": "prompt tokens",
        "completion_tokens": "tokens generated",
        "tokens_saved": "tokens saved (words)",
    }
    return [
        parts.Shown("time", f"{every} (UTC)", lambda value: f"{value:%Y-%m-%d}" if every == "day" else _time(value)),
        *parts.texts(configuration="configuration", path="path"),
        *parts.numbers(parts.figure(), requests="requests", unanswered="without an answer"),
        *parts.numbers(parts.figure(2), p50_seconds="median seconds", p99_seconds="99th percentile, seconds"),
        *parts.numbers(parts.figure(), **tokens),
        *parts.numbers(parts.usd, usd="USD"),
    ]


def _traffic_chart(traffic: pl.DataFrame, every: str) -> None:
    sums = traffic.group_by("time").agg(pl.col("requests", "unanswered").sum()).sort("time")
    heights = {"answered": sums["requests"] - sums["unanswered"], "without an answer": sums["unanswered"]}
    series = [{"type": "bar", "stack": "all", "name": name, "data": data.to_list()} for name, data in heights.items()]
    times = [f"{time:%Y-%m-%d}" if every == "day" else f"{time:%m-%d %H:%M}" for time in sums["time"]]
    parts.chart(f"Requests by {every}, as bars; the table below has the figures", times, "requests", series)
