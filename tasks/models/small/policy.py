"""The contract of a policy: a network that writes a text from a question and some texts, action by action; decoding.

An action is a token of a vocabulary, or a place to copy from; only the policy knows its meaning. Decoding (`greedy`,
`sample`, `beams`) and training know actions, their logits and the states that these are computed from.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.batches import padded_rows
from vitalfew.tasks.models.small.copied import CopiedRun


class PolicySource(NamedTuple):
    """The source of a text. `texts`: as given; `tokens`: how many are read, without padding; `cut`: how many of the
    last texts were left out, because all together were too long; `content`: for the policy alone."""

    texts: tuple[str, ...]
    tokens: int
    cut: int
    content: Any


class PolicyOutput(NamedTuple):
    """A text, and the parts of the source's texts that it consists of; none if it is not copied."""

    text: str
    runs: tuple[CopiedRun, ...] = ()


class Decoded(NamedTuple):
    """`logits` of the actions, float32 (n, steps, actions), −inf where one is not allowed; `states`, (n, steps, d)."""

    logits: Tensor
    states: Tensor


class Policy(nn.Module, ABC):
    """Every batch of sources is encoded once, into a memory from which texts are decoded."""

    end: int
    """The action that ends a text."""
    width: int
    """The width of its states."""
    frozen: bool
    """True if memories are computed without gradients, so that the decoder alone learns."""

    def freeze(self) -> None:
        """Let the decoder alone learn from now on; without effect for a policy that always learns as a whole."""
        self.frozen = True

    def learn_last(self, layers: int) -> None:
        """Let the last `layers` layers of the encoder learn, and none below. Raises ConfigError if it cannot."""
        raise ConfigError("sft.layers needs policy=copier; an encoder-decoder trains all its layers")

    def learning(self) -> dict[str, nn.Parameter]:
        """The parameters of `trained` that learn."""
        return self.trained()

    @abstractmethod
    def trained(self) -> dict[str, nn.Parameter]:
        """The parameters that are trained, by name."""

    @abstractmethod
    def decoder(self) -> dict[str, nn.Parameter]:
        """The parameters of `trained` that learn after `freeze`."""

    @abstractmethod
    def read(self, questions: Sequence[str], texts: Sequence[Sequence[str]]) -> list[PolicySource]:
        """The sources of questions with their texts, best first."""

    @abstractmethod
    def encode(self, sources: Sequence[PolicySource]) -> Any:
        """The memory of a batch: an object with `of(rows)`, the memory of these rows in this order, and a `mask` with
        as many rows."""

    @abstractmethod
    def decode(self, memory: Any, actions: Tensor) -> Decoded:
        """Logits of every step, given the actions before it. `actions`: int64 (n, steps), padded with `end`."""

    @abstractmethod
    def start(self, memory: Any) -> Any:
        """The state of a decoding before its first step: an object with `of(rows)`."""

    def start_again(self, begun: Any, written: Sequence[Sequence[int]]) -> Any:
        """The state `begun` of `start`, without the actions of texts that were written before. Raises ConfigError."""
        raise ConfigError("refine.texts above 1 needs a copier: an encoder-decoder would write the same text again")

    @abstractmethod
    def step(self, memory: Any, state: Any, last: Tensor | None) -> tuple[Tensor, Any]:
        """Logits of the next step (n, actions) and the state after it. `last`: the actions of the step before, (n,), or
        None."""

    @abstractmethod
    def target(self, source: PolicySource, text: str, runs: Sequence[CopiedRun]) -> list[int]:
        """The actions that write a text, `end` with them; empty if this policy cannot write it."""

    @abstractmethod
    def write(self, source: PolicySource, actions: Sequence[int]) -> PolicyOutput:
        """The text of actions."""

    @abstractmethod
    def known(self, memory: Any) -> tuple[Tensor, Tensor]:
        """The states of the input (n, tokens, d), and their mask, bool (n, tokens), False for padding."""

    @abstractmethod
    def files(self) -> dict[str, bytes]:
        """The files of a policy that was made for training, by name, as inference reads them."""

    def log_probabilities(self, memory: Any, actions: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor, Tensor]:
        """The log-probabilities of given actions, float32 (n, steps), their mask, bool (n, steps), and the states
        before them, float32 (n, steps, d)."""
        device = next(self.parameters()).device
        rows, mask = padded_rows(actions, self.end)
        padded, present = rows.to(device), mask.bool().to(device)
        decoded = self.decode(memory, padded)
        chosen = decoded.logits.log_softmax(-1).gather(-1, padded[..., None])[..., 0]
        return chosen.masked_fill(~present, 0.0), present, decoded.states


class Drawn(NamedTuple):
    """Actions, with `end` if it came before the limit, and the logarithm of their probability."""

    actions: list[int]
    logprob: float


class Sampling(NamedTuple):
    """The actions that a sample is drawn from: the `top_k` most probable ones, reduced to the fewest that have `top_p`
    of the probability."""

    top_k: int
    top_p: float


@torch.no_grad()
def greedy(policy: Policy, memory: Any, limit: int, least: int = 0, texts: int = 1) -> list[Drawn]:
    """The most probable action at every step. `limit`, `least`: the maximum and minimum of a text's actions. `texts`:
    how many a row gets, one after another in its actions; later ones take only actions that are left."""
    begun = policy.start(memory)
    whole = _run(policy, memory, begun, limit, least, lambda logits, _: logits.argmax(-1))
    for _ in range(texts - 1):
        again = policy.start_again(begun, [one.actions for one in whole])
        more = _run(policy, memory, again, limit, least, lambda logits, _: logits.argmax(-1))
        whole = [Drawn(a.actions + b.actions, a.logprob + b.logprob) for a, b in zip(whole, more, strict=True)]
    return whole


@torch.no_grad()
def sample(
    policy: Policy, memory: Any, seeds: Sequence[int], limit: int, sampling: Sampling, least: int = 0
) -> list[Drawn]:
    """One sample per row, by the row's seed, so that it does not depend on the batch. Log-probabilities are those of
    the whole distribution."""
    draws = [torch.Generator().manual_seed(seed) for seed in seeds]

    def choose(logits: Tensor, rows: Sequence[int]) -> Tensor:
        uniform = torch.stack([torch.rand((), generator=draws[row], dtype=torch.float64) for row in rows])
        return _drawn(logits, uniform.to(logits.device), sampling)

    return _run(policy, memory, policy.start(memory), limit, least, choose)


def _drawn(logits: Tensor, uniform: Tensor, sampling: Sampling) -> Tensor:
    """An action per row of logits (n, actions), by uniform numbers (n,)."""
    kept, actions = logits.double().topk(min(sampling.top_k, logits.shape[-1]), -1)
    shares = kept.softmax(-1)
    before = shares.cumsum(-1) - shares
    shares = shares.masked_fill(before >= sampling.top_p, 0.0)
    cumulated = shares.cumsum(-1) / shares.sum(-1, keepdim=True)
    place = (cumulated <= uniform[:, None]).sum(-1).clamp(max=kept.shape[-1] - 1)
    place = torch.minimum(place, (shares > 0).sum(-1) - 1)
    return actions.gather(-1, place[:, None])[:, 0]


def _run(
    policy: Policy, memory: Any, state: Any, limit: int, least: int, choose: Callable[[Tensor, Sequence[int]], Tensor]
) -> list[Drawn]:
    """Decode every row until its end or the limit. Rows that have ended are dropped once they are half of the rows:
    that copies the others' memory, which takes about as long as a step."""
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
    """At most `width` texts per row by beam search, best first by log-probability per action. A row ends when `width`
    texts have ended."""
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
    for own, of_row, totals in zip(ended, written, sums.tolist(), strict=True):
        own += [Drawn(text, total) for text, total in zip(of_row, totals, strict=True) if total > -torch.inf]
        own.sort(key=lambda drawn: -drawn.logprob / max(1, len(drawn.actions)))
    return [own[:width] for own in ended]
