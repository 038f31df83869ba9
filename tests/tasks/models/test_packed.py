"""The packed kernels: what the network computes, whatever the company and the order of the texts."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import tiny_models
from vitalfew.tasks.models.batches import batches
from vitalfew.tasks.models.encoder.bert import Bert, read_bert
from vitalfew.tasks.models.encoder.packed import PackedBert, packs

multiplies_bf16 = pytest.mark.skipif(
    not packs(torch.device("cpu"), torch.bfloat16), reason="oneDNN has no products in bf16 for this CPU"
)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Bert:
    model = read_bert(tiny_models.bert(tmp_path_factory.mktemp("models") / "bert"), "sdpa")
    assert model is not None
    return model.eval()


def expected(network: Bert, ids: list[list[int]]) -> torch.Tensor:
    with torch.inference_mode():
        return torch.cat([network(torch.tensor([tokens])).last_hidden_state[0] for tokens in ids])


texts = st.lists(st.lists(st.integers(5, 900), min_size=1, max_size=40), min_size=1, max_size=12)


@settings(max_examples=15, deadline=None)
@given(ids=texts, batch_tokens=st.sampled_from([16, 64, 480, 512]))
def test_packed_states_are_those_of_the_network(network: Bert, ids: list[list[int]], batch_tokens: int) -> None:
    """Also where there are more tokens than a batch should have, and where texts of one length are no neighbours."""
    found = PackedBert(network, torch.float32, batch_tokens)(ids)
    torch.testing.assert_close(found, expected(network, ids), atol=2e-5, rtol=1e-4)


@multiplies_bf16
@settings(max_examples=10, deadline=None)
@given(ids=texts)
def test_packed_states_in_bf16_are_close(network: Bert, ids: list[list[int]]) -> None:
    found, states = PackedBert(network, torch.bfloat16, 512)(ids), expected(network, ids)
    assert torch.cosine_similarity(found, states).min() > 0.99


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.bfloat16, marks=multiplies_bf16)])
def test_the_same_batch_has_the_same_bytes(network: Bert, dtype: torch.dtype) -> None:
    ids = [[7] * 30, [8, 9] * 6, [11] * 3]
    kernels = PackedBert(network, dtype, 128)
    assert torch.equal(kernels(ids), kernels(ids))
    assert torch.equal(kernels(ids), PackedBert(network, dtype, 128)(ids))


@given(lengths=st.lists(st.integers(1, 300), max_size=60), budget=st.integers(16, 600))
def test_batches_without_padding_are_a_partition_within_the_budget(lengths: list[int], budget: int) -> None:
    found = list(batches(lengths, budget, padded=False))
    assert sorted(row for rows in found for row in rows) == list(range(len(lengths)))
    ordered = [lengths[row] for rows in found for row in rows]
    assert ordered == sorted(lengths, reverse=True)
    for rows in found:
        assert len(rows) == 1 or sum(lengths[row] for row in rows) <= budget
    for rows, following in pairwise(found):  # no batch could have taken one more
        assert sum(lengths[row] for row in rows) + lengths[following[0]] > budget


@pytest.mark.parametrize(
    ("model", "kernels", "precision"),
    [
        ("bert", "packed", "fp32"),
        *(pytest.param(model, "packed", "bf16", marks=multiplies_bf16) for model in ("bert", "roberta")),
        ("roberta", "half", "bf16"),
        ("bert", "autocast", "bf16"),
    ],
)
def test_every_encoder_is_pooled_alike(tmp_path: Path, model: str, kernels: str, precision: str) -> None:
    """cls, mean, max and last of texts of several lengths, by any kernels."""
    from tests.tasks.encoders.test_transformer import TEXTS, cosines, encoder

    directory = getattr(tiny_models, model)(tmp_path / model)
    for pooling in ("mean", "cls", "last"):
        options: dict[str, Any] = {"pooling": pooling, "precision": precision}
        found = encoder("huggingface", directory, kernels=kernels, **options).encode(TEXTS).vectors
        exact = encoder("huggingface", directory, kernels="plain", **options).encode(TEXTS).vectors
        assert cosines(found, exact).min() > 0.995
