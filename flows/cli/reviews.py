"""`vitalfew review export` and `review import`: what people said of answers, as CSV."""

from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from vitalfew.flows.cli.terminal import DEFAULT_STORE, StoreOption, out


def export_file(
    run: Annotated[str, typer.Argument(metavar="RUN", help="A run's id or a prefix of it, or an experiment's name.")],
    path: Annotated[Path, typer.Option("--out", metavar="FILE", help="File to write.")],
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Write the reviews of an evaluation's answers as CSV: who, when, question, methods, verdict, seconds.

    vitalfew review export quickstart --out reviews.csv
    """
    from vitalfew.tasks.reports.reviewed import export_reviews

    count = export_reviews(store, run, path)
    out.print(f"Reviews in {escape(str(path))}: {count:,}", soft_wrap=True)


def import_file(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A CSV file with the columns of the table `reviews`.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Keep the new verdict where a reviewer has given another one before.")
    ] = False,
    store: StoreOption = DEFAULT_STORE,
) -> None:
    """Read reviews from CSV into the store.

    Columns: reviewer, run_id, question_id, method, verdict; of two answers also other; and reviewed and seconds where
    known. A verdict on one answer is right, wrong or unsure; on two, first, second, equal or unsure. Keeps nothing of a
    run where a line is of an answer that the store does not have, or a reviewer reviews the same twice. In SQL: the
    table `reviews`.

        vitalfew review import reviews.csv
    """
    from vitalfew.tasks.reports.reviewed import import_reviews

    kept = import_reviews(store, path, replace)
    out.print(f"New reviews: {kept.new:,}; there already: {kept.known:,}")
