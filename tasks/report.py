"""report: the results of an evaluation, read from the store, as tables, plots and a self-contained page."""

from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from vitalfew.configs.evaluation import Evaluate
from vitalfew.storage import files
from vitalfew.storage.artifacts import Manifest
from vitalfew.storage.runs import Run
from vitalfew.tasks.ask import HASHED, LOST, lost_place
from vitalfew.tasks.reports.contents import AskedQuestions, Report
from vitalfew.tasks.reports.costs import index_results, models, paid
from vitalfew.tasks.reports.labelled import labelled
from vitalfew.tasks.reports.methods import method_results
from vitalfew.tasks.reports.papers import counterparts, paper_of, repeated
from vitalfew.tasks.reports.plots.drawing import Plot
from vitalfew.tasks.reports.plots.list import drawn
from vitalfew.tasks.reports.runs import SUMMARIES, read_manifest, run_of
from vitalfew.tasks.reports.shown.page import page
from vitalfew.tasks.reports.shown.tables import LONG, arrow_table, csv_bytes, long_table, pair_table, wide_table
from vitalfew.tasks.writers.cloze import GAP

_PLACES = 3


@dataclass(frozen=True)
class WrittenReport:
    """A report with its plots, and its files."""

    report: Report
    html: Path
    csv: Path
    parquet: Path
    scores: Path

    @cached_property
    def plots(self) -> list[Plot]:
        return drawn(self.report)


def read_report(store: Path, run: Run) -> Report:
    """Raises NoReport if an artifact of the run was removed since."""
    parameters = Evaluate.model_validate(run.config)
    searched = [read_manifest(store, name) for name in dict.fromkeys(own["asked"] for own in run.methods.values())]
    asked = searched[0]
    losing = max(searched, key=lambda manifest: manifest.note(LOST))  # methods may search different indexes
    development = run_of(store, parameters.chosen.run) if parameters.chosen else None
    questions = parameters.questions
    results = method_results(store, run, parameters)
    paper = paper_of(run.name)
    source = questions.dataset or f"index {next(m.index for m in parameters.methods if m.index)}"
    return Report(
        experiment=run.name,
        run_id=run.run_id,
        when=datetime.fromisoformat(run.started),
        store=str(store),
        asked=AskedQuestions(
            questions=asked.rows["asked"],
            source=source,
            where=questions.where,
            seed=questions.seed if questions.sample and asked.rows["asked"] >= questions.sample else None,
            half=questions.half,
            hashed=asked.note(HASHED),
            lost=losing.note(LOST),
            lost_places=_lost_places(store, losing),
            gapped=sum(GAP in text for text in asked.read(store, "asked", ["text"])["text"].to_pylist()),
        ),
        methods=results.methods,
        primary=results.primary,
        indexes=index_results(store, run, parameters.methods),
        models=models(store, run, parameters.methods),
        best_alphas=results.best_alphas,
        paper=paper,
        counterparts=counterparts((each.ours for each in repeated(paper, run.name).figures), results.scores),
        paid=paid(store, run),
        chosen=parameters.chosen,
        choosing=paid(store, development) if development else None,
        pairwise=parameters.pairwise or {},
        pairs=results.pairs,
        differing=results.differing,
        labelled=labelled(store, run, parameters),
        left_out=parameters.left_out,
    )


def _lost_places(store: Path, asked: Manifest) -> tuple[str, ...]:
    """The first places that questions name and the searched index lacks."""
    if not asked.note(LOST):
        return ()
    details = asked.read(store, "rejects", ["detail"])["detail"].slice(0, _PLACES).to_pylist()
    return tuple(map(lost_place, details))


def find_report(store: Path, report: Report) -> WrittenReport | None:
    """The files of a report that was written before; None where its page is missing."""
    written = _files(store, report)
    return written if files.exists(written.html) else None


def _files(store: Path, report: Report) -> WrittenReport:
    folder = store / "reports" / report.run_id
    tables = (folder / "methods.csv", folder / "methods.parquet", folder / SUMMARIES)
    return WrittenReport(report, folder / "report.html", *tables)


def write_report(store: Path, report: Report) -> WrittenReport:
    """Write the self-contained page, and the figures as a wide (a row per method) and a long table."""
    written = _files(store, report)
    folder, wide = written.html.parent, wide_table(report)
    files.write_table(written.parquet, arrow_table(wide))
    files.write_table(written.scores, long_table(report).to_arrow().cast(LONG))
    files.write_bytes(written.csv, csv_bytes(wide))
    if report.pairs:
        files.write_bytes(folder / "pairs.csv", csv_bytes(pair_table(report)))
    files.write_text(written.html, page(report, plots=written.plots))
    return written
