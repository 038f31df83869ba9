"""Policies by name: made for training, read from a directory for inference, and written as files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from storage.files import read_json
from tasks.models.copier import Copier
from tasks.models.files import UnsupportedModel
from tasks.models.policy import Policy
from tasks.models.tuned import ADAPTER, SETTINGS, Weights, weight_files
from tasks.models.weights import shipped

PolicyName = Literal["copier"]
READER = "reader"
"""The base whose updates the copier's encoder begins with: the bundled reader."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a policy is computed. `limit`: tokens of a question's texts, at most; `batch_tokens`: that are read at once;
    `dropout`: in training."""

    device: torch.device
    dtype: torch.dtype
    limit: int
    batch_tokens: int
    dropout: float = 0.0


def begun_from(base: str, earlier: Path | None) -> Path:
    """The directory with the weights that a training begins from: an earlier training's, a reader's, or the bundled
    reader's. Raises FileNotFoundError with the remedy."""
    directory = earlier or (shipped(READER) if base == READER else Path(base))
    Weights.at(directory, "base takes what `vitalfew train reader --out` wrote, or reader for the bundled one")
    return directory


def for_training(directory: Path, shape: Shape) -> Copier:
    weights = Weights.at(directory, "train it again")
    policy = Copier(weights.base, shape.dtype, shape.limit, shape.batch_tokens, shape.dropout)
    policy.begin_from(weights)
    return policy.to(shape.device)


def files_of(policy: Copier, directory: Path) -> dict[str, bytes]:
    """A policy's files; `directory`: where its training began from, whose encoder it has."""
    name = Weights.at(directory, "").name
    files = weight_files(policy, name)
    settings = {"base": name, "policy": "copier"}
    return {**files, SETTINGS: f"{json.dumps(settings, indent=1)}\n".encode()}


def read_policy(directory: Path, shape: Shape) -> Policy:
    """For inference. Raises FileNotFoundError, UnsupportedModel."""
    weights = checked(directory)
    policy = Copier(weights.base, shape.dtype, shape.limit, shape.batch_tokens)
    policy.merge(weights.tensors())
    policy.for_inference(shape.device, shape.batch_tokens)
    return policy.requires_grad_(False)


def checked(directory: Path) -> Weights:
    """The weights in a directory, which are not read yet. Raises FileNotFoundError, UnsupportedModel."""
    weights = Weights.at(directory, "name what `vitalfew train oreo --out` wrote, or leave refine.model out")
    settings: Mapping[str, Any] = read_json(directory / SETTINGS)
    if settings.get("policy") != "copier":
        raise UnsupportedModel(
            f"{directory}: {ADAPTER} is no policy of Oreo's; name what `vitalfew train oreo --out` wrote"
        )
    return weights
