"""Answers of language models that are kept as they come, so that a run that goes on after a kill computes, and pays
for, none of them twice.

Within `remembering`, every engine that this thread asks looks in the journal first: those that ask a server
(remote.py), and those that run a model on this machine (language_model.py). A stage has a journal for every shard.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import asdict
from hashlib import blake2b
from typing import Any

from vitalfew.configs.section import NOT_IN_FINGERPRINT
from vitalfew.storage.journals import Journal
from vitalfew.tasks.models.causal.engines.base import Completion, Engine, JsonSchema, Probe
from vitalfew.tasks.models.within import within

_journal: ContextVar[Journal | None] = ContextVar("journal", default=None)


def remembering(journal: Journal) -> AbstractContextManager[Any]:
    """In this block, engines that are asked by this thread keep their answers, and compute or ask for none twice."""
    return within(_journal, journal)


def current() -> Journal | None:
    """The journal of the block that this thread is in."""
    return _journal.get()


def request_keys(
    engine: Engine, requests: Sequence[str], probe: Probe | None, form: JsonSchema | None = None
) -> list[str]:
    """The hash of everything that a request says, for every request."""
    fields = type(engine).Options.model_fields
    names = {name for name, field in fields.items() if NOT_IN_FINGERPRINT not in field.metadata}
    same = {
        "engine": engine.identity(),
        "options": engine.options.model_dump(mode="json", include=names),
        "probe": probe and asdict(probe),
        **({"form": form} if form else {}),
    }
    whole = [json.dumps({**same, "prompt": request}, sort_keys=True, default=str) for request in requests]
    return [blake2b(each.encode(), digest_size=16).hexdigest() for each in whole]


def keys_to_keep(engine: Engine, requests: Sequence[str], probe: Probe | None = None) -> list[str]:
    """As `request_keys`; none where nothing is kept."""
    return request_keys(engine, requests, probe) if current() else []


def kept_batch(
    keys: Sequence[str], compute: Callable[[], list[Completion]], restore: Callable[..., Completion] = Completion
) -> list[Completion]:
    """Return what an earlier attempt computed for a batch on this machine, or compute it now and keep it.

    `keys`: of its requests; empty where nothing is kept. `restore` makes a completion of its fields. A batch of which
    an answer is missing is computed whole: in other company the last bits of the logits may differ."""
    journal = current()
    if journal is None or not keys:
        return compute()
    done = [restore(**answer) for key in keys if (answer := journal.find(key))]
    if len(done) < len(keys):
        done = compute()
        answered = [(key, each) for key, each in zip(keys, done, strict=True) if not each.error]
        if answered:
            journal.keep([(key, asdict(each), each.computed) for key, each in answered])
    for each in done:
        if not each.error:
            journal.give(each.computed)
    return done
