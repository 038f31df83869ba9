"""A LoRA adapter for a causal model: PEFT reads it and merges it into the loaded weights.

LoRA (Hu et al. 2021, arXiv 2106.09685): W + (alpha / r) B A. The presets (configs/models.yaml) are those of RetRobust
(Yoran et al. 2023, arXiv 2310.01558): adapters of Llama 2 13B that were trained to answer from good contexts and to
ignore irrelevant ones, named as on the authors' pages; that of HotpotQA as in ParetoRAG's appendix E.1, which no other
source confirms. They need that model as their base, and the prompt retrobust, which ends as their training examples of
one hop do ("So the final answer is:").

Only safetensors are read, as for any model here: a pickle can run code. The published adapters and their base were not
available during development: tests use a tiny Llama.
"""

import importlib.util
import json
from pathlib import Path
from typing import Any

from vitalfew.tasks.models.causal.engines.base import EngineUnavailable
from vitalfew.tasks.models.files import UnsupportedModel, digest, find_model
from vitalfew.tasks.models.presets import source_of

SETTINGS, WEIGHTS, PICKLE = "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"
MISSING = "a LoRA adapter needs the library peft, which is not installed here: pip install 'vitalfew[adapters]'"


class Adapter:
    """The files of a LoRA adapter. The constructor loads no weights."""

    def __init__(self, name: str, section: str) -> None:
        """`name`: a preset, a Hugging Face name or a directory; `section`: of the settings, for messages. Raises
        EngineUnavailable, with the remedy."""
        self.section = section
        try:
            self.directory: Path = find_model(source_of("adapter", name), f"{section}.adapter", (SETTINGS,))
            self.config = _read(self.directory, f"{section}.adapter")
        except (FileNotFoundError, UnsupportedModel) as error:
            raise EngineUnavailable(str(error)) from None

    @property
    def rank(self) -> int:
        """The largest rank of its matrices."""
        return max([int(self.config["r"]), *map(int, (self.config.get("rank_pattern") or {}).values())])

    def files(self) -> dict[str, str]:
        """Checksums of the files that an answer depends on."""
        return {name: digest(self.directory / name) for name in (SETTINGS, WEIGHTS)}

    def merged(self, model: Any) -> Any:
        """A PreTrainedModel with the adapter merged in. Raises EngineUnavailable if it does not fit the model."""
        from peft import LoraConfig, PeftModel

        settings = LoraConfig.from_pretrained(str(self.directory), local_files_only=True)
        settings.inference_mode = True
        try:
            adapted = PeftModel(model, settings)
            loaded = adapted.load_adapter(str(self.directory), "default", local_files_only=True)
        except (RuntimeError, ValueError) as error:
            raise self._misfit((str(error).splitlines() or ["?"])[-1].strip()) from None
        if odd := [*loaded.missing_keys, *loaded.unexpected_keys]:
            raise self._misfit(f"{len(odd)} weights are missing or unknown ({odd[0]}, …)")
        return adapted.merge_and_unload()

    def _misfit(self, reason: str) -> EngineUnavailable:
        base = self.config.get("base_model_name_or_path") or "another model"
        return EngineUnavailable(f"{self.directory} is an adapter for {base}, not for {self.section}.model: {reason}")


def adapter_of(name: str | None, section: str, library: str | None = "peft") -> Adapter | None:
    """The adapter of that name; None without a name. `library`: needed to load it. Raises EngineUnavailable."""
    if name is None:
        return None
    if library and not readable(library):
        raise EngineUnavailable(f"{section}.adapter: {MISSING}")
    return Adapter(name, section)


def readable(library: str = "peft") -> bool:
    """Whether the library that reads adapters is installed."""
    return importlib.util.find_spec(library) is not None


def _read(folder: Path, setting: str) -> dict[str, Any]:
    """adapter_config.json. Raises FileNotFoundError, UnsupportedModel."""
    if not (folder / SETTINGS).exists():
        raise FileNotFoundError(f"{folder} is not an adapter: it has no {SETTINGS}; --set {setting}=/path/to/another")
    try:
        config = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        kind, _ = config["peft_type"], int(config["r"])
    except (ValueError, KeyError, TypeError) as error:
        raise UnsupportedModel(f"{folder / SETTINGS} does not describe a LoRA adapter ({error!r})") from None
    if kind != "LORA":
        raise UnsupportedModel(f"{folder}: adapters of kind {kind} are not supported, only LORA")
    if (folder / WEIGHTS).exists():
        return config
    if not (folder / PICKLE).exists():
        raise FileNotFoundError(f"{folder} has no weights ({WEIGHTS}); download or copy the adapter again")
    raise UnsupportedModel(
        f"{folder} has its weights as {PICKLE} only. That is a pickle, which can run code when it is opened, and is "
        "not read here. Convert a copy of the folder in a sandbox, without network and without your files: "
        'python -c "import torch; from safetensors.torch import save_file; '
        f"weights = torch.load('{PICKLE}', map_location='cpu', weights_only=True); "
        f"save_file({{k: v.clone() for k, v in weights.items()}}, '{WEIGHTS}')\" "
        f"and then --set {setting}=/path/to/the/copy"
    )
