"""The contract of a policy: a network that writes a text from a question and some texts, action by action.

An action is a token of a vocabulary, or a place to copy from: what it stands for is the policy's own matter. Decoding
(tasks/models/small/decoding.py) and training know actions, their logits and the states that these are computed from.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.small.copied import Run


@dataclass(frozen=True)
class Source:
    """What a text is written from. `texts`: as they came; `tokens`: that are read, padding apart; `cut`: texts that
    were left out, the last ones, because all together were too long; `content`: the policy's own."""

    texts: tuple[str, ...]
    tokens: int
    cut: int
    content: Any


class Written(NamedTuple):
    """A text, and the parts of the source's texts that it consists of; none where it is not copied."""

    text: str
    runs: tuple[Run, ...] = ()


class Decoded(NamedTuple):
    """`logits` of the actions, float32 (n, steps, actions), −inf where one is not allowed; `states`, (n, steps, d)."""

    logits: Tensor
    states: Tensor


class Policy(nn.Module, ABC):
    """Every batch of sources is encoded once; the memory that comes of it is what is decoded from."""

    end: int
    """The action that ends a text."""
    width: int
    """Of its states."""
    frozen: bool
    """Whether memories are computed without gradients, so that the decoder alone learns."""

    def freeze(self) -> None:
        """Let the decoder alone learn from now on."""
        self.frozen = True

    def learn_last(self, layers: int) -> None:
        """Let the last so many layers of the encoder learn, and none below them. Raises ConfigError if it cannot."""
        raise ConfigError("sft.layers needs policy=copier; an encoder-decoder trains all its layers")

    def learning(self) -> dict[str, nn.Parameter]:
        """Those of `trained` that learn."""
        return self.trained()

    def held(self) -> AbstractContextManager[None]:
        """Within it, whatever of the weights can be computed ahead is computed once; gradients are whole after it."""
        return nullcontext()

    @abstractmethod
    def trained(self) -> dict[str, nn.Parameter]:
        """The parameters that are trained, by name."""

    @abstractmethod
    def decoder(self) -> dict[str, nn.Parameter]:
        """Of these the ones that are trained while it is frozen."""

    @abstractmethod
    def read(self, questions: Sequence[str], texts: Sequence[Sequence[str]]) -> list[Source]:
        """Tokens of questions, each with its texts, best first."""

    @abstractmethod
    def encode(self, sources: Sequence[Source]) -> Any:
        """The memory of a batch: an object with `of(rows)`, the memory of these rows in this order, and a `mask` with a
        row for each."""

    @abstractmethod
    def decode(self, memory: Any, actions: Tensor) -> Decoded:
        """Logits of every step, given the actions before it. `actions`: int64 (n, steps), padded with `end`."""

    @abstractmethod
    def start(self, memory: Any) -> Any:
        """The state of a decoding before its first step: an object with `of(rows)`."""

    def start_again(self, begun: Any, written: Sequence[Sequence[int]]) -> Any:
        """The state `begun`, which `start` gave, where other texts were written before, whose actions are not taken
        again. Raises ConfigError."""
        raise ConfigError("refine.texts above 1 needs a copier: an encoder-decoder would write the same text again")

    @abstractmethod
    def step(self, memory: Any, state: Any, last: Tensor | None) -> tuple[Tensor, Any]:
        """Logits of the next step (n, actions) and the state after it. `last`: the actions of the step before, (n,);
        None: there was none."""

    @abstractmethod
    def target(self, source: Source, text: str, runs: Sequence[Run]) -> list[int]:
        """The actions that write a text, `end` with them; empty if this policy cannot write it."""

    @abstractmethod
    def write(self, source: Source, actions: Sequence[int]) -> Written:
        """The text of actions."""

    @abstractmethod
    def known(self, memory: Any) -> tuple[Tensor, Tensor]:
        """The states of what was read (n, tokens, d), and which of them are no padding, bool (n, tokens)."""

    def log_probabilities(self, memory: Any, actions: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor, Tensor]:
        """Of given actions: their log-probabilities, whether there is one at a step, and the states before each; all
        (n, steps, …), float32, bool, float32."""
        padded, present = self.padded(actions)
        decoded = self.decode(memory, padded)
        chosen = decoded.logits.log_softmax(-1).gather(-1, padded[..., None])[..., 0]
        return chosen.masked_fill(~present, 0.0), present, decoded.states

    def padded(self, actions: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Actions as int64 (n, longest), and which of them are no padding."""
        longest = max(map(len, actions))
        device = next(self.parameters()).device
        rows = torch.tensor([[*own, *[self.end] * (longest - len(own))] for own in actions], device=device)
        lengths = torch.tensor([len(own) for own in actions], device=device)
        return rows, torch.arange(longest, device=device) < lengths[:, None]
