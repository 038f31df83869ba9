"""From token states to a vector: the rules in settings, preset and a model's files.

The files are those of sentence-transformers (modules.json and the folders it names); a plain Hugging Face model lacks
them and uses the defaults. That library (6.2) pools in its rarer modes and loads the modules after pooling (tower.py).
The rest is read as JSON here:

- The rules are part of every vector's identity, which plans and searches need without weights. Importing the library
  takes 12.4 CPU seconds and 537 MB where PyTorch alone takes 3.4 and 226, which is all that a BERT needs.
- A loaded object no longer says what the folder said: an unnamed prompt becomes "", which wins over the folder's
  `passage` and default prompts. Their vectors, and the identity of indexes that have them, would change.
- It draws random numbers for missing weights (two loads of a folder that lacked a layer had a cosine of -0.25), loads
  DPR's context encoder as a question encoder, and converts encoders of other kinds. All of these are refused here.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field
from tokenizers import Tokenizer

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.section import NOT_IN_FINGERPRINT, Config
from vitalfew.tasks.models.files import UnsupportedModel

if TYPE_CHECKING:
    from transformers import PretrainedConfig

Similarity = Literal["cosine", "dot"]

_TEXT = {"text": {"method_output_name": "last_hidden_state"}}

FALLBACK_TOKENS = 512
"""The limit if neither the model nor its tokenizer states one (T5)."""
POOLINGS = ("mean", "cls", "lasttoken", "max", "weightedmean", "mean_sqrt_len_tokens")
"""Modes of sentence-transformers' module `Pooling`."""
OLD_POOLINGS = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
OFFSET_POSITIONS = ("roberta", "roberta-prelayernorm", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet")
"""Models whose positions start after the padding token's: the first rows of the table are never used."""


class RecipeOptions(Config):
    """Settings that overrule the rules in a model's files."""

    pooling: Annotated[Literal["auto", "mean", "cls", "last"], NOT_IN_FINGERPRINT] = Field(
        "auto",
        description="Pooling of token states into a vector; auto: as the encoder or the model's files say, else mean.",
    )
    similarity: Annotated[Literal["auto", "cosine", "dot"], NOT_IN_FINGERPRINT] = Field(
        "auto",
        description="Similarity of vectors. cosine: vectors of length 1; dot: vectors of any length; auto: as "
        "the model was trained.",
    )
    question_prompt: Annotated[str | None, NOT_IN_FINGERPRINT] = Field(
        None, description="Text put before every question; default: the model's prompt."
    )
    passage_prompt: Annotated[str | None, NOT_IN_FINGERPRINT] = Field(
        None, description="Text put before every passage, sentence and context; default: the model's prompt."
    )
    max_tokens: Annotated[int | None, NOT_IN_FINGERPRINT] = Field(
        None, ge=8, description="Maximum number of tokens in a text; the rest is cut off. Default: the model's limit."
    )


@dataclass(frozen=True)
class EncoderPreset:
    """Facts about a published model that are known without its files."""

    model: str | None = None
    question_model: str | None = None
    pooling: str | None = None
    similarity: Similarity | None = None


@dataclass(frozen=True)
class EncoderRecipe:
    """How one model is used. Folders are relative to the model's directory: `folders` describe the model, among them
    `transformer` and those of `layers` (kind, folder), which follow pooling. `pooling`: mean, cls, last, max, or
    sentence-transformers' names of other modes, joined by "+", whose vectors stand side by side."""

    folders: tuple[str, ...]
    transformer: str
    layers: tuple[tuple[str, str], ...]
    pooling: str
    unit: bool
    max_tokens: int
    lower_case: bool
    question_prompt: str
    passage_prompt: str


def read_recipe(directory: Path, preset: EncoderPreset, options: RecipeOptions) -> EncoderRecipe:
    """A setting wins over the preset, the preset over the model's files, these over the default.

    Raises UnsupportedModel for an unknown module or option, and ConfigError for a setting that does not fit the model.
    """
    chain = _chain(directory)
    folders = [folder for _, folder in chain]
    transformer = directory / folders[0] if chain else directory
    place_of_pooling = directory / folders[1] / "config.json" if chain else directory
    options_of_transformer = _transformer_options(transformer)
    options_of_pooling = read_json(place_of_pooling) if chain else {}
    path = directory / "config_sentence_transformers.json"
    about = read_json(path)
    if (kind := about.get("model_type", "SentenceTransformer")) != "SentenceTransformer":
        raise UnsupportedModel(f"{path}: a {kind} gives no single vector per text")
    if about.get("truncate_dim"):
        raise UnsupportedModel(f"{path}: truncate_dim is not supported; remove it to use the whole vectors")
    pooling = _pooling(place_of_pooling, options_of_pooling, options.pooling, preset)
    prompts = _prompts(about, options)
    if any(prompts) and not options_of_pooling.get("include_prompt", True):
        raise UnsupportedModel(f"{directory}: pooling without the prompt's tokens (include_prompt) is not supported")
    normalised = bool(chain) and chain[-1][0] == "Normalize"
    return EncoderRecipe(
        folders=("", *folders),
        transformer=folders[0] if chain else "",
        layers=tuple(chain[2 : len(chain) - normalised]),
        pooling=pooling,
        unit=_is_unit(directory, normalised, about, options.similarity, preset),
        max_tokens=_max_tokens(transformer, options_of_transformer, options.max_tokens),
        lower_case=bool(options_of_transformer.get("do_lower_case")),
        question_prompt=prompts[0],
        passage_prompt=prompts[1],
    )


def read_config(folder: Path) -> "PretrainedConfig":
    """The architecture's configuration. Raises UnsupportedModel if it needs code from the folder."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
    except ValueError as error:
        foreign = "trust_remote_code" in str(error)
        reason = (
            "needs code that comes with the model, which is never run here" if foreign else str(error).splitlines()[0]
        )
        raise UnsupportedModel(f"{folder / 'config.json'}: {reason}") from None


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in a file; an empty object if the file is missing."""
    content = _parse(path) if path.exists() else {}
    if not isinstance(content, dict):
        raise UnsupportedModel(f"{path} must be a JSON object, got {type(content).__name__}")
    return content


def _parse(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UnsupportedModel(f"{path}: not readable as JSON: {error}") from None


def read_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a folder, without padding and truncation: its tokenizer.json, or what transformers, which takes
    seconds to import, makes of its vocabulary. Raises UnsupportedModel where there is neither."""
    if (file := folder / "tokenizer.json").is_file():
        tokenizer = Tokenizer.from_file(str(file))
    else:
        from transformers import AutoTokenizer, PreTrainedTokenizerFast

        made = AutoTokenizer.from_pretrained(folder, trust_remote_code=False, local_files_only=True)
        if not isinstance(made, PreTrainedTokenizerFast):
            raise UnsupportedModel(f"{folder} has no tokenizer.json, and no vocabulary to make one from")
        tokenizer = made.backend_tokenizer
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _chain(directory: Path) -> list[tuple[str, str]]:
    """Read (kind, folder) of every module in modules.json: Transformer, Pooling, any number of Dense and LayerNorm,
    perhaps Normalize. A plain Hugging Face model lacks the file."""
    path = directory / "modules.json"
    if not path.exists():
        return []
    try:
        chain = [(str(module["type"]), str(module["path"])) for module in _parse(path)]
    except (KeyError, TypeError):
        raise UnsupportedModel(f"{path} must be a list of modules with type and path") from None
    names = [kind.rpartition(".")[2] if kind.startswith("sentence_transformers.") else kind for kind, _ in chain]
    for place, name in enumerate(names):
        due = ("Transformer", "Pooling")[place : place + 1] or ("Dense", "LayerNorm", "Normalize")
        if name not in due or (name == "Normalize" and place + 1 < len(names)):
            raise UnsupportedModel(
                f"{path}: module {place} is {name}, which is not supported there. A supported chain is "
                "Transformer, Pooling, any number of Dense and LayerNorm, and Normalize at the end"
            )
    if len(chain) < 2:
        raise UnsupportedModel(f"{path} lists no Pooling module, so texts would have no vector")
    return [(name, folder) for name, (_, folder) in zip(names, chain, strict=True)]


def _transformer_options(folder: Path) -> dict[str, Any]:
    """Read sentence_bert_config.json, under any of its historical names."""
    for path in sorted(folder.glob("sentence_*_config.json")):
        options = read_json(path)
        text = options.get("modality_config", _TEXT).get("text", {})
        task = options.get("transformer_task", "feature-extraction")
        if task != "feature-extraction" or text.get("method_output_name") != "last_hidden_state":
            raise UnsupportedModel(f"{path}: only token states (last_hidden_state) can be pooled, got {task}, {text}")
        return options
    return {}


def _pooling(path: Path, options: Mapping[str, Any], setting: str, preset: EncoderPreset) -> str:
    """The kind of pooling; `path`: the file that states `options`."""
    if setting != "auto" or preset.pooling:
        return setting if setting != "auto" else str(preset.pooling)
    mode = options.get("pooling_mode") or [name for key, name in OLD_POOLINGS.items() if options.get(key)] or "mean"
    modes = [mode] if isinstance(mode, str) else list(mode)
    if unknown := [mode for mode in modes if mode not in POOLINGS]:
        raise UnsupportedModel(f"{path}: pooling {unknown[0]} is not supported; supported are {', '.join(POOLINGS)}")
    return "last" if modes == ["lasttoken"] else "+".join(modes)


def _is_unit(directory: Path, normalised: bool, about: Mapping[str, Any], setting: str, preset: EncoderPreset) -> bool:
    """Return whether vectors are scaled to length 1, so that their inner product is the cosine."""
    if setting != "auto":
        return setting == "cosine"
    if normalised or preset.similarity:
        return normalised or preset.similarity == "cosine"
    similarity = about.get("similarity_fn_name") or "cosine"
    if similarity not in ("cosine", "dot"):
        raise UnsupportedModel(
            f"{directory / 'config_sentence_transformers.json'}: similarity {similarity} is not "
            "supported; to use the model anyway: --set encode.similarity=cosine (or dot)"
        )
    return bool(similarity == "cosine")


def _prompts(about: Mapping[str, Any], options: RecipeOptions) -> tuple[str, str]:
    """The prompts of questions and of passages, by the names that sentence-transformers uses."""
    known: Mapping[str, str | None] = about.get("prompts") or {}
    default = about.get("default_prompt_name")

    def named(*names: str) -> str:
        name = next((name for name in names if name in known), default)
        return (known.get(name) if name else None) or ""

    question, passage = options.question_prompt, options.passage_prompt
    return (
        named("query") if question is None else question,
        named("document", "passage", "corpus") if passage is None else passage,
    )


def _positions(folder: Path) -> int:
    """Tokens that the architecture has positions for; 0: any number.

    BERT's config.json says it itself. Other architectures are asked, which imports their classes: seconds.
    """
    stated = read_json(folder / "config.json")
    if stated.get("model_type") == "bert" and "auto_map" not in stated and "max_position_embeddings" in stated:
        return int(stated["max_position_embeddings"])
    return usable_positions(read_config(folder))


def usable_positions(config: "PretrainedConfig") -> int:
    """Count the positions that tokens can have; 0: any number."""
    positions = getattr(config, "max_position_embeddings", None) or 0
    return positions - (config.pad_token_id + 1) if positions and config.model_type in OFFSET_POSITIONS else positions


def least_limit(*limits: int | None) -> int:
    """Return the least of the limits that models and tokenizers state; a tokenizer without one states 10^30."""
    return min((int(limit) for limit in limits if limit and 0 < limit < 10**9), default=FALLBACK_TOKENS)


def _max_tokens(folder: Path, options: Mapping[str, Any], setting: int | None) -> int:
    positions = _positions(folder)
    if setting is not None:
        if 0 < positions < setting:
            raise ConfigError(
                f"encode.max_tokens must be at most {positions}, the limit of the model in {folder}, got {setting}"
            )
        return setting
    stated = options.get("max_seq_length") or read_json(folder / "tokenizer_config.json").get("model_max_length")
    return least_limit(stated, positions)
