"""The command `vitalfew`. Heavy libraries are imported by the commands that need them: `--help` answers at once."""

from importlib.metadata import version
from typing import Annotated

import typer
from rich.markup import escape

from vitalfew.configs.evaluation import Experiment, Method
from vitalfew.configs.schema import IndexCorpus, Search
from vitalfew.flows.cli import answer as answer_cli
from vitalfew.flows.cli import check as check_cli
from vitalfew.flows.cli import costs as costs_cli
from vitalfew.flows.cli import demo as demo_cli
from vitalfew.flows.cli import deploy as deploy_cli
from vitalfew.flows.cli import generations as generations_cli
from vitalfew.flows.cli import mcp as mcp_cli
from vitalfew.flows.cli import methods as methods_cli
from vitalfew.flows.cli import results, runs, tables
from vitalfew.flows.cli import reviews as reviews_cli
from vitalfew.flows.cli import serve as serve_cli
from vitalfew.flows.cli import sql as sql_cli
from vitalfew.flows.cli import start as start_cli
from vitalfew.flows.cli import ui as ui_cli
from vitalfew.flows.cli.methods import models_app, settings_help
from vitalfew.flows.cli.questions import questions_app
from vitalfew.flows.cli.results import export_app
from vitalfew.flows.cli.store import store_app
from vitalfew.flows.cli.terminal import DEFAULT_STORE, ExplainedErrors, StoreOption, out, table

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
app.add_typer(store_app)
app.add_typer(models_app)
app.add_typer(export_app)
app.add_typer(questions_app)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"vitalfew {version('vitalfew')}")
        raise typer.Exit


@app.callback()
def _options(
    asked: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass


app.command()(demo_cli.demo)
app.command()(start_cli.start)
app.command(epilog=settings_help(IndexCorpus))(runs.index)
app.command("index history")(generations_cli.history)
app.command("index promote")(generations_cli.promote)
app.command("index rollback")(generations_cli.rollback)
app.command(epilog=settings_help(IndexCorpus))(costs_cli.plan)
app.command(epilog=settings_help(Search))(runs.search)
app.command(epilog=settings_help(Experiment, Method))(runs.evaluate)
app.command(epilog=settings_help(Method))(answer_cli.answer)
app.command()(mcp_cli.mcp)
app.command()(runs.experiments)
app.command()(results.report)
app.command()(results.runs)
app.command()(results.compare)
app.command()(results.significance)
app.command()(reviews_cli.review)
app.command("review export")(reviews_cli.export_file)
app.command("review import")(reviews_cli.import_file)
app.command(cls=check_cli.CheckCommand)(check_cli.check)
app.command()(serve_cli.serve)
app.command()(ui_cli.ui)
app.command()(deploy_cli.deploy)
app.command(epilog=runs.trainers_help())(runs.train)
app.command()(sql_cli.sql)
app.command()(tables.tables)
app.command()(costs_cli.costs)
app.command()(methods_cli.methods)
app.command()(methods_cli.datasets)


@app.command()
def doctor(store: StoreOption = DEFAULT_STORE) -> None:
    """Check this machine and this store, and show how to fix any problems."""
    from vitalfew.flows.cli.doctor import checkup

    checks = checkup(store)
    shown = table(show_header=False)
    for check in checks:
        mark = "[green]ok[/]" if check.fine else "[red]no[/]" if check.needed else "[yellow]--[/]"
        shown.add_row(mark, check.what, escape(check.found))
    out.print(shown)
    raise typer.Exit(0 if all(check.fine or not check.needed for check in checks) else 1)


if __name__ == "__main__":
    app()
