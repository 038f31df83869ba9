"""The refiner `cxmi`: what it keeps of the hits, by which probabilities, and where its weights are missing."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import tiny_models
from tests.support.training import write_weights
from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.models.readings import Memory, remembering
from vitalfew.tasks.models.small.reader import FilterModel
from vitalfew.tasks.models.small.tuned import SETTINGS
from vitalfew.tasks.refiners.base import Hit, Refined
from vitalfew.tasks.refiners.cxmi import Cxmi
from vitalfew.tasks.splitters.tokens import count_tokens, count_words

COMPUTING: dict[str, Any] = {"device": "cpu", "precision": "fp32"}
QUESTION = "Who founded the mill?"


def hit(number: int, *sentences: str, start: int = 0) -> Hit:
    """A hit of these sentences, in its passage from `start` on."""
    ends = [start]
    for sentence in sentences:
        ends.append(ends[-1] + len(sentence))
    spans = tuple(pairwise(ends))
    return Hit(f"Title {number}", "".join(sentences), number, start, ends[-1], spans)


HITS = [
    hit(1, "The river rises in the hills. ", "It runs for 120 km to the sea."),
    hit(2, "Its mill still stands. ", "Who founded it? ", "The hills are by the sea.", start=40),
    hit(3, "The sea."),
]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A filter that tells sentences apart, by random weights."""
    folder = tmp_path_factory.mktemp("filter")
    base = tiny_models.bert(folder / "base", 256)
    torch.manual_seed(0)
    model = FilterModel(base, torch.float32)
    model.prepare_for_training(4)
    torch.nn.init.normal_(model.head.weight, std=1.0)
    write_weights(folder / "weights", model, str(base))
    settings_file = folder / "weights" / SETTINGS
    settings_file.write_text(json.dumps({**json.loads(settings_file.read_text()), "threshold": 0.2}))
    return folder / "weights"


def refiner(weights: Path, **options: Any) -> Cxmi:
    given = {"refiner": "cxmi", "model": str(weights), "top_k": 10, **COMPUTING, **options}
    return Cxmi(Cxmi.Options(**given))


def refined(weights: Path, hits: Sequence[Sequence[Hit]] = (HITS,), **options: Any) -> Refined:
    return refiner(weights, **options).refine([QUESTION] * len(hits), hits)


def origins(refined: Refined, question: int = 0) -> list[tuple[int, int, int]]:
    return [span for evidence in refined.contexts[question] for span in evidence.origin]


def probabilities(weights: Path, hits: Sequence[Hit]) -> dict[tuple[int, int, int], float]:
    requests = [(QUESTION, *(own.text[s - own.start : e - own.start] for s, e in own.sentences)) for own in hits]
    values = refiner(weights).model.read(requests)
    return {
        (own.passage_id, *span): float(value)
        for own, of_own in zip(hits, values, strict=True)
        for span, value in zip(own.sentences, of_own, strict=True)
    }


def test_the_sentences_that_reach_the_threshold_are_passed_on_in_their_order(weights: Path) -> None:
    scored = probabilities(weights, HITS)
    threshold = sorted(scored.values())[-3]
    kept = [place for place, value in scored.items() if value >= threshold]
    whole = refined(weights, threshold=threshold)
    ranges = origins(whole)
    assert len(kept) == 3
    assert all(any(p == q and s >= t and e <= u for q, t, u in ranges) for p, s, e in kept)
    assert sum(end - start for _, start, end in ranges) == sum(end - start for _, start, end in kept)
    assert [number for number, _, _ in ranges] == sorted(number for number, _, _ in ranges)
    assert whole.notes == {"sentences": 6, "passed": 3}


def test_the_best_sentence_is_passed_on_in_any_case(weights: Path) -> None:
    scored = probabilities(weights, HITS)
    assert origins(refined(weights, threshold=1.0)) == [max(scored, key=scored.__getitem__)]


def test_the_threshold_is_that_of_the_weights_and_with_a_budget_none(weights: Path) -> None:
    assert refiner(weights).threshold == 0.2
    assert refiner(weights, max_words=50).threshold == refiner(weights, max_tokens=50).threshold == 0
    assert refiner(weights, max_words=50, threshold=0.4).threshold == 0.4
    everything = refined(weights, max_words=1000)
    assert [evidence.text.count(".") + evidence.text.count("?") for evidence in everything.contexts[0]] == [2, 3, 1]


def test_the_most_probable_sentences_fill_a_budget(weights: Path) -> None:
    scored = probabilities(weights, HITS)
    first, second, *_ = sorted(scored, key=lambda place: -scored[place])
    text = {own.passage_id: own for own in HITS}
    words = sum(count_words(text[p].text[s - text[p].start : e - text[p].start]) for p, s, e in (first, second))
    ranges = origins(refined(weights, max_words=words, text="unit"))
    assert sum(end - start for _, start, end in ranges) >= sum(e - s for _, s, e in (first, second)) - 2
    assert {first[0], second[0]} == {number for number, _, _ in ranges}


def test_probabilities_of_a_text_share_what_it_has(weights: Path) -> None:
    model = refiner(weights).model
    long = tuple(f"The mill was built in {year}. " for year in range(1700, 1780))  # several windows
    whole, alone, many = model.read([(QUESTION, "The mill. ", "The sea."), (QUESTION, "The sea."), (QUESTION, *long)])
    assert whole.shape == (2,)
    assert 0 < whole.sum() <= 1.001
    assert 0 < alone[0] <= 1
    assert many.shape == (80,)
    assert (many > 0).all()


def test_what_cannot_be_read_is_defined(weights: Path) -> None:
    blank = Hit("Blank", "  \n ", 7, 0, 4, ((0, 4),))
    marks = hit(8, "... ", "!!!")
    rewritten = Hit("Proposition", "The mill stands.", 9, 0, 0)
    made = refined(weights, [[], [blank], [marks], [rewritten], [blank, HITS[2]]], threshold=0.0)
    assert [len(contexts) for contexts in made.contexts] == [0, 0, 1, 1, 1]
    assert made.contexts[3][0].origin == ()
    assert made.contexts[2][0].origin == ((8, 0, 7),)
    assert refiner(weights).refine([], []).contexts == []
    question = "Who founded the mill by the river? " * 40  # longer than is read
    assert refiner(weights).refine([question], [HITS]).contexts[0]
    assert refined(weights, max_words=2, text="titled").contexts[0] == []  # a title's words
    assert refined(weights, max_words=3, text="titled").contexts[0]
    assert refined(weights, [[HITS[0], HITS[0]]], threshold=0.0).notes["sentences"] == 4


def test_what_is_no_number_is_dropped_first(weights: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forward = FilterModel.forward

    def faulty(self: FilterModel, batch: Any) -> Any:
        token, window = forward(self, batch)
        return token, torch.where(batch.mask.sum(1) > 20, torch.nan, window)

    monkeypatch.setattr(FilterModel, "forward", faulty)
    assert {number for number, _, _ in origins(refined(weights, threshold=1.0))} == {3}
    assert len(refined(weights, max_words=1000).contexts[0]) == 3


texts = st.lists(st.text("abc mill.?é\n ", min_size=1, max_size=40), min_size=1, max_size=4)
made_hits = st.lists(texts, max_size=4).map(lambda all: [hit(number, *own) for number, own in enumerate(all)])


@settings(max_examples=12, deadline=None)
@given(st.lists(made_hits, min_size=1, max_size=4), st.integers(1, 30), st.booleans(), st.randoms())
def test_a_budget_holds_and_others_change_nothing(
    weights: Path, hits: list[list[Hit]], budget: int, words: bool, random: Any
) -> None:
    limits = {"max_words": budget} if words else {"max_tokens": budget}
    one = refiner(weights, **limits)
    questions = [f"Who is {number}?" for number in range(len(hits))]
    ticks: list[tuple[int, int]] = []
    made = one.refine(questions, hits, tick=lambda done, tokens: ticks.append((done, tokens)))
    assert sum(done for done, _ in ticks) == len(questions)
    assert sum(tokens for _, tokens in ticks) == made.tokens
    count = count_words if words else count_tokens
    for contexts in made.contexts:
        assert sum(count(evidence.text) for evidence in contexts) <= budget
        assert all(evidence.text for evidence in contexts)
    order = list(range(len(hits)))
    random.shuffle(order)
    mixed = one.refine([questions[number] for number in order], [hits[number] for number in order])
    assert [mixed.contexts[order.index(number)] for number in range(len(hits))] == made.contexts
    assert [one.refine([questions[n]], [hits[n]]).contexts[0] for n in range(len(hits))] == made.contexts


def test_a_hit_is_read_once_whatever_the_budget(weights: Path) -> None:
    with remembering(Memory()) as memory:
        first = refined(weights, max_words=40)
        again = refined(weights, max_words=5)
    assert first.tokens > 0
    assert again.tokens == 0
    assert len(memory.new) == len(HITS)
    assert again == Refined(refined(weights, max_words=5).contexts, 0, again.notes)


def test_bundled_weights_prefer_the_sentence_with_the_answer() -> None:
    options = Cxmi.Options(refiner="cxmi", **COMPUTING)
    mill = hit(1, "The mill was founded by Ada Norrin in 1742. ", "It stands by a river. ", "Many visit it.")
    other = hit(2, "The river is 120 km long. ", "Its water is cold.")
    one = Cxmi(options)
    made = one.refine([QUESTION], [[other, mill]])
    assert any("Ada Norrin" in evidence.text for evidence in made.contexts[0])
    values = one.model.read([(QUESTION, *(mill.text[s:e] for s, e in mill.sentences))])[0]
    assert np.argmax(values) == 0


def test_weights_that_are_missing_or_of_another_model_name_the_remedy(weights: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"leave refine\.model out .*vitalfew train cxmi --out"):
        refiner(tmp_path / "nowhere")
    for file in weights.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / SETTINGS).write_text("{}")
    with pytest.raises(UnsupportedModel, match=r"does not name its base; leave refine\.model out"):
        refiner(tmp_path)
    from vitalfew.tasks.models.weights import shipped

    with pytest.raises(UnsupportedModel, match="does not fit"):
        refined(shipped("reader"))
