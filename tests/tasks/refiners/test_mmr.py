"""Refiner `mmr`: its formula by hand, and with vectors by MiniLM."""

import numpy as np

from vitalfew.tasks.encoders.transformer import MiniLM
from vitalfew.tasks.refiners.base import Hit, Vectors
from vitalfew.tasks.refiners.whole_hits import Mmr, mmr


def vectors(questions: list[tuple[list[int], list[list[int]]]]) -> Vectors:
    return Vectors(
        np.array([question for question, _ in questions], np.float32),
        [np.array(hits, np.float32).reshape(-1, 3) for _, hits in questions],
    )


def test_equal_hits_keep_their_order_and_likeness_counts_against_them() -> None:
    questions = [([1, 0, 0], [[1, 0, 0], [1, 0, 0], [1, 1, 0]])]
    assert mmr(vectors(questions), 1.0) == [[0, 1, 2]]
    # The third has 0.2 * cos 45° = 0.14 where the second has 0.6 - 0.4 = 0.2; and -0.14 where it has -0.2.
    assert mmr(vectors(questions), 0.6) == [[0, 1, 2]]
    assert mmr(vectors(questions), 0.4) == [[0, 2, 1]]
    assert mmr(vectors([([1, 0, 0], []), *questions]), 0.4, 2) == [[], [0, 2]]


def test_minilm_tells_likeness_where_it_is_asked_to() -> None:
    river = "The river Ouse rises in the hills."
    texts = [river, river, "The mill was founded in 1850.", "The Ouse flows to the sea."]
    refiner = Mmr(Mmr.Options(refiner="mmr", vectors="minilm", top_k=3, mmr_lambda=0.5))
    assert not refiner.needs_vectors
    hits = [[Hit("", text, 1, 0, len(text)) for text in texts], []]
    found = refiner.refine(["In which hills does the river Ouse rise?", "Who?"], hits).contexts
    assert [context.text for context in found[0]].count(river) == 1
    assert (found[0][0].text, found[1]) == (river, [])
    assert refiner.identity()["encoder"]["files"] == MiniLM(MiniLM.Options()).identity()["files"]
