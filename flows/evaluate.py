"""The flow `evaluate`: ask → encode_questions → retrieve → refine → generate → score → report, on Prefect and Ray."""

from contextlib import nullcontext

from prefect import flow
from prefect.artifacts import create_markdown_artifact

from configs.evaluation import Evaluate
from flows import evaluation
from flows.stages import on_ray, ray_cluster
from tasks.report import read_report, write_report
from tasks.reports.markdown import markdown_report


@flow(name="evaluate", validate_parameters=True, persist_result=False)
def evaluate(parameters: Evaluate) -> evaluation.Evaluated:
    """Answer questions by several methods, and set quality, tokens, time and costs side by side."""
    with nullcontext() if evaluation.is_evaluated(parameters) else ray_cluster(parameters):
        outcome = evaluation.evaluate(parameters, on_ray(parameters.workers, keep=True))
    report = read_report(parameters.store, outcome.run)
    page = write_report(parameters.store, report).html.resolve()
    shown = f"{markdown_report(report)}\n\nPlots: `{page}`"
    create_markdown_artifact(shown, key="report", description=report.experiment)
    return outcome
