"""Policies by name: made for training, and read from a directory for inference."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from vitalfew.storage.files import read_json
from vitalfew.tasks.models.files import UnsupportedModel, digests, directory_of, find_model
from vitalfew.tasks.models.presets import source_of
from vitalfew.tasks.models.small.tuned import ADAPTER, SETTINGS, Weights
from vitalfew.tasks.models.weights import shipped

if TYPE_CHECKING:
    import torch

    from vitalfew.tasks.models.small.policy import Policy

PolicyName = Literal["copier", "seq2seq"]
READER = "reader"
"""The base whose updates the copier's encoder begins with: the bundled reader."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How a policy is computed. `limit`: tokens of a question's texts, at most; `batch_tokens`: that are read at once;
    `dropout`: in training."""

    device: "torch.device"
    dtype: "torch.dtype"
    limit: int
    batch_tokens: int
    dropout: float = 0.0


def begun_from(policy: PolicyName, base: str, earlier: Path | None) -> Path:
    """The directory with the weights that a training begins from: an earlier training's, an encoder-decoder's, a
    reader's, or the bundled reader's. Raises FileNotFoundError, UnsupportedModel, with the remedy."""
    if earlier:
        return earlier
    if policy == "seq2seq":
        if base == READER:
            raise FileNotFoundError("policy=seq2seq needs an encoder-decoder: sft.base=NAME (Hugging Face) or DIR")
        from vitalfew.tasks.models.small.seq2seq_policy import check

        directory = find_model(source_of("language model", base), "sft.base")
        check(directory)
        return directory
    directory = shipped(READER) if base == READER else directory_of(base)
    Weights.at(
        directory,
        "set sft.base to a directory that `vitalfew train reader --out` wrote, or to reader for the bundled one",
    )
    return directory


def for_training(policy: PolicyName, directory: Path, shape: Shape) -> "Policy":
    from vitalfew.tasks.models.small.copier import Copier
    from vitalfew.tasks.models.small.seq2seq_policy import Seq2SeqPolicy

    if policy == "seq2seq":
        return Seq2SeqPolicy(directory, shape.dtype, shape.limit, shape.dropout).to(shape.device)
    weights = Weights.at(directory, "train it again")
    copier = Copier(weights.base, shape.dtype, shape.limit, shape.batch_tokens, shape.dropout)
    copier.begin_from(weights)
    return copier.to(shape.device)


def read_policy(directory: Path, shape: Shape) -> "Policy":
    """For inference. Raises FileNotFoundError, UnsupportedModel."""
    from vitalfew.tasks.models.small.copier import Copier
    from vitalfew.tasks.models.small.seq2seq_policy import Seq2SeqPolicy

    if kind_of(directory) == "seq2seq":
        seq2seq = Seq2SeqPolicy(directory, shape.dtype, shape.limit).to(shape.device)
        return seq2seq.requires_grad_(False).eval()
    weights = Weights.at(directory, "train it again")
    copier = Copier(weights.base, shape.dtype, shape.limit, shape.batch_tokens)
    copier.merge(weights.tensors())
    return copier.for_inference(shape.device, weights.digests()).requires_grad_(False)


def kind_of(directory: Path) -> PolicyName:
    """Which policy a directory has. Raises FileNotFoundError, UnsupportedModel."""
    remedy = "train one (`vitalfew train oreo --index NAME --out DIR`) and name it: --set refine.model=DIR"
    if not (directory / SETTINGS).is_file():
        raise FileNotFoundError(f"{directory} has no {SETTINGS}, which every Oreo model has; {remedy}")
    settings: Mapping[str, Any] = read_json(directory / SETTINGS)
    if settings.get("policy") == "copier":
        return "copier"
    if (directory / ADAPTER).is_file():
        raise UnsupportedModel(f"{directory}: {ADAPTER} does not belong to an Oreo policy; {remedy}")
    from vitalfew.tasks.models.small.seq2seq_policy import check

    check(directory, "refine.model")
    return "seq2seq"


def policy_files(directory: Path) -> dict[str, str]:
    """The checksum of every file that a policy's texts depend on. Raises FileNotFoundError, UnsupportedModel."""
    if (directory / ADAPTER).is_file():
        return Weights.at(directory, "train it again").digests()
    return digests([directory], directory)
