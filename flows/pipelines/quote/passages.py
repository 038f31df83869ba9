"""The trial of the stages of an index on passages, in a separate folder: the store is only read.

The first sample makes every model load. A further one has up to `GROWTH` times the passages of the one before, as
long as the trial may take (`Allowance`). Stages that are done are not tried: what the others read of them is taken from
the store, or made anew where that takes no time.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vitalfew.flows.pipelines.quote.trial import Allowance, Announce, StageSample, take_over, try_stage
from vitalfew.storage.artifacts import Artifact
from vitalfew.tasks.datasets.base import Passage
from vitalfew.tasks.encode import Encode
from vitalfew.tasks.split import Split
from vitalfew.tasks.stage import Stage

COLD, FIRST, GROWTH = 4, 8, 4
"""Passages in the first two samples, and how much larger than the last one the next may be."""
SECONDS = 12.0
"""How long a trial takes at most, without the loading of models and what an overlong last sample adds."""


class Sampled(Protocol):
    """A plan over a few passages can stand for it."""

    @property
    def stages(self) -> list[Stage]:
        """The stages in a possible order of execution."""

    def over(self, passages: Sequence[Passage], folder: Path) -> "Sampled":
        """The same work over a few passages, with a store in a new folder."""


@dataclass(frozen=True)
class TryPassages:
    """Tries the missing stages of a plan. `passages`: any run of them is like the whole of `whole` passages; `done`:
    the artifacts of finished stages by the stages' names, and `shards`: those shards of them that have the passages.

    Gives the measurements of the missing stages by name, a mapping per sample; the first sample loaded the models."""

    plan: Sampled
    passages: Sequence[Passage]
    whole: float
    done: dict[str, Artifact]
    shards: Sequence[int]

    def __call__(self, folder: Path, announce: Announce) -> list[dict[str, StageSample]]:
        most, allowance = len(self.passages), Allowance(SECONDS, self.whole)
        size, start = min(FIRST, most), min(COLD, most)
        samples = [self._try(0, start, folder / "0", announce)]
        while True:
            began = time.perf_counter()
            samples.append(self._try(start, size, folder / str(len(samples)), announce))
            seconds = time.perf_counter() - began
            allowance.spent += seconds
            larger = min(GROWTH * size, most, allowance.units(seconds / size))
            if larger < size or size == most:
                return samples
            start, size = start + size, larger

    def _try(self, start: int, size: int, folder: Path, announce: Announce) -> dict[str, StageSample]:
        """Try a sample; where there are too few passages, it goes on with the first ones."""
        passages = [self.passages[place % len(self.passages)] for place in range(start, start + size)]
        measured = {}
        for stage in self._due(self.plan.over(passages, folder).stages):
            done = self.done.get(stage.name)
            if done and isinstance(stage, Encode | Split):
                take_over(done, stage, self.shards)
            elif done:
                stage.run("plan")
            else:
                announce(f"{stage.name}: {size:,} passages")
                measured[stage.name] = try_stage(stage, size)
        return measured

    def _due(self, stages: Sequence[Stage]) -> list[Stage]:
        """The missing stages and all that they read."""
        due: set[str] = set()
        for stage in reversed(stages):
            if stage.name not in self.done or stage.artifact.name in due:
                due |= {stage.artifact.name, *(read.name for read in stage.inputs.values())}
        return [stage for stage in stages if stage.artifact.name in due]


def typical(passages: Sequence[Passage]) -> list[Passage]:
    """The passages in an order in which any run of them has short and long ones in proportion: by size, at places
    whose binary digits are reversed."""
    by_size = sorted(passages, key=lambda passage: len(passage.title) + len(passage.text))
    bits = max(1, (len(by_size) - 1).bit_length())
    places = (int(f"{number:0{bits}b}"[::-1], 2) for number in range(1 << bits))
    return [by_size[place] for place in places if place < len(by_size)]
