"""`oreo_ppo`: Oreo's reinforcement learning: texts from which the generator answers better become more likely.

Proximal policy optimisation on sequences of actions (Schulman et al. 2017, arXiv 1707.06347), as section 2.5 of arXiv
2502.13019 has it. Where that is at fault or silent: advantages take V(s of the next step), as generalised advantage
estimation has it (arXiv 1506.02438), where the print has V of the step before; equation 4 multiplies the reward by
log p ≤ 0, so that a better answer is punished: it is here as `eq4`, and `softmax` is what is meant.

An episode is a sampled text; its reward is how well the generator's answer from it agrees with the gold answers,
ROUGE-1 over SQuAD's words. δ adapts to a target KL per text. A step samples a text for each question of a batch and
learns from them several times. "The policy reads the earlier text" in the paper: ours reads the chunks, as at
inference. Nothing has dropout, so that ratios are 1 at first. A copier's encoder is frozen: what it reads is encoded
once a step. An encoder-decoder learns as a whole: what it reads is encoded again for every update, at most
`batch_tokens` tokens at once, and the policy that the learning began with reads by the encoder that it had then.
Value: one linear layer on the decoder's states, with a learning rate of its own, which learns alone at first (ours): as
long as it says 0 everywhere, the end of a text looks worse than any other word, and texts grow.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, NamedTuple

import torch
from pydantic import Field
from torch import Tensor, nn

from vitalfew.tasks.models.batches import batches
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.small.policies import for_training
from vitalfew.tasks.models.small.policy import PolicySource, Sampling, sample
from vitalfew.tasks.trainers.base import State, Step, Updates
from vitalfew.tasks.trainers.oreo.collector import OreoExample
from vitalfew.tasks.trainers.oreo.training import OreoOptions, OreoTrainer, answer_f1, answers

Weighting = Literal["softmax", "terminal", "eq4"]


def rewards(
    rouge: Tensor, ended: Tensor, logprobs: Tensor, kl: Tensor, mask: Tensor, delta: float, kind: Weighting
) -> Tensor:
    """The reward of every step, float32 (n, steps): the sequence's `rouge` (n,), spread over its steps, less δ times
    the step's KL. A sequence without an end has no rouge.

    softmax: by the softmax over the steps of the actions' probabilities, which sums to 1; terminal: all at the last
    step; eq4: times the logarithm of the probability, to the letter of equation 4.
    """
    if kind == "eq4":
        weights = logprobs
    elif kind == "softmax":
        weights = logprobs.exp().masked_fill(~mask, -torch.inf).softmax(-1)
    else:
        last = mask.sum(-1, keepdim=True) - 1
        weights = torch.zeros_like(logprobs).scatter(1, last.clamp(min=0), 1.0)
    whole = (rouge * ended)[:, None] * weights
    return (whole - delta * kl).masked_fill(~mask, 0.0)


def advantages(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimates, and the returns that values should predict; both float32 (n, steps). Nothing
    follows the last step of a sequence."""
    found = torch.zeros_like(rewards)
    later = torch.zeros(len(rewards), device=rewards.device)
    following = torch.zeros_like(later)
    for step in range(rewards.shape[1] - 1, -1, -1):
        here = mask[:, step]
        error = rewards[:, step] + gamma * following - values[:, step]
        later = torch.where(here, error + gamma * lam * later, torch.zeros_like(later))
        following = torch.where(here, values[:, step], torch.zeros_like(following))
        found[:, step] = later
    return found, (found + values).masked_fill(~mask, 0.0)


def normalised(values: Tensor, mask: Tensor) -> Tensor:
    """Values with mean 0 and deviation 1 over all steps; a single step's stays as it is."""
    some = values[mask]
    if len(some) < 2:
        return values
    return ((values - some.mean()) / (some.std() + 1e-8)).masked_fill(~mask, 0.0)


class Losses(NamedTuple):
    """`ratio`: the mean of new to old probability; `clipped`: the share of steps beyond the bounds."""

    policy: Tensor
    value: Tensor
    ratio: float
    clipped: float


def losses(
    logprobs: Tensor, old: Tensor, advantage: Tensor, values: Tensor, returns: Tensor, mask: Tensor, clip: float
) -> Losses:
    """Equation 3, to be minimised, as means over the steps. All (n, steps)."""
    ratio = (logprobs - old).exp()
    bounded = ratio.clamp(1 - clip, 1 + clip)
    policy = -torch.minimum(ratio * advantage, bounded * advantage)[mask].mean()
    value = (values - returns)[mask].square().mean()
    beyond = ((ratio - 1).abs() > clip)[mask].float().mean()
    return Losses(policy, value, ratio[mask].mean().item(), beyond.item())


def mean(found: Sequence[tuple[Losses, float]]) -> Losses:
    """The mean of the losses of parts by their shares of the steps, without gradients."""
    values = [((own.policy.item(), own.value.item(), own.ratio, own.clipped), share) for own, share in found]
    policy, value, ratio, clipped = (sum(numbers[place] * share for numbers, share in values) for place in range(4))
    return Losses(torch.tensor(policy), torch.tensor(value), ratio, clipped)


def adapted(delta: float, kl: float, target: float) -> float:
    """δ after a step whose KL per text was `kl` (Ziegler et al. 2019, arXiv 1909.08593, section 2.2)."""
    return delta * (1 + 0.1 * max(-0.2, min(0.2, kl / target - 1)))


VALUE = "value."
"""Before the names of the value's weights."""
MOST_FAILED = 0.1
"""The share of a batch's episodes on which the generator may fail; beyond it the training stops."""


class GeneratorFails(ValueError):
    """The generator fails on too many texts: what is learnt would not be what it needs."""


class Episodes(NamedTuple):
    """The material of a step: what its texts were written from, as read and as encoded, their actions, and the
    log-probabilities, advantages and returns of their steps."""

    sources: list[PolicySource]
    memory: Any
    actions: list[list[int]]
    old: Tensor
    mask: Tensor
    advantage: Tensor
    returns: Tensor


class OreoPpo(OreoTrainer):
    """Oreo's third training: PPO with the generator's answers as the reward."""

    class Options(OreoOptions, extra="forbid"):
        epochs: int = Field(1, ge=1, description="Passes over the questions.")
        learning_rate: float = Field(2e-6, gt=0, description="Peak learning rate, after a linear rise; it then falls.")
        checkpoint_every: int = Field(
            1, ge=1, description="Steps between checkpoints; a killed run loses at most as many."
        )
        dropout: float = Field(
            0.0, ge=0, le=0, description="Dropout, always 0: the sampled and the learnt probabilities must agree."
        )
        max_new_tokens: int = Field(128, ge=1, description="Maximum number of actions per text.")
        weighting: Weighting = Field(
            "softmax",
            description="Share of the reward per step: softmax, terminal, or eq4 (the paper's equation 4 to the "
            "letter).",
        )
        clip: float = Field(0.2, gt=0, description="Clipping range of the probability ratio (ε).")
        gamma: float = Field(0.95, ge=0, le=1, description="Discount of rewards (γ).")
        lam: float = Field(0.95, ge=0, le=1, description="Parameter λ of generalised advantage estimation.")
        value_weight: float = Field(0.5, ge=0, description="Weight of the value loss (β).")
        value_rate: float = Field(0.005, gt=0, description="Peak learning rate of the value layer, which starts at 0.")
        value_steps: int = Field(10, ge=0, description="Number of first steps in which only the value layer learns.")
        delta: float = Field(0.01, ge=0, description="Initial weight of the KL penalty (δ).")
        target_kl: float = Field(0.2, gt=0, description="Target KL per text, to which δ adapts (nats).")
        updates: int = Field(4, ge=1, description="Number of updates per batch.")
        gradient_norm: float = Field(0.5, gt=0, description="Maximum norm of the gradient.")
        top_k: int = Field(4, ge=1, description="Maximum number of actions to sample from.")
        top_p: float = Field(
            0.95, gt=0, le=1, description="Probability mass to sample from: the fewest actions that reach it."
        )

    version: ClassVar[str] = "6"

    def prepare(self) -> None:
        options = self.options
        self.model.freeze()
        self.reference = for_training(options.policy, self.origin, self.shape).eval().requires_grad_(False)
        self.value = nn.Linear(self.model.width, 1).to(self.device)
        nn.init.zeros_(self.value.weight)
        nn.init.zeros_(self.value.bias)
        own = {f"{VALUE}{name}": parameter for name, parameter in self.value.named_parameters()}
        self.updates = Updates(self.model.decoder(), options.learning_rate, clip=options.gradient_norm)
        self.values = Updates(own, options.value_rate)
        self.delta = options.delta

    def state(self) -> State:
        tensors = {**self.updates.tensors(), **self.values.tensors()}
        return State(tensors, {"curve": self.curve, "delta": self.delta})

    def restore(self, state: State) -> None:
        own = {name: tensor for name, tensor in state.tensors.items() if name.startswith(VALUE)}
        others = {name: tensor for name, tensor in state.tensors.items() if name not in own}
        super().restore(State(others, state.notes))
        self.values.restore(own)
        self.delta = float(state.notes["delta"])

    def step(self, batch: Sequence[OreoExample], number: int, done: float) -> Step:
        """Raises GeneratorFails."""
        options = self.options
        self.model.eval()
        sources = self.model.read([row.question for row in batch], [row.texts for row in batch])
        with torch.no_grad():
            memory = self.model.encode(sources)
            seeds = [seed_of(options.seed, number, row.question_id) for row in batch]
            drawn = sample(self.model, memory, seeds, options.max_new_tokens, Sampling(options.top_k, options.top_p))
            texts = [self.model.write(source, one.actions).text for source, one in zip(sources, drawn, strict=True)]
            replies = self._replies(batch, texts)
            kept = [row for row, reply in enumerate(replies) if not reply.error]
            rouge = [answer_f1(replies[row].text, batch[row].answers) for row in kept]
            read, actions = [sources[row] for row in kept], [drawn[row].actions for row in kept]
            episodes, figures, of_episodes = self._episodes(read, memory.of(kept), actions, rouge)
        records: list[Mapping[str, Any]] = [
            {
                "step": number + 1,
                "question_id": batch[row].question_id,
                "text": texts[row],
                "answer": replies[row].text,
                **of_episode,
            }
            for row, of_episode in zip(kept, of_episodes, strict=True)
        ]
        for update in range(options.updates):
            found, rate = self._update(episodes, done, number >= options.value_steps)
            self.finite(found.policy.item() + found.value.item(), number, batch)
            if not update:
                figures |= {"first_ratio": found.ratio, "first_clipped": found.clipped}
        figures |= {"policy": found.policy.item(), "value": found.value.item(), "clipped": found.clipped}
        self.delta = adapted(self.delta, figures["kl"], options.target_kl) if self.delta else 0.0
        tokens = sum(source.tokens for source in sources)
        losses = {**figures, "delta": self.delta, "failed": float(len(batch) - len(kept))}
        return Step(len(kept), tokens, rate, losses, {"rollouts": records})

    def _replies(self, batch: Sequence[OreoExample], texts: Sequence[str]) -> list[Completion]:
        replies = answers(self.generator, [(row.question, text) for row, text in zip(batch, texts, strict=True)])
        torch.set_num_threads(self.threads)
        failed = [reply.error for reply in replies if reply.error]
        if len(failed) > MOST_FAILED * len(batch):
            raise GeneratorFails(
                f"the generator failed on {len(failed)} of {len(batch)} texts, more than {MOST_FAILED:.0%}: {failed[0]}"
            )
        return replies

    def _episodes(
        self, sources: list[PolicySource], memory: Any, actions: list[list[int]], scores: Sequence[float]
    ) -> tuple[Episodes, dict[str, float], list[dict[str, Any]]]:
        """What is learnt from, the means of a step, and what every row of `rollouts` says of its episode. `scores`: the
        generator's, of every sequence of actions."""
        options = self.options
        old, mask, states = self.model.log_probabilities(memory, actions)
        origin = memory if self.model.frozen else self.reference.encode(sources)
        first, _, _ = self.reference.log_probabilities(origin, actions)
        kl = (old - first).masked_fill(~mask, 0.0)
        rouge = torch.tensor(scores, device=self.device)
        ended = torch.tensor([float(own[-1] == self.model.end) for own in actions], device=self.device)
        reward = rewards(rouge, ended, old, kl, mask, self.delta, options.weighting)
        values = self._values(states, mask)
        advantage, returns = advantages(reward, values, mask, options.gamma, options.lam)
        episodes = Episodes(sources, memory, actions, old, mask, normalised(advantage, mask), returns)
        kls, lengths = kl.sum(1), mask.sum(1)
        whole = rouge * ended - self.delta * kls
        figures = {
            "reward": rouge.mul(ended).mean().item(),
            "kl": kls.mean().item(),
            "actions": lengths.float().mean().item(),
            "ended": ended.mean().item(),
        }
        columns = {
            "rouge": list(scores),
            "kl": [float(own.sum()) for own in kl],
            "reward": whole.tolist(),
            "tokens": lengths.tolist(),
            "ended": ended.bool().tolist(),
        }
        return episodes, figures, [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _values(self, states: Tensor, mask: Tensor) -> Tensor:
        values: Tensor = self.value(states)[..., 0]
        return values.masked_fill(~mask, 0.0)

    def _update(self, episodes: Episodes, done: float, both: bool) -> tuple[Losses, float]:
        """Learn once from the episodes, value and policy (`both`) or the value alone; returns the losses and the
        policy's learning rate."""
        steps = int(episodes.mask.sum())
        found = []
        for rows in self._parts(episodes):
            of_part = self._losses(episodes, rows, both)
            share = int(episodes.mask[rows].sum()) / steps
            loss = self.options.value_weight * of_part.value + (of_part.policy if both else 0.0)
            (loss * share).backward()
            found.append((of_part, share))
        self.values.descend(done)
        return mean(found), self.updates.descend(done) if both else 0.0

    def _parts(self, episodes: Episodes) -> list[list[int]]:
        """The episodes that are learnt from at once: all of them, if they need not be encoded again."""
        if self.model.frozen:
            return [[*range(len(episodes.actions))]]
        return [*batches([source.tokens for source in episodes.sources], self.options.batch_tokens)]

    def _losses(self, episodes: Episodes, rows: list[int], both: bool) -> Losses:
        """The losses of some episodes, as means over their steps."""
        actions = [episodes.actions[row] for row in rows]
        length = max(map(len, actions))
        old, advantage, returns = (
            whole[rows, :length] for whole in (episodes.old, episodes.advantage, episodes.returns)
        )
        with torch.set_grad_enabled(both):
            memory = episodes.memory if self.model.frozen else self.model.encode([episodes.sources[n] for n in rows])
            logprobs, mask, states = self.model.log_probabilities(memory, actions)
        values = self._values(states, mask)
        return losses(logprobs, old, advantage, values, returns, mask, self.options.clip)


def seed_of(seed: int, step: int, question_id: int) -> int:
    """A seed of 63 bits for the text of a question in a step."""
    digest = hashlib.blake2b(f"{seed}/{step}/{question_id}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") >> 1
