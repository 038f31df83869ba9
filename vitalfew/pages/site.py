"""Shared by all pages of one `vitalfew ui` share: its store and its corpora."""

import re
from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from nicegui import app

from vitalfew.flows.server.deployed import Deployed
from vitalfew.library.store import Store
from vitalfew.pages.answering import Answers
from vitalfew.storage.names import RUN_ID

if TYPE_CHECKING:
    from vitalfew.library.explorer import Comparison, Explorer

Result = TypeVar("Result")
View = tuple[str, Callable[["Site"], None]]
"""A view of a page by the parameters of the address: its title, and what draws it."""
KEPT = 16
"""Results that take long to compute, and that are kept: those that were asked for last."""


class Site:
    """`place`: of the store; `corpora`: the user's directory of corpora, if it is not the one beside the store."""

    def __init__(self, place: Path, corpora: Path | None = None) -> None:
        self.place, self.corpora = place, corpora
        self._kept: OrderedDict[object, Any] = OrderedDict()

    @cached_property
    def store(self) -> Store:
        return Store(self.place, progress=False)

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

    def explorer(self, run: str) -> "Explorer":
        """A finished evaluation. Raises NoReport."""
        return self._of_runs((run,), lambda: self.store.explore(run))

    def comparison(self, first: str, second: str) -> "Comparison":
        """Two evaluations or methods. Raises NoReport."""
        return self._of_runs((first, second), lambda: self.store.compare(first, second))

    def _of_runs(self, names: tuple[str, ...], make: Callable[[], Result]) -> Result:
        """Runs that are named by their whole ids do not change, and are kept with what was read of them."""
        is_whole = all(re.fullmatch(RUN_ID, name.partition(":")[0]) for name in names)
        return self.once(names, make) if is_whole else make()

    def once(self, key: object, make: Callable[[], Result]) -> Result:
        """The result of `make`, which is called again only where its result is no longer kept."""
        found: Result | None = self._kept.pop(key, None)
        if found is None:
            found = make()
        self._kept[key] = found
        while len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return found
