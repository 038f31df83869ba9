"""The engine `vllm` itself, and `openai` on a real `vllm serve`, with a tiny Llama (make test-vllm)."""

import importlib.util
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support import tiny_models
from vitalfew.storage.costs import Meter
from vitalfew.tasks.models.causal.engines.base import Completion, Probe
from vitalfew.tasks.models.causal.engines.openai import OpenAI
from vitalfew.tasks.models.causal.engines.transformers import Transformers
from vitalfew.tasks.models.causal.engines.vllm import Vllm

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vllm is not installed (make setup-vllm)"),
]

TEXTS = ["Who founded it?", "Where does the river rise? " * 3, "The mill", "120 km to the sea; " * 6, "hills", ""]
PROBE = Probe((" mill", "he", "<|end|>"), position=3)
GREEDY: dict[str, Any] = {"precision": "fp32", "device": "cpu", "max_tokens": 12, "temperature": 0.0}


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        yield


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def started(llama: Path) -> Iterator[Vllm]:
    engine = Vllm(Vllm.Options(model=str(llama), **GREEDY), "generate")
    assert engine.engine.model_config.max_model_len == 256
    yield engine
    engine.close()


@pytest.fixture
def warm(started: Vllm) -> Vllm:
    """Another one, which samples, on the same processes."""
    engine = Vllm(started.options.model_copy(update={"temperature": 1.0}), "generate")
    engine.__dict__["engine"] = started.engine
    return engine


def test_the_engines_own_process_is_in_the_cost(started: Vllm) -> None:
    this = psutil.Process()

    def spent(processes: list[psutil.Process]) -> float:
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    engine = this.children(recursive=True)
    before, engines = spent([this, *engine]), spent(engine)
    with Meter() as meter:
        started.complete([f"{number}. {text}" for number in range(40) for text in TEXTS])
    assert spent(engine) > engines
    assert meter.cost.cpu_seconds >= 0.9 * (spent([this, *engine]) - before)


def content(answers: list[Completion]) -> list[tuple[str, int, int, str, str]]:
    return [(a.text, a.prompt_tokens, a.completion_tokens, a.finish_reason, a.error) for a in answers]


def assert_alike(some: list[Completion], others: list[Completion]) -> None:
    """The same answers, and the same log probabilities and probabilities but for rounding."""
    assert content(some) == content(others)
    assert [each.logprob for each in some] == pytest.approx([each.logprob for each in others], abs=1e-3)
    for one, other in zip(some, others, strict=True):
        assert dict(one.probabilities) == pytest.approx(dict(other.probabilities), rel=1e-3)


def test_it_answers_as_transformers_does(started: Vllm, llama: Path) -> None:
    answers = started.complete(TEXTS, PROBE)
    assert_alike(
        answers, Transformers(Transformers.Options(model=str(llama), **GREEDY), "generate").complete(TEXTS, PROBE)
    )
    assert_alike(answers, [started.complete([text], PROBE)[0] for text in TEXTS])
    assert all(answer.seconds > 0 for answer in answers)


def test_sampling_does_not_depend_on_the_batch(warm: Vllm) -> None:
    assert content(warm.complete(TEXTS)) == content([warm.complete([text])[0] for text in TEXTS])


def test_an_engine_that_is_killed_is_started_again(started: Vllm) -> None:
    expected = started.complete(TEXTS)
    for process in psutil.Process().children(recursive=True):
        if "EngineCore" in process.name() or "EngineCore" in " ".join(process.cmdline()):
            process.send_signal(signal.SIGKILL)
    assert content(started.complete(TEXTS)) == content(expected)


@pytest.fixture(scope="module")
def served(llama: Path, tmp_path_factory: pytest.TempPathFactory, started: Vllm) -> Iterator[str]:
    """The base_url of vLLM's server with the same model."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    options = ["--host", "127.0.0.1", "--port", port, "--served-model-name", "tiny"]
    options += ["--dtype", "float32", "--enforce-eager", "--max-model-len", "256", "--no-enable-chunked-prefill"]
    log = tmp_path_factory.mktemp("serve") / "log"
    # What `vllm serve` runs: the command itself asks for the version of a package "vllm", and this one is "vllm-cpu".
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(llama), *options]
    with log.open("w") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "VLLM_NO_USAGE_STATS": "1"})
    try:
        _wait(f"http://127.0.0.1:{port}/health", server, log)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(300)


def _wait(url: str, server: subprocess.Popen, log: Path) -> None:
    for _ in range(600):
        assert server.poll() is None, log.read_text()[-3000:]
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(log.read_text()[-3000:])


def test_a_served_model_answers_as_the_engine_does(
    served: str, started: Vllm, warm: Vllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings = {"model": "tiny", "base_url": served, "max_tokens": 12}
    sampling = OpenAI(OpenAI.Options(**settings, temperature=1.0), "generate")
    assert_alike(sampling.complete(TEXTS), warm.complete(TEXTS))
    greedy = OpenAI(OpenAI.Options(**settings, temperature=0.0), "generate")
    assert_alike(greedy.complete(TEXTS, PROBE), started.complete(TEXTS, PROBE))
    first, long, last = greedy.complete(["hills", "mill " * 400, "sea"])
    assert "maximum context length" in long.error
    assert (first.error, last.error) == ("", "")
