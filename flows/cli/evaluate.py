"""The commands `evaluate`, `score`, `experiments` and `train`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column
from typer import Argument, Option

from vitalfew.configs.paths import BucketPath
from vitalfew.flows.cli import options
from vitalfew.flows.cli.index import rejected
from vitalfew.flows.cli.results import show_figures, show_files
from vitalfew.flows.cli.terminal import execute, out, prepare, say, table
from vitalfew.tasks.reports.shown.text import printable

if TYPE_CHECKING:
    from vitalfew.flows.forms import Source


def evaluate(
    experiment: options.Experiment,
    index: options.IndexOfOthers = None,
    model: options.Model = None,
    judge: options.JudgeModel = None,
    store: options.Store = options.STORE,
    assignments: options.EvaluationSettings = None,
    workers: options.Workers = None,
    runner: options.Runner = None,
    max_usd: options.MaxUsd = None,
    yes: options.Yes = False,
    verbose: options.Verbose = False,
) -> Any:
    """Compare methods on the same questions.

    Compares their quality, tokens, time and cost. Finished work is not repeated: another alpha encodes nothing,
    another generator retrieves nothing. A list of values makes one method per value:

        vitalfew evaluate quickstart --index wiki --set retrieve.alpha=[0.5,0.8]

    --model names the language model that answers, and --judge one that judges the answers:

        vitalfew evaluate quickstart --model openai:NAME --judge openai:NAME

    An experiment that chooses settings, such as quickstart, needs about thirty questions; --set choose=null asks all
    questions with the current settings.
    """
    prepare(verbose)
    from vitalfew.flows.pipelines.experiments import evaluation, find

    name, settings = find(experiment, store)
    given = {"store": store, "workers": workers, "runner": runner, "max_usd": max_usd, "until_cap": yes or None}
    of_models = [*options.of_model(model, "generate"), *options.of_model(judge, "judge")]
    assignments = [*of_models, *(assignments or [])]
    parameters = evaluation(name, settings, *options.layers(None, assignments, index=index, **given))
    options.tell_index(parameters)
    outcome = execute(parameters)
    show_figures(outcome.figures)  # before the page's plots are drawn
    show_files(outcome.report)
    # All methods share the stage that loads `questions.dataset`.
    if load := next((stages["load"] for stages in outcome.methods.values() if "load" in stages), None):
        rejected(load, parameters)
    return outcome.report


def score(
    files: Annotated[
        list[Path], Argument(metavar="FILE", help="Results of a system: JSON lines, JSON, CSV or Parquet. Repeatable.")
    ],
    name: Annotated[str, Option("--name", metavar="NAME", help="Name of the run, for `report` and `check`.")] = "score",
    questions: Annotated[
        str | None,
        Option(metavar="DATASET", help="Questions with gold answers, as FORMAT:PATH; default: those in the files."),
    ] = None,
    columns: Annotated[
        str | None, Option(metavar="NAMES", help="Names of columns, as question=prompt,answer=completion.text.")
    ] = None,
    judge: options.JudgeModel = None,
    store: options.Store = options.STORE,
    assignments: options.EvaluationSettings = None,
    max_usd: options.MaxUsd = None,
    yes: options.Yes = False,
    verbose: options.Verbose = False,
) -> Any:
    """Score and compare answers of other systems.

    A file has a row per question: `question` (or `id`) and `answer`, and if you have them `contexts`, `gold`, `tokens`,
    `usd` and `seconds`. Exports of ragas, deepeval, LangSmith, Phoenix and RAGFlow are read as they are:

        vitalfew score ours.jsonl
        vitalfew score before.jsonl after.csv --judge openai:NAME

    Several files are compared on the questions that all of them have; the first is the baseline. It needs no index.
    """
    prepare(verbose)
    from vitalfew.flows.pipelines.experiments import evaluation
    from vitalfew.flows.pipelines.scoring import scoring

    given = {"store": store, "runner": "serial", "max_usd": max_usd, "until_cap": yes or None}
    settings = [*options.of_model(judge, "judge"), *(assignments or [])]
    parameters = evaluation(name, scoring(files, questions, columns), *options.layers(None, settings, **given))
    outcome = execute(parameters)
    show_figures(outcome.figures)  # before the page's plots are drawn
    show_files(outcome.report)
    rejected(next(iter(outcome.methods.values()))["load"], parameters)
    return outcome.report


def experiments(store: options.Store = options.STORE) -> None:
    """List what `evaluate` can compare.

    Names the table or figure of a paper that an experiment repeats. Includes your experiments: the files
    experiments/NAME.yaml in the folder of the store:

        vitalfew experiments --store store
    """
    from vitalfew.flows.pipelines.experiments import find, names

    found = ((name, find(name, store)[1]) for name in names(store))
    rows = ((name, *(escape(str(own.get(key, ""))) for key in ("repeats", "about"))) for name, own in found)
    out.print(table(Column("experiment", no_wrap=True), Column("repeats", max_width=20), "purpose", rows=rows))
    out.print(
        "\nTo add an experiment, write a YAML file of the same form: experiments/NAME.yaml next to the store, or "
        "another file:"
    )
    say("  vitalfew evaluate FILE.yaml --index NAME")


def _directory(given: str | Path) -> Path:
    """A directory of this machine. Raises BadParameter for a place in a bucket."""
    if isinstance(place := options.store_argument(given), BucketPath):
        raise typer.BadParameter(f"{place}: --out must be a local directory; models in a bucket need no copy")
    return place


def train(
    recipe: Annotated[str, Argument(metavar="RECIPE", help="A recipe of configs/recipes, or FILE.yaml.")],
    datasets: Annotated[
        list[str] | None, Argument(metavar="DATASET", help="Questions to learn from, as FORMAT:PATH?option=value.")
    ] = None,
    index: Annotated[str | None, options.index_option("For oreo: index whose questions to learn from.")] = None,
    directory: Annotated[
        Path | None,
        Option(
            "--out", metavar="DIR", parser=_directory, help="Copy the finished model to this directory, with its card."
        ),
    ] = None,
    passages: Annotated[
        list[str] | None, Option(metavar="DATASET", help="Further passages to learn from. Repeatable.")
    ] = None,
    store: options.Store = options.STORE,
    assignments: options.TrainingSettings = None,
    workers: options.Workers = None,
    runner: options.Runner = None,
    max_usd: options.MaxUsd = None,
    verbose: options.Verbose = False,
) -> None:
    """Train a model, and evaluate it.

    A recipe says how; the figures are of held-out data. Rerun after a crash: the command resumes from the last
    checkpoint. A finished training is not repeated: the command
    then shows its figures, and copies the model to --out DIR.

        vitalfew train reader squad:dev-v1.1.json --out mine
        vitalfew train critic squad:dev-v1.1.json --set reader=mine --out my-critic
        vitalfew train cxmi squad:dev-v1.1.json --set reader=mine --out my-filter
        vitalfew train oreo --index squad --out my-oreo
    """
    prepare(verbose)
    from vitalfew.flows.forms import TrainForm
    from vitalfew.flows.pipelines.named import find_recipe
    from vitalfew.storage.artifacts import weights_folder
    from vitalfew.storage.files import is_in_bucket
    from vitalfew.tasks.registry import resolve

    find_recipe(recipe)
    form = TrainForm(
        recipe=recipe,
        datasets=_sources(datasets),
        index=index,
        passages=_sources(passages),
        more=tuple(assignments or ()),
        store=store,
        workers=workers,
        max_usd=max_usd,
        out=directory and directory.absolute(),
    )
    parameters = form.training()
    if runner:
        parameters = parameters.model_copy(update={"runner": runner})
    trained = execute(parameters, form)
    trainer = resolve("trainer", parameters.trainings[-1].trainer)
    _print_trained(trained.artifact, trained.figures, trainer.headings)
    if len(trained.reused) == len(trained.manifests):
        out.print("Nothing to do: the model is already trained.")
    if directory:
        shown = escape(str(directory))
        say(f"The model is in {shown}:  --set {trainer.use}={shown}")
    elif is_in_bucket(parameters.store):
        folder = weights_folder(parameters.store / trained.artifact)
        say(f"To use it, wherever this bucket can be read:  --set {trainer.use}={folder}")
    else:
        out.print("To use the model, copy it to a directory: run the same command with --out DIR.")


def _sources(specifications: list[str] | None) -> "tuple[Source, ...]":
    """The data sets as a form has them. Raises UnknownName, InputError."""
    from vitalfew.flows.forms import Source
    from vitalfew.tasks.datasets.specification import parse_dataset

    for specification in specifications or ():
        parse_dataset(specification)
    parts = (specification.partition(":") for specification in specifications or ())
    return tuple(Source(format=name, path=path) for name, _, path in parts)


def _print_trained(artifact: str, figures: Sequence[Mapping[str, Any]], headings: Mapping[str, str]) -> None:
    """Print the measurements of a training on the held-out part. `headings`: of figures with an unclear name."""
    columns = (
        Column(headings.get(name, name.replace("_", " ")), justify="left" if isinstance(value, str) else "right")
        for name, value in figures[0].items()
    )
    out.print(table(*columns, rows=(map(_figure, row.values()) for row in figures)))
    say(f"Measured on held-out data. Artifact: {escape(artifact)}")


def _figure(value: Any) -> str:
    """A figure in readable form; a number has at most three decimals."""
    if isinstance(value, float):
        return f"{value:,.3f}".rstrip("0").rstrip(".")
    return f"{value:,}" if isinstance(value, int) else escape(printable(str(value)))
