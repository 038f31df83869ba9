"""The tables of a report's page: a row is a method, a part of it, or an index."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from vitalfew.tasks.reports.contents import RECORDED, STAGE_SECONDS, STAGE_USD, Labelled, MethodResult, Report
from vitalfew.tasks.reports.papers import HEADS, LEGEND, beside
from vitalfew.tasks.reports.shown import labels
from vitalfew.tasks.reports.shown.columns import (
    DIFFERENCE_HEADS,
    Cell,
    cells,
    default_columns,
    difference_cells,
    figure,
    is_apart,
    price_metric,
    quality,
    quality_metric,
    signed,
    table_heading,
    tokens_used,
)
from vitalfew.tasks.reports.shown.notes import answer_mark, asked, evidence, halves, values
from vitalfew.tasks.reports.shown.tables import setting_text
from vitalfew.tasks.reports.shown.text import one_line, shortened, significant

_BETTER, _WORSE = "▲", "▼"
_COMPARED = ("difference", "its 95 % interval", *DIFFERENCE_HEADS[3:6], "compared", *DIFFERENCE_HEADS[7:])
_HEAD = 40
"""Characters of a method's name over a column, at most."""


class Grid(NamedTuple):
    """A table of the page: a row is a method (or a part of it), the first column its header. `text_columns`: how many
    of the first columns are text and not figures."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    text_columns: int = 0


def _texts(head: str, texts: Iterable[str]) -> tuple[str, list[Cell]]:
    return head, [Cell(text) for text in texts]


def _name(report: Report, number: int) -> str:
    role = " (baseline)" if number in report.baselines() else ""
    return f"{report.methods[number].label}{role}"


def _rows(report: Report, columns: Sequence[Sequence[Cell]]) -> list[tuple[str, Sequence[Cell]]]:
    return [(_name(report, row), [column[row] for column in columns]) for row in range(len(report.methods))]


def compared(report: Report) -> Grid:
    """The table that a report begins with: quality, tokens, and USD or seconds of every method."""
    metric, tokens = quality_metric(report), price_metric(report)
    columns, heads = [], ["method"]
    if metric:
        columns.append([Cell(_quality(report, method, metric)) for method in report.methods])
        heads.append(report.column(metric).heading)
    # USD without the price of a model's tokens would be those of this machine's seconds alone.
    is_priced = report.has(STAGE_USD.name) and not any(method.unpriced for method in report.methods)
    money = STAGE_USD if is_priced else STAGE_SECONDS
    for name in dict.fromkeys((tokens, money.name)):
        if name and name != metric and report.has(name):
            columns.append([Cell(cell.text) for cell in cells(report, name)])
            heads.append(table_heading(report, name).removesuffix(", without cache"))
    priced = _priced(report) if STAGE_USD.name in (money.name, tokens) and is_priced else ""
    caption = f"{_caption(report, metric)} {priced}".rstrip()
    return Grid(caption, heads, _rows(report, columns))


def _priced(report: Report) -> str:
    """What the USD of the table are for."""
    recorded = [method.generator == RECORDED for method in report.methods]
    if all(recorded):
        return "USD: as the files of results say."
    tokens = any(method.token_prices for method in report.methods)
    of = "the machine's time and the tokens of models" if tokens else "the machine's time, without a language model"
    others = "; of recorded answers, as their files say" if any(recorded) else ""
    return f"USD: {of}, at the prices in configs/prices.yaml{others}."


def _quality(report: Report, method: MethodResult, metric: str) -> str:
    """A value with its interval, its mark, and its questions where others have more or fewer."""
    own = report.measures(method).get(metric)
    if own is None or own.value is None:
        return "–"
    unit, difference = own.column.unit, method.differences.get(metric)
    text = quality(own.value, unit)
    if own.low is not None:
        text += f" ({quality(own.low, unit).removesuffix(' %')} to {quality(own.high, unit).removesuffix(' %')})"
    if len({each.questions for other in report.methods if (each := other.summaries.get(metric))}) > 1:
        text += f", n = {own.questions:,}"
    if difference is None or difference.p is None:
        return text
    if not is_apart(difference):
        return f"{text} ≈"
    is_higher = (difference.mean_difference or 0.0) > 0
    return f"{text} {_BETTER if is_higher != (own.column.direction == 'lower') else _WORSE}"


def _caption(report: Report, metric: str | None) -> str:
    """The question count, what the marks mean, and what the baseline is."""
    places = report.baselines()
    base = report.methods[places[0]] if len(places) == 1 else None
    most = f", which passes on at most {base.budget:,} tokens" if base and base.budget else ""
    parts = [f"{asked(report)}."]
    if base:
        parts.append(f"Baseline: {base.label}{most}.")
    if metric and any(method.differences.get(metric) for method in report.methods):
        parts.append("In brackets: 95 % intervals.")
        parts.append(f"Against the baseline: {_BETTER} better, {_WORSE} worse, ≈ no difference shown.")
    return " ".join(parts)


def figures(report: Report) -> Grid:
    """The metrics of every method."""
    caption, metrics = "Selected metrics.", default_columns(report)
    columns = [cells(report, metric) for metric in metrics]
    if any(cell.best for column in columns for cell in column):
        caption = "Selected metrics; the best value of a column is bold and has a star."
    if any(cell.alike for column in columns for cell in column):
        caption += " ≈: not distinguishable from the baseline (p ≥ 0.05)."
    return Grid(caption, ["method", *(table_heading(report, metric) for metric in metrics)], _rows(report, columns))


def choices(report: Report) -> Grid:
    """Every option that was tried: a row per method and option."""
    chosen = report.chosen
    if not chosen:
        return Grid("", ("method",), [])
    rows = []
    for tried in chosen.tried:
        setting = Cell(values(tried.values), tried.taken)
        value = Cell(figure(tried.figure, chosen.unit), tried.taken)
        taken = Cell("chosen" if tried.taken else "")
        rows.append((one_line(tried.method), [setting, taken, value, Cell(f"{tried.questions:,}")]))
    caption = (
        f"Chosen by {chosen.heading} on {chosen.questions:,} development questions "
        f"({halves(chosen.questions, chosen.hashed)}), run {one_line(chosen.run)}. A tie goes to the value listed "
        "first. No other figure on this page uses these questions."
    )
    return Grid(caption, ("method", "settings", "", chosen.heading, "questions"), rows, 2)


def pairs(report: Report) -> Grid:
    """All pairs of methods that are compared: a row's mean minus a column's, the best first."""
    metric = report.primary or ""
    found = {(pair.one, pair.other): pair.difference for pair in report.pairs}
    values = report.values(metric) if found else []
    places = sorted({place for both in found for place in both}, key=lambda place: (-(values[place] or 0.0), place))

    def cell(row: int, column: int) -> Cell:
        if row == column:
            return Cell("–")
        difference = found.get((row, column)) or found[column, row]
        sign = 1 if (row, column) in found else -1
        mean = difference.mean_difference
        apart = is_apart(difference)
        return Cell("" if mean is None else signed(sign * mean), apart, not apart)

    used = {place: tokens_used(report, report.methods[place]) for place in places}
    rows = [
        (_name(report, row) + (f": {used[row]} tokens" if used[row] else ""), [cell(row, column) for column in places])
        for row in places
    ]
    apart = sum(map(is_apart, found.values()))
    alike = ", ".join(f"{key}={value}" for key, value in report.pairwise.items())
    caption = (
        f"{report.column(metric).heading if metric else ''} of the row minus that of the column, for methods with "
        f"{alike}. Bold: p < 0.05 by a paired sign-flip test, corrected (Holm) over all {len(found):,} pairs; "
        f"≈: not distinguishable. {apart:,} of {len(found):,} pairs are distinguishable."
    )
    if any(used.values()):
        caption += (
            " Beside a method: the tokens of its contexts, mean per question, of its budget (words and punctuation "
            "marks)."
        )
    return Grid(caption, ["method", *(shortened(report.methods[place].label, _HEAD) for place in places)], rows)


def differing(report: Report) -> list[Grid]:
    """For every question that is shown, a row per method: its answers and its evidence."""
    return [
        Grid(
            f"{each.question} Gold answer: {' | '.join(each.gold) or 'none'}.",
            ("method", "", "answer", "evidence"),
            [
                _texts(one_line(own.method), (answer_mark(own.value), " | ".join(own.answers) or "–", evidence(own)))
                for own in each.answered
            ],
            3,
        )
        for each in (report.differing.shown if report.differing else ())
    ]


def verdicts(said: Labelled) -> list[Grid]:
    """Right answers of every method by judge, by people and by both, and minus its baseline's."""
    against = labels.compared_with(said)
    tables = (
        ("Share of right answers.", labels.HEADS, labels.shares(said)),
        (f"Minus {against}, on the same questions.", labels.DIFFERENCE_HEADS, labels.differences(said)),
    )
    return [
        Grid(caption, heads, [_texts(row[0], row[1:]) for row in rows], 1) for caption, heads, rows in tables if rows
    ]


def everything(report: Report) -> Grid:
    """Every metric of every method with its questions and its difference to the baseline: a row per method and
    metric."""
    rows = []
    for number, method in enumerate(report.methods):
        for metric, own in report.measures(method).items():
            unit, difference = own.column.unit, method.differences.get(metric)
            interval = "–" if own.low is None else f"{figure(own.low, unit)} to {figure(own.high, unit)}"
            texts = (metric, figure(own.value, unit), interval, f"{own.questions:,}", f"{own.left_out:,}")
            compared = difference_cells("", difference)[1:] if difference else [("", False)] * len(_COMPARED)
            cells = [*map(Cell, texts), *(Cell(text, is_shown) for text, is_shown in compared)]
            rows.append((_name(report, number), cells))
    caption = (
        "Every metric: mean over the questions that could be scored, its 95 % interval, the number of these questions, "
        "and the number left out; then minus the baseline's, on the questions that both have. Effect: Cohen's d_z, the "
        "mean difference divided by the standard deviation of the questions' differences. Higher, lower: number of "
        "questions. Bold: p < 0.05 after Holm's correction: over the methods for the primary metric, over all "
        "differences of this table for the others."
    )
    return Grid(caption, ("method", "metric", "value", "95 % interval", "questions", "left out", *_COMPARED), rows, 1)


def indexes(report: Report) -> Grid:
    rows = []
    for index in report.indexes:
        counts = (index.passages, index.sentences, index.tokens, index.copied)
        seconds = (significant(index.wall_seconds), significant(index.cpu_seconds))
        memory = (f"{index.peak_memory_bytes / 2**20:,.0f}", f"{index.disk_bytes / 2**20:,.1f}", significant(index.usd))
        texts = (one_line(index.settings), *(f"{count:,}" for count in counts), *seconds, *memory)
        rows.append(_texts(one_line(index.name), texts))
    caption = (
        "Contents and cost of every index, from source files to FAISS. Copied vectors are charged to the index they "
        "come from: to compare costs, index with encode.reuse=false."
    )
    heads = "passages", "units", "tokens encoded", "vectors copied", "wall s", "CPU s", "peak MiB", "MiB on disk", "USD"
    return Grid(caption, ("index", "settings", *heads), rows, 1)


def paper(report: Report) -> Grid:
    compared = beside(report)
    caption = f"{report.paper.paper if report.paper else ''}: its printed figures beside ours."
    if any(claim != "–" for *_, claim, _ in compared):
        caption += f" {LEGEND}"
    return Grid(caption, ("figure", *HEADS), [_texts(row[0], row[1:]) for row in compared])


def settings(report: Report) -> Grid:
    keys = report.settings()
    columns = [[Cell(one_line(setting_text(m.settings.get(key))) or "–") for m in report.methods] for key in keys]
    return Grid("Settings in which the methods differ.", ["method", *keys], _rows(report, columns), len(keys))


def costs(report: Report) -> Grid:
    rows = []
    for number, method in enumerate(report.methods):
        for cost in method.costs:
            counts = one_line(cost.stage), f"{cost.rows:,}", f"{cost.tokens:,}"
            seconds = cost.wall_seconds, cost.wall_seconds / cost.batches, cost.cpu_seconds
            memory, usd = f"{cost.peak_memory_bytes / 2**20:,.0f}", (cost.whole_usd, cost.paid_usd)
            by = "reused" if cost.reused else "shared" if cost.shared else "this run"
            measured = (*counts, *map(significant, seconds), memory, *map(significant, usd), by)
            rows.append(_texts(_name(report, number), measured))
    measures = ("rows", "tokens", "wall s", "s per batch", "CPU s", "peak MiB", "USD, without cache", "USD paid now")
    heads = ("method", "stage", *measures, "paid by")
    caption = (
        "Cost of every stage, summed over its batches of questions; USD without cache, "
        "and as paid by this run. A stage is shared if an earlier method has it too: it was paid once."
    )
    return Grid(caption, heads, rows, 1)
