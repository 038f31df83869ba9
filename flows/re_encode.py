"""The flow `re-encode`: index a named corpus of configs/corpora again, for example every night by a schedule.

Where a person decides on a new generation, the run is suspended, and Prefect's page of it has a form. A suspended run
is a record of Prefect's server, not a process: it survives a restart of both. When it is resumed, its flow begins
again, in whichever process, finds in the store which generation it has asked about, and reads the decision.
"""

import logging
import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

from prefect import flow, get_client, suspend_flow_run
from prefect.context import FlowRunContext
from prefect.events import emit_event
from prefect.exceptions import ObjectNotFound
from prefect.input import RunInput
from prefect.states import Completed, Suspended
from prefect.utilities.urls import url_for
from pydantic import Field

from vitalfew.configs.schema import Corpus, Place
from vitalfew.flows.errors import explained
from vitalfew.flows.evaluate import evaluate_plan
from vitalfew.flows.execute import one_cap, show_gate
from vitalfew.flows.forms import ReEncode
from vitalfew.flows.index_corpus import index_and_show
from vitalfew.flows.pipelines.gate import Gated, await_person, decide, wants_person
from vitalfew.flows.pipelines.named import find_corpus
from vitalfew.flows.pipelines.on_promote import run_on_promote
from vitalfew.flows.pipelines.re_encode import (
    alone_with,
    index_parameters,
    re_encode_corpus,
    skip,
    standing,
    until_nobody_asks,
)
from vitalfew.flows.webhook import tell, tell_held
from vitalfew.flows.workers.holders import hold, take_over
from vitalfew.storage import files, generations
from vitalfew.storage.decisions import DECLINED, HELD, PROMOTED, REJECTED
from vitalfew.storage.generations import Approval, Generation, IndexMoved
from vitalfew.storage.manifests import Manifest
from vitalfew.storage.runs import IndexNotFound
from vitalfew.tasks.reports.shown.gated import markdown_gate

logger = logging.getLogger("vitalfew")

UNCHANGED = "Unchanged: nothing to do."
"""The message of a run for which everything was there."""
RETRY_SECONDS = int(os.environ.get("VITALFEW_RETRY_SECONDS", "60"))


@flow(
    name="re-encode",
    flow_run_name="{parameters.corpus}",
    persist_result=False,
    retries=1,
    retry_delay_seconds=RETRY_SECONDS,
    on_running=[hold, take_over],
    on_completion=[tell_held],
    on_failure=[tell],
    on_crashed=[tell],
)
@explained
def re_encode(parameters: ReEncode) -> Any:
    """Encode the new and changed passages of a corpus; if nothing changed, this takes seconds.

    A failed run is retried once and then reported to the webhook. Two runs of a corpus never overlap: the second one
    ends at once, has the state Skipped, and the first looks again when it is done. With a gate, a new generation is
    compared with the current one; one that is not promoted gives the state Rejected, In Doubt or Held, and is reported
    too. Where a person is to decide, the run is suspended until then.
    """
    corpus = find_corpus(parameters.corpus, parameters.store, parameters.corpora)
    overtaken = ""
    if asked := _asked_by_this_run(corpus):
        try:
            return _published(parameters, _as_decided(parameters.store, asked))
        except IndexMoved as moved:
            overtaken = f"Generation {asked.number} was not promoted, and the corpus is read again: {moved}. "
            logger.warning(overtaken)
    given = parameters.model_dump(include={*Place.model_fields}, exclude_unset=True)
    with alone_with(parameters.store, corpus.name) as free:
        if not free:
            skip(parameters.store, corpus.name)
            said = (
                f"Another run is re-encoding {corpus.name}, so this run did nothing. The other run checks for changes "
                "again at its end."
            )
            return Completed(name="Skipped", message=said)
        settings = index_parameters(corpus, given)
        index = partial(index_and_show, quote=parameters.quote)
        work = partial(re_encode_corpus, corpus, settings, index, evaluate_plan, parameters.quote)
        with one_cap(settings.max_usd):
            done = until_nobody_asks(parameters.store, corpus.name, work)
        asking = _ask_first(corpus, done.gated) if done.gated else None
    told = _told(parameters.store, asking or done.gated, done.generation, done.is_new, done.before, done.outcome.new())
    told.message = f"{overtaken}{told.message}"
    return _published(parameters, _as_decided(parameters.store, asking.generation, asking) if asking else told)


def _published(parameters: ReEncode, told: Any) -> Any:
    """Run what the corpus wants after a promotion, also where an earlier run failed to, and add how it went."""
    if said := run_on_promote(parameters.store, parameters.corpus, parameters.corpora):
        told.message = f"{told.message} {said}"
    return told


def _as_decided(store: Path, candidate: Generation, gated: Gated | None = None) -> Any:
    """Wait for a person, which suspends this run, and do as the person says when it is resumed. `gated`: what the gate
    has just said. Raises IndexMoved where the comparison does not hold any more."""
    form = _decision_on(candidate, gated)
    decided = decide(store, candidate, form.decision == "promote", form.note)
    return _told(
        store, decided, decided.generation, decided.is_promoted, candidate.gate.against if candidate.gate else 0
    )


def _told(
    store: Path, gated: Gated | None, generation: Generation, is_new: bool, before: int, made: Sequence[Manifest] = ()
) -> Any:
    """Show what the gate said, emit an event, and return the state with its message. `is_new`: the name points at
    another generation than `before`; `made`: artifacts of this run."""
    generation = gated.generation if gated else generation
    if gated and gated.is_new:
        show_gate(gated)
    if is_new or (gated and gated.is_new):
        emit_event(**index_event(store, generation, is_new))
    if gated and not gated.is_promoted:
        if gated.is_new:
            return Completed(name=generation.verdict.title(), message=gated.record.said)
        return Completed(message=f"Unchanged: {gated.record.said}")
    stands = standing(store, generation.name, before, generation.number)
    stages = ", ".join(manifest.stage for manifest in made) or ("" if stands else "nothing to do")
    parts = [f"{stages}." if stages else "", gated.record.said if gated else "", stands]
    said = " ".join(filter(None, parts))
    return Completed(message=f"{'Done' if is_new or made else 'Unchanged'}: {said}")


def index_event(store: Path, generation: Generation, is_new: bool) -> dict[str, Any]:
    """The event of a generation that was built or judged. `is_new`: its name now points at it."""
    kind = PROMOTED if is_new else REJECTED if generation.verdict in (REJECTED, DECLINED) else HELD
    gate = generation.gate
    payload = {
        "store": str(files.absolute(store)),
        "index": generation.name,
        "generation": generation.number,
        "verdict": generation.verdict or PROMOTED,
        "message": gate.said if gate else f"Generation {generation.number} of {generation.name} is current.",
        "gate": asdict(gate) if gate else None,
    }
    index = f"vitalfew.index.{generation.name}"
    resource = {"prefect.resource.id": index, "prefect.resource.name": generation.name}
    return {"event": f"vitalfew.index.{kind}", "resource": resource, "payload": payload}


# A person decides


class Decision(RunInput):
    """The form of a suspended run."""

    decision: Literal["promote", "decline"] = Field(
        description="promote: searches use the new generation; decline: they keep the current one."
    )
    note: str = Field("", max_length=500, description="Reason, kept with the verdict.")


def _ask_first(corpus: Corpus, gated: Gated) -> Gated | None:
    """Note that this run will ask a person, if the corpus wants one and nobody was asked, or the run that did ended
    without a decision; else None. Only a run of a deployment can: Prefect resumes no other."""
    run, waiting = _run(), _waiting(gated.generation)
    if not corpus.gate or run is None:
        return None
    if waiting:
        is_to_ask = waiting.seconds_left() > 0 and _is_lost(waiting.asked_by)
    else:
        is_to_ask = wants_person(corpus.gate, gated)
    return await_person(corpus.store, corpus.gate, gated, run) if is_to_ask else None


def _asked_by_this_run(corpus: Corpus) -> Generation | None:
    """The generation about which this run has asked a person who had not decided when the store was last written."""
    run = _run()
    if corpus.gate is None or run is None:
        return None
    try:
        known = generations.history(corpus.store, corpus.name)
    except IndexNotFound:
        return None
    return next((each for each in known if (approval := _waiting(each)) and approval.asked_by == run), None)


def _decision_on(candidate: Generation, gated: Gated | None = None) -> Decision:
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


def _is_lost(run: str) -> bool:
    """Return true if a run that asked a person waits no more: it crashed, or somebody cancelled it."""
    with get_client(sync_client=True) as client:
        try:
            state = client.read_flow_run(UUID(run)).state
        except ObjectNotFound:
            return True
    return state is None or state.is_final()
