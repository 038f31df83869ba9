"""From parameters to the plan of their run, built once and handed on.

`plan = graph(parameters)` opens the sources, makes the methods and works out every fingerprint; `plan.done()`,
`plan.room()` and `plan.run(execute)` then need nothing else. A flow of Prefect takes parameters alone, which its form
shows: where a plan of these was built before the flow was called (the command line asks whether there is anything to
do), `handed_over` lets `graph` give that one.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, overload

from configs.evaluation import Evaluate
from configs.schema import Execution, IndexCorpus
from configs.training import TrainModel
from flows.pipelines.run import Plan

if TYPE_CHECKING:
    from flows.pipelines.evaluate import EvaluationPlan
    from flows.pipelines.index_corpus import IndexPlan
    from flows.pipelines.train import TrainingPlan

_built: ContextVar[tuple[Execution, Plan] | None] = ContextVar("built", default=None)


# Not at work time: typing would keep these functions, and with them DuckDB's types, beyond the end of the interpreter.
if TYPE_CHECKING:

    @overload
    def graph(parameters: IndexCorpus) -> IndexPlan: ...

    @overload
    def graph(parameters: Evaluate) -> EvaluationPlan: ...

    @overload
    def graph(parameters: TrainModel) -> TrainingPlan: ...

    @overload
    def graph(parameters: Execution) -> Plan: ...


def graph(parameters: Execution) -> Plan:
    """The plan of a run: the one that was handed over for these parameters, else a new one.

    Raises what a user has to mend: ConfigError, InputError, UnknownName, IndexNotFound, IndexMismatch, and what a
    method raises whose model is missing.
    """
    built = _built.get()
    return built[1] if built and built[0] == parameters else _new(parameters)


def _new(parameters: Execution) -> Plan:
    """Each pipeline is imported for its own parameters: its stages' libraries take seconds."""
    match parameters:
        case IndexCorpus():
            from flows.pipelines.index_corpus import IndexPlan

            return IndexPlan(parameters)
        case Evaluate():
            from flows.pipelines.evaluate import EvaluationPlan

            return EvaluationPlan(parameters)
        case TrainModel():
            from flows.pipelines.train import TrainingPlan

            return TrainingPlan(parameters)
    raise TypeError(f"no pipeline has parameters of type {type(parameters).__name__}")


@contextmanager
def handed_over(parameters: Execution, plan: Plan) -> Iterator[None]:
    """Within the block, and in what is called from it, `graph` of these parameters is this plan."""
    token = _built.set((parameters, plan))
    try:
        yield
    finally:
        _built.reset(token)
