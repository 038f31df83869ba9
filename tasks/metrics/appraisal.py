"""What an appraiser gave the contexts, from 0 to 10: faithfulness and completeness (Oreo, arXiv 2502.13019, figure 7).

A question whose contexts could not be appraised is left out: what came of it stands in `appraisals`, with its error.
"""

from collections.abc import Sequence

from vitalfew.tasks.metrics.base import APPRAISALS, Case, Column, PerQuestion, Values

SCALE = "0 to 10"


class AppraisalMetric(PerQuestion):
    """Faithfulness of the contexts to their hits, and completeness, from 0 to 10, as an appraiser grades them."""

    def columns(self) -> tuple[Column, ...]:
        needs = (APPRAISALS,)
        return (
            Column("faithfulness", "faithfulness", SCALE, needs=needs),
            Column("completeness", "completeness", SCALE, needs=needs),
        )

    def score(self, cases: Sequence[Case]) -> Values:
        given = [case.appraisal or (None, None) for case in cases]
        return {"faithfulness": [one for one, _ in given], "completeness": [other for _, other in given]}
