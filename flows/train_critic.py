"""The flow `train-critic`: questions and passages → the weights of the critic `embedded`, on Prefect."""

from typing import TYPE_CHECKING

from prefect import flow

from configs.training import TrainCritic
from flows.progress import StageProgress

if TYPE_CHECKING:
    from tasks.training.discrimination import Discrimination


@flow(name="train-critic", validate_parameters=True, persist_result=False)
def train_critic(parameters: TrainCritic) -> "list[Discrimination]":
    """Train the critic and measure it on held-out articles; a run that was killed goes on from its checkpoint."""
    from tasks.train_critic import train_critic as work  # heavy

    with StageProgress("train") as progress:
        return work(parameters, progress.add, progress.expect)
