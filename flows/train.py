"""The flows `train-reader` and `train-critic`: questions and passages → trained weights, on Prefect."""

from typing import TYPE_CHECKING

from prefect import flow

from configs.training import TrainCritic, TrainReader
from flows.pipelines.progress import StageProgress

if TYPE_CHECKING:
    from tasks.trainers.quality import Quality


@flow(name="train-reader", validate_parameters=True, persist_result=False)
def train_reader(parameters: TrainReader) -> "list[Quality]":
    """Train the reader and measure it on held-out articles; a run that was killed goes on from its checkpoint."""
    from tasks.trainers.reader import train_reader as work  # heavy

    with StageProgress("train") as progress:
        return work(parameters, progress.add, progress.expect)


if TYPE_CHECKING:
    from tasks.trainers.discrimination import Discrimination


@flow(name="train-critic", validate_parameters=True, persist_result=False)
def train_critic(parameters: TrainCritic) -> "list[Discrimination]":
    """Train the critic and measure it on held-out articles; a run that was killed goes on from its checkpoint."""
    from tasks.trainers.critic import train_critic as work  # heavy

    with StageProgress("train") as progress:
        return work(parameters, progress.add, progress.expect)
