"""The report as one HTML file that needs nothing else: tables, plots, settings, costs, and how to ask with SQL."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from typing import Any

from vitalfew.tasks.reports import readings
from vitalfew.tasks.reports.contents import MethodResult, Report
from vitalfew.tasks.reports.papers import conditions
from vitalfew.tasks.reports.plots.drawing import Plot
from vitalfew.tasks.reports.plots.list import drawn
from vitalfew.tasks.reports.recommendation import recommendation
from vitalfew.tasks.reports.shown import grids, labels
from vitalfew.tasks.reports.shown.notes import asked, critics, differing, headline, paid, statistics, warnings
from vitalfew.tasks.reports.shown.text import one_line, printable, shortened, sql_command

_TEMPLATE = Path(__file__).with_name("page.html.jinja")


PARTS: tuple[Callable[[Report], Any], ...] = (
    *(asked, critics, headline, paid, recommendation, statistics, warnings, conditions),
    *(grids.figures, grids.differences, grids.pairs, grids.labelled, grids.choices, grids.indexes, grids.paper),
    *(grids.everything, grids.settings, grids.costs),
)
"""Sentences and tables of the page: the template calls what they return by their names."""


def page(report: Report, plots: Sequence[Plot] | None = None) -> str:
    """HTML with everything in it: no script, no file and no server besides. `plots`: where they are drawn already."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    when = report.when.astimezone(UTC) if report.when.tzinfo else report.when
    return template.render(
        **{part.__name__: part(report) for part in PARTS},
        title=one_line(report.experiment),
        run_id=one_line(report.run_id),
        when=f"{when:%Y-%m-%d %H:%M} UTC",
        store=one_line(report.store),
        readings=readings.sentences(report),
        reader_warning=readings.warning(report),
        differing=differing(report, "{} of them follow"),
        questions=[*zip(report.differing.shown if report.differing else (), grids.differing(report), strict=True)],
        said=labels.sentences(report.labelled) if report.labelled else [],
        plots=drawn(report) if plots is None else plots,
        queries=[*queries(report)],
    )


_LIMIT = "LIMIT 20"


@dataclass(frozen=True, slots=True)
class Query:
    """`about`: what it asks; `command`: for a shell."""

    about: str
    command: str


def queries(report: Report) -> list[Query]:
    """Examples on the last method (against the baseline) and on the run; without a method's fingerprints on all."""
    costs = (
        "SELECT stage, sum(rows) AS rows, sum(tokens) AS tokens, sum(cpu_seconds) AS cpu_seconds, sum(usd) AS usd "
        f"FROM costs WHERE run_id = {_quoted(report.run_id)} GROUP BY stage ORDER BY usd DESC"
    )
    asked = [*_answers(report), ("Cost of this run, by stage", costs)]
    return [Query(about, sql_command(sql, report.store)) for about, sql in asked]


def _answers(report: Report) -> Iterator[tuple[str, str]]:
    method = report.methods[-1] if report.methods else None
    baseline = report.methods[method.against or 0] if method else None
    of = f" of {shortened(method.label, 60)}" if method and method.fingerprints else " of every evaluation in the store"
    yield f"Figures{of}", f"SELECT metric, value, questions, left_out FROM summaries{_where('summaries', method)}"
    # One question may be asked by several evaluations: hence DISTINCT.
    yield (
        f"Questions and their scores{of}",
        "SELECT DISTINCT text, metric, value FROM scores JOIN asked USING (question_id)"
        f"{_where('scores', method)} ORDER BY text, metric {_LIMIT}",
    )
    yield (
        f"Answers with their tokens and errors{of}",
        "SELECT DISTINCT asked.text AS question, answers, candidates.text AS answer, prompt_tokens, seconds, error "
        f"FROM candidates JOIN asked USING (question_id){_where('candidates', method)} {_LIMIT}",
    )
    if baseline and method and {"scores"} <= baseline.fingerprints.keys() & method.fingerprints.keys():
        yield (
            f"Questions that {shortened(method.label, 60)} answers better than the baseline",
            "SELECT DISTINCT text, metric, old.value AS baseline, new.value FROM scores AS old "
            "JOIN scores AS new USING (question_id, metric) JOIN asked USING (question_id) "
            f"WHERE metric IN ('accuracy', 'f1') AND old.fingerprint = {_quoted(baseline.fingerprints['scores'])} "
            f"AND new.fingerprint = {_quoted(method.fingerprints['scores'])} AND new.value > old.value {_LIMIT}",
        )


def _where(table: str, method: MethodResult | None) -> str:
    fingerprint = method.fingerprints.get(table) if method else None
    return f" WHERE {table}.fingerprint = {_quoted(fingerprint)}" if fingerprint else ""


def _quoted(text: str) -> str:
    return "'" + printable(text).replace("'", "''") + "'"
