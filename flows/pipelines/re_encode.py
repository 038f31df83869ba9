"""Index a named corpus again, and let its gate judge what came of it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vitalfew.configs.loading import build
from vitalfew.configs.schema import Corpus, GateConfig, IndexCorpus
from vitalfew.flows.pipelines.gate import Ask, Gated, check_power, judge
from vitalfew.flows.pipelines.index_corpus import IndexPlan
from vitalfew.flows.pipelines.run import Outcome
from vitalfew.storage import files, generations
from vitalfew.storage.files import DamagedRecord
from vitalfew.storage.generations import CannotPromote, Generation
from vitalfew.storage.runs import IndexNotFound, find_index
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.models.causal.engines.budget import capped


@dataclass(frozen=True)
class ReEncoded:
    """A corpus as its run left it. `generation`: what was built; `is_new`: the alias moved;
    `gated`: what the gate said of it, None where there was nothing to judge; `before`: the generation that the name
    pointed at, 0 for none."""

    outcome: Outcome
    generation: Generation
    is_new: bool
    gated: Gated | None
    before: int = 0


@contextmanager
def alone_with(store: Path, corpus: str) -> Iterator[bool]:
    """Yield true while nobody else re-encodes a corpus, and false at once if somebody does.

    A lock, not a limit of Prefect: a process that dies releases it, and it holds for the runs of all servers."""
    lock = store / "indexes" / f".{corpus}.lock"
    files.make_folder(lock.parent)
    with files.locked(lock, wait=False) as free:
        yield free


def skip(store: Path, corpus: str) -> None:
    """Leave the work to the run that re-encodes a corpus now: at its end it looks again."""
    files.write_text(_asked_again(store, corpus), "")


def until_nobody_asks(store: Path, corpus: str, work: Callable[[], ReEncoded]) -> ReEncoded:
    """Re-encode a corpus, and once more for all runs that were skipped meanwhile: what changed since this one read the
    corpus does not wait for the next night. Call it within `alone_with`."""
    asked_again = _asked_again(store, corpus)
    files.remove(asked_again)
    done = work()
    while files.exists(asked_again):
        files.remove(asked_again)
        again = work()
        made = {manifest.artifact for manifest in done.outcome.new()}
        outcome = replace(again.outcome, reused=again.outcome.reused - made)
        done = replace(again, outcome=outcome, before=done.before, is_new=done.is_new or again.is_new)
    return done


def _asked_again(store: Path, corpus: str) -> Path:
    return store / "indexes" / f".{corpus}.again"


def index_parameters(corpus: Corpus, given: dict[str, Any]) -> IndexCorpus:
    """The settings of a corpus's index. `given` takes precedence. Raises ConfigError."""
    settings = corpus.model_dump(exclude={"cron", "timezone", "gate", "on_promote"}, exclude_unset=True)
    return build(IndexCorpus, settings, given)


def index_gated(gate: GateConfig, parameters: IndexCorpus, index: Callable[[IndexPlan], Outcome], ask: Ask) -> Outcome:
    """Index a corpus with a gate, alone; the outcome has what the gate said. Raises as `re_encode_corpus`, and
    InputError where another run re-encodes it."""
    corpus = build(Corpus, parameters.model_dump(exclude_unset=True), {"gate": gate})
    with alone_with(parameters.store, parameters.name) as free:
        if not free:
            raise InputError(f"another run is re-encoding {parameters.name}; wait for its end")
        done = re_encode_corpus(corpus, parameters, index, ask)
    return replace(done.outcome, gated=done.gated)


def re_encode_corpus(
    corpus: Corpus, parameters: IndexCorpus, index: Callable[[IndexPlan], Outcome], ask: Ask, quote: bool = False
) -> ReEncoded:
    """Index a corpus; a gate judges the new generation before the name points at it.

    `index` and `ask` execute the plans of the two runs, under one cap; `quote`: estimate what the gate asks. Raises the
    errors of both.
    """
    if corpus.gate:
        check_power(corpus, corpus.gate)
    plan = IndexPlan(parameters)
    plan.gate = corpus.gate
    before = _current(parameters)
    with capped(parameters.max_usd):
        outcome = index(plan)
        assert plan.generation
        gated = judge(corpus, plan.generation, parameters, ask, quote)
    generation = gated.generation if gated else plan.generation
    return ReEncoded(outcome, generation, _current(parameters) != before, gated, before)


def standing(store: Path, name: str, before: int, built: int) -> str:
    """Say which generation an index's name points at now. `before`: the one that it pointed at, 0 for none;
    `built`: the generation that the corpus gives. Empty where all are one."""
    now = find_index(store, name).generation
    if now != before:
        earlier = f" Before, it pointed at {_described(store, name, before)}." if before else ""
        return f"{name} points at {_described(store, name, now)} now.{earlier}"
    if now != built:
        return f"Generation {now} stays current. The corpus now gives generation {built}; promote it if you want it."
    return ""


def _described(store: Path, name: str, number: int) -> str:
    try:
        generation = generations.find(store, name, number)
        passages = generation.index.located(store)["passages"].completed().rows.get("passages", 0)
    except (FileNotFoundError, DamagedRecord, CannotPromote):  # it was removed meanwhile
        return f"generation {number}"
    return f"generation {number} ({passages:,} passages from {', '.join(generation.config.get('datasets', []))})"


def _current(parameters: IndexCorpus) -> int:
    """The number of the generation that a search finds; 0 where there is none yet."""
    try:
        index = find_index(parameters.store, parameters.name)
    except IndexNotFound:
        return 0
    return index.generation or generations.find(parameters.store, parameters.name).number
