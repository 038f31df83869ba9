"""The reader's network: a BERT-like encoder with low-rank adapters and a head for start, end and answerability.

Reader: DPR (Karpukhin et al., 2020, arXiv 2004.04906), section 6.1: a start and an end logit per token, and from the
state of [CLS] a logit for whether the context has the answer. Adapters: LoRA (Hu et al., 2021, arXiv 2106.09685) on
every linear layer, W + BA with a scale of 1; biases, norms and token types are trained as they are.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.utils import parametrize
from transformers import AutoModel, AutoTokenizer

from tasks.encoders.locate import UnsupportedModel
from tasks.generators.windows import SIZE, TYPES, Batch

_PARAMETRIZED = ".parametrizations.weight.0."


class LowRank(nn.Module):
    """The update BA of a weight: zero at first."""

    def __init__(self, weight: Tensor, rank: int) -> None:
        super().__init__()
        rows, columns = weight.shape
        self.a = nn.Parameter(torch.empty(rank, columns).uniform_(-(columns**-0.5), columns**-0.5))
        self.b = nn.Parameter(torch.zeros(rows, rank))

    def forward(self, weight: Tensor) -> Tensor:
        return weight + self.b @ self.a


class ReaderModel(nn.Module):
    """`base`: the encoder's directory. Its matrix products are done in `dtype`, everything else in float32."""

    def __init__(self, base: Path, dtype: torch.dtype, dropout: float = 0.0) -> None:
        super().__init__()
        self.dtype = dtype
        # Eager attention: PyTorch's fused one is the slower for bf16 on CPUs (a half, with the backward pass).
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
            raise UnsupportedModel(f"{base} has {positions} positions, the reader needs {SIZE}")
        types = self.encoder.embeddings.token_type_embeddings.weight.detach()
        wider = torch.cat([types, types[-1:].expand(TYPES - len(types), -1)])
        self.encoder.embeddings.token_type_embeddings = nn.Embedding.from_pretrained(wider, freeze=False)
        self.head = nn.Linear(types.shape[1], 3)

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Start and end logits (n, longest), −inf outside the context, and answerability logits (n,); float32."""
        half = torch.autocast(batch.ids.device.type, dtype=self.dtype, enabled=self.dtype != torch.float32)
        with half:
            states = self.encoder(
                input_ids=batch.ids, token_type_ids=batch.types, attention_mask=batch.mask
            ).last_hidden_state
        start, end, answerable = self.head(states.float()).unbind(-1)
        outside = ~batch.context
        return start.masked_fill(outside, -torch.inf), end.masked_fill(outside, -torch.inf), answerable[:, 0]

    def prepare_for_training(self, rank: int) -> None:
        """Freeze the encoder's matrices and add their low-rank updates."""
        # Token states in `dtype` too: a fifth faster on long contexts. Answers are read off float32 states.
        self.encoder.embeddings.register_forward_hook(lambda module, given, states: states.to(self.dtype))
        linears = [module for module in self.encoder.modules() if isinstance(module, nn.Linear)]
        self.encoder.embeddings.word_embeddings.requires_grad_(False)
        self.encoder.embeddings.position_embeddings.requires_grad_(False)
        for linear in linears:
            linear.weight.requires_grad_(False)
            parametrize.register_parametrization(linear, "weight", LowRank(linear.weight, rank))

    def trained(self) -> dict[str, nn.Parameter]:
        """What training changes, by the name it is saved under."""
        return {
            name.replace(_PARAMETRIZED, ".weight."): parameter
            for name, parameter in self.named_parameters()
            if parameter.requires_grad
        }

    @torch.no_grad()
    def merge(self, tensors: Mapping[str, Tensor]) -> None:
        """Take what `trained` gave into the model. Raises UnsupportedModel where the two do not fit."""
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

    def for_inference(self, device: torch.device) -> "ReaderModel":
        for module in self.encoder.modules():
            if isinstance(module, nn.Linear):
                module.to(self.dtype)
        return self.to(device).eval()


def read_tokenizer(base: Path) -> Tokenizer:
    """The encoder's tokenizer without padding and truncation."""
    tokenizer = AutoTokenizer.from_pretrained(base, local_files_only=True).backend_tokenizer
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer
