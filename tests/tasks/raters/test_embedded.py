"""The critic `embedded`: its mechanics on a tiny random model, and the weights that come with it."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.training import random_weights
from vitalfew.tasks.metrics.answers import is_right, normalise
from vitalfew.tasks.models.small.reader import CriticModel
from vitalfew.tasks.models.small.windows import (
    MAX_QUESTION,
)
from vitalfew.tasks.raters.base import Judgement, RatedContext
from vitalfew.tasks.raters.embedded import SURPLUS, Embedded, Said, support

QUESTION = "Who built the mill of Velmar?"
CONTEXT = "The mill of Velmar was built in 1742 by Ada Norrin. It burnt down twice."
ANSWER_TEXT = "Ada Norrin"


@pytest.fixture(scope="module")
def critic(tmp_path_factory: pytest.TempPathFactory) -> Embedded:
    """A critic with random weights on a random BERT."""
    directory = random_weights(tmp_path_factory.mktemp("critic"), CriticModel)
    return Embedded(Embedded.Options(model=str(directory), precision="fp32", device="cpu"))


SPANS = st.lists(
    st.tuples(st.sampled_from(["ada norrin", "norrin", "1742", "velmar", ""]), st.floats(0.01, 1)), min_size=1
)


@given(SPANS, st.sampled_from(["Ada Norrin", "the mill of Velmar", "1742", "Kessin"]), st.floats(-5, 5))
def test_support_is_the_share_of_what_a_context_says_that_agrees(
    spans: list[tuple[str, float]], answer: str, relevant: float
) -> None:
    total = sum(share for _, share in spans)
    agreeing = sum(share for span, share in spans if is_right(answer, [span]))
    longer = SURPLUS * math.log(len(normalise(answer).split()))
    told = 1 / (1 + math.exp(-support(answer, Said(relevant, spans)) - longer))
    assert told == pytest.approx(min(max(agreeing / total, 0.001), 0.999))


def test_scores_are_probabilities_and_the_order_of_candidates_changes_nothing(critic: Embedded) -> None:
    draw, words = random.Random(1), CONTEXT.split()
    parts = [(draw.choices(words, k=6), draw.choices(words, k=20 + n % 50), draw.choices(words)) for n in range(80)]
    batch = [RatedContext(*map(" ".join, each)) for each in parts]
    found = critic.rate(batch)
    assert all(0 <= score <= 1 for each in found for score in (each["isrel"], each["issup"], each["isuse"]))
    assert len({each["isrel"] for each in found}) > 40
    assert critic.rate(batch[::-1])[::-1] == found
    assert critic.rate([]) == []
    (empty,) = critic.rate([RatedContext(QUESTION, CONTEXT, " \n")])
    assert empty["isrel"] > 0
    assert (empty["issup"], empty["isuse"], empty.error) == (0, 0, "")


def test_an_over_long_question_is_an_error_row_and_its_neighbours_are_judged(critic: Embedded) -> None:
    counted: list[int] = []
    long = RatedContext("why " * (MAX_QUESTION + 1), CONTEXT, ANSWER_TEXT)
    batch = [long, RatedContext(QUESTION, CONTEXT, ANSWER_TEXT), long]
    wrong, fine, _ = critic.rate(batch, lambda candidates, tokens: counted.append(candidates))
    assert fine == critic.rate(batch[1:2])[0]
    assert wrong == Judgement(
        error=f"the question has {MAX_QUESTION + 1} tokens, the critic takes at most {MAX_QUESTION}"
    )
    assert sum(counted) == 3


def test_the_weights_that_come_with_the_project_judge_plain_answers() -> None:
    other = "Ships of the northern fleet carried salt, timber and wool to Kessin."
    asked = [(CONTEXT, "Ada Norrin"), (CONTEXT, "1742"), (other, "Kessin")]
    own = Embedded(Embedded.Options())
    right, wrong, elsewhere = own.rate([RatedContext(QUESTION, context, answer) for context, answer in asked])
    assert min(right["isrel"], wrong["isrel"]) > elsewhere["isrel"]
    assert right["issup"] > wrong["issup"]
    assert right["isuse"] > wrong["isuse"]
