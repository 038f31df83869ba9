"""The figures of build/growth.json as Markdown and as a plot: counts, exponents, and 10^8 passages."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from benchmarks import common
from benchmarks.growth import AROUND, BY_SHARD, CHECK, REQUESTS
from vitalfew.configs.schema import IndexConfig, LoadConfig
from vitalfew.storage.costs import read_prices
from vitalfew.storage.indexes.recall import PROBES
from vitalfew.storage.indexes.types import EFFORTS, FaissRecipe
from vitalfew.tasks.datasets.limits import SHARD_PASSAGES, CorpusSize, shard_count
from vitalfew.tasks.registry import make
from vitalfew.tasks.reports.plots.drawing import (
    COLOURS,
    INK,
    LINES,
    MARKERS,
    axes_grid,
    ground,
    legend,
    standing_alone,
    svg,
)

Points = Mapping[int, float]
"""A figure by the number of passages."""
LARGEST = 3
"""The sizes that a line is fitted to: small corpora have what is done once, whatever the size."""


@dataclass(frozen=True)
class Power:
    """value = at (size / of) ** exponent, which goes through the largest size that was measured."""

    exponent: float
    of: int
    at: float

    def value(self, size: int) -> float:
        """Return the value at another size.

        A figure that grew more slowly than the corpus grows as fast from here on: work that was done once, or that fell
        with fuller shards, does not go on falling.
        """
        return self.at * (size / self.of) ** max(1.0, self.exponent)


def exponent(points: Points, largest: int = LARGEST) -> float:
    """Return the slope of log(value) against log(size): least squares over the `largest` sizes, equally weighted.

    Zeros are left out, since they have no logarithm; with less than two other figures the slope is 0.
    """
    pairs = [(math.log(size), math.log(value)) for size, value in sorted(points.items())[-largest:] if value > 0]
    return statistics.linear_regression(*zip(*pairs, strict=True)).slope if len(pairs) > 1 else 0.0


def power(points: Points, largest: int = LARGEST) -> Power:
    """Raises ValueError where nothing was measured."""
    if not points:
        raise ValueError("no size was measured")
    size = max(points)
    return Power(exponent(points, largest), size, points[size])


def per_passage(points: Points) -> dict[int, float]:
    """Return a figure per thousand passages."""
    return {size: 1000 * value / size for size, value in sorted(points.items())}


def full(counted: Points, shards: Points) -> dict[int, float]:
    """Return counts as if every shard were full, for the sizes whose number of shards is known.

    The number of shards is a power of two: a shard has between 2,048 and 4,096 passages, and ten times the corpus eight
    or sixteen times the shards.
    """
    return {size: value * size / SHARD_PASSAGES / shards[size] for size, value in counted.items() if shards.get(size)}


@dataclass(frozen=True)
class Rates:
    """Seconds on one core with vectors of `width` numbers.

    `product`: a multiplication and an addition, in matrices; `encode`: a vector's code; `scan`: a code that is looked
    at; `probe`: the exact comparison of a vector with the probes; `coarse`: a number of the centres, for one query;
    `shard`, `visit`: a shard, and a list, in which nothing is looked at.
    """

    width: int
    product: float
    encode: float
    scan: float
    probe: float
    coarse: float
    shard: float
    visit: float


@dataclass(frozen=True)
class Lists:
    """An index of `rows` vectors in `lists` lists, learnt from `points`, in `shards` shards."""

    rows: int
    lists: int
    points: int
    shards: int

    def training(self, rates: Rates, rounds: int = 10) -> float:
        """Seconds for the centres: every point against every centre, `rounds` times (FAISS's for an IVF index)."""
        return rounds * self.points * self.lists * rates.width * rates.product

    def assigning(self, rates: Rates) -> float:
        """Seconds to find every vector's list: rows times lists, which grow with the root of the rows."""
        return self.rows * self.lists * rates.width * rates.product

    def adding(self, rates: Rates, probes: int, looked_at: int) -> float:
        """Seconds for codes and recall: every vector's code and its comparison with the probes, and their searches at
        every effort, `looked_at` lists together."""
        searching = probes * looked_at * self.rows / self.lists * rates.scan
        return self.rows * (rates.encode + rates.probe) + searching

    def query(self, rates: Rates, lists: int) -> float:
        """Seconds of one query that looks into so many lists."""
        codes = lists * self.rows / self.lists
        centres = self.lists * rates.width * rates.coarse
        return centres + codes * rates.scan + self.shards * (rates.shard + lists * rates.visit)

    def lists_within(self, rates: Rates, seconds: float) -> int:
        """How many lists a query can look into in that time."""
        per = self.query(rates, 1) - self.query(rates, 0)
        return max(0, math.floor((seconds - self.query(rates, 0)) / per))


STAGES = ("load", "split", "encode", "index")
TARGET = 100_000_000
SENTENCES = 7
"""Sentences of a passage in the index of TARGET passages; the generated ones have 5.1."""
BY_ROW = ("read", "written", "bytes", "cpu")
LIMIT = 1.05
EFFORT = 0.1
"""Seconds of a query, at most."""
Results = dict[str, Any]


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    return "\n".join(common.table(head, (list(map(_shown, cells)) for cells in rows))) + "\n"


def _shown(value: Any) -> str:
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def points(results: Results, stage: str, name: str) -> dict[int, float]:
    """Return a figure of a stage by size."""
    sizes = {int(size): of_size.get(stage, {}) for size, of_size in results.items() if size.isdigit()}
    return {size: of_stage[name] for size, of_stage in sizes.items() if name in of_stage}


def fitted(results: Results, stage: str, name: str) -> float:
    """Return the exponent of a figure."""
    counted = points(results, stage, name)
    return exponent(full(counted, points(results, "load", "shards")) if name in BY_SHARD else counted)


def counts(results: Results) -> str:
    names = ("kept", "made", "opened", "parsed", *REQUESTS)
    rows = (
        (stage, f"{size:,}", *(value[size] for value in values))
        for stage in (*STAGES, CHECK)
        for values in [[per_passage(points(results, stage, name)) for name in names]]
        for size in values[0]
    )
    return table(["stage", "passages", *names], rows)


def weights(results: Results) -> str:
    rows = []
    for stage in (*STAGES, AROUND, CHECK):
        columns = {name: points(results, stage, name) for name in (*BY_ROW, "records", "peak")}
        for size in sorted(columns["cpu"]):
            each = [columns[name][size] / size for name in ("read", "written", "bytes", "records")]
            peak = round(columns["peak"][size] / 2**20)
            rows.append((stage, f"{size:,}", *each, 1000 * columns["cpu"][size] / size, peak))
    heads = ["read B", "written B", "kept B", "records B", "CPU s / 1000", "peak MiB"]
    return table(["stage", "passages", *heads], rows)


def exponents(results: Results) -> str:
    names = [*BY_SHARD, *BY_ROW, "peak"]
    rows = []
    for stage in (*STAGES, CHECK):
        slopes = [fitted(results, stage, name) for name in names]
        rows.append((stage, *(f"**{slope:.2f}**" if slope > LIMIT else f"{slope:.2f}" for slope in slopes)))
    return table(["stage", *names], rows)


def shards(passages: int) -> int:
    """Return the number of a corpus's shards of every table."""
    return shard_count(CorpusSize(passages, 0, 0), LoadConfig())


def extrapolated(results: Results, stage: str, name: str) -> float:
    """Return a figure at TARGET.

    Counts by shard grow as the shards do. `load` sorts runs, which follow the rows: its calls are taken to grow as the
    corpus does, which is more than they do while shards grow instead of becoming more.
    """
    counted = points(results, stage, name)
    if name in BY_SHARD and (stage != "load" or name in ("kept", "records")):
        largest = max(counted)
        return counted[largest] * shards(TARGET) / shards(largest)
    fit = power(counted)
    return Power(fit.exponent if name in BY_ROW else 1.0, fit.of, fit.at).value(TARGET)


def totals(results: Results) -> str:
    """Return the work of the pipeline at TARGET, by stage; `indexes` has the part of `index` that depends on widths."""
    price = read_prices(datetime.now(UTC).date()).cpu_core_hour
    rows: list[Sequence[Any]] = []
    for stage in STAGES:
        hours = extrapolated(results, stage, "cpu") / 3600
        gigabytes = [extrapolated(results, stage, name) / 1e9 for name in ("bytes", "read", "written")]
        by_row = [hours, hours * price, *gigabytes] if stage != "index" else ["–"] * 5
        kept, records = (extrapolated(results, stage, name) for name in ("kept", "records"))
        requests = round(sum(extrapolated(results, stage, name) for name in REQUESTS))
        rows.append((stage, *by_row, round(kept), records / 1e6, requests))
    looks = round(sum(extrapolated(results, CHECK, name) for name in REQUESTS))
    rows.append((CHECK, extrapolated(results, CHECK, "cpu") / 3600, *["–"] * 6, looks))
    head = ["stage", "core-hours", "USD", "GB kept", "GB read", "GB written", "files kept", "records MB", "requests"]
    return table(head, rows)


def _unit(rows: int, rates: Rates, lists: int | None) -> Lists:
    """Plan an index as the stage `index` does."""
    kind = make(IndexConfig(type="ivf_pq", nlist=lists or int(4 * math.sqrt(rows))), "index")
    points = min(rows, kind.points(FaissRecipe(kind, rates.width, rows, 0)))
    recipe = FaissRecipe(kind, rates.width, rows, points)
    size = max(kind.options.shard_mb << 20, 4 * recipe.bytes_per_shard())
    return Lists(rows, kind.nlist(recipe), points, math.ceil(rows * recipe.bytes_per_vector() / size))


class Planned:
    """The IVF-PQ index of TARGET passages by a layout and a number of lists (None: 4 √rows of each unit)."""

    def __init__(self, results: Results, layout: str, lists: int | None) -> None:
        self.layout = layout
        self.rates = {name: Rates(**results["rates"][name]) for name in ("fused", "dual")}
        self.sentences = _unit(SENTENCES * TARGET, self.rates[layout], lists)
        self.passages = _unit(TARGET, self.rates["fused"], lists)  # as long as one vector, whatever the layout

    def hours(self) -> dict[str, float]:
        parts = {"training": 0.0, "assigning": 0.0, "adding": 0.0}
        for unit, rates in ((self.sentences, self.rates[self.layout]), (self.passages, self.rates["fused"])):
            most = max(64, unit.lists // 8)
            looked_at = sum(effort for effort in EFFORTS if effort < most) + most
            parts["training"] += unit.training(rates) / 3600
            parts["assigning"] += unit.assigning(rates) / 3600
            parts["adding"] += unit.adding(rates, PROBES, looked_at) / 3600
        return parts

    def row(self, price: float) -> list[Any]:
        hours, rates = self.hours(), self.rates[self.layout]
        total = sum(hours.values())
        queries = [1000 * self.sentences.query(rates, lists) for lists in (16, 32, 64)]
        within = self.sentences.lists_within(rates, EFFORT)
        share = f"{within} ({within * self.sentences.rows / self.sentences.lists / 1e3:,.0f} k)"
        return [
            self.layout,
            self.sentences.lists,
            self.sentences.shards,
            *hours.values(),
            total,
            total * price,
            *queries,
            share,
        ]


def indexes(results: Results) -> str:
    """IVF-PQ at real widths: core-hours to build, and milliseconds of a query."""
    price = read_prices(datetime.now(UTC).date()).cpu_core_hour
    head = ["layout", "lists", "shards", "train h", "assign h", "add h", "all h", "USD"]
    head += ["16 lists ms", "32", "64", "lists (codes) in 100 ms"]
    plans = [
        Planned(results, layout, lists) for layout in ("dual", "fused") for lists in (None, 65_536, 32_768, 16_384)
    ]
    return table(head, [plan.row(price) for plan in plans])


def catalog(results: Results) -> str:
    rows = []
    for count, of_store in results.get("catalog", {}).items():
        for what, value in of_store.items():
            if isinstance(value, list):
                rows.append((f"{int(count):,}", f"`{what}`" if what.startswith("vitalfew") else what, *value))
    return table(["shards of a table", "what", "seconds", "CPU seconds"], rows)


def report(results: Results) -> str:
    parts = {
        "Per thousand passages": counts(results),
        "Bytes a passage, CPU seconds per thousand, peak memory": weights(results),
        "Exponents": exponents(results),
        f"{TARGET:,} passages": totals(results),
        f"IVF-PQ of {SENTENCES * TARGET:,} sentences and {TARGET:,} passages": indexes(results),
        "Catalog": catalog(results),
    }
    return "\n".join(f"## {title}\n\n{text}" for title, text in parts.items())


SHOWN = (*STAGES, CHECK)
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
TITLE = "What the stages of an index take as the corpus grows"


def drawn(results: Results) -> str:
    """An SVG file: CPU seconds and requests by stage, with dots as far as measured and lines beyond."""
    with ground("growth"):
        figure, (cpu, requests) = axes_grid(1, 2, (9.0, 3.8))
        handles = [_line(cpu, results, stage, ("cpu",)) for stage in STAGES]
        handles = [_line(requests, results, stage, REQUESTS) for stage in SHOWN]
        for axes, what in ((cpu, "CPU seconds"), (requests, "calls of the store")):
            axes.set(xscale="log", yscale="log", xlabel="passages", title=what)
            for axis in (axes.xaxis, axes.yaxis):
                axis.set_major_formatter(_power_of_ten)
            largest = max(max(line.get_ydata()) for line in axes.get_lines())
            axes.plot([TARGET / 1e4, TARGET], [largest / 1e4, largest], color=INK, alpha=0.35, linewidth=0.8)
        legend(figure, handles, SHOWN)
        return standing_alone(svg(figure, "growth", TITLE, _about(results)))


def _line(axes: Any, results: Results, stage: str, names: tuple[str, ...]) -> Any:
    """A stage: what was measured with a marker each, and 10^8 with an empty one. `names`: of the figures to add up."""
    place = SHOWN.index(stage)
    sizes = sorted(points(results, stage, names[0]))
    values = [sum(points(results, stage, name)[size] for name in names) for size in sizes]
    look = {"color": COLOURS[place], "linestyle": LINES[place], "marker": MARKERS[place], "markersize": 5}
    (handle,) = axes.plot(sizes, values, **look)
    if (stage, names) != ("index", ("cpu",)):  # real vectors are wider: see indexes()
        beyond = sum(extrapolated(results, stage, name) for name in names)
        axes.plot([sizes[-1], TARGET], [values[-1], beyond], **look, alpha=0.45, markerfacecolor="none")
    return handle


def _power_of_ten(value: float, place: int) -> str:
    """A power of ten as it is written."""
    return "10" + str(round(math.log10(value))).translate(_RAISED)


def _about(results: Results) -> str:
    largest = {stage: max(points(results, stage, "cpu").items()) for stage in STAGES}
    said = (f"{stage} {seconds:,.0f} CPU seconds at {size:,} passages" for stage, (size, seconds) in largest.items())
    return f"{'; '.join(said)}. The thin line grows as the corpus does."
