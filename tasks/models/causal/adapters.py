"""LoRA adapters of causal models: PEFT reads one and merges it into the loaded weights, and trains new ones.

LoRA (Hu et al. 2021, arXiv 2106.09685): W + (alpha / r) B A. The presets (configs/models.yaml) are those of RetRobust
(Yoran et al. 2023, arXiv 2310.01558): adapters of Llama 2 13B that were trained to answer from good contexts and to
ignore irrelevant ones, named as on the authors' pages; that of HotpotQA as in ParetoRAG's appendix E.1, which no other
source confirms. They need that model as their base, and the prompt retrobust, the authors' for questions of one hop.

Only safetensors are read, as for any model here: a pickle can run code. The published adapters and their base were not
available during development: tests use a tiny Llama.

In training (`CausalLora`) the frozen weights are in the precision of the matrix products, the updates in float32. Every
forward pass gets a mask of four dimensions: without one, transformers reads positions that are not
consecutive as several texts in one row.
"""

import importlib.util
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save
from torch import Tensor, nn

from vitalfew.configs.installing import install_command
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable
from vitalfew.tasks.models.files import UnsupportedModel, digest, find_model, pickled
from vitalfew.tasks.models.presets import source_of

Span = tuple[int, int]
Layout = Sequence[tuple[Span, Sequence[Span]]]
"""The segments of a row in order: a segment's first token and one past its last, and the spans of the other segments
that it sees. Within a segment attention is causal."""


def layout_mask(layout: Layout) -> Tensor:
    """Return the mask, bool (tokens, tokens): the token of a row sees the token of a column."""
    mask = torch.zeros(layout[-1][0][1], layout[-1][0][1], dtype=torch.bool)
    for (start, end), seen in layout:
        for first, last in seen:
            mask[start:end, first:last] = True
        mask[start:end, start:end] = torch.ones(end - start, end - start, dtype=torch.bool).tril()
    return mask


SETTINGS, WEIGHTS, PICKLE = "adapter_config.json", "adapter_model.safetensors", "adapter_model.bin"


class Adapter:
    """The files of a LoRA adapter. The constructor loads no weights."""

    def __init__(self, name: str, section: str, key: str = "adapter") -> None:
        """`name`: a preset, a Hugging Face name or a directory; `section` ("" for none) and `key`: of the settings, for
        messages. Raises EngineUnavailable, with the remedy."""
        self.section, self.setting = section, f"{section}.{key}" if section else key
        try:
            self.directory: Path = find_model(source_of("adapter", name), self.setting, (SETTINGS,))
            self.config = _read(self.directory, self.setting)
        except (FileNotFoundError, UnsupportedModel) as error:
            raise EngineUnavailable(str(error)) from None

    @property
    def rank(self) -> int:
        """The largest rank of its matrices."""
        return max([int(self.config["r"]), *map(int, (self.config.get("rank_pattern") or {}).values())])

    def files(self) -> dict[str, str]:
        """Checksums of the files that an answer depends on."""
        return {name: digest(self.directory / name) for name in (SETTINGS, WEIGHTS)}

    def lines(self, name: str) -> list[str]:
        """Return the lines of a text file beside the weights; none if there is no such file."""
        file = self.directory / name
        return file.read_text(encoding="utf-8").splitlines() if file.is_file() else []

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


def adapter_of(name: str | None, section: str, needs_peft: bool = True) -> Adapter | None:
    """Return the adapter of that name; None without a name. Raises EngineUnavailable."""
    if name and needs_peft and not readable():
        raise EngineUnavailable(f"{section}.adapter needs the library peft: {install_command('adapters')}")
    return None if name is None else Adapter(name, section)


def readable() -> bool:
    """Return whether PEFT, which reads adapters, is installed."""
    return importlib.util.find_spec("peft") is not None


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
    raise pickled(folder, PICKLE, WEIGHTS, setting)


class CausalLora:
    """`base`: the model's directory; `targets`: the ends of the names of the layers that are updated, or "all-linear".

    Raises EngineUnavailable without PEFT, ConfigError if the model has no such layers.
    """

    def __init__(
        self,
        base: Path,
        device: torch.device,
        dtype: torch.dtype,
        rank: int,
        alpha: int,
        dropout: float,
        targets: Sequence[str],
    ) -> None:
        if not readable():
            raise EngineUnavailable(f"a LoRA adapter needs the library peft: {install_command('adapters')}")
        from peft import LoraConfig, get_peft_model
        from transformers import AutoModelForCausalLM

        self.device, self.dtype = device, dtype
        chosen = "eager" if device.type == "cpu" else "sdpa"  # which is slow there, in bf16 with a backward pass
        model = AutoModelForCausalLM.from_pretrained(
            base, dtype=dtype, use_safetensors=True, local_files_only=True, attn_implementation=chosen
        )
        names: Any = "all-linear" if "all-linear" in targets else list(targets)
        lora = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=names, task_type="CAUSAL_LM")
        try:
            self.model: Any = get_peft_model(model, lora).to(device)
        except ValueError as error:
            raise ConfigError(f"targets: {base} has no layers with these names ({error})") from None

    def begin_from(self, start: Adapter) -> None:
        """Give the updates the values of an adapter. Raises ConfigError if it has updates of another kind."""
        from peft import get_peft_model_state_dict, set_peft_model_state_dict

        own = self.model.peft_config["default"].to_dict()
        given = {"rank": start.config["r"], "alpha": start.config.get("lora_alpha")}
        if given != (here := {"rank": own["r"], "alpha": own["lora_alpha"]}):
            raise ConfigError(
                f"{start.setting}: {start.directory} has rank {given['rank']} and alpha {given['alpha']}, the training "
                f"{here['rank']} and {here['alpha']}. Use --set rank={given['rank']} --set alpha={given['alpha']}"
            )
        weights, state = load_file(start.directory / WEIGHTS), get_peft_model_state_dict(self.model)
        if {name: weight.shape for name, weight in weights.items()} != {name: own.shape for name, own in state.items()}:
            raise ConfigError(
                f"{start.setting}: {start.directory} updates other layers than this training, or those of another "
                f"model ({start.config.get('base_model_name_or_path') or 'unknown'}); set base and targets as its "
                f"{SETTINGS} has them"
            )
        set_peft_model_state_dict(self.model, weights)

    def trained(self) -> dict[str, nn.Parameter]:
        """The low-rank updates, by name."""
        return {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}

    def logits(self, ids: Sequence[int], positions: Sequence[int], layout: Layout, places: Sequence[int]) -> Tensor:
        """Logits of the tokens at `places`, float32 (places, vocabulary)."""
        from peft.helpers import disable_input_dtype_casting

        mask = layout_mask(layout)
        hidden = torch.zeros(mask.shape, dtype=self.dtype).masked_fill_(~mask, torch.finfo(self.dtype).min)
        half = torch.autocast(self.device.type, dtype=self.dtype, enabled=self.dtype != torch.float32)
        # Autocast alone casts what the updates read: PEFT would cast it to their float32 first.
        with half, disable_input_dtype_casting(self.model):
            out = self.model(
                input_ids=torch.tensor([ids], device=self.device),
                position_ids=torch.tensor([positions], device=self.device),
                attention_mask=hidden[None, None].to(self.device),
                use_cache=False,
                logits_to_keep=torch.tensor(places, device=self.device),
            )
        return out.logits[0].float()

    def files(self, base: str) -> dict[str, bytes]:
        """The adapter's files as PEFT names them, in bf16; `base`: the name of the model that they are for."""
        from peft import get_peft_model_state_dict

        state: Mapping[str, Tensor] = get_peft_model_state_dict(self.model, save_embedding_layers=False)
        tensors = {name: weight.detach().to(torch.bfloat16).contiguous().cpu() for name, weight in state.items()}
        settings = {**self.model.peft_config["default"].to_dict(), "inference_mode": True}
        settings["base_model_name_or_path"] = base
        settings["target_modules"] = sorted(settings["target_modules"])
        text = json.dumps(settings, indent=1, sort_keys=True, default=str)
        return {SETTINGS: f"{text}\n".encode(), WEIGHTS: save(tensors, {"format": "pt"})}

    @contextmanager
    def weights_of(self, directory: Path) -> Iterator[None]:
        """Give the model the updates of a directory within the block, and restore its updates afterwards."""
        from peft import set_peft_model_state_dict

        own = {name: weight.detach().clone() for name, weight in self.trained().items()}
        set_peft_model_state_dict(self.model, load_file(directory / WEIGHTS))
        self.model.eval()
        try:
            with torch.no_grad():
                yield
        finally:
            with torch.no_grad():
                for name, weight in self.trained().items():
                    weight.copy_(own[name])
