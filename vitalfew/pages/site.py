"""What the pages of one `vitalfew ui` share: its store and its corpora."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from vitalfew.flows.server.deployed import Deployed
from vitalfew.library.store import Store


@dataclass(frozen=True)
class Site:
    """`place`: of the store; `corpora`: the user's directory of corpora, if it is not the one beside the store."""

    place: Path
    corpora: Path | None = None

    @cached_property
    def store(self) -> Store:
        return Store(self.place, progress=False)

    @cached_property
    def deployed(self) -> Deployed:
        """The deployments that this `vitalfew ui` serves."""
        return Deployed(self.place, self.corpora)
