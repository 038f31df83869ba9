"""The flow `index-corpus`: load → split → encode → index, on Prefect and Ray."""

from typing import Annotated

from prefect import flow

from vitalfew.configs.schema import IndexCorpus
from vitalfew.flows.errors import explained
from vitalfew.flows.execute import run_on_ray, show_costs
from vitalfew.flows.forms import IndexForm, OrWhole
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.quote.corpus import quote as quoted
from vitalfew.flows.pipelines.run import Outcome
from vitalfew.flows.workers.holders import hold


@flow(
    name="index-corpus",
    flow_run_name="{parameters.name}",
    validate_parameters=True,
    persist_result=False,
    on_running=[hold],
)
@explained
def index_corpus(parameters: Annotated[IndexForm | IndexCorpus, OrWhole()]) -> Outcome:
    """Index a corpus; finished work is not repeated."""
    if isinstance(parameters, IndexForm):
        return index_and_show(parameters.corpus(), parameters.quote)
    return index_and_show(parameters)


def index_and_show(parameters: IndexCorpus, quote: bool = False) -> Outcome:
    """The common part of the flows that make an index. `quote`: quote the run before its start. Raises DoesNotFit."""
    plan = graph(parameters)
    if quote and not plan.done():
        quoted(plan).check()
    elif not plan.done():
        plan.room()
    outcome: Outcome = run_on_ray(plan)
    show_costs(parameters.store, outcome)
    return outcome
