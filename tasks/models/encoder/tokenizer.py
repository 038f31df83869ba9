"""BERT's tokenizer without the library transformers, whose import takes seconds of every search and every worker."""

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from vitalfew.tasks.models.encoder.recipe import read_json


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
