"""A person decides on a new generation of an index: the flow run is suspended, and Prefect's page of it has a form.

A suspended run is a record of Prefect's server, not a process: it survives a restart of both. When it is resumed, its
flow begins again, in whichever process, finds in the store which generation it has asked about, and reads the decision.
"""

from typing import Literal
from uuid import UUID

from prefect import get_client, suspend_flow_run
from prefect.context import FlowRunContext
from prefect.exceptions import ObjectNotFound
from prefect.input import RunInput
from prefect.states import Suspended
from prefect.utilities.urls import url_for
from pydantic import Field

from vitalfew.configs.schema import Corpus
from vitalfew.flows.pipelines.gate import Gated, await_person, wants_person
from vitalfew.flows.webhook import tell
from vitalfew.storage import generations
from vitalfew.storage.generations import Approval, Generation
from vitalfew.storage.runs import IndexNotFound
from vitalfew.tasks.reports.shown.gated import markdown_gate


class Decision(RunInput):
    """The form of a suspended run."""

    decision: Literal["promote", "decline"] = Field(
        description="promote: searches find the new generation; decline: they go on with the current one."
    )
    note: str = Field("", max_length=500, description="Reason, kept with the verdict.")


def ask_first(corpus: Corpus, gated: Gated) -> Gated | None:
    """Note that this run will ask a person, if the corpus wants one and no run has asked yet; else None. Only a run of
    a deployment can: Prefect resumes no other."""
    run = _run()
    if not corpus.gate or run is None or not _is_to_ask(corpus, gated):
        return None
    return await_person(corpus.store, corpus.gate, gated, run)


def asked_by_this_run(corpus: Corpus) -> Generation | None:
    """The generation about which this run has asked a person who had not decided when the store was last written."""
    run = _run()
    if corpus.gate is None or run is None:
        return None
    try:
        known = generations.history(corpus.store, corpus.name)
    except IndexNotFound:
        return None
    return next((each for each in known if (approval := _waiting(each)) and approval.asked_by == run), None)


def decision_on(candidate: Generation, gated: Gated | None = None) -> Decision:
    """Suspend this run until a person has decided, which ends its process; the decision, if this is the run resumed.

    `gated`: what the gate has just said. The webhook hears of it, with the address of the form."""
    context, gate = FlowRunContext.get(), candidate.gate
    assert context
    assert gate
    assert gate.approval
    if gated:
        where = url_for("flow-run", obj_id=_run())
        message = f"{gate.said} Decide at {where}"
        tell(context.flow, context.flow_run, Suspended(message=message))
    shown = markdown_gate(candidate, gated.lost if gated else (), gated.cost if gated else "")
    form = Decision.with_initial_data(description=shown)
    key = f"generation-{candidate.number}-against-{gate.against}"
    return suspend_flow_run(wait_for_input=form, timeout=gate.approval.seconds_left(), key=key)


def _run() -> str | None:
    """The id of this run, if Prefect can resume it."""
    context = FlowRunContext.get()
    run = context.flow_run if context else None
    return str(run.id) if run and run.deployment_id else None


def _waiting(candidate: Generation) -> Approval | None:
    approval = candidate.gate.approval if candidate.gate else None
    return approval if approval and not approval.decision else None


def _is_to_ask(corpus: Corpus, gated: Gated) -> bool:
    """Return true if a person is to be asked: nobody was, or the run that did ended without a decision."""
    assert corpus.gate
    waiting = _waiting(gated.generation)
    if waiting is None:
        return wants_person(corpus.gate, gated)
    return waiting.seconds_left() > 0 and _is_lost(waiting.asked_by)


def _is_lost(run: str) -> bool:
    """Return true if a run that asked a person waits no more: it crashed, or somebody cancelled it."""
    with get_client(sync_client=True) as client:
        try:
            state = client.read_flow_run(UUID(run)).state
        except ObjectNotFound:
            return True
    return state is None or state.is_final()
