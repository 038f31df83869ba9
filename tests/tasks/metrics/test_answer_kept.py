"""The metric `answer_kept`: of the questions whose hits hold an answer, those whose contexts do."""

import pytest

from vitalfew.configs.evaluation import ScoreConfig
from vitalfew.tasks.metrics.base import Case, Context, RankedUnit
from vitalfew.tasks.registry import make


@pytest.mark.parametrize(
    ("hits", "contexts", "expected"),
    [
        (["A river.", "The mill of 1742."], ["built in 1742"], 1.0),
        (["A river.", "The mill of 1742."], ["A river."], 0.0),
        (["A river.", "The mill of 1742."], [], 0.0),
        (["A river."], ["built in 1742"], None),
        ([], [], None),
        (None, None, None),
    ],
)
def test_an_answer_that_no_hit_holds_cannot_be_kept(
    hits: list[str] | None, contexts: list[str] | None, expected: float | None
) -> None:
    units = None if hits is None else tuple(RankedUnit(n, n, (1, 0, 9), 0.5, hit) for n, hit in enumerate(hits, 1))
    shown = None if contexts is None else tuple(Context(text, 3) for text in contexts)
    case = Case("When?", ("1742",), (), (), hits=units, contexts=shown)
    assert make(ScoreConfig(metrics=("answer_kept",)), "score").score([case]) == {"answer_kept": [expected]}
