"""A language model that rewrites a text, an encoder-decoder or a causal one, shared by refiners and propositionisers.

It runs on the engine `transformers`: batches by tokens, sorted by length, and always the most probable token. A failed
question becomes a row with an error, but a text that cannot be rewritten ends the run: no table has a column for its
error, and without a row it would look like a text for which the model writes nothing. Finished shards are kept.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.options import Rewriting
from vitalfew.tasks.models.causal.engines.base import Completion, EngineUnavailable
from vitalfew.tasks.models.causal.engines.transformers import Transformers
from vitalfew.tasks.models.causal.language_model import LocalModel
from vitalfew.tasks.models.ticks import Tick, no_tick


class RewritingFailed(ValueError):
    """A text that the model could not rewrite; the message says why and what to do."""


class Rewriter:
    """An encoder-decoder of Hugging Face, or a causal model with or without an adapter. The first text loads it."""

    def __init__(
        self,
        options: Rewriting,
        section: str,
        *,
        method: str,
        presets: Mapping[str, str],
        max_new_tokens: int,
        max_input_tokens: int,
        causal: bool = False,
    ) -> None:
        """`section`: of the settings, for messages; the limits apply where `options` set no others; `causal`: the model
        must be a causal one, not an encoder-decoder. An `adapter` in `options` is merged into it.

        Raises ConfigError, and EngineUnavailable if the model is not on this machine or has another architecture.
        """
        if options.model is None:
            raise ConfigError(
                f"{method!r} needs a model: --set {section}.model=NAME, one of {', '.join(presets)}, a Hugging Face "
                "name or a directory"
            )
        chosen = Transformers.Options(
            model=presets.get(options.model, options.model),
            temperature=0,
            max_tokens=options.max_new_tokens or max_new_tokens,
            **options.model_dump(include={"device", "precision", "batch_tokens", "adapter"}),
        )
        local = LocalModel(chosen, section)
        if local.is_seq2seq == causal:
            due = "a causal model" if causal else "an encoder-decoder"
            raise EngineUnavailable(
                f"{local.directory} is not {due}, which {method!r} needs: --set {section}.model=NAME"
            )
        self.section = section
        written = chosen.max_tokens if causal else 0  # a causal model's positions hold what it writes as well
        room = local.positions - written if local.positions else max_input_tokens
        self.limit = options.max_input_tokens or min(max_input_tokens, room)
        limited = chosen.model_copy(update={"max_input_tokens": self.limit})
        self.engine = Transformers(limited, section, length="max_new_tokens")
        self.uses_gpu, self.workers = self.engine.uses_gpu, self.engine.workers

    def identity(self) -> dict[str, Any]:
        limits = {"max_new_tokens": self.engine.options.max_tokens, "max_input_tokens": self.limit}
        return {**self.engine.identity(), **limits}

    def fits(self, text: str) -> bool:
        return len(self.engine.local.encode([text])[0]) <= self.limit

    def fitted(self, text: str, frame: Callable[[str], str]) -> str:
        """Return `frame(text)`; if that is too long, with the longest beginning of the text that the model takes, cut
        at the end of a word (if there are blanks)."""
        if self.fits(frame(text)):
            return frame(text)
        size = bisect_left(range(1, len(text) + 1), True, key=lambda size: not self.fits(frame(text[:size])))
        kept = _whole_words(text, size)
        while kept and not self.fits(frame(kept)):  # a part of a word may be more tokens than the word
            kept = _whole_words(kept, len(kept) - 1)
        return frame(kept)

    def rewrite(self, texts: Sequence[str], tick: Tick = no_tick) -> list[Completion]:
        """The model's outputs for the texts, in order. Raises RewritingFailed."""
        completions = self.engine.complete(texts, tick=tick)
        for text, completion in zip(texts, completions, strict=True):
            if completion.error:
                start = text if len(text) < 80 else f"{text[:80]}…"
                raise RewritingFailed(
                    f"{self.section}: the model could not rewrite {start!r}: {completion.error}. To allow longer "
                    f"input, --set {self.section}.max_input_tokens=N; to use less memory, --set "
                    f"{self.section}.batch_tokens=N. Finished work is not repeated"
                )
        return completions


def _whole_words(text: str, size: int) -> str:
    """The first `size` characters without an unfinished word at the end, unless that is the only word."""
    start = text[:size]
    if size < len(text) and not text[size].isspace() and (words := start.split()) and len(words) > 1:
        start = start[: start.rindex(words[-1])]
    return start.rstrip()
