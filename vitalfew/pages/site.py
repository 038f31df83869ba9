"""Shared by all pages of one `vitalfew ui` share: its store and its corpora."""

import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from nicegui import app

from vitalfew.flows.server.deployed import Deployed
from vitalfew.library.store import Store
from vitalfew.pages.answering import Answers
from vitalfew.storage.names import RUN_ID

if TYPE_CHECKING:
    from vitalfew.library.explorer import Comparison, Explorer

KEPT = 16
"""Results that take long to compute, and that are kept: those that were asked for last."""


@dataclass
class _Kept:
    lock: Lock = field(default_factory=Lock)
    value: Any = None


@dataclass(frozen=True)
class Site:
    """`place`: of the store; `corpora`: the user's directory of corpora, if it is not the one beside the store."""

    place: Path
    corpora: Path | None = None
    _kept: OrderedDict[object, _Kept] = field(default_factory=OrderedDict, init=False, repr=False, compare=False)
    _lock: Lock = field(default_factory=Lock, init=False, repr=False, compare=False)

    @cached_property
    def store(self) -> Store:
        return Store(self.place, progress=False)

    def explorer(self, run: str) -> "Explorer":
        """A finished evaluation, which does not change: one that is named by its whole id is kept, with what was read
        of it. Raises NoReport."""
        found: Explorer = self._of_runs((run,), lambda: self.store.explore(run))
        return found

    def comparison(self, first: str, second: str) -> "Comparison":
        """Two evaluations or methods, kept where both runs are named by their whole ids. Raises NoReport."""
        found: Comparison = self._of_runs((first, second), lambda: self.store.compare(first, second))
        return found

    def _of_runs(self, names: tuple[str, ...], make: Callable[[], Any]) -> Any:
        is_whole = all(re.fullmatch(RUN_ID, name.partition(":")[0]) for name in names)
        return self.once(names, make) if is_whole else make()

    def once(self, key: object, make: Callable[[], Any]) -> Any:
        """The result of `make`, which is called once while this is kept: two pages that want it at a time share it."""
        with self._lock:
            kept = self._kept.setdefault(key, _Kept())
            self._kept.move_to_end(key)
            while len(self._kept) > KEPT:
                self._kept.popitem(last=False)
        with kept.lock:
            if kept.value is None:
                kept.value = make()
            return kept.value

    @cached_property
    def deployed(self) -> Deployed:
        """The deployments that this `vitalfew ui` serves."""
        return Deployed(self.place, self.corpora)

    @cached_property
    def answers(self) -> Answers:
        """The process that answers questions, which ends with the server."""
        made = Answers(self.place)
        app.on_shutdown(made.stop)
        return made
