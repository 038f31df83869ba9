"""The processor's features that decide how a network is computed, read without PyTorch where the system lists them.

Linux lists them in /proc/cpuinfo: in its line "flags" for x86, "Features" for ARM. Elsewhere PyTorch is asked.
"""

import platform
from functools import cache
from pathlib import Path

KNOWN = frozenset(
    ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_bf16", "amx_int8", "bf16", "i8mm", "amd")
)
"""Linux's names; bf16 and i8mm are of ARM. The last is the maker: see `bf16_pays`."""
_LISTED = Path("/proc/cpuinfo")
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
    try:
        with _LISTED.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, names = line.partition(":")
                if "AuthenticAMD" in names:
                    maker = frozenset(("amd",))
                if name.strip() in ("flags", "Features"):
                    return maker | frozenset(names.split())
    except OSError:
        pass
    return None


def _from_torch() -> frozenset[str]:
    import torch  # takes seconds

    capabilities = torch.cpu.get_capabilities()
    maker = ("amd",) if "AuthenticAMD" in platform.processor() else ()  # Windows's words
    return frozenset((*maker, *(_TORCH.get(name, name) for name, there in capabilities.items() if there is True)))
