"""Execute a run where it ends soonest: in this process, or on Prefect and Ray."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.schema import Execution, GateConfig, IndexCorpus
from vitalfew.configs.writing import WriteQuestions

if TYPE_CHECKING:
    from vitalfew.flows.pipelines.run import Plan


def execute(
    parameters: Execution,
    form: Any = None,
    before_ray: Callable[[], None] = lambda: None,
    ask: Callable[[str], bool] | None = None,
    quoting: AbstractContextManager[Any] | None = None,
    gate: GateConfig | None = None,
) -> Any:
    """Execute a run and return its outcome. `form`: what its flow on Prefect and Ray takes in place of the parameters,
    as that of a training does; `before_ray` is called before a server and workers start; `ask` asks whether to begin
    although the estimate is above `max_usd`, and `quoting` is entered while that estimate is made.

    The plan is built first, so that a wrong name or a missing file is reported at once; the flow gets the same plan.
    An index whose name has a gate passes it, whoever builds it. `gate`: that of a corpus which came with the product.
    """

    def run(plan: "Plan") -> Any:
        from vitalfew.flows.pipelines.run import run_serially

        if plan.done():  # it needs neither an estimate nor a server
            return plan.before() or plan.run(run_serially)
        from vitalfew.flows.pipelines.runner import runner_for
        from vitalfew.flows.server.access import connect, is_named

        plan.room()
        if plan.parameters.max_usd is not None:
            from vitalfew.flows.pipelines.estimate import check_cap  # its pipelines take seconds to import

            check_cap(plan, ask, quoting)
        if runner_for(plan, is_named()) == "serial":
            return plan.run(run_serially)
        before_ray()
        connect(plan.store)
        from vitalfew.flows.execute import handing

        with handing(plan):
            return _flow(plan.parameters)(form or plan.parameters)

    if isinstance(parameters, IndexCorpus):
        from vitalfew.flows.pipelines.named import gate_of

        if gate := gate or gate_of(parameters.store, parameters.name):
            from vitalfew.flows.pipelines.re_encode import index_gated  # its statistics take seconds to import

            return index_gated(gate, parameters, run, run)
    from vitalfew.flows.pipelines.graph import graph

    return run(graph(parameters))


def _flow(parameters: Execution) -> Any:
    """The flow that does a run; it takes seconds to import."""
    if isinstance(parameters, IndexCorpus):
        from vitalfew.flows.index_corpus import index_corpus

        return index_corpus
    if isinstance(parameters, Evaluate | WriteQuestions):
        from vitalfew.flows.evaluate import evaluate, write_questions

        return evaluate if isinstance(parameters, Evaluate) else write_questions
    from vitalfew.flows.train import train

    return train
