"""The command `check`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from typer import Option

from vitalfew.flows.cli import options
from vitalfew.flows.cli.terminal import out, say


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
