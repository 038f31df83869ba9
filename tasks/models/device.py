"""The device on which a model computes, and the precision of its matrix products.

Functions import PyTorch themselves, so that a command that only names a method starts more than a second earlier.
"""

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.options import Batching
from vitalfew.configs.section import DtypeName, Precision

if TYPE_CHECKING:
    import torch

logger = logging.getLogger("vitalfew")

DTYPES: dict[DtypeName, str] = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""PyTorch's names of the precisions."""


def choose_device(setting: Literal["auto", "cpu", "cuda"]) -> "torch.device":
    """`auto` is the GPU if this process sees one. Decided once, at the start of a run: see `choose_dtype`."""
    import torch

    if setting == "auto":
        setting = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(setting)


def choose_dtype(precision: Precision, device: "torch.device") -> "torch.dtype":
    """`auto`: bf16 if it is native; else fp16 on a GPU, float32 on a CPU.

    For GPUs that only the workers have, `auto` is always bf16: device and precision are part of the
    vectors' identity, which the driver must know before any worker starts.
    """
    import torch

    if precision != "auto":
        return dtype_of(precision)
    if device.type == "cpu":
        return torch.bfloat16 if _native_on_cpu() else torch.float32
    return torch.bfloat16 if not torch.cuda.is_available() or _native_on_gpu() else torch.float16


def dtype_of(precision: DtypeName) -> "torch.dtype":
    import torch

    dtype: torch.dtype = getattr(torch, DTYPES[precision])
    return dtype


def precision_of(dtype: "torch.dtype") -> DtypeName:
    """The name of a precision in settings."""
    return next(name for name, of_torch in DTYPES.items() if str(dtype) == f"torch.{of_torch}")


class OnDevice:
    """A method that computes with a network, on one device and in one precision."""

    version: ClassVar[str]

    def __init__(self, options: Any) -> None:
        """`options`: have `device` and `precision` (`Computing`)."""
        self.device = choose_device(options.device)
        self.dtype = choose_dtype(options.precision, self.device)
        self.uses_gpu = self.device.type == "cuda"

    def identity(self) -> dict[str, Any]:
        """Everything that a result depends on besides options and weights."""
        return {
            "class": type(self).__name__,
            "version": self.version,
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": self.device.type,
        }


class InBatches(OnDevice, ABC):
    """A method that computes batches of at most `batch_tokens` tokens, with weights in files."""

    cpu_tokens: ClassVar[int]
    """Tokens in a batch on a CPU, unless the settings say otherwise."""

    def __init__(self, options: Batching) -> None:
        super().__init__(options)
        self.batch_tokens = options.batch_tokens or (65_536 if self.uses_gpu else self.cpu_tokens)

    @abstractmethod
    def files(self) -> dict[str, str]:
        """The checksums of all files that a result depends on."""

    def identity(self) -> dict[str, Any]:
        """Everything that a result depends on besides options. Needs no loaded model."""
        return {**super().identity(), "batch_tokens": self.batch_tokens, "files": self.files()}


def native_bf16() -> bool:
    """Return whether this machine's GPU, or its CPU if there is no GPU, computes in bf16 without emulation."""
    import torch

    return _native_on_gpu() if torch.cuda.is_available() else _native_on_cpu()


def require_device(device: "torch.device", dtype: "torch.dtype", section: str = "encode") -> None:
    """Raise ConfigError if a worker must compute on a GPU and sees none; called when the model is loaded.

    `section`: of the settings, for messages.
    """
    if device.type != "cuda":
        return
    import torch

    if not torch.cuda.is_available():
        raise ConfigError(
            f"{section}.device is cuda, but this process sees no GPU (or its PyTorch was built without "
            "CUDA). Start the run with --runner ray on a cluster whose nodes have GPUs, or use --set "
            f"{section}.device=cpu"
        )
    if dtype == torch.bfloat16 and not _native_on_gpu():
        logger.warning("%s emulates bf16; --set %s.precision=fp16 is faster", torch.cuda.get_device_name(), section)


def _native_on_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_bf16_supported(including_emulation=False))


def _native_on_cpu() -> bool:
    import torch

    capabilities = torch.cpu.get_capabilities()
    return bool(capabilities.get("avx512_bf16") or capabilities.get("amx_bf16") or capabilities.get("bf16"))
