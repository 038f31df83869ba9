"""The flow `evaluate-experiment`: `evaluate` for people, who choose an experiment by its name in a form."""

from prefect import flow

from flows.evaluate import evaluate_and_show
from flows.evaluation import Evaluated
from flows.forms import EvaluateForm


@flow(
    name="evaluate-experiment",
    flow_run_name="{parameters.experiment}",
    validate_parameters=True,
    persist_result=False,
)
def evaluate_experiment(parameters: EvaluateForm) -> Evaluated:
    """Answer questions by the methods of an experiment, and set quality, tokens, time and costs side by side."""
    return evaluate_and_show(parameters.evaluation())
