"""The flow `evaluate` (pipelines/evaluate.py), and the one that writes its questions, on Prefect and Ray."""

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, cast

from prefect import flow
from prefect.blocks.system import Secret
from prefect.events import emit_event

from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.section import Section
from vitalfew.configs.writing import WriteQuestions
from vitalfew.flows.errors import explained
from vitalfew.flows.execute import handed, handing, run_on_ray, show_costs, show_report, show_written
from vitalfew.flows.forms import EvaluateForm, OrWhole, WriteForm
from vitalfew.flows.pipelines.evaluate import Evaluated, EvaluationPlan
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.paying import secrets
from vitalfew.flows.pipelines.run import Outcome
from vitalfew.flows.workers.holders import hold
from vitalfew.tasks.registry import stage_options


@flow(name="evaluate", flow_run_name="{parameters.name}", persist_result=False, on_running=[hold])
@explained
def evaluate(parameters: Annotated[EvaluateForm | Evaluate, OrWhole()]) -> Evaluated:
    """Answer questions with several methods, and compare their quality, tokens, time and costs."""
    whole = parameters.evaluation() if isinstance(parameters, EvaluateForm) else parameters
    use_secrets(whole)
    outcome: Evaluated = run_on_ray(handed() or graph(whole))
    users: dict[str, list[str]] = {}
    for method, manifests in outcome.methods.items():
        for manifest in manifests.values():
            users.setdefault(manifest.artifact, []).append(method)
    show_costs(whole.store, outcome, users)
    show_report(outcome.report)
    emit_event(
        "vitalfew.evaluation.finished",
        resource={
            "prefect.resource.id": f"vitalfew.evaluation.{outcome.run.run_id}",
            "vitalfew.experiment": whole.name,
        },
        payload={"experiment": whole.name, "run_id": outcome.run.run_id, "figures": _figures(outcome)},
    )
    return outcome


def evaluate_plan(plan: EvaluationPlan) -> Evaluated:
    """Do a plan that is built already, in a flow of its own."""
    with handing(plan):
        return evaluate(plan.parameters)


def _figures(outcome: Evaluated) -> dict[str, dict[str, float | None]]:
    """The values of an evaluation, by method and metric."""
    results = outcome.report.report.methods
    return {result.name: {name: each.value for name, each in result.summaries.items()} for result in results}


def use_secrets(parameters: Evaluate) -> None:
    """Set missing environment variables of the methods from the Prefect Secret blocks that they name, if these exist.
    Workers of this process inherit its environment; nothing else sees the secrets."""
    blocks: dict[str, str] = {}
    for method in parameters.methods:
        further = {name: stage_options(name, given) for name, given in method.stages.items() if given is not None}
        for name, section in (*method, *further.items()):
            if isinstance(section, Section):
                blocks |= secrets(section, name)
    _fill_in(blocks)


def _fill_in(blocks: Mapping[str, str]) -> None:
    """Set missing environment variables from Prefect's blocks, if these exist."""
    for variable, block in blocks.items():
        if not os.environ.get(variable):
            with suppress(ValueError):  # no such block
                os.environ[variable] = cast(Secret[str], Secret.load(block)).get()


@flow(name="write-questions", flow_run_name="{parameters.index}", persist_result=False, on_running=[hold])
@explained
def write_questions(parameters: Annotated[WriteForm | WriteQuestions, OrWhole()]) -> Outcome:
    """Write questions from the passages of an index; finished work is not repeated."""
    whole = parameters.writing() if isinstance(parameters, WriteForm) else parameters
    _fill_in(secrets(whole.write, "write"))
    outcome: Outcome = run_on_ray(handed() or graph(whole))
    show_costs(whole.store, outcome)
    show_written(whole.store, outcome.run.name)
    return outcome
