"""`refine.first`: what one refiner made, another reads; origins are those of the hits."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.evaluating import run
from tests.support.shared import indexed
from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.loading import ConfigError, build, parse_assignments
from vitalfew.tasks.refiners.base import Context, Hit
from vitalfew.tasks.registry import make

QUESTION = "Who founded the mill of Kessin?"
TEXTS = (
    "The mill of Kessin was founded by Ada Velmar in 1742. Its wheel was turned by the river. It burnt down in 1901. ",
    "The Ouse rises in the hills. It runs for 120 km. ",
)
SENTENCE = st.lists(st.sampled_from(["mill", "The sea", "town,", "120 km", "Ouse"]), min_size=1, max_size=4).map(
    lambda words: " ".join(words) + ". "
)


def spans(text: str) -> tuple[tuple[int, int], ...]:
    ends = [place + 2 for place in range(len(text)) if text.startswith(". ", place)]
    return tuple(zip([0, *ends], ends, strict=False))


def sentences(texts: Sequence[str]) -> list[Hit]:
    """Every sentence of some passages as a hit, with its sentence; the later ones score lower."""
    return [
        Hit("Kessin", text[start:end], number, start, end, ((start, end),), number == 0, -float(number + place))
        for number, text in enumerate(texts)
        for place, (start, end) in enumerate(spans(text))
    ]


def refined(hits: Sequence[Hit], refiner: str, first: dict[str, Any], **options: Any) -> list[Context]:
    method = make(build(RefineConfig, {"refiner": refiner, "first": first, **options}), "refine")
    [contexts] = method.refine([QUESTION], [hits]).contexts
    return list(contexts)


def test_a_hit_of_the_second_is_a_context_of_the_first_with_its_title_once() -> None:
    hits = sentences(TEXTS)
    first = {"refiner": "spans", "text": "titled", "stop": 1}
    alone = make(build(RefineConfig, first), "refine").refine([QUESTION], [hits]).contexts[0]
    assert [context.text for context in alone] == [f"Kessin: {text.strip()}" for text in TEXTS]
    assert refined(hits, "cut", first, text="titled") == [
        Context(each.text, each.tokens, ((number, 0, len(TEXTS[number].strip())),), each.score)
        for number, each in enumerate(alone)
    ]
    # Where spans leave out the second sentence there is a gap.
    [context, _] = refined([hit for hit in hits if "wheel" not in hit.text], "cut", first, text="unit")
    assert context.text == "The mill of Kessin was founded by Ada Velmar in 1742. … It burnt down in 1901."
    assert [span[1:] for span in context.origin] == [(0, 53), (89, 111)]


@settings(max_examples=40)
@given(
    st.lists(st.lists(SENTENCE, min_size=1, max_size=4).map("".join), min_size=1, max_size=3),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from(["unit", "titled"]),
    st.sampled_from(["cut", "spans"]),
)
def test_every_word_has_its_origin_in_the_hits(
    texts: list[str], before: int, after: int, text: str, refiner: str
) -> None:
    first = {"refiner": "spans", "text": text, "stop": 1, "max_tokens": before}
    contexts = refined(sentences(texts), refiner, first, text=text, max_tokens=after)
    assert sum(context.tokens for context in contexts) <= after
    for context in contexts:
        rest = context.text.removeprefix("Kessin: ")
        for number, start, end in context.origin:
            part = texts[number][start:end].strip()
            assert part in rest
            rest = rest[rest.index(part) + len(part) :]
        assert rest.strip() in ("", "…")


SETTINGS: dict[str, Any] = {
    "index": "test",
    "generate": None,
    "methods": {"both": {"refine": {"refiner": "oreo", "first": {"refiner": "spans", "max_tokens": 60}}}},
}


def test_what_cannot_be_chained_is_said() -> None:
    for given_settings, message in (
        ("refine.first={first: {refiner: cut}}", "only one refiner can work before another"),
        ("refine={first: {refiner: cut}, refiner: mmr}", r"set refine\.vectors=minilm"),
    ):
        with pytest.raises(ConfigError, match=message):
            run(indexed(), SETTINGS, **parse_assignments([given_settings]))
