"""The traffic of `vitalfew serve`, on the page Costs: requests by time, the slowest, and those without an answer."""

from datetime import date, timedelta

import polars as pl

from vitalfew.pages import parts
from vitalfew.pages.site import Site

_SHOWN = 25
_WHEN = "{time} >= TIMESTAMPTZ '{since} 00:00:00+00' AND {time} < TIMESTAMPTZ '{until} 00:00:00+00'"


def draw(site: Site, since: date | None, until: date | None) -> None:
    """Draw the requests between two days (UTC)."""
    every = "day" if since is None or until is None or (until - since).days > 1 else "hour"

    def within(time: str) -> str:
        if since is None or until is None:
            return "true"
        return _WHEN.format(time=time, since=since, until=until + timedelta(days=1))

    def read() -> dict[str, pl.DataFrame]:
        sql = site.store.sql
        traffic = sql(f"FROM traffic(every := '{every}') WHERE {within('time')} ORDER BY time DESC")
        if traffic.is_empty():
            return {"all": sql("SELECT count(*) AS requests, max(received) AS last FROM requests")}
        chosen = f"FROM requests WHERE {within('received')}"
        columns = "received, path, configuration, status, error, question"
        return {
            "traffic": traffic,
            "slow": sql(f"SELECT seconds, prompt_tokens, {columns} {chosen} ORDER BY seconds DESC LIMIT {_SHOWN}"),
            "unanswered": sql(f"SELECT {columns} {chosen} AND error <> '' ORDER BY received DESC LIMIT {_SHOWN}"),
        }

    parts.later(read, lambda found: _show(found, every), "Reading the requests")


def _show(found: dict[str, pl.DataFrame], every: str) -> None:
    parts.heading("Answers outside of evaluations")
    parts.hint(
        "The requests to vitalfew serve. Answers of the page Ask, of vitalfew answer and of Python are not recorded: "
        "they say themselves what they took."
    )
    if "all" in found:
        (row,) = found["all"].iter_rows(named=True)
        if row["requests"]:
            parts.hint(f"There were no requests in this period; the last of {row['requests']:,} was on {row['last']}.")
        else:
            parts.hint("No server has answered a request yet. Start one: vitalfew serve EXPERIMENT:METHOD --index NAME")
        return
    traffic = found["traffic"]
    requests, usd = int(traffic["requests"].sum()), float(traffic["usd"].sum())
    parts.hint(f"{parts.count(requests, 'request')}: {parts.usd(usd)} USD (machine and servers)")
    _chart(traffic, every)
    parts.frame_table(f"Requests by {every}", _columns(every), traffic, "time", True)
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


def _columns(every: str) -> list[parts.Shown]:
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


def _chart(traffic: pl.DataFrame, every: str) -> None:
    sums = traffic.group_by("time").agg(pl.col("requests", "unanswered").sum()).sort("time")
    heights = {"answered": sums["requests"] - sums["unanswered"], "without an answer": sums["unanswered"]}
    series = [{"type": "bar", "stack": "all", "name": name, "data": data.to_list()} for name, data in heights.items()]
    times = [f"{time:%Y-%m-%d}" if every == "day" else f"{time:%m-%d %H:%M}" for time in sums["time"]]
    parts.chart(f"Requests by {every}, as bars; the table below has the figures", times, "requests", series)
