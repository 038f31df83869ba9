"""The flow `index-corpus`: load → split → encode → index, on Prefect and Ray."""

import logging
from functools import partial
from typing import Annotated, Any

from prefect import flow
from prefect.states import Completed

from vitalfew.configs.schema import IndexCorpus
from vitalfew.flows.errors import explained
from vitalfew.flows.evaluate import evaluate_plan
from vitalfew.flows.execute import handed, one_cap, run_on_ray, show_costs, show_gate
from vitalfew.flows.forms import IndexForm, OrWhole
from vitalfew.flows.pipelines.estimate import quote as quoted
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.named import gate_of
from vitalfew.flows.pipelines.on_promote import run_on_promote
from vitalfew.flows.pipelines.re_encode import index_gated
from vitalfew.flows.pipelines.run import Outcome, Plan
from vitalfew.flows.webhook import tell_held
from vitalfew.flows.workers.holders import hold

logger = logging.getLogger("vitalfew")


@flow(
    name="index-corpus",
    flow_run_name="{parameters.name}",
    persist_result=False,
    on_completion=[tell_held],
    on_running=[hold],
)
@explained
def index_corpus(parameters: Annotated[IndexForm | IndexCorpus, OrWhole()]) -> Any:
    """Index a corpus; finished work is not repeated. Where the name has a gate, the new generation has to pass it: one
    that is not promoted gives the state Rejected, In Doubt or Held."""
    quote = isinstance(parameters, IndexForm) and parameters.quote
    if isinstance(parameters, IndexForm):
        parameters = parameters.corpus()
    if plan := handed():  # whoever handed it over has the result judged and published
        return index_and_show(plan, quote)
    if gate := gate_of(parameters.store, parameters.name):
        with one_cap(parameters.max_usd):
            outcome = index_gated(gate, parameters, partial(index_and_show, quote=quote), evaluate_plan)
    else:
        outcome = index_and_show(graph(parameters), quote)
    if said := run_on_promote(parameters.store, parameters.name):
        logger.warning(said)
    if gated := outcome.gated:
        show_gate(gated)
        if not gated.is_promoted:
            return Completed(name=gated.generation.verdict.title(), message=gated.record.said)
    return outcome


def index_and_show(plan: Plan, quote: bool = False) -> Outcome:
    """The common part of the flows that make an index. `quote`: estimate the run before its start. Raises
    DoesNotFit."""
    if quote and not plan.done():
        quoted(plan).check()
    elif not plan.done():
        plan.room()
    outcome: Outcome = run_on_ray(plan)
    show_costs(plan.store, outcome)
    return outcome
