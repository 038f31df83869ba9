"""A generation of an index, and what speaks for it and against it: what changed in its corpus, what its gate compared,
which questions got worse, and who decided."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vitalfew.storage import decisions, generations
from vitalfew.storage.runs import find_index

if TYPE_CHECKING:
    from vitalfew.tasks.reports.corpora import CorpusChanges
    from vitalfew.tasks.reports.gating import LostQuestion


class IndexGeneration:
    """`record`: as it was built, with its gate's verdict and figures; `current`: the generation that searches find;
    `decisions`: about this one, the oldest first."""

    def __init__(self, place: Path, index: str, number: int | None = None) -> None:
        """`number`: by default the latest. Raises IndexNotFound, CannotPromote where there is no such generation,
        DamagedRecord."""
        self.place = place
        self.current = find_index(place, index).generation
        self.record = generations.find(place, index, number)
        self.decisions = [each for each in decisions.of(place, index) if each.generation == self.record.number]

    @property
    def is_current(self) -> bool:
        return self.record.number == self.current

    @property
    def against(self) -> int:
        """The generation that it was compared with, or that it took the place of; 0 for none."""
        if self.record.gate:
            return self.record.gate.against
        replaced = (each.instead_of for each in self.decisions if each.instead_of != self.record.number)
        return next(replaced, 0 if self.is_current else self.current)

    @cached_property
    def changes(self) -> "CorpusChanges | None":
        """What differs from the corpus of the generation `against`, None without one. Raises FileNotFoundError where
        `store gc` has removed one of the two."""
        from vitalfew.tasks.reports.corpora import corpus_changes

        if not self.against:
            return None
        before = generations.find(self.place, self.record.name, self.against)
        return corpus_changes(self.place, before, self.record)

    @cached_property
    def worsened(self) -> "tuple[LostQuestion, ...]":
        """The questions of its gate that got worse, the worst of every figure first; none where nothing was asked.
        Raises NoReport where an artifact of that evaluation was removed."""
        from vitalfew.tasks.reports.gating import findings

        gate = self.record.gate
        if gate is None or not gate.figures:
            return ()
        margins = {figure.metric: figure.margin for figure in gate.figures}
        ends = f", generation {gate.against}", f", generation {self.record.number}"
        return findings(self.place, gate.run_id, ends, margins, 0.0).lost
