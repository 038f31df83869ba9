"""`Report`: a finished evaluation as Polars frames and as a page."""

from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl
from rich.console import Console

from vitalfew.library.explorer import Explorer
from vitalfew.storage import files
from vitalfew.storage.catalog.database import query
from vitalfew.tasks.report import write_report
from vitalfew.tasks.reports.advice import recommendation
from vitalfew.tasks.reports.contents import Report as Results
from vitalfew.tasks.reports.runs import find_run
from vitalfew.tasks.reports.shown.tables import long_table, wide_table
from vitalfew.tasks.reports.shown.terminal import terminal_report

if TYPE_CHECKING:
    from vitalfew.tasks.reports.plots.drawing import Plot


class Report:
    """A finished evaluation. A notebook shows its page; `print` shows its table."""

    def __init__(self, store: Path, results: Results) -> None:
        """`results`: read from the store, which is written to only for the page."""
        self.store, self.results = store, results

    @property
    def run(self) -> str:
        """The run's id."""
        return self.results.run_id

    @property
    def recommendation(self) -> str:
        """The method to take, by what was shown and by what it costs: the first line of every report."""
        return recommendation(self.results)

    @cached_property
    def page(self) -> Path:
        """The self-contained HTML page, with plots and all figures. It is written when it is first asked for."""
        return files.local(write_report(self.store, self.results).html)

    @cached_property
    def methods(self) -> pl.DataFrame:
        """A row per method: its settings (`settings.KEY`), every metric, tokens, seconds and USD of a question."""
        return wide_table(self.results)

    @cached_property
    def summaries(self) -> pl.DataFrame:
        """A row per method and metric: value, 95 % interval, number of questions."""
        differences = ("difference", "difference_low", "difference_high", "p", "p_holm", "effect", "paired", "better")
        return long_table(self.results).drop(*differences, "worse")

    @cached_property
    def differences(self) -> pl.DataFrame:
        """A row per method and metric: paired difference to the baseline, 95 % interval, p, Holm's corrected p."""
        table = long_table(self.results).drop_nulls("difference")
        return table.drop("value", "questions", "left_out", "low", "high", "spread")

    @cached_property
    def scores(self) -> pl.DataFrame:
        """A row per method, question and metric: method, question_id, question, metric, value."""
        rows = query(
            self.store,
            "SELECT method, question_id, asked.text AS question, metric, value FROM scores "
            "JOIN methods USING (fingerprint) JOIN asked USING (question_id) "
            f"WHERE methods.run_id = '{self.run}' AND table_name = 'scores' "
            "AND asked.fingerprint = (SELECT any_value(fingerprint) FROM methods "
            f"WHERE run_id = '{self.run}' AND table_name = 'asked') ORDER BY ALL",
        )
        return pl.DataFrame(rows.to_arrow_table())

    @cached_property
    def explorer(self) -> Explorer:
        """Its questions: who is right, and all of one question."""
        return Explorer(self.store, find_run(self.store, self.run))

    @cached_property
    def plots(self) -> "list[Plot]":
        """Every plot of its page, as an element of SVG, with title and caption."""
        from vitalfew.tasks.reports.plots.list import drawn

        return drawn(self.results)

    def __str__(self) -> str:
        console = Console(width=120, force_terminal=False)
        with console.capture() as shown:
            console.print(terminal_report(self.results, console.width))
        return shown.get()

    def __repr__(self) -> str:
        report = self.results
        return f"Report({report.experiment!r}, run {report.run_id}, {len(report.methods)} methods)"

    def _repr_html_(self) -> str:
        page = escape(files.read_text(self.page))
        return f'<iframe srcdoc="{page}" sandbox width="100%" height="700" style="border: 0"></iframe>'
