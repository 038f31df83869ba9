"""The flow `re-encode`: index a named corpus of configs/corpora again, for example every night by a schedule."""

import logging
import os
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.events import emit_event
from prefect.states import Completed

from vitalfew.configs.schema import Place
from vitalfew.flows.approval import ask_first, asked_by_this_run, decision_on
from vitalfew.flows.errors import explained
from vitalfew.flows.evaluate import evaluate
from vitalfew.flows.execute import one_cap, show_gate
from vitalfew.flows.forms import ReEncode
from vitalfew.flows.index_corpus import index_and_show
from vitalfew.flows.pipelines.gate import HELD, PROMOTED, REJECTED, Gated, decide
from vitalfew.flows.pipelines.named import find_corpus
from vitalfew.flows.pipelines.re_encode import alone_with, index_parameters, re_encode_corpus
from vitalfew.flows.webhook import tell, tell_held
from vitalfew.storage import files
from vitalfew.storage.generations import Generation, IndexMoved
from vitalfew.storage.manifests import Manifest

logger = logging.getLogger("vitalfew")

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
    one; one that is not promoted gives the state Rejected, In Doubt or Held, and is reported too. Where a person is to
    decide, the run is suspended until then.
    """
    corpus = find_corpus(parameters.corpus, parameters.store, parameters.corpora)
    if asked := asked_by_this_run(corpus):
        try:
            return _as_decided(parameters.store, asked)
        except IndexMoved as moved:
            logger.warning("It is compared anew: %s", moved)
    given = parameters.model_dump(include={*Place.model_fields}, exclude_unset=True)
    with alone_with(parameters.store, corpus.name) as free:
        if not free:
            return Completed(name="Skipped", message=f"Another run is re-encoding {corpus.name}; this run did nothing.")
        settings = index_parameters(corpus, given)
        index = partial(index_and_show, quote=parameters.quote)
        with one_cap(settings.max_usd):
            done = re_encode_corpus(corpus, settings, index, evaluate, parameters.quote)
        asking = ask_first(corpus, done.gated) if done.gated else None
    told = _told(parameters.store, asking or done.gated, done.generation, done.is_new, done.outcome.new())
    return _as_decided(parameters.store, asking.generation, asking) if asking else told


def _as_decided(store: Path, candidate: Generation, gated: Gated | None = None) -> Any:
    """Wait for a person, which suspends this run, and do as the person says when it is resumed. `gated`: what the gate
    has just said. Raises IndexMoved where the comparison does not hold any more."""
    form = decision_on(candidate, gated)
    decided = decide(store, candidate, form.decision == "promote", form.note)
    return _told(store, decided, decided.generation, decided.is_promoted)


def _told(store: Path, gated: Gated | None, generation: Generation, is_new: bool, made: Sequence[Manifest] = ()) -> Any:
    """Show what the gate said, emit an event, and return the state with its message. `is_new`: the name stands for
    another generation than before; `made`: artifacts of this run."""
    generation = gated.generation if gated else generation
    if gated and gated.is_new:
        show_gate(gated)
    if is_new or (gated and gated.is_new):
        emit_event(**index_event(store, generation, is_new))
    if gated and not gated.is_promoted:
        if gated.is_new:
            return Completed(name=generation.verdict.title(), message=gated.record.said)
        return Completed(message=f"Unchanged: {gated.record.said}")
    stages = ", ".join(manifest.stage for manifest in made) or ("" if is_new else "nothing to do")
    said = gated.record.said if gated else ""
    return Completed(message=f"{'Done' if is_new or made else 'Unchanged'}: {'. '.join(filter(None, [stages, said]))}")


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
