"""The flow `train-reader`: questions and passages → the weights of the generator `reader`, on Prefect."""

from typing import TYPE_CHECKING

from prefect import flow

from configs.training import TrainReader
from flows.progress import StageProgress

if TYPE_CHECKING:
    from tasks.training.quality import Quality


@flow(name="train-reader", validate_parameters=True, persist_result=False)
def train_reader(parameters: TrainReader) -> "list[Quality]":
    """Train the reader and measure it on held-out articles; a run that was killed goes on from its checkpoint."""
    from tasks.train_reader import train_reader as work  # heavy

    with StageProgress("train") as progress:
        return work(parameters, progress.add, progress.expect)
