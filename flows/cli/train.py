"""The commands `train-reader` and `train-critic`."""

from pathlib import Path
from typing import Annotated

import typer

from configs.loading import build
from configs.training import TrainCritic, TrainReader
from flows.cli import show
from flows.cli.terminal import ConfigOption, SetOption, VerboseOption, explained_errors, layers, out, prepare

DatasetsArgument = Annotated[
    list[str], typer.Argument(metavar="DATASET", help="Questions with their answers' spans, as squad has them.")
]
DirectoryOption = Annotated[Path, typer.Option("--out", metavar="DIR", help="Where weights, card and checkpoint go.")]
PassagesOption = Annotated[
    list[str] | None, typer.Option("--passages", metavar="DATASET", help="More passages to learn from. Repeatable.")
]


def train_reader(
    datasets: DatasetsArgument,
    directory: DirectoryOption,
    passages: PassagesOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Train the embedded generator, `reader`, and measure it on articles that it has not seen.

    After a kill the same command goes on from its checkpoint. Use the result as --set generate.model=DIR.

        vitalfew train-reader squad:dev-v1.1.json --out reader
    """
    prepare(verbose)
    with explained_errors():
        given = {"datasets": datasets, "out": directory, "passages": passages}
        parameters = build(TrainReader, *layers(config, assignments, **given))
        from flows.train import train_reader as flow

        show.trained_reader(out, parameters.out, flow.fn(parameters))  # in this process: one task needs no server


def train_critic(
    datasets: DatasetsArgument,
    directory: DirectoryOption,
    passages: PassagesOption = None,
    config: ConfigOption = None,
    assignments: SetOption = None,
    verbose: VerboseOption = False,
) -> None:
    """Train the embedded critic, beginning from a reader, and measure it on articles that neither has seen.

    After a kill the same command goes on from its checkpoint. Use the result as --set critique.model=DIR.

        vitalfew train-critic squad:dev-v1.1.json --out critic
    """
    prepare(verbose)
    with explained_errors():
        given = {"datasets": datasets, "out": directory, "passages": passages}
        parameters = build(TrainCritic, *layers(config, assignments, **given))
        from flows.train import train_critic as flow

        show.trained_critic(out, parameters.out, flow.fn(parameters))
