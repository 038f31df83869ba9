"""The flow `re-encode`: index a named corpus of configs/corpora again, for example every night by a schedule."""

import os
from typing import Any

from prefect import flow
from prefect.states import Completed

from vitalfew.configs.loading import build
from vitalfew.configs.schema import IndexCorpus, Place
from vitalfew.flows.errors import explained
from vitalfew.flows.forms import ReEncode
from vitalfew.flows.index_corpus import index_and_show
from vitalfew.flows.pipelines.named import find_corpus
from vitalfew.flows.webhook import tell
from vitalfew.storage import files

RETRY_SECONDS = int(os.environ.get("VITALFEW_RETRY_SECONDS", "60"))


@flow(
    name="re-encode",
    flow_run_name="{parameters.corpus}",
    validate_parameters=True,
    persist_result=False,
    retries=1,
    retry_delay_seconds=RETRY_SECONDS,
    on_failure=[tell],
    on_crashed=[tell],
)
@explained
def re_encode(parameters: ReEncode) -> Any:
    """Encode the new and changed passages of a corpus; if nothing changed, this takes seconds.

    A failed run is retried once and then reported to the webhook. Two runs of a corpus never overlap: the second one
    ends at once, does nothing, and has the state Skipped.
    """
    corpus = find_corpus(parameters.corpus, parameters.store, parameters.corpora)
    given = parameters.model_dump(include={*Place.model_fields}, exclude_unset=True)
    settings = corpus.model_dump(exclude={"cron", "timezone"}, exclude_unset=True)
    lock = parameters.store / "indexes" / f".{corpus.name}.lock"
    files.make_folder(lock.parent)
    # A lock, not a limit of Prefect: a process that dies releases it, and it holds for the runs of all servers.
    with files.locked(lock, wait=False) as free:
        if not free:
            return Completed(name="Skipped", message=f"Another run is re-encoding {corpus.name}; this run did nothing.")
        outcome = index_and_show(build(IndexCorpus, settings, given), parameters.quote)
    done = [manifest.stage for manifest in outcome.new()]
    return Completed(message=f"Done: {', '.join(done)}." if done else "Unchanged: nothing to do.")
