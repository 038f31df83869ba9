"""Proximal policy optimisation on sequences of actions (Schulman et al. 2017, arXiv 1707.06347), as Oreo uses it.

Where Oreo (arXiv 2502.13019, section 2.5) is at fault or silent: advantages take V(s of the next step), as generalised
advantage estimation has it (arXiv 1506.02438), where the print has V of the step before; equation 4 multiplies the
reward by log p ≤ 0, so that a better answer is punished: it is here as `eq4`, and `softmax` is what is meant.
"""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

Weighting = Literal["softmax", "terminal", "eq4"]


def rewards(
    rouge: Tensor, ended: Tensor, logprobs: Tensor, kl: Tensor, mask: Tensor, delta: float, kind: Weighting
) -> Tensor:
    """The reward of every step, float32 (n, steps): a sequence's `rouge` (n,), spread over its steps, less δ times the
    step's KL. Without an end there is no rouge.

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
    """Generalised advantage estimates, and the returns that values are to come to; both float32 (n, steps). After the
    last step of a sequence there is nothing more to come."""
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
    """With mean 0 and deviation 1 over all steps; as they are where there is but one."""
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


def adapted(delta: float, kl: float, target: float) -> float:
    """δ after a step whose KL per text was `kl` (Ziegler et al. 2019, arXiv 1909.08593, section 2.2)."""
    return delta * (1 + 0.1 * max(-0.2, min(0.2, kl / target - 1)))
