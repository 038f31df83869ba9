"""The flow `train-critic`: questions and passages → the weights of the critic `embedded`, on Prefect."""

from prefect import flow

from configs.training import TrainCritic
from flows.progress import StageProgress
from tasks.train_critic import train_critic as work
from tasks.training.discrimination import Discrimination


@flow(name="train-critic", validate_parameters=True, persist_result=False)
def train_critic(parameters: TrainCritic) -> list[Discrimination]:
    """Train the critic and measure it on held-out articles; a run that was killed goes on from its checkpoint."""
    with StageProgress("train") as progress:
        return work(parameters, progress.add, progress.expect)
