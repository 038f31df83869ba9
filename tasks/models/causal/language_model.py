"""A language model on this machine: its files, its tokenizer with the chat template, the limit of a prompt, its engine.

Nothing is downloaded: a hub name is looked up in the local Hugging Face cache, with HF_HUB_OFFLINE set or not.

The presets (configs/models.yaml) are SmolLM2 (smollm2.py) and the language models of ParetoRAG's appendix E.1. Vicuna
1.3 has no chat template: a model or directory with "vicuna" in its name gets the roles of its conversations,
USER and ASSISTANT, without an introduction. Its weights are published as pickles, so that it takes a copy in
safetensors, named as a directory. The paper's four were not available during development: tests use a tiny Llama.
"""

import math
from abc import abstractmethod
from collections.abc import Container, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from transformers import PretrainedConfig, PreTrainedTokenizerBase

from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.causal.adapters import Adapter
from vitalfew.tasks.models.causal.engines.base import (
    Completion,
    Engine,
    EngineUnavailable,
    JsonSchema,
    LocalOptions,
    Probe,
    failed,
    sampling_seed,
    without_thought,
)
from vitalfew.tasks.models.causal.engines.memory import kept_batch, keys_to_keep
from vitalfew.tasks.models.causal.halving import in_halves
from vitalfew.tasks.models.encoder.recipe import read_config, usable_positions
from vitalfew.tasks.models.files import IDENTIFYING, UnsupportedModel, digests, find_model, require_safetensors
from vitalfew.tasks.models.loading import loading
from vitalfew.tasks.models.presets import source_of
from vitalfew.tasks.models.ticks import Tick, no_tick

VICUNA = "{{ bos_token }}{% for turn in messages %}USER: {{ turn['content'] }} {% endfor %}ASSISTANT:"


class LocalModel:
    """A model's directory. It loads no weights.

    Raises EngineUnavailable, with the remedy, if the model is not on this machine or cannot be used.
    """

    def __init__(self, options: LocalOptions, section: str, length: str = "max_tokens") -> None:
        """For messages: `section` of the settings, and `length`, its name for max_tokens."""
        setting = f"{section}.model"
        if options.model is None:
            raise ConfigError(f"{setting} is not set; name a model: --set {setting}=NAME (Hugging Face) or a directory")
        self.options = options
        self.section = section
        self.length_setting = f"{section}.{length}"
        try:
            self.directory: Path = find_model(source_of("language model", options.model), setting)
            require_safetensors(self.directory, setting)
            self.config: PretrainedConfig = read_config(self.directory)
        except (FileNotFoundError, UnsupportedModel) as error:
            raise EngineUnavailable(str(error)) from None

    def files(self) -> dict[str, str]:
        """Checksum of every file that an answer depends on: settings, vocabulary, chat template, weights."""
        given = {"chat template": self.given_template} if self.given_template else {}
        return digests([self.directory], self.directory, (*IDENTIFYING, ".jinja")) | given

    @property
    def given_template(self) -> str | None:
        """Return a chat template for a model that needs and lacks one; None for all others."""
        names = (self.options.model or "", getattr(self.config, "_name_or_path", ""))
        is_vicuna = any("vicuna" in Path(name).name.lower() for name in names)
        return VICUNA if is_vicuna and not self.tokenizer.chat_template else None

    @property
    def is_chat(self) -> bool:
        """Return whether a prompt gets a chat template."""
        return bool(self.tokenizer.chat_template or self.given_template)

    @property
    def is_seq2seq(self) -> bool:
        return bool(self.config.is_encoder_decoder)

    @cached_property
    @loading()
    def tokenizer(self) -> PreTrainedTokenizerBase:
        from transformers import AutoTokenizer

        try:
            return AutoTokenizer.from_pretrained(self.directory, trust_remote_code=False, local_files_only=True)
        except (OSError, ValueError) as error:
            raise EngineUnavailable(f"{self.directory}: the tokenizer cannot be read ({error})") from None

    def encode(self, texts: Sequence[str], begun: str = "") -> list[list[int]]:
        """Return the token ids of every prompt, in the model's chat template if it has one. `begun`: the beginning of
        the answer, which the model then continues."""
        if not texts:
            return []
        if not self.is_chat:
            return self.tokenizer([f"{text}{begun}" for text in texts])["input_ids"]
        chats = [[{"role": "user", "content": text}] for text in texts]
        rendered = self.tokenizer.apply_chat_template(
            chats, chat_template=self.given_template, tokenize=False, add_generation_prompt=True
        )
        return self.tokenizer([f"{text}{begun}" for text in rendered], add_special_tokens=False)["input_ids"]

    @cached_property
    def prompt_limit(self) -> int | None:
        """The longest prompt in tokens, or None if nothing limits it.

        A causal model's context holds the answer as well. Raises ConfigError if the settings do not fit the model.
        """
        positions = self.positions
        room = positions if positions is None or self.is_seq2seq else positions - self.options.max_tokens
        if positions and (room is None or room < 1 or self.options.max_tokens > positions):
            raise ConfigError(
                f"{self.length_setting}={self.options.max_tokens} is too large: {self.directory} has room for "
                f"{positions} tokens, prompt and answer together"
            )
        asked = self.options.max_input_tokens
        if asked and room and asked > room:
            raise ConfigError(
                f"{self.section}.max_input_tokens={asked} is too large: {self.directory} takes at most {room} tokens"
            )
        stated = self.tokenizer.model_max_length  # 10^30 if a tokenizer has no limit
        if not self.is_seq2seq:
            stated -= self.options.max_tokens
        return asked or min((limit for limit in (room, stated) if limit and 0 < limit < 10**9), default=None)

    @property
    def positions(self) -> int | None:
        """The number of the model's positions; None if they are relative (T5)."""
        # For a model that also takes pictures: the positions of its text half.
        config = self.config.get_text_config()
        return usable_positions(config) or None

    def refusal(self, tokens: int) -> str:
        """Return the reason why a prompt of that many tokens cannot be answered; "" if it can."""
        if tokens == 0:
            return "the prompt is empty"
        limit = self.prompt_limit
        if limit is None or tokens <= limit:
            return ""
        return f"the prompt has {tokens} tokens; at most {limit} fit beside {self.options.max_tokens} of the answer"

    def probe_ids(self, probe: Probe) -> dict[str, int]:
        """The vocabulary ids of the probe's tokens.

        A token is an entry of the vocabulary in its exact spelling ("▁Yes", "ĠYes"), or a text that is one token.
        Raises ConfigError for anything else, and for a position that no answer reaches.
        """
        probe.check(self.options.max_tokens)
        vocabulary, found = self.tokenizer.get_vocab(), {}
        for token in probe.tokens:
            own = vocabulary.get(token)
            ids = self.tokenizer(token, add_special_tokens=False)["input_ids"] if own is None else [own]
            if len(ids) != 1:
                pieces = self.tokenizer.convert_ids_to_tokens(ids)
                raise ConfigError(f"probe {token!r} must be one token of {self.directory}, got {len(ids)} ({pieces})")
            found[token] = ids[0]
        return found

    def completion(
        self,
        prompt_tokens: int,
        tokens: Sequence[int],
        seconds: float,
        logprob: float,
        ends: Container[int],
        probabilities: Mapping[str, float],
    ) -> Completion:
        """Return the completion that these tokens are; `ends`: the tokens that end an answer."""
        if math.isnan(logprob):
            return self.no_numbers(prompt_tokens, seconds)
        text = without_thought(self.decode(tokens))
        reason = "stop" if tokens[-1] in ends and text is not None else "length"
        return Completion(text or "", prompt_tokens, len(tokens), seconds, logprob, reason, probabilities=probabilities)

    def no_numbers(self, prompt_tokens: int, seconds: float) -> Completion:
        return failed(f"the model gave NaN; --set {self.section}.precision=fp32 may help", prompt_tokens, seconds)

    def decode(self, ids: Sequence[int]) -> str:
        """Return the text without special tokens, and without half a character at a limit (as vLLM does)."""
        text = str(self.tokenizer.decode(list(ids), skip_special_tokens=True))
        return text.rstrip("\N{REPLACEMENT CHARACTER}").strip()


class LocalEngine(Engine):
    """An engine that runs a model on this machine. A subclass has `_load` and `_batch`."""

    options: LocalOptions
    local: LocalModel
    adapter: Adapter | None

    def _adapted(self) -> dict[str, Any]:
        return {"adapter": self.adapter.files()} if self.adapter else {}

    @property
    def vocabulary(self) -> Container[str]:
        return self.local.tokenizer.get_vocab()

    def complete(
        self, prompts: Sequence[str], probe: Probe | None = None, tick: Tick = no_tick, form: JsonSchema | None = None
    ) -> list[Completion]:
        """No model is held to `form`."""
        seeds = [sampling_seed(self.options.seed, prompt) for prompt in prompts]
        keys = keys_to_keep(self, prompts, probe)
        return self.complete_ids(self.local.encode(prompts), seeds, probe, tick, keys)

    def complete_ids(
        self,
        ids: Sequence[list[int]],
        seeds: Sequence[int],
        probe: Probe | None = None,
        tick: Tick = no_tick,
        keys: Sequence[str] = (),
    ) -> list[Completion]:
        """As `complete`, for prompts in the model's tokens. `seeds`: of the random numbers of every prompt; `keys`: of
        every request, by which finished batches are kept in the memory of this thread."""
        probed = self._probed(probe) if probe else {}
        counts = [len(tokens) for tokens in ids]
        refusals = [self._refusal(count) for count in counts]
        answers = {row: failed(why, counts[row]) for row, why in enumerate(refusals) if why}
        tick(len(answers), 0)
        todo = [row for row in range(len(ids)) if row not in answers]
        if todo:
            self._load()  # a model that cannot be loaded is not a fault of a prompt

        def run(rows: Sequence[int]) -> list[Completion]:
            return self._batch([ids[row] for row in rows], [seeds[row] for row in rows], probe, probed)

        for batch in self._batches([counts[row] for row in todo]):
            rows = [todo[place] for place in batch]
            done = kept_batch([keys[row] for row in rows] if keys else [], partial(in_halves, run, rows, counts))
            answers |= zip(rows, done, strict=True)
            tick(len(done), sum(answer.prompt_tokens + answer.completion_tokens for answer in done))
        return [answers[row] for row in range(len(ids))]

    def _probed(self, probe: Probe) -> dict[str, int]:
        return self.local.probe_ids(probe)

    def _refusal(self, tokens: int) -> str:
        return self.local.refusal(tokens)

    def _batches(self, lengths: Sequence[int]) -> Iterable[Sequence[int]]:
        """Choose the prompts that are computed together, by their lengths."""
        return [range(len(lengths))] if lengths else []

    @abstractmethod
    def _load(self) -> None:
        """Load the model unless it is loaded."""

    @abstractmethod
    def _batch(
        self, ids: Sequence[list[int]], seeds: Sequence[int], probe: Probe | None, probed: Mapping[str, int]
    ) -> list[Completion]:
        """Answer the prompts of a batch; their seconds are shares of the batch's time."""
