"""The command `train`."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from vitalfew.configs.paths import BucketPath
from vitalfew.flows.cli import show
from vitalfew.flows.cli.run import execute
from vitalfew.flows.cli.terminal import (
    DEFAULT_STORE,
    RunnerOption,
    SetOption,
    StoreOption,
    VerboseOption,
    WorkersOption,
    explained_errors,
    out,
    prepare,
    store_argument,
)

if TYPE_CHECKING:
    from vitalfew.configs.training import TrainModel
    from vitalfew.flows.forms import TrainForm
    from vitalfew.flows.pipelines.train import Trained

DatasetsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="DATASET", help="Questions to learn from, as FORMAT:PATH?option=value.")
]
IndexOption = Annotated[
    str | None, typer.Option("--index", metavar="NAME", help="For oreo: index whose questions to learn from.")
]


def _directory(given: str | Path) -> Path:
    """A directory of this machine. Raises BadParameter for a place in a bucket."""
    if isinstance(place := store_argument(given), BucketPath):
        raise typer.BadParameter(f"{place}: --out must be a local directory; models in a bucket need no copy")
    return place


DirectoryOption = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="DIR", parser=_directory, help="Copy the finished model to this directory, with its card."
    ),
]
PassagesOption = Annotated[
    list[str] | None, typer.Option("--passages", metavar="DATASET", help="Further passages to learn from. Repeatable.")
]


def train(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe of configs/recipes, or FILE.yaml.")],
    datasets: DatasetsArgument = None,
    index: IndexOption = None,
    directory: DirectoryOption = None,
    passages: PassagesOption = None,
    store: StoreOption = DEFAULT_STORE,
    assignments: SetOption = None,
    workers: WorkersOption = None,
    runner: RunnerOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Train a model with a recipe, and evaluate it on held-out data.

    After a kill, the same command resumes from the last checkpoint. A finished training is not repeated: the command
    then shows its figures, and copies the model to --out DIR.

        vitalfew train reader squad:dev-v1.1.json --out my-reader
        vitalfew train critic squad:dev-v1.1.json --set reader=my-reader --out my-critic
        vitalfew train cxmi squad:dev-v1.1.json --set reader=my-reader --out my-filter
        vitalfew train oreo --index squad --out my-oreo
    """
    prepare(verbose)
    with explained_errors():
        from vitalfew.storage.artifacts import weights_folder
        from vitalfew.storage.files import is_in_bucket
        from vitalfew.tasks.registry import resolve

        form = _form(recipe, datasets or [], index, passages or [], directory, store, assignments or [], workers)
        parameters = form.training()
        if runner:
            parameters = parameters.model_copy(update={"runner": runner.value})
        trained = execute(parameters, lambda: partial(_flow, form))
        trainer = resolve("trainer", parameters.trainings[-1].trainer)
        show.trained(out, trained.artifact, trained.figures, trainer.headings)
        if len(trained.reused) == len(trained.manifests):
            out.print("Nothing to do: the model is already trained.")
        if directory:
            shown = escape(str(directory))
            out.print(f"The model is in {shown}:  --set {trainer.use}={shown}", soft_wrap=True)
        elif is_in_bucket(parameters.store):
            folder = weights_folder(parameters.store / trained.artifact)
            out.print(f"To use it, wherever this bucket can be read:  --set {trainer.use}={folder}", soft_wrap=True)
        else:
            out.print("To use the model, copy it to a directory: run the same command with --out DIR.")


def _flow(form: "TrainForm", parameters: "TrainModel") -> "Trained":
    """The flow takes the form; the plan was built from the parameters that the form gives."""
    from vitalfew.flows.train import train

    return train(form)


def _form(
    recipe: str,
    datasets: list[str],
    index: str | None,
    passages: list[str],
    directory: Path | None,
    store: Path,
    assignments: list[str],
    workers: int | None,
) -> Any:
    """The form with the values of the command line. Raises UnknownName, InputError."""
    from vitalfew.flows.forms import Source, TrainForm
    from vitalfew.flows.pipelines.recipes import find
    from vitalfew.tasks.datasets.specification import parse_dataset

    find(recipe)
    for specification in (*datasets, *passages):
        parse_dataset(specification)
    questions, more = (
        tuple(Source(format=name, path=path) for name, _, path in (text.partition(":") for text in specifications))
        for specifications in (datasets, passages)
    )
    place = {"store": store, "workers": workers, "out": directory and directory.absolute()}
    return TrainForm(recipe=recipe, datasets=questions, index=index, passages=more, more=tuple(assignments), **place)


def settings_help() -> str:
    """The settings that all trainers have, for the command's help."""
    from vitalfew.configs.training import TrainConfig

    lines = ["[b]Settings[/b] (--set) of all trainers; `vitalfew methods` lists the trainers:"]
    for key, field in TrainConfig.model_fields.items():
        default = "" if field.is_required() else f" = {escape(str(field.default))}"
        lines.append(f"[cyan]{key}[/cyan]{default}  {escape(field.description or '')}")
    return "\n\n".join(lines)
