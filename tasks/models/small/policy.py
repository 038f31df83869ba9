"""The contract of a policy: a network that writes a text from a question and some texts, action by action; decoding.

An action is a token of a vocabulary, or a place to copy from: what it stands for is the policy's own matter. Decoding
(`greedy`, `sample`, `beams`) and training know actions, their logits and the states that these are computed from.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.small.copied import CopiedRun


@dataclass(frozen=True)
class PolicySource:
    """What a text is written from. `texts`: as they came; `tokens`: that are read, padding apart; `cut`: texts that
    were left out, the last ones, because all together were too long; `content`: the policy's own."""

    texts: tuple[str, ...]
    tokens: int
    cut: int
    content: Any


class PolicyOutput(NamedTuple):
    """A text, and the parts of the source's texts that it consists of; none where it is not copied."""

    text: str
    runs: tuple[CopiedRun, ...] = ()


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
    """Return whether memories are computed without gradients, so that the decoder alone learns."""

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
    def read(self, questions: Sequence[str], texts: Sequence[Sequence[str]]) -> list[PolicySource]:
        """Tokens of questions, each with its texts, best first."""

    @abstractmethod
    def encode(self, sources: Sequence[PolicySource]) -> Any:
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
    def target(self, source: PolicySource, text: str, runs: Sequence[CopiedRun]) -> list[int]:
        """The actions that write a text, `end` with them; empty if this policy cannot write it."""

    @abstractmethod
    def write(self, source: PolicySource, actions: Sequence[int]) -> PolicyOutput:
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


class Drawn(NamedTuple):
    """Actions, `end` with them if it came before the limit, and the logarithm of their probability."""

    actions: list[int]
    logprob: float


class Sampling(NamedTuple):
    """From which actions a sample is drawn: the `top_k` most probable ones, and of these the fewest that have
    `top_p` of the probability."""

    top_k: int
    top_p: float


@torch.no_grad()
def greedy(policy: Policy, memory: Any, limit: int, least: int = 0, texts: int = 1) -> list[Drawn]:
    """The most probable action at each step. `limit`, `least`: actions of a text, at most and before its end; `texts`:
    so many are written for each row, each of what those before left, and stand one behind another in its actions."""
    begun = policy.start(memory)
    whole = _run(policy, memory, begun, limit, least, _most_probable)
    for _ in range(texts - 1):
        again = policy.start_again(begun, [one.actions for one in whole])
        more = _run(policy, memory, again, limit, least, _most_probable)
        whole = [Drawn(a.actions + b.actions, a.logprob + b.logprob) for a, b in zip(whole, more, strict=True)]
    return whole


@torch.no_grad()
def sample(
    policy: Policy, memory: Any, seeds: Sequence[int], limit: int, sampling: Sampling, least: int = 0
) -> list[Drawn]:
    """One sample for each row, by its own seed, so that it does not depend on its batch. The log-probability is that of
    the whole distribution, of which the samples see a part."""
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]

    def choose(logits: Tensor, rows: Sequence[int]) -> Tensor:
        uniform = torch.stack([torch.rand((), generator=draws[row], dtype=torch.float64) for row in rows])
        return _drawn(logits, uniform.to(logits.device), sampling)

    return _run(policy, memory, policy.start(memory), limit, least, choose)


def _most_probable(logits: Tensor, rows: Sequence[int]) -> Tensor:
    return logits.argmax(-1)


def _drawn(logits: Tensor, uniform: Tensor, sampling: Sampling) -> Tensor:
    """An action of each row of logits (n, actions), by a uniform number (n,)."""
    kept, actions = logits.double().topk(min(sampling.top_k, logits.shape[-1]), -1)
    shares = kept.softmax(-1)
    before = shares.cumsum(-1) - shares
    shares = shares.masked_fill(before >= sampling.top_p, 0.0)
    cumulated = shares.cumsum(-1) / shares.sum(-1, keepdim=True)
    place = (cumulated <= uniform[:, None]).sum(-1).clamp(max=kept.shape[-1] - 1)
    place = torch.minimum(place, (shares > 0).sum(-1) - 1)
    return actions.gather(-1, place[:, None])[:, 0]


def _run(
    policy: Policy,
    memory: Any,
    state: Any,
    limit: int,
    least: int,
    choose: Callable[[Tensor, Sequence[int]], Tensor],
) -> list[Drawn]:
    """Every row of the memory until its end or the limit. Rows that have ended are left out as soon as they are half of
    those that are computed: the others' memory is copied for that, which takes about as long as a step."""
    rows = list(range(len(memory.mask)))
    last: Tensor | None = None
    actions: list[list[int]] = [[] for _ in rows]
    sums = [0.0] * len(rows)
    for number in range(limit):
        logits, state = policy.step(memory, state, last)
        last = choose(unended(logits, policy.end) if number < least else logits, rows)
        logprobs = logits.log_softmax(-1).gather(-1, last[:, None])[:, 0].tolist()
        for row, action, logprob in zip(rows, last.tolist(), logprobs, strict=True):
            if actions[row][-1:] != [policy.end]:
                actions[row].append(action)
                sums[row] += logprob
        going = [place for place, row in enumerate(rows) if actions[row][-1] != policy.end]
        if not going:
            break
        if 2 * len(going) <= len(rows):
            rows, last = [rows[place] for place in going], last[going]
            memory, state = memory.of(going), state.of(going)
    return [Drawn(own, total) for own, total in zip(actions, sums, strict=True)]


def unended(logits: Tensor, end: int) -> Tensor:
    """Logits without the end, except where nothing else is allowed."""
    without = logits.clone()
    without[:, end] = -torch.inf
    return torch.where(without.max(-1, keepdim=True).values > -torch.inf, without, logits)


@torch.no_grad()
def beams(policy: Policy, memory: Any, rows: int, limit: int, width: int) -> list[list[Drawn]]:
    """The `width` best texts of each row by beam search, best first by log-probability per action; fewer where fewer
    can be written. A row ends when so many texts have ended."""
    wide = [row for row in range(rows) for _ in range(width)]
    memory = memory.of(wide)
    state = policy.start(memory)
    last: Tensor | None = None
    sums = torch.full((rows, width), -torch.inf, dtype=torch.float64)
    sums[:, 0] = 0.0
    written: list[list[list[int]]] = [[[] for _ in range(width)] for _ in range(rows)]
    ended: list[list[Drawn]] = [[] for _ in range(rows)]
    for _ in range(limit):
        logits, state = policy.step(memory, state, last)
        totals = sums[..., None] + logits.log_softmax(-1).double().cpu().view(rows, width, -1)
        count = logits.shape[-1]
        best, places = totals.view(rows, -1).topk(min(2 * width, width * count), -1)
        sums = torch.full((rows, width), -torch.inf, dtype=torch.float64)
        origin, chosen = [row * width for row in range(rows) for _ in range(width)], [policy.end] * (rows * width)
        for row in range(rows):
            grown: list[list[int]] = []
            for total, place in zip(best[row].tolist(), places[row].tolist(), strict=True):
                beam, action = divmod(place, count)
                if total == -torch.inf or len(ended[row]) >= width or len(grown) == width:
                    break
                if action == policy.end:
                    ended[row].append(Drawn([*written[row][beam], action], total))
                    continue
                sums[row, len(grown)] = total
                origin[row * width + len(grown)], chosen[row * width + len(grown)] = row * width + beam, action
                grown.append([*written[row][beam], action])
            written[row] = [*grown, *[[] for _ in range(width - len(grown))]]
        if not (sums > -torch.inf).any():
            break
        state, memory = state.of(origin), memory.of(origin)
        last = torch.tensor(chosen, device=logits.device)
    return [_best(row, ended[row], written[row], sums[row].tolist(), width) for row in range(rows)]


def _best(row: int, ended: list[Drawn], written: list[list[int]], sums: list[float], width: int) -> list[Drawn]:
    """The best of those that have ended and those that the limit ended."""
    whole = [*ended, *(Drawn(own, total) for own, total in zip(written, sums, strict=True) if total > -torch.inf)]
    return sorted(whole, key=lambda drawn: -drawn.logprob / max(1, len(drawn.actions)))[:width]
