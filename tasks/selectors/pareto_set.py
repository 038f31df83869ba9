"""`pareto_set`: all candidates on the Pareto front of F1 and F2 (PFE-Self-RAG, the full set), nearest to (1, 1) first.

Equal points are on the front together. So a question has one answer or several, and a score of them has to say what it
does with several: see the metric `answer_set`.
"""

from typing import ClassVar

from pydantic import ConfigDict

from vitalfew.configs.evaluation import SelectConfig
from vitalfew.tasks.selectors.base import Chosen, Critiqued, front, nearness


class ParetoSet:
    """PFE-Self-RAG: every answer that no other one beats in both F1 and F2."""

    class Options(SelectConfig):
        model_config = ConfigDict(extra="forbid")

    version: ClassVar[str] = "1"

    def __init__(self, options: Options) -> None:
        self.options = options

    def select(self, candidates: Critiqued) -> Chosen:
        return Chosen(front(candidates), nearness(candidates))
