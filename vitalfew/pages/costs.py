"""The page Costs: the work of a period by method, stage, model, day or run; estimates; the traffic of servers."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import polars as pl

from vitalfew.pages import parts
from vitalfew.pages.addresses import link, parameters, results
from vitalfew.pages.site import Site
from vitalfew.storage.costs import read_prices

PERIODS = {
    "today": "today",
    "7": "the last 7 days",
    "week": "last week (Monday to Sunday)",
    "30": "the last 30 days",
    "all": "all time",
}
KEYS = {"method": "method", "stage": "stage", "model": "coalesce(model, '(no model)') AS model", "day": "day",
        "run": "run_id, name, flow"}  # fmt: skip
"""By grouping, the columns that tell groups apart."""
_MEASURES = {"usd": 7, "usd_nothing_known": 7, "tokens": 0, "wall_seconds": 1, "cpu_seconds": 1, "gpu_seconds": 1}
"""Columns that are summed, with the digits that a sum is rounded to."""
USD = "USD (machine and servers)"
SERIES = 10
"""Groups that a chart tells apart."""
_METHOD = "CASE WHEN name LIKE 'gate/%' THEN 'gate of ' || name[6:] ELSE method END AS method"
"""The methods of a gate's evaluations are those of two generations, and new ones every time."""
_WRITE_USD = (
    "value => value.toLocaleString('en', value > 0 && value < 1 ? {minimumSignificantDigits: 2, "
    "maximumSignificantDigits: 2} : {maximumFractionDigits: 2}) + ' USD'"
)


@dataclass(frozen=True)
class View:
    """The choice of a period and a grouping."""

    period: str
    by: str

    @property
    def days(self) -> tuple[date | None, date | None]:
        return span(self.period, datetime.now(UTC).date())

    @property
    def _work(self) -> str:
        """The work of the period, as the end of a statement."""
        since, until = self.days
        within = f"\nWHERE day BETWEEN DATE '{since}' AND DATE '{until}'" if since else ""
        return f"FROM spending_by_method() LEFT JOIN runs USING (run_id){within}"

    @property
    def statement(self) -> str:
        """Reads the table."""
        sums = {
            name: f"round(sum({name}), {digits}){'' if digits else '::BIGINT'}" for name, digits in _MEASURES.items()
        }
        columns = [_METHOD if self.by == "method" else KEYS[self.by]]
        columns += [f"{written} AS {name}" for name, written in sums.items()]
        columns.append("round(100 * sum(usd) / nullif(sum(sum(usd)) OVER (), 0), 1) AS percent_of_usd")
        if self.by == "method":
            columns.append("round(sum(usd) FILTER (shared_by > 1), 7) AS usd_shared")
            columns.append("string_agg(DISTINCT name, ', ' ORDER BY name) AS names")
        selected = ",\n    ".join(columns)
        return (
            f"SELECT {selected}\n{self._work}\nGROUP BY ALL ORDER BY {'day' if self.by == 'day' else 'sum(usd)'} DESC"
        )

    @property
    def daily(self) -> str:
        """Reads the measures by day and group, for the chart and the total."""
        group = {"run": "trim(coalesce(name, '') || ' ' || run_id)", "day": "day::VARCHAR"}
        group |= {"model": "coalesce(model, '(no model)')"}
        sums = ", ".join(f"sum({name}) AS {name}" for name in _MEASURES)
        return f'SELECT day, run_id, {group.get(self.by, self.by)} AS "group", {sums}\n{self._work}\nGROUP BY ALL'


def span(period: str, today: date) -> tuple[date | None, date | None]:
    """The first and the last day of a period (UTC); None and None of all time."""
    if period == "all":
        return None, None
    if period == "week":
        monday = today - timedelta(days=today.weekday() + 7)
        return monday, monday + timedelta(days=6)
    return today - timedelta(days=0 if period == "today" else int(period) - 1), today


def draw(site: Site) -> None:
    given = parameters()
    period, by = given.get("period", "7"), given.get("by", "method")
    view = View(period if period in PERIODS else "7", by if by in KEYS else "method")
    chosen = {"period": view.period, "by": view.by}
    with parts.row():
        parts.pick("Period (UTC)", "period", PERIODS, view.period, "/costs", chosen)
        parts.pick("By", "by", {by: by for by in KEYS}, view.by, "/costs", chosen)

    def read() -> tuple[pl.DataFrame, pl.DataFrame, date | None]:
        sql = site.store.sql
        return sql(view.daily), sql(view.statement), sql("SELECT max(day) FROM spending_by_method()").item()

    def drawn(found: tuple[pl.DataFrame, pl.DataFrame, date | None]) -> None:
        daily, grouped, last = found
        if last is None:
            parts.hint("This store has no costs yet. Index something first: vitalfew index DATASET --name NAME")
        elif daily.is_empty():
            parts.hint(f"No work was done in this period ({_days(view)}). The last was on {last}.")
            parts.link("Show all time", link("/costs", chosen, period="all"))
        else:
            _draw(daily, grouped, view)
        parts.later(lambda: _quoted(site, view), _draw_quoted, "Reading the estimates")
        _traffic(site, *view.days)

    parts.later(read, drawn, "Reading the costs")


def _draw(daily: pl.DataFrame, grouped: pl.DataFrame, view: View) -> None:
    """Draw the costs of a period: the total, the chart by day, the sums by group."""
    usd, unknown, tokens, wall, cpu, gpu = (float(daily[name].sum()) for name in _MEASURES)
    parts.heading(f"{PERIODS[view.period].capitalize()}: {parts.usd(usd)} {USD}")
    held = f", {gpu:,.0f} seconds of GPUs" if gpu else ""
    parts.hint(
        f"{_days(view)} (UTC), {parts.count(daily['run_id'].n_unique(), 'run')}: {parts.usd(usd)} USD, and "
        f"{parts.usd(unknown)} USD without cache; {tokens:,.0f} model tokens, "
        f"{wall:,.0f} wall seconds, {cpu:,.0f} CPU seconds{held}."
    )
    _chart(daily, *view.days)
    order, shown = "day" if view.by == "day" else "usd", grouped.rename({"percent_of_usd": "share"})
    parts.table(f"Costs by {view.by}", _columns(view.by, bool(gpu)), shown, order, True)
    parts.downloads(f"costs-by-{view.by}-{view.period}", lambda: grouped)
    _explain(view)


def _days(view: View) -> str:
    since, until = view.days
    if since is None or until is None:
        return "all days"
    return f"{since:%a} {since}" if since == until else f"{since:%a} {since} to {until:%a} {until}"


def _columns(by: str, has_gpu: bool) -> list[parts.Shown]:
    is_method, seconds = by == "method", {"wall_seconds": "wall seconds", "cpu_seconds": "CPU seconds"}
    if has_gpu:
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


def _chart(daily: pl.DataFrame, since: date | None, until: date | None) -> None:
    """USD by day, in bars of the largest groups and of all others together."""
    worked = sorted(daily["day"].unique().to_list())
    first, last = since or worked[0], until or worked[-1]
    days = [first + timedelta(days=place) for place in range((last - first).days + 1)]
    days = days if len(days) <= 400 else worked
    largest = daily.group_by("group").agg(pl.col("usd").sum()).sort("usd", descending=True)["group"].to_list()
    named = largest if len(largest) <= SERIES else largest[: SERIES - 1]
    others = f"{len(largest) - len(named)} others"
    by: dict[tuple[str, date], float] = {}
    for group, day, usd in daily.select("group", "day", "usd").iter_rows():
        key = group if group in named else others, day
        by[key] = by.get(key, 0.0) + usd
    series: list[dict[str, Any]] = [
        {"type": "bar", "stack": "usd", "name": name, "data": [by.get((name, day), 0) for day in days]}
        for name in ([*named, others] if len(named) < len(largest) else named)
    ]
    if len(named) < len(largest):
        series[-1]["itemStyle"] = {"color": "#999"}
    said = "USD by day, as bars; the table below has the sums"
    parts.chart(said, [str(day) for day in days], "USD", series, write=_WRITE_USD)


def _explain(view: View) -> None:
    prices = read_prices(datetime.now(UTC).date())
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
    parts.link("The same in SQL", link("/sql", sql=view.statement))


_QUOTED = """
SELECT r.started, coalesce(r.name, q.run_id) AS name, q.run_id, q.stage, sum(q.quoted_usd) AS quoted_usd,
    sum(q.usd) AS usd, sum(q.quoted_wall_seconds) AS quoted_wall_seconds, sum(q.wall_seconds) AS wall_seconds
FROM quoted() AS q LEFT JOIN runs AS r USING (run_id) GROUP BY ALL ORDER BY r.started DESC, usd DESC
"""


def _quoted(site: Site, view: View) -> list[dict[str, Any]]:
    """Estimated and actual figures of the period, and how they compare."""
    rows, (since, until) = site.store.sql(_QUOTED), view.days
    if since is not None:
        rows = rows.filter(pl.col("started").dt.date().is_between(since, until))
    return [
        row | {f"{name}_words": _words(row[name], row[f"quoted_{name}"]) for name in ("usd", "wall_seconds")}
        for row in rows.to_dicts()
    ]


def _draw_quoted(rows: list[dict[str, Any]]) -> None:
    parts.heading("Estimated and actual")
    seconds = {"quoted_wall_seconds": "wall seconds estimated", "wall_seconds": "wall seconds actual"}
    columns = [
        *parts.texts(name="run for", run_id="run", stage="stage"),
        *parts.numbers(parts.usd, quoted_usd="USD estimated", usd="USD actual"),
        *parts.texts(usd_words="USD, in words"),
        *parts.numbers(parts.figure(1), **seconds),
        *parts.texts(wall_seconds_words="seconds, in words"),
    ]
    nothing = (
        "No run of this period has an estimate. Get the tokens, time and USD of a run before you start it: "
        "vitalfew plan DATASET, or vitalfew plan EXPERIMENT --index NAME"
    )
    parts.table("Estimated and actual", columns, rows, nothing=nothing)


def _words(actual: float | None, quoted: float | None) -> str:
    """How an actual figure compares with the estimated one."""
    if not quoted or actual is None:
        return "no estimate" if actual else ""
    ratio = actual / quoted
    if ratio >= 2:
        return f"{ratio:,.1f} times the estimate"
    change = round(abs(ratio - 1) * 100)
    return "as estimated" if change < 5 else f"{change} % {'above' if ratio > 1 else 'below'} the estimate"


def _traffic(site: Site, since: date | None, until: date | None) -> None:
    """Draw the requests between two days (UTC)."""
    every = "day" if since is None or until is None or (until - since).days > 1 else "hour"
    begin, end = since or date(1, 1, 1), (until or date(9998, 12, 31)) + timedelta(days=1)

    def within(time: str) -> str:
        return f"{time} >= TIMESTAMPTZ '{begin} 00:00:00+00' AND {time} < TIMESTAMPTZ '{end} 00:00:00+00'"

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

    parts.later(read, lambda found: _draw_traffic(found, every), "Reading the requests")


def _draw_traffic(found: dict[str, pl.DataFrame], every: str) -> None:
    parts.heading("Answers outside of evaluations")
    parts.hint(
        "The requests to vitalfew serve. Answers of the page Ask, of vitalfew answer and of Python are not recorded; "
        "they show their own cost."
    )
    if "all" in found:
        count, last = found["all"].row(0)
        if count:
            parts.hint(f"There were no requests in this period; the last of {count:,} was on {last}.")
        else:
            parts.hint("No server has answered a request yet. Start one: vitalfew serve RUN:METHOD --index NAME")
        return
    traffic = found["traffic"]
    requests, usd = int(traffic["requests"].sum()), float(traffic["usd"].sum())
    parts.hint(f"{parts.count(requests, 'request')}: {parts.usd(usd)} USD (machine and servers)")
    _traffic_chart(traffic, every)
    parts.table(f"Requests by {every}", _traffic_columns(every), traffic, "time", True)
    parts.downloads("requests", lambda: traffic)
    parts.heading("Slowest requests")
    seconds = parts.numbers(parts.figure(2), seconds="seconds")
    tokens = parts.numbers(parts.figure(), prompt_tokens="prompt tokens")
    parts.table("Slowest requests", [*seconds, *tokens, *_REQUEST], found["slow"])
    parts.heading("Requests without an answer")
    parts.table("Requests without an answer", _REQUEST, found["unanswered"], nothing="All requests got an answer.")


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
