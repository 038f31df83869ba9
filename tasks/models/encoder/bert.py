"""BERT (Devlin et al., 2018, arXiv 1810.04805), the encoder alone, and its tokenizer, without the library transformers.
RoBERTa and XLM-RoBERTa are the same network; their tokenizers are left to that library.

Importing that library takes seconds of every search and every worker, more than loading the weights. The order of
operations is the library's, so that token states are the same bytes. For anything but a plain BERT, `read_bert` and
`read_tokenizer` return None, and the library reads it.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from torch.nn.functional import gelu, scaled_dot_product_attention, softmax

from vitalfew.tasks.models.encoder.recipe import read_json

SIZES = (
    "vocab_size", "type_vocab_size", "max_position_embeddings",
    "hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers",
)  # fmt: skip
PLAIN = {
    "hidden_act": "gelu", "position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False,
    "chunk_size_feed_forward": 0, "auto_map": None, "quantization_config": None,
}  # fmt: skip
"""The values that a config.json may have, if it has these keys."""
FAMILY = ("bert", "roberta", "xlm-roberta", "camembert")
"""The names of the network in config.json."""
WEIGHTS = "model.safetensors"
_TABLES = {"word_embeddings": "words", "token_type_embeddings": "types", "position_embeddings": "positions"}
_PARTS = {
    "attention.self.query": "query",
    "attention.self.key": "key",
    "attention.self.value": "value",
    "attention.output.dense": "joined",
    "attention.output.LayerNorm": "attended",
    "intermediate.dense": "wide",
    "output.dense": "narrow",
    "output.LayerNorm": "norm",
}
"""Tables of embeddings and a layer's parts: the names in a checkpoint, and the names here."""

Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]


class States(NamedTuple):
    """float32 (n, longest, d)"""

    last_hidden_state: Tensor


def _eager(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    weights = torch.matmul(query, key.transpose(2, 3)) * query.shape[-1] ** -0.5
    if mask is not None:
        weights = weights + mask
    return torch.matmul(softmax(weights, dim=-1), value)


def _fused(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    return scaled_dot_product_attention(query, key, value, mask, scale=query.shape[-1] ** -0.5)


class Layer(nn.Module):
    """Self-attention and two dense layers; both are added to their inputs and normalised."""

    def __init__(self, config: dict[str, Any], attention: Attention) -> None:
        super().__init__()
        size, inner = config["hidden_size"], config["intermediate_size"]
        self.width, self.attention = size // config["num_attention_heads"], attention
        self.query, self.key, self.value, self.joined = (_linear(size, size) for _ in range(4))
        self.attended, self.norm = _norm(config), _norm(config)
        self.wide, self.narrow = _linear(size, inner), _linear(inner, size)

    def forward(self, states: Tensor, mask: Tensor | None) -> Tensor:
        heads = (*states.shape[:-1], -1, self.width)
        query, key, value = (
            part(states).view(heads).transpose(1, 2) for part in (self.query, self.key, self.value)
        )  # (n, heads, longest, width)
        attended = self.attention(query, key, value, mask).transpose(1, 2).reshape(states.shape)
        states = self.attended(self.joined(attended) + states)
        return self.norm(self.narrow(gelu(self.wide(states))) + states)


class Bert(nn.Module):
    """Token ids to token states; every token is of type 0. Made without weights, which `read_bert` assigns."""

    def __init__(self, config: dict[str, Any], attention: Literal["eager", "sdpa"]) -> None:
        super().__init__()
        self.words, self.types, self.positions = (
            # Not nn.Embedding(…, device="meta"), which draws numbers, and imports PyTorch's compiler for that: seconds.
            nn.Embedding.from_pretrained(torch.empty(config[rows], config["hidden_size"], device="meta"), freeze=False)
            for rows in ("vocab_size", "type_vocab_size", "max_position_embeddings")
        )
        self.norm = _norm(config)
        self.fused = attention == "sdpa"
        kind = _fused if self.fused else _eager
        self.layers = nn.ModuleList(Layer(config, kind) for _ in range(config["num_hidden_layers"]))

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> States:
        """int64 (n, longest), and a mask that is 1 for tokens and 0 for padding; no mask where nothing is padded."""
        positions = self.positions.weight[: input_ids.shape[1]]
        states = self.norm(self.words(input_ids) + self.types.weight[0] + positions)
        mask = None if attention_mask is None else attention_mask[:, None, None, :].bool()
        if mask is not None and not self.fused:
            mask = torch.zeros_like(mask, dtype=states.dtype).masked_fill(~mask, torch.finfo(states.dtype).min)
        for layer in self.layers:
            states = layer(states, mask)
        return States(states)


def _linear(inputs: int, outputs: int) -> nn.Linear:
    return nn.Linear(inputs, outputs, device="meta")


def _norm(config: dict[str, Any]) -> nn.LayerNorm:
    return nn.LayerNorm(config["hidden_size"], eps=config.get("layer_norm_eps", 1e-12), device="meta")


def plain_bert(folder: Path) -> dict[str, Any] | None:
    """The configuration of a model that `Bert` can compute; None for any other."""
    config = read_json(folder / "config.json")
    odd = [key for key, due in PLAIN.items() if config.get(key, due) != due]
    whole = all(isinstance(config.get(key), int) for key in SIZES)
    if config.get("model_type") not in FAMILY or odd or not whole:
        return None
    files = [path.name for path in folder.glob("*.safetensors")]
    return config if files == [WEIGHTS] and config["hidden_size"] % config["num_attention_heads"] == 0 else None


def _unused_positions(config: dict[str, Any]) -> int:
    """The first rows of the table of positions that no token has: all but BERT count from the padding's id."""
    return 0 if config["model_type"] == "bert" else int(config.get("pad_token_id", 1)) + 1


def read_bert(folder: Path, attention: Literal["eager", "sdpa"]) -> Bert | None:
    """The model with its weights, float32; None for other architectures, and where weights are missing."""
    config = plain_bert(folder)
    if config is None:
        return None
    unused = _unused_positions(config)
    model = Bert(config | {"max_position_embeddings": config["max_position_embeddings"] - unused}, attention)
    weights = {_name(name): tensor.to(torch.float32, copy=True) for name, tensor in load_file(folder / WEIGHTS).items()}
    if (positions := weights.get("positions.weight")) is not None:
        weights["positions.weight"] = positions[unused:]
    due = model.state_dict()
    if any(name not in weights or weights[name].shape != tensor.shape for name, tensor in due.items()):
        return None
    model.load_state_dict({name: weights[name] for name in due}, assign=True)
    return model


def from_transformers(state: Mapping[str, Tensor], config: dict[str, Any]) -> Bert:
    """A model with the weights of that library's network, perhaps trained further and with more token types; the two
    share tensors."""
    weights = {_name(name): tensor.detach() for name, tensor in state.items()}
    model = Bert(config | {"type_vocab_size": len(weights["types.weight"])}, "sdpa")
    model.load_state_dict({name: weights[name] for name in model.state_dict()}, assign=True)
    return model


def _name(name: str) -> str:
    """The name here of a weight: `bert.encoder.layer.0.output.dense.weight` is `layers.0.narrow.weight`."""
    name = name.removeprefix("bert.").removeprefix("roberta.")
    match name.split("."):
        case ["embeddings", "LayerNorm", kind]:
            return f"norm.{kind}"
        case ["embeddings", table, kind] if table in _TABLES:
            return f"{_TABLES[table]}.{kind}"
        case ["encoder", "layer", number, *part, kind]:
            return f"layers.{number}.{_PARTS.get('.'.join(part), '?')}.{kind}"
    return name


def read_tokenizer(folder: Path) -> tuple[Tokenizer, int] | None:
    """The tokenizer in tokenizer.json and the id of its padding, if it is BERT's and tokenizer_config.json agrees with
    it (transformers builds it anew by the latter); else None."""
    settings, described = read_json(folder / "tokenizer_config.json"), read_json(folder / "tokenizer.json")
    if settings.get("tokenizer_class") not in ("BertTokenizer", "BertTokenizerFast"):
        return None
    unknown, padding, *ends = (
        settings.get(f"{kind}_token", f"[{kind.upper()}]") for kind in ("unk", "pad", "cls", "sep")
    )
    normalizer = {
        "type": "BertNormalizer",
        "clean_text": True,
        "handle_chinese_chars": settings.get("tokenize_chinese_chars", True),
        "strip_accents": settings.get("strip_accents"),
        "lowercase": settings.get("do_lower_case", True),
    }
    model = {"type": "WordPiece", "unk_token": unknown, "continuing_subword_prefix": "##"}
    model["max_input_chars_per_word"] = 100
    stated = described.get("model", {})
    agreed = (
        {key: stated.get(key) for key in model} == model,
        described.get("normalizer") == normalizer,
        described.get("pre_tokenizer") == {"type": "BertPreTokenizer"},
        _ends(described.get("post_processor") or {}) == ends,
        {*settings.get("added_tokens_decoder", {})}
        <= {str(token["id"]) for token in described.get("added_tokens", [])},
        padding in stated.get("vocab", {}),
    )
    return (Tokenizer.from_file(str(folder / "tokenizer.json")), stated["vocab"][padding]) if all(agreed) else None


def _ends(template: dict[str, Any]) -> list[str]:
    """The special tokens that enclose a text."""
    pieces = [next(iter(piece.items())) for piece in template.get("single", [])]
    return [part["id"] for kind, part in pieces if kind == "SpecialToken"] if len(pieces) == 3 else []
