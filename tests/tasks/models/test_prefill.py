"""Prompts in one row, their head read once, give the tokens and probabilities of a plain padded batch."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, GenerationConfig

from tests.support import tiny_models
from vitalfew.tasks.models.causal import prefill
from vitalfew.tasks.models.causal.sampling import RowSampler

ROWS = st.lists(st.lists(st.integers(5, 60), min_size=1, max_size=12), min_size=1, max_size=6)
LIMIT = 3


@pytest.fixture(scope="module", params=["llama", "qwen_writer"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    directory: Path = getattr(tiny_models, request.param)(tmp_path_factory.mktemp(request.param))
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()


def sampler(rows: int) -> RowSampler:
    return RowSampler(0.0, list(range(rows)), torch.device("cpu"), range(60))


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, shared=st.lists(st.integers(5, 60), max_size=8), together=st.sampled_from([1, 16, 1024]))
@example(rows=[[5, 6], [5, 6]], shared=[7], together=1024)
def test_what_is_written_is_that_of_a_padded_batch(
    model: Any, rows: list[list[int]], shared: list[int], together: int
) -> None:
    ids = [shared + row for row in rows]
    width = max(map(len, ids))
    tokens = torch.tensor([[0] * (width - len(row)) + row for row in ids])
    mask = torch.tensor([[0] * (width - len(row)) + [1] * len(row) for row in ids])
    plain = GenerationConfig(max_new_tokens=LIMIT, do_sample=False, pad_token_id=0, eos_token_id=-1)
    plain.update(return_dict_in_generate=True, output_logits=True)
    due, found = sampler(len(ids)), sampler(len(ids))
    assert prefill.continues(model)
    with pytest.MonkeyPatch.context() as patch, torch.inference_mode():
        patch.setitem(prefill.TOGETHER, "cpu", together)
        padded = model.generate(input_ids=tokens, attention_mask=mask, generation_config=plain, logits_processor=[due])
        best = torch.stack(padded.logits).topk(2).values
        assume((best[..., 0] - best[..., 1] > 1e-4).all())  # rounding decides between two tokens that are as likely
        expected = padded.sequences[:, width:]
        written = prefill.continued(model, ids, found, LIMIT, set())
    assert written.tolist() == expected.tolist()
    places, probed = dict.fromkeys(map(str, range(60)), LIMIT - 1), {str(token): token for token in range(60)}
    for row in range(len(ids)):
        assert found.logprob(row, LIMIT) == pytest.approx(due.logprob(row, LIMIT), abs=1e-4)
        assert found.probabilities(row, places, probed) == pytest.approx(
            due.probabilities(row, places, probed), abs=1e-5
        )
