"""A real language model, SmolLM2, through its engine (make test-llm)."""

from hashlib import sha256

import pytest

from tests.support.real_model import smollm2_directory
from vitalfew.tasks.models.causal import smollm2
from vitalfew.tasks.models.causal.engines.transformers import Transformers

pytestmark = pytest.mark.llm

CAPITALS = {"France": "Paris", "Italy": "Rome", "Japan": "Tokyo"}
PROMPTS = [f"What is the capital of {country}? Answer in one word." for country in CAPITALS]
WEIGHTS = "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b"
"""SHA-256 of the converted model.safetensors."""


def test_it_answers_and_ends_its_turn() -> None:
    weights = (smollm2_directory() / "model.safetensors").read_bytes()
    assert sha256(weights).hexdigest() == WEIGHTS
    chosen = {"precision": "fp32", "device": "cpu", "max_tokens": 40, "temperature": 0.0}
    engine = Transformers(Transformers.Options.model_validate({"model": smollm2.NAME, **chosen}), "generate")
    [ids] = engine.local.encode(PROMPTS[:1])
    assert engine.local.tokenizer.decode(ids).endswith("<|im_end|>\n<|im_start|>assistant\n")
    answers = engine.complete(PROMPTS)
    for answer, capital in zip(answers, CAPITALS.values(), strict=True):
        assert (answer.finish_reason, answer.error) == ("stop", "")
        assert capital in answer.text
        assert "<|im_end|>" not in answer.text
    alone = [engine.complete([prompt])[0] for prompt in PROMPTS]
    assert [each.text for each in alone] == [each.text for each in answers]
