"""`geometric_mean`: the candidate of the greatest cube root of ISREL · ISSUP · ISUSE (PFE-Self-RAG, "GM").

One score of 0 makes it 0, whatever the others are. Of equal ones the first is taken.
"""

from typing import ClassVar

from pydantic import ConfigDict

from vitalfew.configs.evaluation import SelectConfig
from vitalfew.tasks.selectors.base import Chosen, Critiqued, best, geometric_mean


class GeometricMean:
    """PFE-Self-RAG: the answer with the greatest geometric mean of the three scores."""

    class Options(SelectConfig):
        model_config = ConfigDict(extra="forbid")

    version: ClassVar[str] = "1"

    def __init__(self, options: Options) -> None:
        self.options = options

    def select(self, candidates: Critiqued) -> Chosen:
        return best(geometric_mean(candidates.isrel, candidates.issup, candidates.isuse), candidates.usable)
