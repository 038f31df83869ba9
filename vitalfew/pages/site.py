"""What the pages of one `vitalfew ui` share: its store and its corpora."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from nicegui import app

from vitalfew.library.store import Store
from vitalfew.pages.answering import Answers


@dataclass(frozen=True)
class Site:
    """`place`: of the store; `corpora`: the user's directory of corpora, if it is not the one beside the store."""

    place: Path
    corpora: Path | None = None

    @cached_property
    def store(self) -> Store:
        return Store(self.place, progress=False)

    @cached_property
    def answers(self) -> Answers:
        """The process that answers questions, which ends with the server."""
        made = Answers(self.place)
        app.on_shutdown(made.stop)
        return made
