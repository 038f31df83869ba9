"""The command `vitalfew`. Heavy libraries are imported by the commands that need them: `--help` answers at once."""

from importlib.metadata import version
from typing import Annotated

import typer
from typer import Option

from vitalfew.configs.evaluation import Experiment, Method
from vitalfew.configs.schema import IndexCorpus, Search
from vitalfew.flows.cli import (
    answer,
    check,
    costs,
    demo,
    deploy,
    doctor,
    generations,
    methods,
    questions,
    results,
    reviews,
    runs,
    serve,
    sql,
    start,
    store,
    tables,
    ui,
)
from vitalfew.flows.cli.methods import settings_help
from vitalfew.flows.cli.terminal import ExplainedErrors

app = typer.Typer(
    name="vitalfew",
    cls=ExplainedErrors,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Measure how retrieval-augmented generation improves when the model gets [b]less[/b] text.\n\n"
    "Start with [b]vitalfew demo[/b], which shows every step on real text, or with [b]vitalfew start FOLDER[/b], which "
    "does them on your documents; both take minutes.",
)
app.add_typer(store.store_app)
app.add_typer(methods.models_app)
app.add_typer(results.export_app)
app.add_typer(questions.questions_app)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"vitalfew {version('vitalfew')}")
        raise typer.Exit


@app.callback()
def _options(
    asked: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command()(demo.demo)
app.command()(start.start)
app.command(epilog=settings_help(IndexCorpus))(runs.index)
app.command("index history")(generations.history)
app.command("index promote")(generations.promote)
app.command("index rollback")(generations.rollback)
app.command("index decline")(generations.decline)
app.command(epilog=settings_help(IndexCorpus))(costs.plan)
app.command(epilog=settings_help(Search))(runs.search)
app.command(epilog=settings_help(Experiment, Method))(runs.evaluate)
app.command(epilog=settings_help(Method))(answer.answer)
app.command()(answer.mcp)
app.command()(runs.experiments)
app.command()(results.report)
app.command()(results.runs)
app.command()(results.compare)
app.command()(results.significance)
app.command()(reviews.review)
app.command("review export")(reviews.export_file)
app.command("review import")(reviews.import_file)
app.command()(check.check)
app.command()(serve.serve)
app.command()(ui.ui)
app.command()(deploy.deploy)
app.command(epilog=runs.trainers_help())(runs.train)
app.command()(sql.sql)
app.command()(tables.tables)
app.command()(costs.costs)
app.command()(methods.methods)
app.command()(methods.datasets)
app.command()(doctor.doctor)


if __name__ == "__main__":
    app()
