"""The command `vitalfew`. Heavy libraries are imported by the commands that need them: `--help` answers at once."""

from collections.abc import Callable
from importlib.metadata import version
from typing import Annotated, Any

import typer
from typer import Option

from vitalfew.flows.cli import (
    costs,
    evaluate,
    index,
    methods,
    operate,
    questions,
    results,
    reviews,
    serve,
    sql,
    start,
    store,
)
from vitalfew.flows.cli.terminal import Command, Commands

app = typer.Typer(
    name="vitalfew",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    help="Find out how little text your RAG system needs, and serve exactly what you measured.",
    epilog="Help of a command: vitalfew COMMAND --help. Guides and reference: docs/index.md of the repository.",
)
Panel = dict[str, Callable[..., Any] | typer.Typer]
PANELS: dict[str, Panel] = {
    "Start": {"demo": start.demo, "start": start.start, "doctor": operate.doctor},
    "Corpora": {
        "index": index.index,
        "search": index.search,
        "questions": questions.questions_app,
        "datasets": methods.datasets,
    },
    "Evaluate": {
        "experiments": evaluate.experiments,
        "plan": costs.plan,
        "evaluate": evaluate.evaluate,
        "score": evaluate.score,
        "report": results.report,
        "compare": results.compare,
        "check": results.check,
        "review": reviews.review,
        "significance": results.significance,
        "train": evaluate.train,
    },
    "Serve": {"answer": serve.answer, "serve": serve.serve, "mcp": serve.mcp},
    "Inspect": {
        "runs": results.runs,
        "costs": costs.costs,
        "sql": sql.sql,
        "tables": sql.tables,
        "methods": methods.methods,
        "settings": methods.settings_of,
        "models": methods.models_app,
        "export": results.export_app,
    },
    "Operate": {"ui": operate.ui, "deploy": operate.deploy, "store": store.store_app},
}
NESTED: dict[str, Panel] = {
    "index": {"history": index.history, "promote": index.promote, "rollback": index.rollback, "decline": index.decline},
    "review": {"export": reviews.export_file, "import": reviews.import_file},
}
"""Commands below a command that does work by itself: its help lists them."""


def _nested(above: str) -> str | None:
    """The commands below a command, a line for each."""
    below = NESTED.get(above, {})
    firsts = (
        (f"vitalfew {above} {name}", (command.__doc__ or "").partition("\n")[0]) for name, command in below.items()
    )
    return "\n".join(f"[bold cyan]{name:25}[/]{first}" for name, first in firsts) or None


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


for panel, commands in PANELS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=panel)
        else:
            app.command(name, cls=Command, rich_help_panel=panel, epilog=_nested(name))(command)
for above, commands in NESTED.items():
    for name, command in commands.items():
        app.command(f"{above} {name}", cls=Command, hidden=True)(command)
