"""A causal language model whose weights are frozen, with low-rank updates that are trained, as PEFT has them.

LoRA (Hu et al. 2021, arXiv 2106.09685): W + (alpha / r) B A. The frozen weights are in the precision of the matrix
products, the updates in float32. Every forward pass has a mask of its own, of four dimensions: without one,
transformers reads positions that are not consecutive as several texts in one row.
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

from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.causal import segmented
from vitalfew.tasks.models.causal.adapters import MISSING, SETTINGS, WEIGHTS
from vitalfew.tasks.models.causal.engines.base import EngineUnavailable


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
        if importlib.util.find_spec("peft") is None:
            raise EngineUnavailable(MISSING)
        from peft import LoraConfig, get_peft_model
        from transformers import AutoModelForCausalLM

        self.device, self.dtype = device, dtype
        segmented.register()
        attention = segmented.SEGMENTED if device.type == "cpu" else "sdpa"
        model = AutoModelForCausalLM.from_pretrained(
            base, dtype=dtype, use_safetensors=True, local_files_only=True, attn_implementation=attention
        )
        names: Any = "all-linear" if "all-linear" in targets else list(targets)
        lora = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=names, task_type="CAUSAL_LM")
        try:
            self.model: Any = get_peft_model(model, lora).to(device)
        except ValueError as error:
            raise ConfigError(f"targets: {base} has no layers with these names ({error})") from None

    def trained(self) -> dict[str, nn.Parameter]:
        """The low-rank updates, by name."""
        return {name: weight for name, weight in self.model.named_parameters() if weight.requires_grad}

    def logits(
        self, ids: Sequence[int], positions: Sequence[int], layout: segmented.Layout, places: Sequence[int]
    ) -> Tensor:
        """Logits of the tokens at `places`, float32 (places, vocabulary)."""
        from peft.helpers import disable_input_dtype_casting

        mask = segmented.layout_mask(layout)
        hidden = torch.zeros(mask.shape, dtype=self.dtype).masked_fill_(~mask, torch.finfo(self.dtype).min)
        half = torch.autocast(self.device.type, dtype=self.dtype, enabled=self.dtype != torch.float32)
        # Autocast alone casts what the updates read: PEFT would cast it to their float32 first.
        with half, disable_input_dtype_casting(self.model), segmented.laid_out(layout):
            out = self.model(
                input_ids=torch.tensor([ids], device=self.device),
                position_ids=torch.tensor([positions], device=self.device),
                attention_mask=hidden[None, None].to(self.device),
                use_cache=False,
                logits_to_keep=torch.tensor(places, device=self.device),
            )
        logits: Tensor = out.logits[0].float()
        return logits

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
        """In this context the model has the updates that lie in a directory, afterwards its own again."""
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
