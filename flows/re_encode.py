"""The flow `re-encode`: index a named corpus of configs/corpora again, for example every night by a schedule."""

import os
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.events import emit_event
from prefect.states import Completed

from vitalfew.configs.schema import Place
from vitalfew.flows.errors import explained
from vitalfew.flows.evaluate import evaluate
from vitalfew.flows.execute import one_cap, show_gate
from vitalfew.flows.forms import ReEncode
from vitalfew.flows.index_corpus import index_and_show
from vitalfew.flows.pipelines.gate import HELD, PROMOTED, REJECTED
from vitalfew.flows.pipelines.named import find_corpus
from vitalfew.flows.pipelines.re_encode import ReEncoded, alone_with, index_parameters, re_encode_corpus
from vitalfew.flows.webhook import tell, tell_held
from vitalfew.storage import files
from vitalfew.storage.generations import Generation

RETRY_SECONDS = int(os.environ.get("VITALFEW_RETRY_SECONDS", "60"))


@flow(
    name="re-encode",
    flow_run_name="{parameters.corpus}",
    validate_parameters=True,
    persist_result=False,
    retries=1,
    retry_delay_seconds=RETRY_SECONDS,
    on_completion=[tell_held],
    on_failure=[tell],
    on_crashed=[tell],
)
@explained
def re_encode(parameters: ReEncode) -> Any:
    """Encode the new and changed passages of a corpus; if nothing changed, this takes seconds.

    A failed run is retried once and then reported to the webhook. Two runs of a corpus never overlap: the second one
    ends at once, does nothing, and has the state Skipped. With a gate, a new generation is compared with the current
    one; one that is not promoted gives the state Rejected, In Doubt or Held, and is reported too.
    """
    corpus = find_corpus(parameters.corpus, parameters.store, parameters.corpora)
    given = parameters.model_dump(include={*Place.model_fields}, exclude_unset=True)
    with alone_with(parameters.store, corpus.name) as free:
        if not free:
            return Completed(name="Skipped", message=f"Another run is re-encoding {corpus.name}; this run did nothing.")
        settings = index_parameters(corpus, given)
        index = partial(index_and_show, quote=parameters.quote)
        with one_cap(settings.max_usd):
            done = re_encode_corpus(corpus, settings, index, evaluate, parameters.quote)
    return _told(parameters.store, done)


def _told(store: Path, done: ReEncoded) -> Any:
    """Show what the gate said, emit an event, and return the state with its message."""
    generation, gated = done.generation, done.gated
    if gated and gated.is_new:
        show_gate(gated)
    if done.is_new or (gated and gated.is_new):
        emit_event(**index_event(store, generation, done.is_new))
    if gated and not gated.is_promoted:
        if gated.is_new:
            return Completed(name=generation.verdict.title(), message=gated.record.said)
        return Completed(message=f"Unchanged: {gated.record.said}")
    stages = [manifest.stage for manifest in done.outcome.new()]
    said = f" {gated.record.said}" if gated else ""
    return Completed(message=f"Done: {', '.join(stages)}.{said}" if stages else f"Unchanged: nothing to do.{said}")


def index_event(store: Path, generation: Generation, is_new: bool) -> dict[str, Any]:
    """The event of a generation that was built or judged. `is_new`: its name has come to stand for it."""
    kind = PROMOTED if is_new else REJECTED if generation.verdict == REJECTED else HELD
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
