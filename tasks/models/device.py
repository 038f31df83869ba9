"""The device on which a model computes, and the precision of its matrix products.

A plan needs their names alone, and gets them without PyTorch, whose import takes seconds: PyTorch is asked only where
this machine may have a GPU, or does not list its processor's features. Linux lists them in /proc/cpuinfo: in its line
"flags" for x86, "Features" for ARM.
"""

import logging
import platform
import sys
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import cache, cached_property
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.options import Batching
from vitalfew.configs.section import Device, DtypeName, Precision

if TYPE_CHECKING:
    import torch

logger = logging.getLogger("vitalfew")

DTYPES: dict[DtypeName, str] = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""PyTorch's names of the precisions."""


SIGNS = ("/proc/driver/nvidia", "/dev/nvidia*", "/dev/nvhost*", "/dev/nvmap", "/dev/dxg", "/dev/kfd")
"""Files of the drivers of NVIDIA's GPUs, Jetsons included, of Windows' subsystem for Linux, and of AMD's."""

DeviceName = Literal["cpu", "cuda"]


def device_name(setting: Device) -> DeviceName:
    """`auto` is the GPU if this process sees one. Decided once, at the start of a run: see `precision_name`."""
    if setting == "auto":
        return "cuda" if sees_gpu() else "cpu"
    return setting


def precision_name(setting: Precision, device: DeviceName) -> DtypeName:
    """`auto`: bf16 where it pays; else fp16 on a GPU, float32 on a CPU.

    For GPUs that only the workers have, `auto` is always bf16: device and precision are part of the
    vectors' identity, which the driver must know before any worker starts.
    """
    if setting != "auto":
        return setting
    if device == "cpu":
        return "bf16" if bf16_pays(features()) else "fp32"
    return "bf16" if not sees_gpu() or _native_on_gpu() else "fp16"


def choose_device(setting: Device) -> "torch.device":
    """PyTorch's object for `device_name`."""
    import torch

    return torch.device(device_name(setting))


def dtype_of(precision: DtypeName) -> "torch.dtype":
    import torch

    return getattr(torch, DTYPES[precision])


def precision_of(dtype: "torch.dtype") -> DtypeName:
    """The name of a precision in settings."""
    return next(name for name, of_torch in DTYPES.items() if str(dtype) == f"torch.{of_torch}")


class OnDevice:
    """A method that computes with a network, on one device and in one precision."""

    version: ClassVar[str]

    def __init__(self, options: Any) -> None:
        """`options`: have `device` and `precision` (`Computing`)."""
        self.device_name = device_name(options.device)
        self.precision = precision_name(options.precision, self.device_name)
        self.uses_gpu = self.device_name == "cuda"

    @cached_property
    def device(self) -> "torch.device":
        return choose_device(self.device_name)

    @cached_property
    def dtype(self) -> "torch.dtype":
        return dtype_of(self.precision)

    def identity(self) -> dict[str, Any]:
        """Everything that a result depends on besides options and weights."""
        return {
            "class": type(self).__name__,
            "version": self.version,
            "dtype": DTYPES[self.precision],
            "device": self.device_name,
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


def is_fast_in_bf16() -> bool:
    """Return whether bf16 pays on this machine's GPU, or on its CPU if there is no GPU."""
    return _native_on_gpu() if sees_gpu() else bf16_pays(features())


def sees_gpu() -> bool:
    """Return whether PyTorch sees a GPU. It is only asked where the system shows one, or may hide it."""
    if sys.platform == "linux" and not any(map(glob, SIGNS)):
        return False
    import torch

    return torch.cuda.is_available()


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


KNOWN = frozenset(
    ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_bf16", "amx_int8", "bf16", "i8mm", "amd")
)
"""Linux's names; bf16 and i8mm are of ARM. The last is the maker: see `bf16_pays`."""
_TORCH = {"avx512_f": "avx512f"}
"""Linux's names of features which PyTorch names otherwise."""


@cache
def features() -> frozenset[str]:
    """Return those of KNOWN that the processor has."""
    listed = _from_linux()
    return KNOWN & (_from_torch() if listed is None else listed)


def bf16_pays(known: frozenset[str]) -> bool:
    """Return whether products are faster in bf16 than in float32 on a processor with these features.

    They are with AMX, on ARM, and with AVX512-BF16 on AMD's processors. Intel's do half as many operations a second by
    AVX512-BF16 as in float32 (82 against 146 GFLOPS on one core of a Xeon of model 207): such a Xeon needs AMX, which
    a virtual machine may hide.
    """
    return not known.isdisjoint(("amx_bf16", "bf16")) or {"avx512_bf16", "amd"} <= known


def _from_linux() -> frozenset[str] | None:
    """Every feature of the first core; None where the system does not list them."""
    maker = frozenset[str]()
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            name, _, names = line.partition(":")
            if "AuthenticAMD" in names:
                maker = frozenset(("amd",))
            if name.strip() in ("flags", "Features"):
                return maker | frozenset(names.split())
    return None


def _from_torch() -> frozenset[str]:
    import torch  # takes seconds

    capabilities = torch.cpu.get_capabilities()
    maker = ("amd",) if "AuthenticAMD" in platform.processor() else ()  # Windows's words
    return frozenset((*maker, *(_TORCH.get(name, name) for name, there in capabilities.items() if there is True)))
