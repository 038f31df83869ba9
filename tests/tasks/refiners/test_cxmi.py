"""The refiner `cxmi` with the bundled weights: what it keeps of the hits, and where weights are missing."""

import shutil
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.models.small.tuned import SETTINGS
from vitalfew.tasks.models.weights import shipped
from vitalfew.tasks.refiners.base import Hit, Refined
from vitalfew.tasks.refiners.cxmi import Cxmi

QUESTION = "Who founded the mill?"


def hit(number: int, *sentences: str, start: int = 0) -> Hit:
    """A hit of these sentences, in its passage from `start` on."""
    ends = [*accumulate(map(len, sentences), initial=start)]
    return Hit(f"Title {number}", "".join(sentences), number, start, ends[-1], tuple(pairwise(ends)))


HITS = [
    hit(1, "The river is 120 km long. ", "Its water is cold."),
    hit(2, "The mill was founded by Ada Norrin in 1742. ", "It stands by a river. ", "Many visit it.", start=40),
    hit(3, "The sea."),
]


def refiner(**options: Any) -> Cxmi:
    return Cxmi(Cxmi.Options(refiner="cxmi", device="cpu", precision="fp32", **options))


def refined(**options: Any) -> Refined:
    return refiner(**options).refine([QUESTION], [HITS])


def test_the_sentences_that_reach_the_threshold_are_passed_on_in_their_order() -> None:
    requests = [(QUESTION, *(own.text[s - own.start : e - own.start] for s, e in own.sentences)) for own in HITS]
    values = refiner().model.read(requests)
    places = [(own.passage_id, *span) for own in HITS for span in own.sentences]
    scored = dict(zip(places, np.concatenate(values).tolist(), strict=True))
    threshold = sorted(scored.values())[-3]
    made = refined(threshold=threshold)
    kept = [place for place, value in scored.items() if value >= threshold]
    ranges = [span for evidence in made.contexts[0] for span in evidence.origin]
    assert ranges == sorted(ranges)
    assert all(any(p == q and s >= t and e <= u for q, t, u in ranges) for p, s, e in kept)
    assert sum(end - start for _, start, end in ranges) == sum(end - start for _, start, end in kept)
    assert made.notes == {"sentences": 6, "passed": 3}
    # The best one is passed on in any case, and the best ones fill a budget.
    assert [context.origin for context in refined(threshold=1.0).contexts[0]] == [((2, 40, 84),)]
    assert refined(max_words=8, text="unit").contexts[0][0].text.startswith("The mill was")


def test_weights_that_are_missing_or_of_another_model_name_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"leave refine\.model out .*vitalfew train cxmi --out"):
        refiner(model=str(tmp_path / "nowhere"))
    weights = shutil.copytree(shipped("cxmi"), tmp_path / "cxmi")
    (weights / SETTINGS).write_text("{}")
    with pytest.raises(UnsupportedModel, match=r"does not name its base; leave refine\.model out"):
        refiner(model=str(weights))
