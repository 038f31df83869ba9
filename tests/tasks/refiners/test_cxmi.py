"""The refiner `cxmi`: what it keeps of the hits, by which probabilities, and where its weights are missing."""

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support import tiny_models
from tests.support.training import write_weights
from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.models.small.reader import FilterModel
from vitalfew.tasks.models.small.tuned import SETTINGS
from vitalfew.tasks.refiners.base import Hit, Refined
from vitalfew.tasks.refiners.cxmi import Cxmi

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


def test_the_threshold_is_that_of_the_weights_and_with_a_budget_none(weights: Path) -> None:
    assert refiner(weights).threshold == 0.2
    assert refiner(weights, max_words=50).threshold == refiner(weights, max_tokens=50).threshold == 0
    assert refiner(weights, max_words=50, threshold=0.4).threshold == 0.4
    scored = probabilities(weights, HITS)
    best = max(scored, key=scored.__getitem__)  # which is passed on in any case
    assert origins(refined(weights, threshold=1.0)) == [best]
    assert origins(refined(weights, max_words=2, text="unit"))[0][:2] == best[:2]


def test_probabilities_of_a_text_share_what_it_has(weights: Path) -> None:
    model = refiner(weights).model
    long = tuple(f"The mill was built in {year}. " for year in range(1700, 1780))  # several windows
    whole, alone, many = model.read([(QUESTION, "The mill. ", "The sea."), (QUESTION, "The sea."), (QUESTION, *long)])
    assert whole.shape == (2,)
    assert 0 < whole.sum() <= 1.001
    assert 0 < alone[0] <= 1
    assert many.shape == (80,)
    assert (many > 0).all()


def test_bundled_weights_prefer_the_sentence_with_the_answer() -> None:
    options = Cxmi.Options(refiner="cxmi", **COMPUTING)
    mill = hit(1, "The mill was founded by Ada Norrin in 1742. ", "It stands by a river. ", "Many visit it.")
    other = hit(2, "The river is 120 km long. ", "Its water is cold.")
    made = Cxmi(options).refine([QUESTION], [[other, mill]])
    assert any("Ada Norrin" in evidence.text for evidence in made.contexts[0])


def test_weights_that_are_missing_or_of_another_model_name_the_remedy(weights: Path, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"leave refine\.model out .*vitalfew train cxmi --out"):
        refiner(tmp_path / "nowhere")
    for file in weights.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    (tmp_path / SETTINGS).write_text("{}")
    with pytest.raises(UnsupportedModel, match=r"does not name its base; leave refine\.model out"):
        refiner(tmp_path)
