"""A row that is read on part by part has the surprises of the same row read at once, without a start token."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import tiny_models
from vitalfew.configs.options import Batching
from vitalfew.tasks.models.causal.surprise import Running, Surprise

COMPUTING: dict[str, Any] = {"device": "cpu", "precision": "fp32"}
PARTS = st.lists(st.tuples(st.lists(st.integers(5, 90), min_size=1, max_size=12), st.integers(0, 12)), max_size=5)


@pytest.fixture(scope="module", params=["llama", "gpt2"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Surprise:
    """The second is of those whose cache is not read on."""
    folder: Path = getattr(tiny_models, request.param)(tmp_path_factory.mktemp(request.param))
    return Surprise(str(folder), Batching(**COMPUTING), "refine")


@settings(deadline=None, max_examples=8)
@given(st.lists(st.integers(5, 90), max_size=4), PARTS)
def test_parts_have_the_surprises_of_the_whole(
    model: Surprise, before: list[int], parts: list[tuple[list[int], int]]
) -> None:
    counted: list[int] = []
    row, kept = Running(model, before, counted.append), [*before]
    for ids, keep in parts:
        keep = min(keep, len(ids))
        [due] = model.of([(kept, ids)], lambda tokens: None, started=False)
        assert row.of(ids, keep) == pytest.approx(due, abs=1e-4)
        kept += ids[:keep]
    assert sum(counted) >= sum(len(ids) for ids, _ in parts)
