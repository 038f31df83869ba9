"""The commands on finished evaluations: `report`, `runs`, `compare`, `check`, `significance` and `export`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Column, Table
from typer import Argument, Option

from vitalfew.flows.cli import options, terminal
from vitalfew.flows.cli.terminal import Command, Group, out, print_table, say, table
from vitalfew.tasks.reports.shown.text import one_line

if TYPE_CHECKING:
    from vitalfew.tasks.report import WrittenReport
    from vitalfew.tasks.reports.contents import Report


def report(
    run: options.Run = "latest",
    full: Annotated[bool, Option("--full", help="Show all figures.")] = False,
    store: options.Store = options.STORE,
) -> None:
    """Show the report of an evaluation.

    It has a table, and the paths of its page, CSV and Parquet files.

        vitalfew report quickstart
    """
    from vitalfew.tasks.report import read_report, write_report
    from vitalfew.tasks.reports.runs import find_run

    written = write_report(store, read_report(store, find_run(store, run)))
    show_figures(written.report, full)
    show_files(written)


def show_figures(report: "Report", full: bool = False) -> None:
    """Print an evaluation."""
    from vitalfew.tasks.reports.shown.terminal import terminal_report

    out.print(terminal_report(report, out.width, full))


def show_files(written: "WrittenReport") -> None:
    """Print where an evaluation's page and its tables are."""
    from vitalfew.storage import files

    say(f"Page with plots: {escape(str(files.local(written.html)))}")  # of a bucket: the copy that is here
    say(f"Tables: {escape(f'{written.csv}, {written.parquet}')}")


def runs(store: options.Store = options.STORE) -> None:
    """List the runs of a store.

    The latest is last: flow, index or experiment, state, start and duration.
    """
    from datetime import datetime

    from vitalfew.storage.runs import read_runs
    from vitalfew.storage.upkeep.inventory import check_store

    check_store(store)
    named = Column("run", no_wrap=True)  # to be copied
    shown = table(named, "flow", "for", "state", "began (UTC)", figures=["took"])
    for run in read_runs(store):
        began = datetime.fromisoformat(run.started)
        took = f"{(datetime.fromisoformat(run.ended) - began).total_seconds():,.0f} s" if run.ended else ""
        row = (run.run_id, run.flow, run.name, run.state, f"{began:%Y-%m-%d %H:%M}", took)
        shown.add_row(*map(escape, row))
    print_table(shown, "began (UTC)")
    say("\nTo show the table of an evaluation:\n  vitalfew report RUN")


def compare(
    run_a: Annotated[str, options.method_argument("RUN_A[:METHOD]", f"{options.A_RUN}.")],
    run_b: Annotated[str, options.method_argument("RUN_B[:METHOD]", "The other; differences are B minus A.")],
    metric: Annotated[
        str | None, Option(metavar="METRIC", help="List the questions that differ most in this metric.")
    ] = None,
    n: Annotated[int, Option(metavar="N", min=0, help="Number of questions to list per direction.")] = 5,
    store: options.Store = options.STORE,
) -> None:
    """Compare two evaluations question by question.

    Shows differences with intervals, and the questions that differ. Compares the methods that have the same name in
    both runs. To compare two methods, name both.

        vitalfew compare quickstart:"naive RAG" quickstart:ParetoRAG --metric f1
    """
    from vitalfew.tasks.reports.comparison import compare as compared
    from vitalfew.tasks.reports.comparison import main_metric, question_table, write_comparison

    pairs = compared(store, run_a, run_b)
    by = main_metric(pairs, metric)
    for pair in pairs:
        table = question_table(store, pair)
        path = write_comparison(store, pair, table)
        _show(pair, table, by, n, path)


def _show(pair: Any, table: Any, metric: str, n: int, path: Path) -> None:
    from vitalfew.tasks.reports.statistics.bootstrap import MIN_QUESTIONS

    one, other = map(escape, pair.labels)
    runs = dict.fromkeys((pair.a.run.run_id, pair.b.run.run_id))
    say(f"\n[bold]{one}[/] and [bold]{other}[/], {' and '.join(runs)}")
    shared = f"{len(pair.ids):,} questions in both, of {len(pair.a.scores.ids):,} and {len(pair.b.scores.ids):,}"
    out.print(f"{shared}; differences are {other} minus {one}\n")
    _print_differences(pair)
    if len(pair.ids) < MIN_QUESTIONS:
        out.print(f"Too few questions for intervals: need at least {MIN_QUESTIONS}, got {len(pair.ids)}.")
    for heading, rows in _extremes(table, metric, n):
        if rows:
            out.print(f"\n[bold]{other} {heading} in {escape(metric)}[/]")
            out.print(_questions(rows, metric, pair))
    say(f"\nAll questions:  {escape(str(path))}, and as .parquet in the same folder")


def _print_differences(pair: Any) -> None:
    """Print every column if the terminal is wide, else only those that do not follow from the others."""
    from vitalfew.tasks.reports.shown.columns import DIFFERENCE_HEADS, difference_cells, figure

    heads = [head.replace(" (", "\n(") for head in DIFFERENCE_HEADS]
    labels = (Column(escape(label), justify="right", overflow="fold") for label in pair.labels)
    shown = table(Column(heads[0], no_wrap=True), *labels, figures=heads[1:], padding=(0, 1, 0, 0))
    for metric, difference in pair.differences.items():
        column = pair.a.columns[metric]
        means = [figure(pair.mean(side, metric), column.unit) for side in (pair.a, pair.b)]
        first, *cells = difference_cells(column.heading, difference)
        texts = [f"[bold]{text}[/]" if bold else text for text, bold in cells]
        shown.add_row(escape(first[0]), *means, *texts)
    print_table(shown, "questions", "lower", "higher", "effect", "p")


def _extremes(table: Any, metric: str, number: int) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the questions where b is furthest above and below a; equal differences keep the order of ids."""
    import polars as pl

    difference = pl.col(f"b.{metric}") - pl.col(f"a.{metric}")
    higher = table.filter(difference > 0).sort(difference, descending=True, maintain_order=True)
    lower = table.filter(difference < 0).sort(difference, maintain_order=True)
    return [("higher", higher.head(number).to_dicts()), ("lower", lower.head(number).to_dicts())]


def _questions(rows: list[dict[str, Any]], metric: str, pair: Any) -> Table:
    from vitalfew.tasks.reports.shown.columns import figure
    from vitalfew.tasks.reports.shown.text import one_line, shortened

    unit, heads = pair.a.columns[metric].unit, ("gold", *map(escape, pair.labels))
    answered = (Column(each, ratio=1, overflow="fold") for each in heads)
    shown = table(Column("question", ratio=2, overflow="fold"), *answered, expand=True)
    for row in rows:
        gold = " | ".join(row["gold_answers"])
        answers = [
            f"{shortened(one_line(row[f'{side}.answer'] or ''), 80)} ({figure(row[f'{side}.{metric}'], unit)})"
            for side in "ab"
        ]
        cells = [one_line(row["question"]), shortened(one_line(gold), 80), *answers]
        shown.add_row(*map(escape, cells))
    return shown


def significance(
    table: Annotated[Path, Argument(metavar="TABLE", help="A .csv, .tsv or .parquet file.")],
    form: options.Format = "table",
    lower_is_better: Annotated[bool, Option("--lower-is-better", help="Rank the lowest value first.")] = False,
    control: Annotated[
        str | None, Option(metavar="NAME", help="Method to compare with; default: the best ranked.")
    ] = None,
    significance: Annotated[
        float, Option("--significance", metavar="LEVEL", help="Significance level, between 0 and 1.")
    ] = 0.05,
) -> None:
    """Test which methods differ over several data sets.

    The tests are Quade's test with average rankings, and Li's procedure. A row of the table is a method, named in the
    first column. The other columns are data sets, with one value per cell, all in the same unit.

        vitalfew significance table.csv --control "Naive RAG"
    """
    from vitalfew.tasks.reports.significance import conclusion, read_scores
    from vitalfew.tasks.reports.significance import significance as test

    result = test(read_scores(table), not lower_is_better, control, significance)
    if form == "json":
        print(json.dumps(result.as_json(), ensure_ascii=False, indent=1, allow_nan=False))
        return
    heads = ("mean", "Quade\nranking", "z", "p")
    figures = (Column(head, justify="right", vertical="bottom", no_wrap=True) for head in heads)
    shown = terminal.table("method", *figures, Column("verdict", vertical="bottom", no_wrap=True))
    for method in sorted(result.methods, key=lambda method: method.ranking):
        name = escape(one_line(method.method))
        tested = ("", "", "control")
        if method.z is not None:
            tested = (f"{method.z:.4f}", f"{method.p:.4f}", "significant" if method.significant else "not shown")
        shown.add_row(name, f"{method.mean:.4g}", f"{method.ranking:.2f}", *tested)
    out.print(shown)
    rule = f"significant: Quade's p is at most {significance:g}, and p at most Li's {result.threshold:.4g}"
    say(f"\nEvery method against {escape(one_line(result.control))}; {rule}.")
    for sentence in conclusion(result):
        say(escape(sentence))


export_app = typer.Typer(
    name="export", cls=Group, no_args_is_help=True, help="Export rankings and judgements (TREC), and vectors."
)


RetrievingMethod = Annotated[
    str, options.method_argument("RUN[:METHOD]", f"{options.A_RUN}; default: the first method that retrieves.")
]
Ids = Annotated[
    Literal["source", "content"],
    Option("--ids", help="source: ids of the data set; content: ids of the text, the same in every store."),
]


@export_app.command(cls=Command)
def run(name: RetrievingMethod, path: options.Out, ids: Ids = "source", store: options.Store = options.STORE) -> None:
    """Write a method's ranking as a TREC run.

    A line is: question, Q0, passage, rank, score, tag. If sentences were retrieved, a passage is listed once, at the
    rank of its best sentence.

        vitalfew export run "quickstart:naive RAG" --out naive.run
    """
    from vitalfew.tasks.reports.trec import write_run

    name, method = _retrieving(store, name)
    lines = write_run(store, name, method, path, ids)
    say(f"{lines:,} lines in {escape(f'{path}, the ranking of {method!r}')}")


@export_app.command(cls=Command)
def qrels(name: RetrievingMethod, path: options.Out, ids: Ids = "source", store: options.Store = options.STORE) -> None:
    """Write gold passages as TREC qrels.

    A line is: question, 0, passage, grade.

        vitalfew export qrels quickstart --out quickstart.qrels
    """
    from vitalfew.tasks.reports.trec import write_qrels

    lines = write_qrels(store, *_retrieving(store, name), path, ids)
    say(f"{lines:,} lines in {escape(str(path))}")


@export_app.command(cls=Command)
def vectors(
    name: options.IndexName,
    path: options.Out,
    unit: Annotated[
        Literal["passage", "sentence"] | None,
        Option("--unit", help="Default: passages, if the index has their vectors."),
    ] = None,
    alpha: Annotated[
        float, Option("--alpha", min=0, max=1, help="Of sentences: weight of the sentence against its context.")
    ] = 1.0,
    store: options.Store = options.STORE,
) -> None:
    """Write an index's vectors for another vector store.

    A row has id, passage_id, source, source_id, title, text, metadata, generation and vector. Exports the generation
    that searches use; NAME@3 is the third one.

        vitalfew export vectors wiki --out wiki.parquet
        vitalfew export vectors wiki --out wiki.parquet --unit sentence --alpha 0.8
    """
    from vitalfew.storage.indexes.publishing import export_vectors

    done = export_vectors(store, name, path, unit, alpha)
    say(
        f"{done['rows']:,} {done['unit']}s of {escape(name)}, generation {done['generation']}, in {escape(str(path))}: "
        f"vectors of {done['dimension']:,} numbers by {done['encoder']}, compared by inner product"
    )


def _retrieving(store: Path, named: str) -> tuple[str, str | None]:
    """The run and the method of RUN[:METHOD]: by default the first that retrieves; None where none does."""
    from vitalfew.tasks.registry import method_named
    from vitalfew.tasks.reports.runs import find_run

    name, given = options.split(named)
    retrieving = [method for method, tables in find_run(store, name).methods.items() if "hits" in tables]
    return name, method_named(given, retrieving) if given else next(iter(retrieving), None)


def check(
    run: options.RunMethod,
    against: Annotated[Path | None, Option(metavar="FILE", help="The baseline to compare with.")] = None,
    margin: Annotated[
        list[str] | None,
        Option(
            metavar="METRIC=LOSS",
            help="Gate a metric: the loss of its mean that is accepted, in its unit (accuracy=0.02 is two points of a "
            "hundred). Repeatable.",
        ),
    ] = None,
    common: Annotated[
        bool,
        Option(
            "--common",
            help="Compare the questions that both have, whose gold passages are in both corpora. Without it other "
            "questions and another corpus are refused.",
        ),
    ] = False,
    markdown: Annotated[Path | None, Option(metavar="FILE", help="Also write Markdown, for a pull request.")] = None,
    junit: Annotated[
        Path | None, Option(metavar="FILE", help="Also write JUnit's XML: worse is a failure, in doubt an error.")
    ] = None,
    write: Annotated[
        Path | None, Option(metavar="FILE", help="Write the run as a baseline, and compare nothing.")
    ] = None,
    store: options.Store = options.STORE,
) -> None:
    """Fail if answers are worse than a baseline.

    It is a gate for pull requests: is the evaluation no worse than the baseline?

    Write a baseline once, and keep the file beside your code. After a change, evaluate the same questions and check:

        vitalfew check my --write baseline.json
        vitalfew check my --against baseline.json --margin accuracy=0.02

    Decides by the 95 % interval of the paired difference, not by the means alone. Exit status 0 means no worse: the
    interval lies within every margin. 1 means worse: it lies beyond one. 2 means in doubt: too few questions to say. 3
    means an error: nothing was compared. 130 is Ctrl-C. The first line says how many questions were left out, and why.
    """
    from vitalfew.tasks.reports.baselines import check as checked_run
    from vitalfew.tasks.reports.baselines import write_baseline
    from vitalfew.tasks.reports.shown.checked import terminal_check, write_check
    from vitalfew.tasks.reports.statistics.gates import IN_DOUBT, WORSE

    name, method = options.split(run)
    if write:
        if against or margin or common or markdown or junit:
            raise typer.BadParameter(
                "--write compares nothing: check against the old baseline first, then write the new"
            )
        baseline = write_baseline(store, name, method, write)
        metrics = dict.fromkeys(metric for own in baseline.methods.values() for metric in own.metrics)
        told = f"{len(baseline.questions):,} questions of run {baseline.run_id}, by {', '.join(baseline.methods)}"
        say(escape(f"{write}: {told}; metrics {', '.join(metrics)}"))
        at = escape(str(write))
        say(f"\nTo check a later run against it:\n  vitalfew check RUN --against {at} --margin METRIC=LOSS")
        return
    if against is None:
        raise typer.BadParameter("give --against FILE to compare with a baseline, or --write FILE to write one")
    checked = checked_run(store, name, method, against, _margins(margin), common)
    out.print(terminal_check(checked))
    write_check(checked, markdown, junit)
    raise typer.Exit({WORSE: 1, IN_DOUBT: 2}.get(checked.decision.verdict, 0))


def _margins(given: Sequence[str] | None) -> dict[str, float]:
    """Margins by metric. Raises BadParameter."""
    margins: dict[str, float] = {}
    for each in given or ():
        metric, _, text = (part.strip() for part in each.partition("="))
        try:
            loss = float(text)
        except ValueError:
            metric = ""
        if not metric:
            raise typer.BadParameter(f"--margin {each}: write METRIC=LOSS, for example --margin accuracy=0.02")
        if not 0 <= loss < float("inf"):
            raise typer.BadParameter(f"--margin {each}: a margin is the loss that is accepted, 0 or more")
        if metric in margins:
            raise typer.BadParameter(f"--margin {each}: {metric} has a margin already, {margins[metric]:g}")
        margins[metric] = loss
    if not margins:
        raise typer.BadParameter("give the metrics to decide by: --margin METRIC=LOSS, e.g. --margin accuracy=0.02")
    return margins
