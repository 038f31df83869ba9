"""The command `check`."""

from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperCommand

from vitalfew.flows.cli.terminal import DEFAULT_STORE, StoreOption, explanation, out, say, say_error

if TYPE_CHECKING:
    from vitalfew.tasks.reports.baselines import Baseline


class ExitStatus(IntEnum):
    """The verdict of a check for the shell, and with it for continuous integration."""

    no_worse = 0
    worse = 1
    in_doubt = 2
    not_compared = 3


class CheckCommand(TyperCommand):
    """A command whose errors, of every kind, have one exit status that differs from those of the verdicts."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            if hasattr(error, "exit_code"):  # Typer explains errors of usage, and ends with this status
                error.exit_code = ExitStatus.not_compared
            raise

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except Exception as error:
            if isinstance(error, typer.Exit):
                raise
            if hasattr(error, "format_message"):
                error.exit_code = ExitStatus.not_compared  # type: ignore[attr-defined]
                raise
            if (message := explanation(error)) is None:
                raise
            say_error(message)
            raise typer.Exit(ExitStatus.not_compared) from None


def check(
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's id or a prefix of it, or an experiment's name for its latest.")
    ],
    against: Annotated[
        Path | None, typer.Option("--against", metavar="FILE", help="The baseline to compare with.")
    ] = None,
    margin: Annotated[
        list[str] | None,
        typer.Option(
            "--margin",
            metavar="METRIC=LOSS",
            help="Gate a metric: the loss of its mean that is accepted, in its unit (accuracy=0.02 is two points of a "
            "hundred). Repeatable.",
        ),
    ] = None,
    method: Annotated[
        str | None,
        typer.Option("--method", metavar="METHOD", help="The method, where the run has several; --write: it alone."),
    ] = None,
    common: Annotated[
        bool,
        typer.Option(
            "--common",
            help="Compare the questions that both have, whose gold passages are in both corpora. Without it other "
            "questions and another corpus are refused.",
        ),
    ] = False,
    markdown: Annotated[
        Path | None, typer.Option("--markdown", metavar="FILE", help="Also write Markdown, for a pull request.")
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option("--junit", metavar="FILE", help="Also write JUnit's XML: worse is a failure, in doubt an error."),
    ] = None,
    write: Annotated[
        Path | None, typer.Option("--write", metavar="FILE", help="Write the run as a baseline, and compare nothing.")
    ] = None,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Check that an evaluation is no worse than a baseline: a gate for pull requests.

    Write a baseline once, and keep the file beside your code. After a change, evaluate the same questions and check:

        vitalfew check my --write baseline.json
        vitalfew check my --against baseline.json --margin accuracy=0.02

    Decides by the 95 % interval of the paired difference, not by the means alone. Exit status: 0, no worse (the
    interval lies within every margin); 1, worse (it lies beyond one); 2, too few questions to say (and how many would
    do); 3, nothing was compared: an error.
    """
    if write:
        _refuse_with_write(against, margin, common, markdown, junit)
        _write(store, run, method, write)
        return
    if against is None:
        raise typer.BadParameter("give --against FILE to compare with a baseline, or --write FILE to write one")

    from vitalfew.tasks.reports.baselines import check as checked_run
    from vitalfew.tasks.reports.shown.checked import terminal_check, write_check
    from vitalfew.tasks.reports.statistics.gates import IN_DOUBT, WORSE

    checked = checked_run(store, run, method, against, _margins(margin), common)
    out.print(terminal_check(checked))
    write_check(checked, markdown, junit)
    status = {WORSE: ExitStatus.worse, IN_DOUBT: ExitStatus.in_doubt}
    raise typer.Exit(status.get(checked.decision.verdict, ExitStatus.no_worse))


def _refuse_with_write(*others: Any) -> None:
    if any(others):
        raise typer.BadParameter("--write compares nothing: check against the old baseline first, then write the new")


def _margins(given: Sequence[str] | None) -> dict[str, float]:
    """Margins by metric. Raises BadParameter."""
    margins: dict[str, float] = {}
    for each in given or ():
        metric, equals, text = each.partition("=")
        metric = metric.strip()
        try:
            loss = float(text)
        except ValueError:
            equals = ""
            loss = 0.0
        if not equals or not metric:
            raise typer.BadParameter(f"--margin {each}: write METRIC=LOSS, for example --margin accuracy=0.02")
        if not 0 <= loss < float("inf"):
            raise typer.BadParameter(f"--margin {each}: a margin is the loss that is accepted, 0 or more")
        if metric in margins:
            raise typer.BadParameter(f"--margin {each}: {metric} has a margin already, {margins[metric]:g}")
        margins[metric] = loss
    if not margins:
        raise typer.BadParameter("give the metrics to decide by: --margin METRIC=LOSS, e.g. --margin accuracy=0.02")
    return margins


def _write(store: Path, run: str, method: str | None, path: Path) -> None:
    from vitalfew.tasks.reports.baselines import write_baseline

    baseline = write_baseline(store, run, method, path)
    out.print(_said(baseline, path), soft_wrap=True)
    say(f"\nTo check a later run against it:\n  vitalfew check RUN --against {escape(str(path))} --margin METRIC=LOSS")


def _said(baseline: "Baseline", path: Path) -> str:
    metrics = dict.fromkeys(metric for method in baseline.methods.values() for metric in method.metrics)
    return escape(
        f"{path}: {len(baseline.questions):,} questions of run {baseline.run_id}, by {', '.join(baseline.methods)}; "
        f"metrics {', '.join(metrics)}"
    )
