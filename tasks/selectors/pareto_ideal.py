"""`pareto_ideal`: the candidate on the Pareto front that is nearest to the ideal point (PFE-Self-RAG, "closest").

The ideal point is F1 = F2 = 1, the distance Euclid's. Of candidates equally near the first is taken.
"""

from typing import ClassVar

from pydantic import ConfigDict

from vitalfew.configs.evaluation import SelectConfig
from vitalfew.tasks.selectors.base import Chosen, Critiqued, best, front, nearness


class ParetoIdeal:
    """PFE-Self-RAG: the answer on the Pareto front nearest to the ideal point."""

    class Options(SelectConfig):
        model_config = ConfigDict(extra="forbid")

    version: ClassVar[str] = "1"

    def __init__(self, options: Options) -> None:
        self.options = options

    def select(self, candidates: Critiqued) -> Chosen:
        return best(nearness(candidates), front(candidates))
