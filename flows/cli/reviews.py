"""`vitalfew review`: a person reviews answers at a terminal; `review export` and `review import`: reviews as CSV."""

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from getpass import getuser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.rule import Rule
from rich.table import Column, Table
from rich.text import Text
from typer import Argument, Option

from vitalfew.flows.cli import options
from vitalfew.flows.cli.terminal import out, say

if TYPE_CHECKING:
    from vitalfew.tasks.reports.reviewing import ReviewItem, ReviewSession

_CONTEXTS, _GOLD, _QUIT = "c", "g", "q"
_VERDICTS = {1: "r right   w wrong   u unsure", 2: "1 or 2 is better   = equal   u unsure"}
"""The keys of verdicts, by the number of answers that are shown."""


def review(
    methods: Annotated[
        list[str],
        options.method_argument(
            "RUN[:METHOD]",
            f"{options.A_RUN}. Two methods of it make a pair; default: the best method and the baseline. With "
            "--one, any number; default: all that answer.",
        ),
    ],
    one: Annotated[
        bool, Option("--one", help="Show one answer at a time: right or wrong? Else two: which is better?")
    ] = False,
    reviewer: Annotated[str | None, Option(metavar="NAME", help="Your name; default: the login name.")] = None,
    store: options.Store = options.STORE,
) -> None:
    """Rate answers by hand, methods hidden.

    Shows a question and two answers: which is better? Keys: 1, 2, = (equal), u (unsure); with --one r (right), w
    (wrong), u. Besides: s (skip), b (back), c (contexts), g (gold answers), q (quit). Every verdict is kept at once,
    and the same command goes on. Questions come in a random order, the same for all reviewers, so that you may stop at
    any time. Two answers with the same text are equal, and are not shown. `vitalfew report` has the figures; labels of
    --one correct a judge's verdicts. Without a terminal, every line of the standard input is a key. In SQL: the table
    `reviews`.

        vitalfew review quickstart --one
    """
    from vitalfew.tasks.reports.reviewing import ReviewSession

    try:
        name = reviewer or getuser()
    except (OSError, KeyError):  # a user without a name, as in a container
        raise typer.BadParameter("your user has no name on this machine: give --reviewer NAME") from None
    (run, *others), named = zip(*map(options.split, methods), strict=True)
    if {*others} - {run}:
        raise typer.BadParameter("the methods are of several runs: name methods of one run")
    session = ReviewSession(store, run, name, [method for method in named if method], one)
    with suppress(KeyboardInterrupt, EOFError):
        _work(session)
    given = ["--one"] * one + (["--reviewer", reviewer] if reviewer else [])
    _summarise(session, [*methods, *given])


def _work(session: "ReviewSession") -> None:
    """Show item after item, and do what the keys say, until there are no more keys, or nobody goes back at the end."""
    from vitalfew.tasks.reports.reviewing import BACK

    keys, shown, began = _keys(), None, 0.0
    while session.items:
        item = session.current
        if item is None:
            out.print(Text("All are reviewed.   b back   q quit", style="cyan"))
            if next(keys, _QUIT).lower() != BACK:
                return
            session.press(BACK)
            continue
        if item is not shown:
            _show(session, item)
            shown, began = item, time.monotonic()
        key = next(keys, _QUIT).lower()
        if key == _QUIT:
            return
        if key == _CONTEXTS:
            _show_contexts(session, item)
            _show(session, item)
        elif key == _GOLD:
            gold = " | ".join(item.gold) or "This question has no gold answer."
            out.print(Text.assemble(("gold  ", "dim"), gold))
        elif said := session.press(key, time.monotonic() - began):
            out.print(Text(said, style="yellow"))
        elif key in item.keys:
            out.print(Text(f"→ {item.keys[key]}", style="dim"))


def _keys() -> Iterator[str]:
    """Keys as they are pressed; without a terminal, lines. Raises KeyboardInterrupt and EOFError as a terminal does."""
    if sys.stdin.isatty():
        while True:
            yield typer.getchar()
    for line in sys.stdin:
        if key := line.strip():
            yield key


def _show(session: "ReviewSession", item: "ReviewItem") -> None:
    progress = session.progress
    out.print(Rule(f"{session.place:,} of {progress.items:,}, {progress.reviewed:,} reviewed", style="dim"))
    out.print(Text(item.question, style="bold"), "", sep="\n")
    marks = [""] if len(item.answers) == 1 else ["1", "2"]
    mark_column = Column(style="bold cyan", no_wrap=True)
    answers = Table.grid(mark_column, Column(overflow="fold"), padding=(0, 2, 1, 0))
    for mark, answer in zip(marks, item.answers, strict=True):
        answers.add_row(mark, Text(answer.text.strip()) if answer.text.strip() else Text("(empty)", style="dim"))
    out.print(answers)
    if (said := session.verdict(item)) is not None:
        out.print(Text(f"Your verdict so far: {said}", style="yellow"))
    out.print(Text(_VERDICTS[len(item.answers)], style="cyan"))
    out.print(Text("s skip   b back   c contexts   g gold answers   q quit", style="dim"))


def _show_contexts(session: "ReviewSession", item: "ReviewItem") -> None:
    """Show the contexts that the answers were written from, with all their words."""
    every = session.contexts(item)
    for number, contexts in enumerate(every, start=1):
        of = f" of {number}" if len(every) > 1 else ""
        out.print(Text(f"Contexts{of}: {len(contexts)}", style="bold cyan"))
        number_column = Column(justify="right", style="dim", no_wrap=True)
        table = Table.grid(number_column, Column(overflow="fold"), padding=(0, 2, 0, 0))
        for place, context in enumerate(contexts, start=1):
            table.add_row(str(place), Text(context.strip()))
        out.print(table)


def _summarise(session: "ReviewSession", words: list[str]) -> None:
    """Print what was done, what the labels say so far, and the next command."""
    from vitalfew.configs.evaluation import Evaluate
    from vitalfew.tasks.reports.labelled import labelled
    from vitalfew.tasks.reports.shown.terminal import terminal_labels

    progress, run = session.progress, session.run
    left = progress.items - progress.reviewed
    alike = f"; {progress.alike:,} more have the same answer of both" if progress.alike else ""
    out.print(Rule(style="dim"))
    out.print(
        f"Reviewed now: {progress.given:,}. In all {progress.reviewed:,} of {progress.items:,} by "
        f"{escape(session.reviewer)}, {left:,} left{alike}."
    )
    if said := labelled(session.store, run, Evaluate.model_validate(run.config)):
        out.print("", terminal_labels(said, out.width))
    out.print(f"\nTo {'go on, and to ' if left else ''}see it beside the other figures:")
    for command in ([["review", *words]] if left else []) + [["report", run.run_id]]:
        say(f"  vitalfew {escape(shlex.join([*command, *options.at(session.store)]))}")


def export_file(run: options.Run, path: options.Out, store: options.Store = options.STORE) -> None:
    """Write the reviews of an evaluation as CSV.

    A line says who, when, question, methods, verdict and seconds.

        vitalfew review export quickstart --out reviews.csv
    """
    from vitalfew.tasks.reports.reviewed import export_reviews

    count = export_reviews(store, run, path)
    say(f"Reviews in {escape(str(path))}: {count:,}")


def import_file(
    path: Annotated[Path, Argument(metavar="FILE", help="A CSV file with the columns of the table `reviews`.")],
    overwrite: Annotated[
        bool, Option("--overwrite", help="Keep the new verdict where a reviewer has given another one before.")
    ] = False,
    store: options.Store = options.STORE,
) -> None:
    """Read reviews from CSV into the store.

    Columns: reviewer, run_id, question_id, method, verdict; of two answers also other; and reviewed and seconds where
    known. A verdict on one answer is right, wrong or unsure; on two, first, second, equal or unsure. Keeps nothing of a
    run where a line is of an answer that the store does not have, or a reviewer reviews the same twice. In SQL: the
    table `reviews`.

        vitalfew review import reviews.csv
    """
    from vitalfew.tasks.reports.reviewed import import_reviews

    kept = import_reviews(store, path, overwrite)
    out.print(f"New reviews: {kept.new:,}; there already: {kept.known:,}")
