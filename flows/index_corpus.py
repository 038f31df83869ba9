"""The flow `index-corpus`: load → split → encode → index, on Prefect and Ray."""

from contextlib import nullcontext

from prefect import flow

from configs.schema import IndexCorpus
from flows.artifacts import show_costs
from flows.execute import on_ray
from flows.forms import IndexForm
from flows.pipelines import index_corpus as steps
from flows.pipelines.quote import quote as plan
from flows.ray_pool import ray_cluster


@flow(name="index-corpus", validate_parameters=True, persist_result=False)
def index_corpus(parameters: IndexCorpus) -> steps.Outcome:
    """Make a corpus searchable; what is there already is not done again."""
    return index_and_show(parameters)


def index_and_show(parameters: IndexCorpus, quote: bool = False) -> steps.Outcome:
    """What every flow does that makes an index; `quote`: what it will take is told before. Raises DoesNotFit."""
    if there := steps.is_indexed(parameters):
        quote = False
    if quote:
        plan.plan(parameters).check()
    elif not there:
        plan.check_room(parameters)
    with nullcontext() if there else ray_cluster(parameters):
        outcome = steps.index_corpus(parameters, on_ray(parameters.workers))
    show_costs(parameters.store, outcome.manifests, outcome.reused)
    return outcome


@flow(name="index-datasets", flow_run_name="{parameters.name}", validate_parameters=True, persist_result=False)
def index_datasets(parameters: IndexForm) -> steps.Outcome:
    """Make a corpus searchable; what is there already is not done again."""
    return index_and_show(parameters.corpus(), parameters.quote)
