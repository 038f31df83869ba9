"""A BERT-like encoder with low-rank updates and a linear head on its token states: reader, critic, filter and copier.

Updates: LoRA (Hu et al., 2021, arXiv 2106.09685) on every linear layer, W + BA with a scale of 1; biases, norms, token
types and the head are trained directly. What a plan needs of them is in tuned.py, which imports no PyTorch.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.utils import parametrize

from vitalfew.tasks.models.batches import threads
from vitalfew.tasks.models.compiled import Compiled, NotConverted, compiled, engine_of
from vitalfew.tasks.models.device import precision_of
from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.models.loading import quietly
from vitalfew.tasks.models.small.tuned import ADAPTER, Weights, settings_file
from vitalfew.tasks.models.small.windows import SIZE, Batch

logger = logging.getLogger("vitalfew")

_PARAMETRIZED = ".parametrizations.weight.0."


class LowRank(nn.Module):
    """The update BA of a weight; it starts at zero."""

    # Not PEFT, which trains the adapters of causal models (causal/adapters.py): it adds B(Ax) to the layer's output,
    # which rounds otherwise than (W + BA)x, and takes seconds to import.

    def __init__(self, weight: Tensor, rank: int) -> None:
        super().__init__()
        rows, columns = weight.shape
        self.a = nn.Parameter(torch.empty(rank, columns).uniform_(-(columns**-0.5), columns**-0.5))
        self.b = nn.Parameter(torch.zeros(rows, rank))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.b @ self.a


class TunedEncoder(nn.Module):
    """`base`: the encoder's directory. Its matrix products are done in `dtype`, everything else in float32; OpenVINO
    computes it at inference on x86-64 processors (models/compiled.py)."""

    types: ClassVar[int]
    """The number of token types in its input."""
    outputs: ClassVar[int | None]
    """Logits per token; None: as many as a state has numbers."""

    @classmethod
    def from_weights(cls, weights: Weights, device: torch.device, dtype: torch.dtype, files: Mapping[str, str]) -> Self:
        """A model for inference; `files`: the checksums of everything that it is read from. Where a converted network
        is in the cache, its head alone is read."""

        def whole() -> Any:
            model = cls(weights.base, dtype)
            model.merge(weights.tensors())
            return model

        if not (network := _converted(cls.__name__, weights.base, device, dtype, files, whole)):
            return whole()._on(device)
        tensors, model = weights.tensors(), cls.__new__(cls)
        nn.Module.__init__(model)
        outputs, width = tensors["head.weight"].shape
        model.compiled, model.head = network, nn.Linear(width, outputs)
        model.head.load_state_dict({name: tensors[f"head.{name}"].float() for name in ("weight", "bias")})
        return model.eval()

    def __init__(self, base: Path, dtype: torch.dtype, dropout: float = 0.0) -> None:
        from transformers import AutoModel  # takes seconds, which a driver that loads no weights avoids

        super().__init__()
        self.base, self.dtype = base, dtype
        self.compiled: Compiled | None = None
        self.fixed: dict[str, nn.Parameter] = {}
        """The parameters of `trained` that learn no more."""
        # Eager attention: PyTorch's fused attention is slower for bf16 on CPUs (by half, with the backward pass).
        with quietly():
            self.encoder = AutoModel.from_pretrained(
                base,
                dtype=torch.float32,
                use_safetensors=True,
                local_files_only=True,
                attn_implementation="eager",
                add_pooling_layer=False,
                hidden_dropout_prob=dropout,
                attention_probs_dropout_prob=0.0,
            )
        if (positions := self.encoder.config.max_position_embeddings) < SIZE:
            raise UnsupportedModel(f"{base} has {positions} positions, but {type(self).__name__} needs {SIZE}")
        types = self.encoder.embeddings.token_type_embeddings.weight.detach()
        self.encoder.embeddings.token_type_embeddings = nn.Embedding.from_pretrained(
            widened(types, self.types), freeze=False
        )
        self.head = nn.Linear(types.shape[1], self.outputs or types.shape[1])

    def logits(self, batch: Batch) -> Tensor:
        """The head's outputs for every token, float32 (n, longest, outputs)."""
        if self.compiled:
            lengths = batch.mask.sum(1).tolist()
            ids, types = (
                [row[:length] for row, length in zip(rows.tolist(), lengths, strict=True)]
                for rows in (batch.ids, batch.types)
            )
            logits = torch.zeros((*batch.ids.shape, self.head.out_features))
            logits[batch.mask.bool()] = self.head(torch.from_numpy(self.compiled(ids, types)))
            return logits
        given = {"input_ids": batch.ids, "token_type_ids": batch.types, "attention_mask": batch.mask}
        with torch.autocast(batch.ids.device.type, dtype=self.dtype, enabled=self.dtype != torch.float32):
            states = self.encoder(**given).last_hidden_state
        return self.head(states.float())

    def fix(self, layers: int) -> None:
        """Fix the embeddings and the first layers as they are now, with their updates: the others learn."""
        first = nn.ModuleList([self.encoder.embeddings, *self.encoder.encoder.layer[:layers]] if layers else [])
        own = {id(parameter) for parameter in first.parameters()}
        self.fixed = {name: parameter for name, parameter in self.trained().items() if id(parameter) in own}
        first.requires_grad_(False)
        for module in first.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0

    def prepare_for_training(self, rank: int) -> None:
        """Freeze the encoder's matrices and add their low-rank updates."""
        # Token states in `dtype` too: a fifth faster on long contexts. The head sees float32 states.
        self.encoder.embeddings.register_forward_hook(lambda module, given, states: states.to(self.dtype))
        linears = [module for module in self.encoder.modules() if isinstance(module, nn.Linear)]
        self.encoder.embeddings.word_embeddings.requires_grad_(False)
        self.encoder.embeddings.position_embeddings.requires_grad_(False)
        for linear in linears:
            linear.weight.requires_grad_(False)
            parametrize.register_parametrization(linear, "weight", LowRank(linear.weight, rank))

    def learning(self) -> dict[str, nn.Parameter]:
        """The members of `trained` that are not fixed."""
        return {
            name.replace(_PARAMETRIZED, ".weight."): parameter
            for name, parameter in self.named_parameters()
            if parameter.requires_grad
        }

    def trained(self) -> dict[str, nn.Parameter]:
        """The trained parameters, by their names in the file."""
        return {**self.fixed, **self.learning()}

    @torch.no_grad()
    def merge(self, tensors: Mapping[str, Tensor]) -> None:
        """Merge tensors of `trained` into the model. Raises UnsupportedModel if they do not fit the model."""
        parameters, left = dict(self.named_parameters()), dict(tensors)
        try:
            for name, parameter in parameters.items():
                if name in left:
                    parameter.copy_(left.pop(name))
                elif f"{name}.a" in left:
                    parameter.add_(left.pop(f"{name}.b").float() @ left.pop(f"{name}.a").float())
        except (KeyError, RuntimeError) as error:
            raise UnsupportedModel(f"the adapter's {name} does not fit the model: {error}") from error
        if left or "head.weight" not in tensors:
            raise UnsupportedModel(f"not an adapter of this model: {next(iter(left), 'it has no head.weight')}")

    def for_inference(self, device: torch.device, files: Mapping[str, str]) -> Self:
        """The model on its device; `files`: the checksums of everything that it was read from."""
        self.compiled = _converted(type(self).__name__, self.base, device, self.dtype, files, lambda: self)
        return self._on(device)

    def _on(self, device: torch.device) -> Self:
        for module in self.encoder.modules():
            if isinstance(module, nn.Linear):
                module.to(self.dtype)
        return self.to(device).eval()


def _converted(
    kind: str,
    base: Path,
    device: torch.device,
    dtype: torch.dtype,
    files: Mapping[str, str],
    whole: Callable[[], TunedEncoder],
) -> Compiled | None:
    """The network on OpenVINO, None where PyTorch computes it; `whole` makes the model, if it is converted now."""

    def convertible() -> tuple[nn.Module, tuple[Tensor, ...]]:
        ids = torch.ones((2, 8), dtype=torch.int64)
        return _Layers(whole().eval().encoder), (ids, torch.ones_like(ids), torch.zeros_like(ids))

    precision = precision_of(dtype)
    if engine_of(device.type, precision) != "openvino":
        return None
    try:
        return compiled({"kind": kind, **files}, precision, convertible, threads())
    except NotConverted as error:
        logger.warning("PyTorch computes %s, because OpenVINO does not convert it: %s", base, error)
        return None


class _Layers(nn.Module):
    """The encoder as a network of token ids, mask and types."""

    def __init__(self, encoder: Any) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor) -> Tensor:
        states: Tensor = self.encoder.embeddings(input_ids=ids, token_type_ids=types).float()
        hidden = (1.0 - mask.float())[:, None, None] * torch.finfo(torch.float32).min
        for layer in self.encoder.encoder.layer:
            states = layer(states, hidden)
        return states


def widened(types: Tensor, count: int) -> Tensor:
    """Embeddings of `count` token types: the existing ones, then copies of the last one."""
    return types[torch.arange(count).clamp(max=len(types) - 1)]


def weight_files(model: TunedEncoder, base: str, **settings: Any) -> dict[str, bytes]:
    """The files of a directory of trained weights: float16 tensors, and settings."""
    tensors = {name: weight.detach().half().contiguous().cpu() for name, weight in model.trained().items()}
    return {**settings_file(base, **settings), ADAPTER: save(tensors)}
