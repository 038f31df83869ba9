"""A real language model, SmolLM2, through the engines (make test-llm; with vLLM make test-vllm)."""

import os
import signal
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.support.real_model import smollm2_directory
from vitalfew.tasks.models.causal import smollm2
from vitalfew.tasks.models.causal.engines.transformers import Transformers

pytestmark = pytest.mark.llm

CAPITALS = {"France": "Paris", "Italy": "Rome", "Japan": "Tokyo"}
PROMPTS = [f"What is the capital of {country}? Answer in one word." for country in CAPITALS]
WEIGHTS = "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b"
"""SHA-256 of the converted model.safetensors."""
CONVERT = "from vitalfew.tasks.models.causal import smollm2; print('begun', flush=True); smollm2.convert()"


def options(kind: Any, **settings: Any) -> Any:
    chosen = {"precision": "fp32", "device": "cpu", "max_tokens": 40, "temperature": 0.0, **settings}
    return kind.Options(model=smollm2.NAME, **chosen)


def test_it_answers_and_ends_its_turn() -> None:
    smollm2_directory()
    engine = Transformers(options(Transformers), "generate")
    [ids] = engine.local.encode(PROMPTS[:1])
    assert engine.local.tokenizer.decode(ids).endswith("<|im_end|>\n<|im_start|>assistant\n")
    answers = engine.complete(PROMPTS)
    for answer, capital in zip(answers, CAPITALS.values(), strict=True):
        assert (answer.finish_reason, answer.error) == ("stop", "")
        assert capital in answer.text
        assert "<|im_end|>" not in answer.text
    alone = [engine.complete([prompt])[0] for prompt in PROMPTS]
    assert [each.text for each in alone] == [each.text for each in answers]


def test_a_conversion_that_is_killed_ends_with_the_same_bytes(tmp_path: Path) -> None:
    if packages := smollm2.missing():
        pytest.skip(f"{' and '.join(packages)} not installed (make setup-llm)")
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", CONVERT]
    folder = tmp_path / "vitalfew" / "models" / smollm2.place().name
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as killed:
        temporary = folder.with_name(f".{folder.name}.tmp")
        while killed.poll() is None and not temporary.exists():
            time.sleep(0.01)
        killed.send_signal(signal.SIGKILL)
    assert killed.returncode == -signal.SIGKILL
    assert not folder.exists()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert sha256((folder / "model.safetensors").read_bytes()).hexdigest() == WEIGHTS
    assert not temporary.exists()
