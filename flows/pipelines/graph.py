"""From parameters to the plan of their run, built once and passed on.

`plan = graph(parameters)` opens the sources, constructs the methods and computes every fingerprint; `plan.done()`,
`plan.room()` and `plan.run(execute)` then need nothing else.
"""

from typing import TYPE_CHECKING, overload

from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.schema import Execution, IndexCorpus
from vitalfew.configs.training import TrainModel, TrainOreo
from vitalfew.configs.writing import WriteQuestions
from vitalfew.flows.pipelines.run import Plan

if TYPE_CHECKING:
    from vitalfew.flows.pipelines.evaluate import EvaluationPlan
    from vitalfew.flows.pipelines.index_corpus import IndexPlan
    from vitalfew.flows.pipelines.train import TrainingPlan

# Not at run time: typing would keep these functions, and with them DuckDB's types, beyond the end of the interpreter.
if TYPE_CHECKING:

    @overload
    def graph(parameters: IndexCorpus) -> IndexPlan: ...

    @overload
    def graph(parameters: Evaluate) -> EvaluationPlan: ...

    @overload
    def graph(parameters: TrainModel | TrainOreo) -> TrainingPlan: ...

    @overload
    def graph(parameters: Execution) -> Plan: ...


def graph(parameters: Execution) -> Plan:
    """The plan of a run. A pipeline is imported only for its parameters: the libraries of its stages take seconds.

    Raises the errors that a user has to correct: ConfigError, InputError, UnknownName, IndexNotFound, IndexMismatch,
    and the errors of a method whose model is missing.
    """
    match parameters:
        case IndexCorpus():
            from vitalfew.flows.pipelines.index_corpus import IndexPlan

            return IndexPlan(parameters)
        case Evaluate():
            from vitalfew.flows.pipelines.choice import ChoicePlan, EvaluationPlan
            from vitalfew.flows.pipelines.experiments import complete

            return (ChoicePlan if parameters.choose else EvaluationPlan)(complete(parameters))
        case TrainModel() | TrainOreo():
            from vitalfew.flows.pipelines.train import TrainingPlan

            return TrainingPlan(parameters)
        case WriteQuestions():
            from vitalfew.flows.pipelines.write_questions import WritingPlan

            return WritingPlan(parameters)
    raise TypeError(f"there is no pipeline for parameters of type {type(parameters).__name__}")
