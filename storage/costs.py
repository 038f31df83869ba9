"""The ledger, with the time, tokens and price of every shard; and estimates, the expected costs of stages."""

import os
import socket
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from operator import itemgetter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import yaml

from vitalfew.storage import files, schemas
from vitalfew.storage.names import Moment, Strict
from vitalfew.storage.usage import Family, gpu_joules

PRICES = Path(__file__).parent.parent / "configs" / "prices.yaml"
LOADING = "loading"
"""In the ledger, the stage of what an artifact's shards took to load models: no part of what any method takes, because
it falls to whichever is first."""
OF_SERVERS = ("openai:", "http")
"""How the ledger's names of models begin that a server answers for."""
OWN_PRICES = "VITALFEW_PRICES"
"""The environment variable with the path of another file of that form, which then counts instead."""


@dataclass
class Cost(Strict):
    """The cost of one shard of one stage. Units as in `schemas.COSTS`."""

    started: Moment = ""
    tokens: int = 0
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0
    gpu_seconds: float = 0.0
    peak_memory_bytes: int = 0
    usd: float = 0.0
    gpu_joules: float | None = None
    node: str = ""
    reused_tokens: int = 0
    reused_wall_seconds: float = 0.0
    reused_cpu_seconds: float = 0.0
    reused_usd: float = 0.0
    cached_tokens: int = 0


@dataclass(frozen=True)
class Reused:
    """The cost of rows, when they were computed, that a piece of work took over from earlier work."""

    tokens: float = 0.0
    wall_seconds: float = 0.0
    cpu_seconds: float = 0.0

    def __add__(self, other: "Reused") -> "Reused":
        return Reused(*(getattr(self, name) + getattr(other, name) for name in vars(self)))

    def __mul__(self, factor: float) -> "Reused":
        return Reused(*(getattr(self, name) * factor for name in vars(self)))

    def enter(self, cost: Cost, num_gpus: float, model: str | None) -> None:
        """Enter it in a cost, at today's prices. A GPU is held for the whole time of the work."""
        cost.reused_tokens = round(self.tokens)
        cost.reused_wall_seconds, cost.reused_cpu_seconds = self.wall_seconds, self.cpu_seconds
        cost.reused_usd = charge(self.cpu_seconds, self.wall_seconds * num_gpus, self.tokens, model)


_working: ContextVar[tuple[str, bool]] = ContextVar("working", default=("", False))


@contextmanager
def working(node: str = "", alone: bool = False) -> Iterator[None]:
    """Within the block, the ledger has this node of a cluster instead of the machine's name, or meters leave out the
    processes that this one has started, as they do other work: a command's server and its cluster."""
    token = _working.set((node, alone))
    try:
        yield
    finally:
        _working.reset(token)


class Meter:
    """Measures the block it encloses: `with Meter() as meter: ...`, then `meter.cost`, and `meter.apart`: what the
    block spent on loading models, which is no part of `cost`. Processes that this one has started are measured with
    it."""

    def __init__(
        self,
        num_gpus: float = 0.0,
        model: str | None = None,
        apart: Callable[[], tuple[float, float]] = lambda: (0.0, 0.0),
    ) -> None:
        """`num_gpus`: the share of a GPU that is taken; `model`: as the prices list it, for the price of its tokens;
        `apart`: the wall and CPU seconds that this thread has spent on loading so far."""
        self.cost, self.apart = Cost(), Cost()
        self._num_gpus, self._model, self._loaded = num_gpus, model, apart

    def __enter__(self) -> Self:
        node, alone = _working.get()
        family = Family(alone)
        family.reset_peak_memory()
        self.cost.node = node or socket.gethostname()
        self.cost.started = datetime.now(UTC).isoformat()
        self._joules = gpu_joules() if self._num_gpus else None
        self._before = self._loaded()
        self._own, self._cpu = time.process_time(), family.cpu_seconds()
        self._wall = time.perf_counter()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.measure()

    def measure(self) -> None:
        """Complete the cost up to now."""
        cost, family = self.cost, Family(_working.get()[1])
        wall, cpu = (now - before for now, before in zip(self._loaded(), self._before, strict=True))
        cost.wall_seconds = max(0.0, time.perf_counter() - self._wall - wall)
        # A process that left the family took what it had taken before with it.
        cost.cpu_seconds = max(0.0, max(family.cpu_seconds() - self._cpu, time.process_time() - self._own) - cpu)
        cost.gpu_seconds = cost.wall_seconds * self._num_gpus
        if self._joules is not None and (joules := gpu_joules()) is not None:
            cost.gpu_joules = (joules - self._joules) * min(1.0, self._num_gpus)  # others may share the GPU
        cost.peak_memory_bytes = family.peak_memory()
        cost.usd = charge(cost.cpu_seconds, cost.gpu_seconds, cost.tokens, self._model, cached=cost.cached_tokens)
        gpu = wall * self._num_gpus
        self.apart = Cost(cost.started, 0, wall, cpu, gpu, cost.peak_memory_bytes, charge(cpu, gpu, 0), node=cost.node)


def charge(
    cpu_seconds: float,
    gpu_seconds: float,
    tokens: float,
    model: str | None = None,
    on: date | None = None,
    cached: float = 0.0,
) -> float:
    """USD at the prices of configs/prices.yaml on a day, by default today (UTC). `cached`: those of the tokens that are
    charged as cached input."""
    prices = read_prices(on or datetime.now(UTC).date())
    hours = cpu_seconds * prices.cpu_core_hour + gpu_seconds * prices.gpu_hour
    cached = min(cached, tokens)
    of_tokens = (tokens - cached) * prices.of_tokens(model) + cached * prices.of_cached(model)
    return hours / 3600 + of_tokens / 1e6


Attempt = tuple[int, str, datetime]
"""The shard, the run and the start of an attempt at a shard."""


def write_ledger(path: Path, rows: Sequence[dict[str, Any]], counted: Collection[Attempt] = ()) -> None:
    """Enter rows of `schemas.COSTS`; rows that are there for other shards, runs or attempts stay. Two workers of a run
    may do the same shard, one of which was given up too early. `counted`: cancelled attempts that the rows include."""
    rows = [{**row, "node": row["node"] or None} for row in rows]
    attempt = itemgetter("shard", "run_id", "started")
    entered = {(row["stage"], attempt(row)) for row in rows}

    def stays(row: dict[str, Any]) -> bool:
        return (row["stage"], attempt(row)) not in entered and (row["finished"] or attempt(row) not in counted)

    def ledger() -> pa.Table:
        before = [row for row in read_ledger(path) if stays(row)]
        return pa.Table.from_pylist([*before, *rows], schemas.COSTS)

    files.rewrite_table(path, ledger)


def read_ledger(path: Path) -> list[dict[str, Any]]:
    """Rows of `schemas.COSTS`, one per shard and attempt at it; none where the file is missing or damaged."""
    try:
        table = files.read_table(path) if files.exists(path) else schemas.COSTS.empty_table()
    except files.Damaged:  # what it said is lost, what is being paid now is not
        return []
    place = table.schema.get_field_index("started")
    # Without its zone: pyarrow imports pandas, slowly, for a moment with one.
    plain = table.set_column(place, "started", table["started"].cast(pa.timestamp("us")))
    return [{**row, "started": row["started"].replace(tzinfo=UTC)} for row in plain.to_pylist()]


@dataclass(frozen=True)
class Prices:
    """A dated list of prices: USD per CPU-core hour, per GPU hour, per million tokens, and per million tokens that were
    cached input (of every model, or by model)."""

    dated: date
    cpu_core_hour: float
    gpu_hour: float
    million_tokens: float | dict[str, float]
    million_cached_tokens: float | dict[str, float] | None = None

    def of_tokens(self, model: str | None) -> float:
        """USD per million tokens of a model; one that is not listed costs none."""
        return self.listed(model) or 0.0

    def of_cached(self, model: str | None) -> float:
        """USD per million cached tokens of a model; where the list does not say, as much as others."""
        cached = self.million_cached_tokens
        price = cached.get(model or "") if isinstance(cached, dict) else cached
        return self.of_tokens(model) if price is None else price

    def listed(self, model: str | None) -> float | None:
        """As `of_tokens`; None where the list does not say: it lacks the model, or has one 0 for every model."""
        if isinstance(self.million_tokens, dict):
            return self.million_tokens.get(model or "")
        return self.million_tokens or None


def unpriced(models: Iterable[str | None]) -> tuple[str, ...]:
    """Those of a server's models that today's prices do not list, so that their tokens count as 0 USD."""
    prices = read_prices(datetime.now(UTC).date())
    of_servers = {model for model in models if model and model.startswith(OF_SERVERS)}
    return tuple(sorted(model for model in of_servers if prices.listed(model) is None))


def without_price(models: Iterable[str]) -> str:
    """A sentence that says which models have no price, and how to give them one; empty without any."""
    names = [*models]
    if not names:
        return ""
    return (
        f"{', '.join(names)} {'has' if len(names) == 1 else 'have'} no price, so USD leave its tokens out. Write one "
        f'into a copy of {prices_file()} that {OWN_PRICES} names: million_tokens: {{"{names[0]}": 0.40}}'
    )


def read_prices(on: date) -> Prices:
    """The list of prices that holds on a day: the last one dated then or before, else the first one."""
    lists = _price_lists(prices_file())
    return next((prices for prices in reversed(lists) if prices.dated <= on), lists[0])


def prices_file() -> Path:
    """configs/prices.yaml, or the file that the user names."""
    return Path(os.environ.get(OWN_PRICES) or PRICES)


@cache
def _price_lists(path: Path) -> list[Prices]:
    """Oldest first. Raises ValueError where the file is not as it should be, and FileNotFoundError."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    try:
        lists = [Prices(**each) for each in (content if isinstance(content, list) else [content])]
    except TypeError as error:
        raise ValueError(
            f"{path}: {error}; a list has dated, cpu_core_hour, gpu_hour, million_tokens, "
            "and perhaps million_cached_tokens"
        ) from error
    if not lists or any(type(each.dated) is not date for each in lists):
        raise ValueError(f"{path}: every list of prices needs `dated: YYYY-MM-DD`")
    return sorted(lists, key=lambda each: each.dated)


@dataclass(frozen=True)
class Quote:
    """One stage's estimate. Units as in `schemas.QUOTES`; `fingerprint` is that of the artifact it is for."""

    fingerprint: str
    stage: str
    runner: str
    workers: int
    rows: int
    tokens: int
    wall_seconds: float
    cpu_seconds: float
    gpu_seconds: float
    peak_memory_bytes: int
    disk_bytes: int
    usd: float


def save_quotes(store: Path, quotes: list[Quote]) -> None:
    """Keep estimates; one replaces an earlier one for the same artifact."""
    now = datetime.now(UTC)
    for quote in quotes:  # the schema has no fingerprint, which is the folder's name
        table = pa.Table.from_pylist([{**vars(quote), "quoted": now}], schemas.QUOTES)
        files.write_table(_quote_path(store, quote.fingerprint), table)


def find_quote(store: Path, fingerprint: str) -> Quote | None:
    """The estimate for an artifact, if one was asked for."""
    path = _quote_path(store, fingerprint)
    if not files.exists(path):
        return None
    (row,) = files.read_table(path).drop_columns("quoted").to_pylist()
    return Quote(fingerprint=fingerprint, **row)


def _quote_path(store: Path, fingerprint: str) -> Path:
    return store / "quotes" / fingerprint / "00000.parquet"
