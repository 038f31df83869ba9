"""How `index` and `evaluate` run: in this process where it is asked for or there is nothing to do, else by the flow."""

from collections.abc import Callable
from typing import Any

from vitalfew.configs.schema import Execution
from vitalfew.flows.cli.terminal import end_at_once_on_interrupt


def execute(parameters: Execution, flow: Callable[[], Callable[[Any], Any]]) -> Any:
    """The outcome of a run. `flow` imports the flow that does it on Prefect and Ray.

    The plan is built before a server and workers are started, so that a wrong name or a missing file is told at once;
    the flow gets this very plan.
    """
    from vitalfew.flows.pipelines.graph import graph, handed_over
    from vitalfew.flows.pipelines.run import run_serially

    plan = graph(parameters)
    if not plan.done():
        plan.room()
        if parameters.runner == "ray":
            from vitalfew.flows.server.access import connect

            end_at_once_on_interrupt(parameters.store)
            connect(parameters.store)
            with handed_over(parameters, plan):
                return flow()(parameters)
    return plan.run(run_serially)
