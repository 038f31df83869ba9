"""The `vllm` generator on a real engine, and `openai` on a real `vllm serve`, with a tiny Llama (make test-vllm)."""

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
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from configs.evaluation import GenerateConfig
from configs.loading import ConfigError
from tasks.generators.base import Generation, GeneratorUnavailable, Probe, Prompt
from tasks.generators.openai import OpenAI
from tasks.generators.reflection import JUDGEMENTS, ON_DEMAND, freed
from tasks.generators.transformers import Transformers
from tasks.generators.vllm import Vllm
from tests.support import tiny_models
from tests.tasks.generators.test_reflection import TEXTS as REFLECTING
from tests.tasks.generators.test_reflection import TOKENS

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(importlib.util.find_spec("vllm") is None, reason="vllm is not installed (make setup-vllm)"),
]

TEXTS = ["Who founded it?", "Where does the river rise? " * 3, "The mill", "120 km to the sea; " * 6, "hills", ""]
PROBE = Probe((" mill", "he", "<|end|>"), position=3)


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
    generator = Vllm(config(llama))
    assert generator.engine.model_config.max_model_len == 256
    yield generator
    generator.close()


def config(model: Path, **settings: Any) -> GenerateConfig:
    chosen = {"precision": "fp32", "device": "cpu", "max_tokens": 12, "temperature": 0.0, **settings}
    return GenerateConfig(generator="vllm", model=str(model), **chosen)


def sharing(started: Vllm, model: Path, **settings: Any) -> Vllm:
    """Another generator on the same engine."""
    generator = Vllm(config(model, **settings))
    generator.__dict__["engine"] = started.engine
    return generator


def prompts(*texts: str) -> list[Prompt]:
    return [Prompt(text, text) for text in texts]


def content(answers: list[Generation]) -> list[tuple[str, int, int, str, str]]:
    return [(a.text, a.prompt_tokens, a.completion_tokens, a.finish_reason, a.error) for a in answers]


def assert_alike(some: list[Generation], others: list[Generation]) -> None:
    """The same answers, and the same log probabilities and probabilities but for rounding."""
    assert content(some) == content(others)
    assert [each.logprob for each in some] == pytest.approx([each.logprob for each in others], abs=1e-3)
    for one, other in zip(some, others, strict=True):
        assert dict(one.probabilities) == pytest.approx(dict(other.probabilities), rel=1e-3)


def test_it_answers_as_transformers_does(started: Vllm, llama: Path) -> None:
    answers = started.generate(prompts(*TEXTS), PROBE)
    assert_alike(answers, Transformers(config(llama)).generate(prompts(*TEXTS), PROBE))
    for answer in answers:
        assert 0 < sum(answer.probabilities.values()) <= 1
        assert answer.seconds > 0
    assert_alike(answers, [started.generate(prompts(text), PROBE)[0] for text in TEXTS])


def test_sampling_does_not_depend_on_the_batch(started: Vllm, llama: Path) -> None:
    warm = sharing(started, llama, temperature=1.0)
    together = warm.generate(prompts(*TEXTS))
    assert content(together) == content([warm.generate(prompts(text))[0] for text in TEXTS])
    # More tokens than the engine takes in by one step.
    many = prompts(*(f"{number} " + "The mill still stands. " * 30 for number in range(80)))
    answers = warm.generate(many)
    assert sum(each.prompt_tokens for each in answers) > 8192
    assert content(answers[::16]) == content([warm.generate([each])[0] for each in many[::16]])
    assert content(together) != content(sharing(started, llama, temperature=1.0, seed=1).generate(prompts(*TEXTS)))


def test_a_prompt_that_is_too_long_is_a_row(started: Vllm) -> None:
    told: list[tuple[int, int]] = []
    first, long, last = started.generate(prompts("hills", "mill " * 400, "sea"), tick=lambda *done: told.append(done))
    assert "244 at most" in long.error
    assert (first.error, last.error) == ("", "")
    assert told == [(3, sum(each.prompt_tokens + each.completion_tokens for each in (first, long, last)))]
    assert started.generate(prompts("mill " * 400))[0].error == long.error
    assert started.generate([]) == []


def test_a_context_shorter_than_the_models(started: Vllm, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(started.engine.model_config, "max_model_len", 40)
    short, long = sharing(started, llama).generate(prompts("hills", TEXTS[3]))
    assert (short.error, "the memory that vLLM was given has room for 28" in long.error) == ("", True)


def test_one_prompt_that_vllm_refuses(started: Vllm, llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = sharing(started, llama)
    expected = generator.generate(prompts(*TEXTS))
    encode = generator.local.encode
    monkeypatch.setattr(generator.local, "encode", lambda texts: [*encode(texts[:-1]), [10**6]])
    answers = generator.generate(prompts(*TEXTS))
    assert content(answers[:-1]) == content(expected[:-1])
    assert "out of vocabulary" in answers[-1].error


def test_an_engine_that_is_killed_is_started_again(started: Vllm) -> None:
    expected = started.generate(prompts(*TEXTS))
    for process in psutil.Process().children(recursive=True):
        if "EngineCore" in process.name() or "EngineCore" in " ".join(process.cmdline()):
            process.send_signal(signal.SIGKILL)
    assert content(started.generate(prompts(*TEXTS))) == content(expected)


def test_an_engine_that_keeps_dying_gives_rows(llama: Path) -> None:
    from vllm.v1.engine.exceptions import EngineDeadError

    starts: list[int] = []

    def die(*_: Any, **__: Any) -> None:
        raise EngineDeadError

    class Dying(Vllm):
        @property
        def engine(self) -> Any:
            starts.append(1)
            llm = SimpleNamespace(engine_core=SimpleNamespace())
            return SimpleNamespace(generate=die, llm_engine=llm, model_config=SimpleNamespace(max_model_len=256))

    answers = Dying(config(llama)).generate(prompts(*TEXTS))
    assert {answer.error for answer in answers} == {"the engine of vLLM died twice over this batch"}
    assert answers[0].prompt_tokens > 0


def test_what_cannot_be_is_named(tmp_path: Path, llama: Path, started: Vllm) -> None:
    with pytest.raises(GeneratorUnavailable, match="encoder-decoder"):
        Vllm(config(tiny_models.bart(tmp_path / "bart")))
    with pytest.raises(ConfigError, match=r"'river bank' is .* tokens"):
        started.generate(prompts("a"), Probe(("river bank",)))
    with pytest.raises(ConfigError, match="128 at most"):
        started.generate(prompts("a"), Probe(tuple(map(str, range(129)))))
    identity = started.identity()
    assert identity["vllm"][0].isdigit()
    assert "model.safetensors" in identity["files"]


def test_reflection_tokens_are_read_as_transformers_reads_them(tmp_path: Path) -> None:
    model = tiny_models.llama(tmp_path / "selfrag", chat=False, tokens=TOKENS)
    settings = {"max_tokens": 40, "reflection": {}}
    asked = prompts(*REFLECTING)
    generator = Vllm(config(model, **settings))
    try:
        found = generator.generate(asked, JUDGEMENTS)
        due = Transformers(config(model, **settings)).generate(asked, JUDGEMENTS)
        assert sum(len(each.probabilities) > 0 for each in found) > 2
        assert [each.completion_tokens for each in found] == [each.completion_tokens for each in due]
        for one, other in zip(found, due, strict=True):
            assert freed(one.text) == freed(other.text)
            assert dict(one.probabilities) == pytest.approx(dict(other.probabilities), rel=1e-3)
        on_demand = generator.generate(asked, ON_DEMAND)
        assert all(0 < sum(each.probabilities.values()) < 1 for each in on_demand)
    finally:
        generator.close()


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
        server.wait(60)


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
    served: str, started: Vllm, llama: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings = {"generator": "openai", "model": "tiny", "base_url": served, "max_tokens": 12}
    for temperature in (0.0, 1.0):
        generator = OpenAI(GenerateConfig(**settings, temperature=temperature))
        engine = sharing(started, llama, temperature=temperature)
        assert_alike(generator.generate(prompts(*TEXTS)), engine.generate(prompts(*TEXTS)))
    greedy = OpenAI(GenerateConfig(**settings, temperature=0.0))
    assert_alike(greedy.generate(prompts(*TEXTS), PROBE), started.generate(prompts(*TEXTS), PROBE))
    first, long, last = greedy.generate(prompts("hills", "mill " * 400, "sea"))
    assert "maximum context length" in long.error
    assert (first.error, last.error) == ("", "")
    with pytest.raises(ConfigError, match=r"'river bank' is .* tokens"):
        greedy.generate(prompts("a"), Probe(("river bank",)))
    [unknown] = OpenAI(GenerateConfig(**{**settings, "model": "other"})).generate(prompts("a"))
    assert "other" in unknown.error


def test_a_lora_adapter(llama: Path, tmp_path: Path) -> None:
    """Of rank 12, for which vLLM has no room of its own: it takes that of 16."""
    lora = tiny_models.lora(tmp_path / "lora", llama, rank=12)
    prompts = [Prompt(text, text) for text in TEXTS if text]
    generator = Vllm(config(llama, adapter=str(lora)))
    try:
        adapted = generator.generate(prompts)
    finally:
        generator.close()
    merged = config(tiny_models.merged(tmp_path / "merged", llama, lora)).model_copy(
        update={"generator": "transformers"}
    )
    expected = Transformers(merged).generate(prompts)
    assert [each.text for each in adapted] == [each.text for each in expected]
    assert [each.logprob for each in adapted] == pytest.approx([each.logprob for each in expected], abs=1e-2)
    assert [each.text for each in adapted] != [each.text for each in Vllm(config(llama)).generate(prompts)]
    with pytest.raises(GeneratorUnavailable, match="rank 1000"):
        Vllm(config(llama, adapter=str(tiny_models.lora(tmp_path / "large", llama, rank=1000)))).generate(prompts)
