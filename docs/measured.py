"""Records the figures of finished runs beside a paper's: `python -m docs.measured --store STORE [RUN]...`.

docs/results/papers.json keeps a record for every experiment, corpus and set of models, the latest, with the numbers of
our figures; `make reference` makes docs/papers.md of them, with the verdicts that configs/papers gives then. Without a
RUN (an id, or an experiment's name) it takes every completed run of an experiment that repeats a paper.
"""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter

from vitalfew.configs.paper import Ours, papers
from vitalfew.configs.section import Config
from vitalfew.storage.runs import Run, read_runs
from vitalfew.tasks.report import read_report
from vitalfew.tasks.reports.contents import BestAlpha, Report
from vitalfew.tasks.reports.papers import our_figure, repeated
from vitalfew.tasks.reports.runs import find_run
from vitalfew.tasks.reports.shown.columns import quality_metric
from vitalfew.tasks.reports.shown.notes import asked, choices
from vitalfew.tasks.reports.statistics.bootstrap import Interval

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "docs" / "results" / "papers.json"


class Line(Config):
    """A figure of a run. `ours` says which, whatever its words are in configs/papers today; `what` and `printed`, the
    paper's figure in the unit of ours, are those of the day of the record. `unit`: that of the metric."""

    ours: Ours
    what: str
    printed: float | None = None
    unit: str = ""
    mean: float
    low: float | None = None
    high: float | None = None
    questions: int

    def interval(self) -> Interval:
        return Interval(self.mean, self.low, self.high, self.questions)


class Measured(Config):
    """A run. `asked`: the source of the questions, in a word, if the corpus has several; `commit`: the version of the
    code that read the run, with + if it was not committed."""

    experiment: str
    corpus: str
    models: tuple[str, ...]
    asked: str = ""
    questions: str
    n: int
    date: str
    commit: str
    machine: str
    lines: tuple[Line, ...]
    notes: tuple[str, ...] = ()

    def key(self) -> tuple[str, str, tuple[str, ...], str]:
        """The key by which a later run replaces this one."""
        return self.experiment, self.corpus, self.models, self.asked


_LIST = TypeAdapter(list[Measured])


def measured(path: Path = RECORDS) -> list[Measured]:
    """Read the recorded figures, by experiment and corpus; empty without a record."""
    return _LIST.validate_json(path.read_bytes()) if path.exists() else []


def record(report: Report, commit: str, machine: str, of: str = "") -> Measured:
    """Return the part of a report that the page shows."""
    metric = quality_metric(report)
    sizes: dict[tuple[int, int], list[str]] = {}
    for index in report.indexes:
        sizes.setdefault((index.passages, index.sentences), []).append(index.name)
    corpora = (f"{', '.join(names)}: {p:,} passages, {s:,} sentences" for (p, s), names in sizes.items())
    return Measured(
        experiment=report.experiment,
        corpus="; ".join(corpora) or "none",
        models=report.models,
        asked=of,
        questions=re.sub(r"(?<=:)\S*/", "", asked(report)),
        n=report.asked.questions,
        date=f"{report.when:%Y-%m-%d}",
        commit=commit,
        machine=machine,
        lines=tuple(_lines(report)),
        notes=(*choices(report), *(_best(report, best) for best in report.best_alphas if best.metric == metric)),
    )


def _lines(report: Report) -> Iterator[Line]:
    """Yield the figures that this run has a counterpart of."""
    if (paper := report.paper) is None:
        return
    for figure in repeated(report).figures:
        ours, printed = our_figure(report, figure.ours), paper.target(figure)
        if ours.mean is not None:
            yield Line(
                ours=figure.ours,
                what=figure.what,
                printed=None if printed is None else round(printed, 6),
                unit=report.column(figure.ours.metric).unit,
                mean=ours.mean,
                low=ours.low,
                high=ours.high,
                questions=ours.questions,
            )


def _best(report: Report, best: BestAlpha) -> str:
    family = f" ({best.family})" if best.family else ""
    return (
        f"{report.column(best.metric).heading} is highest at alpha {best.alpha:g}{family}; in 95 % of resamples of the "
        f"questions the best lies between {best.low:g} and {best.high:g}."
    )


def write(records: list[Measured], path: Path = RECORDS) -> None:
    """Add records to the file; a later one replaces an earlier one of the same key."""
    kept = {each.key(): each for each in [*measured(path), *records]}
    path.write_bytes(_LIST.dump_json(sorted(kept.values(), key=Measured.key), indent=2, exclude_defaults=True) + b"\n")


def repeating(store: Path) -> list[Run]:
    """Return the completed runs of experiments that repeat a paper, in their order."""
    named = {name for paper in papers().values() for item in paper.items for name in item.experiments}
    runs = (run for run in read_runs(store) if run.flow == "evaluate" and run.state == "completed")
    return [run for run in runs if run.name in named]


def code_state() -> str:
    """Return the commit of this tree, with + after it if the tree has changes."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain", "--untracked-files=no") else "")


def main(
    machine: Annotated[str, typer.Option(help="Machine that the runs ran on, in words.")],
    runs: Annotated[list[str] | None, typer.Argument(metavar="[RUN]...")] = None,
    store: Annotated[Path, typer.Option(exists=True, file_okay=False)] = Path("store"),
    of: Annotated[
        str, typer.Option("--asked", help="Source of the questions, in one word, if the corpus has several.")
    ] = "",
    records: Annotated[Path, typer.Option(help="File that the records are added to.")] = RECORDS,
) -> None:
    """Record the figures of finished runs beside the papers'."""
    found = [find_run(store, run) for run in runs] if runs else repeating(store)
    made = [record(read_report(store, run), code_state(), machine, of) for run in found]
    write(made, records)
    for each in made:
        typer.echo(f"{each.experiment}: {each.corpus}; {each.n:,} questions, {len(each.lines)} figures")


if __name__ == "__main__":
    typer.run(main)
