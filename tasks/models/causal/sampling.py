"""Sampling with separate random numbers for every row of a batch, so that an answer does not depend on its batch."""

from collections.abc import Container, Mapping, Sequence

import torch
from torch import Tensor
from transformers import LogitsProcessor


def until_end(tokens: list[int], ends: Container[int]) -> list[int]:
    """Return the tokens up to the first end token, inclusive; the rest is padding."""
    end = next((place for place, token in enumerate(tokens) if token in ends), len(tokens))
    return tokens[: end + 1]


class RowSampler(LogitsProcessor):
    """Chooses the next token of every row, and keeps its log probability and the probabilities of the probed tokens.

    At temperature T > 0 it adds Gumbel noise to logits / T; the maximum is a draw from softmax(logits / T)
    (Gumbel 1954). The noise of a row comes from a generator seeded by its prompt. `generate` then takes the maximum
    (do_sample=False), which is the token chosen here. Log probabilities are the model's, at T = 1.
    """

    def __init__(self, temperature: float, seeds: Sequence[int], device: torch.device, probed: Sequence[int]) -> None:
        self.temperature = temperature
        self.generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self.probed = torch.tensor(probed, device=device, dtype=torch.long)
        self._logprobs: list[Tensor] = []
        self._probabilities: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Logits float32 (n, vocabulary) → the same, with the choice as their maximum."""
        chosen = self._noisy(scores) if self.temperature else scores
        logprobs = torch.log_softmax(scores, dim=-1)
        self._logprobs.append(logprobs.gather(1, chosen.argmax(-1, keepdim=True))[:, 0])
        if len(self.probed):
            self._probabilities.append(logprobs[:, self.probed].exp())
        return chosen

    def _noisy(self, scores: Tensor) -> Tensor:
        exponential = torch.empty_like(scores)
        for row, generator in zip(exponential, self.generators, strict=True):
            row.exponential_(generator=generator)
        return scores / self.temperature - exponential.log()

    def logprob(self, row: int, length: int) -> float:
        """The summed log probability of a row's first `length` tokens."""
        return sum(float(step[row]) for step in self._logprobs[:length])

    def probabilities(self, row: int, places: Mapping[str, int], ids: Mapping[str, int]) -> dict[str, float]:
        """Probabilities of tokens at output positions (from 0); `ids`: the tokens' numbers, which must be probed."""
        columns = {number: column for column, number in enumerate(self.probed.tolist())}
        return {token: float(self._probabilities[place][row, columns[ids[token]]]) for token, place in places.items()}
