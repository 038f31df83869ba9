"""The flow `index-corpus`: load → split → encode → index, on Prefect and Ray."""

from contextlib import nullcontext

from prefect import flow

from configs.schema import IndexCorpus
from flows import steps
from flows.stages import on_ray, ray_cluster


@flow(name="index-corpus", validate_parameters=True, persist_result=False)
def index_corpus(parameters: IndexCorpus) -> steps.Outcome:
    """Make a corpus searchable; what is there already is not done again."""
    with nullcontext() if steps.is_indexed(parameters) else ray_cluster(parameters):
        return steps.index_corpus(parameters, on_ray(parameters.workers))
