"""A model's directory with the recipe for its use: what its vectors depend on, its tokenizer, its network.

PyTorch and transformers are imported only where weights are loaded, or an unusual tokenizer or configuration is read:
that takes seconds, and a driver that needs only the identity avoids it, as does a search on a converted model.
"""

import platform
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer
from tokenizers.normalizers import Lowercase
from tokenizers.normalizers import Sequence as Chain

from vitalfew.tasks.models.encoder.recipe import EncoderRecipe, read_config, read_json
from vitalfew.tasks.models.files import UnsupportedModel, digests, require_safetensors
from vitalfew.tasks.models.loading import pretrained

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig


def read_tokenizer(folder: Path) -> tuple[Tokenizer, int] | None:
    """The tokenizer in tokenizer.json and the id of its padding, if it is BERT's and tokenizer_config.json agrees with
    it (transformers builds it again by the latter); else None."""
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


class Checkpoint:
    """A directory with weights (safetensors) and a tokenizer, and the recipe for their use.

    `setting`: the key that names the model, for messages.
    """

    def __init__(self, directory: Path, recipe: EncoderRecipe, setting: str) -> None:
        self.directory, self.recipe, self.setting = directory, recipe, setting
        self.folder = directory / recipe.transformer

    def check(self) -> None:
        """Raises UnsupportedModel, FileNotFoundError where there are no weights that can be read."""
        for folder in (self.folder, *self._layer_folders()):
            require_safetensors(folder, self.setting)

    def _layer_folders(self) -> list[Path]:
        return [self.directory / folder for _, folder in self.recipe.layers]

    def identity(self) -> dict[str, Any]:
        """Everything that the vectors depend on: the recipe, and the checksums of all files of the model."""
        folders = {self.directory / folder for folder in self.recipe.folders}
        return {**asdict(self.recipe), "files": digests(filter(Path.is_dir, folders), self.directory)}

    def _existing(self) -> Path:
        """The transformer's folder. Raises FileNotFoundError if this machine lacks it."""
        if not self.folder.is_dir():
            raise FileNotFoundError(
                f"{self.folder} is not on {platform.node()}: every worker needs the model at the same path. "
                f"Put it where all workers see it, and use --set {self.setting}=/path/to/it"
            )
        return self.folder

    @cached_property
    def config(self) -> "PretrainedConfig":
        return read_config(self._existing())

    @cached_property
    def _stated(self) -> dict[str, Any]:
        """The transformer's config.json as it is."""
        return read_json(self._existing() / "config.json")

    @property
    def model_type(self) -> str:
        return str(self._stated.get("model_type", ""))

    @cached_property
    def dimension(self) -> int:
        dimension = self.config.projection_dim if self.has_projection else 0
        for folder in self._layer_folders():
            dimension = read_json(folder / "config.json").get("out_features", dimension)
        return int(dimension or self.hidden * len(self.recipe.pooling.split("+")))

    @property
    def hidden(self) -> int:
        """The width of a token's state."""
        return int(self._stated.get("hidden_size") or self.config.hidden_size)

    @cached_property
    def _tokenizer(self) -> tuple[Tokenizer, int]:
        """The tokenizer as it is, and the id of its padding."""
        if own := read_tokenizer(self._existing()):
            return own
        from transformers import AutoTokenizer, PreTrainedTokenizerFast

        tokenizer = AutoTokenizer.from_pretrained(self._existing(), trust_remote_code=False, local_files_only=True)
        if not isinstance(tokenizer, PreTrainedTokenizerFast):
            raise UnsupportedModel(f"{self.folder} has no tokenizer.json, and no vocabulary to make one from")
        return tokenizer.backend_tokenizer, tokenizer.pad_token_id or 0

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer, without padding and truncation."""
        tokenizer, _ = self._tokenizer
        tokenizer.no_padding()
        tokenizer.no_truncation()
        if self.recipe.lower_case:
            tokenizer.normalizer = Chain([Lowercase(), *([tokenizer.normalizer] if tokenizer.normalizer else [])])
        return tokenizer

    @property
    def padding(self) -> int:
        return self._tokenizer[1]

    @property
    def has_projection(self) -> bool:
        """Return whether the transformer's files have a layer after pooling (DPR)."""
        return self.model_type == "dpr" and getattr(self.config, "projection_dim", 0) > 0

    @property
    def has_head(self) -> bool:
        """Return whether layers follow pooling."""
        return bool(self.recipe.layers) or self.has_projection

    def read_network(self) -> "tuple[nn.Module, list[nn.Module]]":
        """The transformer, float32, and the projection after pooling if the model has one.

        Raises UnsupportedModel if weights are missing."""
        import torch
        from transformers import DPRContextEncoder, DPRQuestionEncoder

        model = pretrained(
            self._class(),
            self._existing(),
            "random numbers would replace them. Does config.json name another architecture?",
            spare="pooler",  # BERT's does not affect token states, and retrieval checkpoints lack it
            dtype=torch.float32,
        )
        model.config.use_cache = False
        if not isinstance(model, DPRContextEncoder | DPRQuestionEncoder):
            return model, []
        dpr = getattr(model, model.base_model_prefix)
        return dpr.bert_model, [dpr.encode_proj] if dpr.projection_dim > 0 else []

    def _class(self) -> Any:
        from transformers import AutoModel, AutoModelForTextEncoding, DPRContextEncoder, DPRQuestionEncoder

        architecture = (self.config.architectures or [""])[0]
        if self.config.model_type == "dpr":  # AutoModel treats every DPR model as a question encoder
            return DPRContextEncoder if architecture == "DPRContextEncoder" else DPRQuestionEncoder
        half = self.config.is_encoder_decoder or architecture.endswith("EncoderModel")  # T5 without its decoder
        return AutoModelForTextEncoding if half else AutoModel
