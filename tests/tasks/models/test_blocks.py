"""Caches that are read on, in fp32: blocks against one pass with a block mask."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from tests.support.tiny_models import llama, qwen_writer
from vitalfew.tasks.models.causal.blocks import BlockModel, Row
from vitalfew.tasks.models.causal.sampling import RowSampler

CPU = torch.device("cpu")
TAIL, CONTROL = [7, 8, 9], [11, 12]
ALL = -1
token = st.integers(6, 390)
texts = st.lists(st.lists(token, min_size=1, max_size=9), min_size=1, max_size=5)


@pytest.fixture(scope="module", params=[llama, qwen_writer], ids=["llama", "qwen2"])
def network(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    make: Callable[[Path], Path] = request.param
    directory = make(tmp_path_factory.mktemp("network"))
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()


def block_model(network: Any, batch_tokens: int = 64) -> BlockModel:
    return BlockModel(network, CPU, batch_tokens, {3})


def masked(network: Any, pieces: list[tuple[list[int], int, int]]) -> torch.Tensor:
    """Logits of one pass over pieces, each its tokens, its first place and its owner: a piece sees what has its owner
    or the owner 0, and that of ALL sees everything."""
    owners = torch.tensor([owner for ids, _, owner in pieces for _ in ids])
    sees = ((owners[:, None] == owners) | (owners == 0) | (owners == ALL)[:, None]).tril()
    with torch.inference_mode():
        return network(
            input_ids=torch.tensor([[token for ids, _, _ in pieces for token in ids]]),
            attention_mask=torch.where(sees, 0.0, torch.finfo(torch.float32).min)[None, None],
            position_ids=torch.tensor([[first + place for ids, first, _ in pieces for place in range(len(ids))]]),
        ).logits[0]


@settings(max_examples=15)
@given(prefix=st.lists(token, min_size=1, max_size=6), parts=texts, batch=st.sampled_from([1, 40, 1000]))
def test_rows_are_one_masked_pass(network: Any, prefix: list[int], parts: list[list[int]], batch: int) -> None:
    reads = block_model(network, batch).read([Row(prefix, part, TAIL) for part in parts], [20, 21])
    blocks = [(part + TAIL, len(prefix), number) for number, part in enumerate(parts, 1)]
    logits = masked(network, [(prefix, 0, 0), *blocks]).log_softmax(-1)
    end = len(prefix) - 1
    for part, read in zip(parts, reads, strict=True):
        end += len(part) + len(TAIL)
        torch.testing.assert_close(read.logprobs, logits[end, [20, 21]], atol=1e-4, rtol=0)


@settings(max_examples=15)
@given(prefix=st.lists(token, min_size=1, max_size=6), parts=texts)
def test_what_follows_attends_to_prefix_and_blocks(network: Any, prefix: list[int], parts: list[list[int]]) -> None:
    model = block_model(network)
    held = len(prefix) + sum(map(len, parts))
    cache = model.joined([model.read([Row(prefix, part, TAIL) for part in parts])], [len(prefix)], 8)
    assert cache.get_seq_length() == held
    sampler = RowSampler(0.0, [0], CPU, range(400))
    [written] = model.write(cache, torch.tensor([CONTROL]), [held], sampler, 2)
    blocks = [(part, len(prefix), number) for number, part in enumerate(parts, 1)]
    logits = masked(network, [(prefix, 0, 0), *blocks, (CONTROL, held, ALL)])[-1]
    got = sampler.probabilities(0, {str(number): 0 for number in range(400)}, {str(n): n for n in range(400)})
    torch.testing.assert_close(torch.tensor(list(got.values())), logits.softmax(-1), atol=1e-4, rtol=0)
    assert written.ids[0] == int(logits.argmax())
