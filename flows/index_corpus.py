"""The flow `index-corpus`: load → split → encode → index, on Prefect and Ray."""

from contextlib import nullcontext

from prefect import flow

from configs.schema import IndexCorpus
from flows import steps
from flows.stages import ray_cluster, run_stage
from storage.artifacts import Manifest
from tasks.stage import Stage


@flow(name="index-corpus", validate_parameters=True, persist_result=False)
def index_corpus(parameters: IndexCorpus) -> steps.Outcome:
    """Make a corpus searchable; what is there already is not done again."""

    def execute(stage: Stage, run_id: str) -> Manifest:
        manifest: Manifest = run_stage(stage.name, stage, run_id, parameters.workers)
        return manifest

    with nullcontext() if steps.is_indexed(parameters) else ray_cluster(parameters):
        return steps.index_corpus(parameters, execute)
