"""A sequence-to-sequence model that turns a text into another one: what refiners and propositionisers share.

It runs on the generator `transformers`: batches by tokens, sorted by length, and always the most probable token. Unlike
a question, a text that cannot be rewritten ends the run: no table has a place for its error, and a text left out would
pass for one that the model had nothing to say about. What is finished by then stays.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from configs.evaluation import GenerateConfig
from configs.loading import ConfigError
from configs.schema import Rewriting
from tasks.generators.base import Generation, GeneratorUnavailable, Prompt, Tick, no_tick
from tasks.generators.transformers import Transformers
from tasks.models.language_model import LocalModel


class RewritingFailed(ValueError):
    """A text that the model could not rewrite; the message says why and what to do."""


class Rewriter:
    """An encoder-decoder of Hugging Face. Loaded by the first text."""

    def __init__(
        self,
        config: Rewriting,
        section: str,
        *,
        method: str,
        presets: Mapping[str, str],
        max_new_tokens: int,
        max_input_tokens: int,
    ) -> None:
        """`section`: of the settings, for messages; the limits hold where `config` has none.

        Raises ConfigError, and GeneratorUnavailable where the model is not on this machine or is of another kind.
        """
        if config.model is None:
            raise ConfigError(
                f"{method!r} needs a model: --set {section}.model=NAME, one of {', '.join(presets)}, a Hugging Face "
                "name or a directory"
            )
        settings = GenerateConfig(
            generator="transformers",
            model=presets.get(config.model, config.model),
            temperature=0,
            max_tokens=config.max_new_tokens or max_new_tokens,
            device=config.device,
            precision=config.precision,
            batch_tokens=config.batch_tokens,
        )
        local = LocalModel(settings, section)
        if not local.is_seq2seq:
            raise GeneratorUnavailable(
                f"{local.directory} is no encoder-decoder, as {method!r} needs one: --set {section}.model=NAME"
            )
        self.section = section
        self.limit = config.max_input_tokens or min(max_input_tokens, local.positions or max_input_tokens)
        self.generator = Transformers(settings.model_copy(update={"max_input_tokens": self.limit}), section)
        self.uses_gpu = self.generator.uses_gpu
        self.workers = self.generator.workers

    def identity(self) -> dict[str, Any]:
        limits = {"max_new_tokens": self.generator.config.max_tokens, "max_input_tokens": self.limit}
        return {**self.generator.identity(), **limits}

    def fits(self, text: str) -> bool:
        return len(self.generator.local.encode([text])[0]) <= self.limit

    def fitted(self, text: str, frame: Callable[[str], str]) -> str:
        """`frame(text)`; where that is too long, with as much of the text's beginning as the model takes, up to the
        end of a word (where there are blanks)."""
        if self.fits(frame(text)):
            return frame(text)
        size = bisect_left(range(1, len(text) + 1), True, key=lambda size: not self.fits(frame(text[:size])))
        kept = _whole_words(text, size)
        while kept and not self.fits(frame(kept)):  # a part of a word may be more tokens than the word
            kept = _whole_words(kept, len(kept) - 1)
        return frame(kept)

    def rewrite(self, texts: Sequence[str], tick: Tick = no_tick) -> list[Generation]:
        """What the model makes of each text. Raises RewritingFailed."""
        made = self.generator.generate([Prompt(text, text) for text in texts], tick=tick)
        for text, each in zip(texts, made, strict=True):
            if each.error:
                start = text if len(text) < 80 else f"{text[:80]}…"
                raise RewritingFailed(
                    f"{self.section}: no text could be made of {start!r}: {each.error}. A longer input may be allowed "
                    f"with --set {self.section}.max_input_tokens=N, less memory taken with "
                    f"{self.section}.batch_tokens=N; what is finished is not done again"
                )
        return made


def _whole_words(text: str, size: int) -> str:
    """Its first `size` characters without the word that ends there unfinished, unless there is no other."""
    start = text[:size]
    if size < len(text) and not text[size].isspace() and (words := start.split()) and len(words) > 1:
        start = start[: start.rindex(words[-1])]
    return start.rstrip()
