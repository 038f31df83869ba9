"""The flow `evaluate`: ask → encode_questions → retrieve → refine → generate → score → report, on Prefect and Ray."""

import os
from contextlib import nullcontext, suppress
from typing import cast

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.blocks.system import Secret

from configs.evaluation import Evaluate
from flows import evaluation
from flows.stages import on_ray, ray_cluster
from tasks.report import read_report, write_report
from tasks.reports.markdown import markdown_report

KEY, SECRET = "OPENAI_API_KEY", "openai-api-key"


@flow(name="evaluate", validate_parameters=True, persist_result=False)
def evaluate(parameters: Evaluate) -> evaluation.Evaluated:
    """Answer questions by several methods, and set quality, tokens, time and costs side by side."""
    if any(method.generate and method.generate.generator == "openai" for method in parameters.methods):
        use_secret()
    with nullcontext() if evaluation.is_evaluated(parameters) else ray_cluster(parameters):
        outcome = evaluation.evaluate(parameters, on_ray(parameters.workers, keep=True))
    report = read_report(parameters.store, outcome.run)
    page = write_report(parameters.store, report).html.resolve()
    shown = f"{markdown_report(report)}\n\nPlots: `{page}`"
    create_markdown_artifact(shown, key="report", description=report.experiment)
    return outcome


def use_secret() -> None:
    """Take the key of the generator `openai` from Prefect's Secret block `openai-api-key`, where there is one and the
    environment has none. Workers that this process starts inherit its environment; nothing else sees the key."""
    if not os.environ.get(KEY):
        with suppress(ValueError):  # no such block
            os.environ[KEY] = cast(Secret[str], Secret.load(SECRET)).get()
