"""The processor's features that decide how a network is computed, read without PyTorch where the system lists them.

Linux lists them in /proc/cpuinfo: in its line "flags" for x86, "Features" for ARM. Elsewhere PyTorch is asked.
"""

from functools import cache
from pathlib import Path

KNOWN = frozenset(("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_bf16", "amx_int8", "bf16", "i8mm"))
"""Linux's names. The last two are of ARM."""
_LISTED = Path("/proc/cpuinfo")
_TORCH = {"avx512_f": "avx512f"}
"""Linux's names of features which PyTorch names otherwise."""


@cache
def features() -> frozenset[str]:
    """Return those of KNOWN that the processor has."""
    listed = _from_linux()
    return KNOWN & (_from_torch() if listed is None else listed)


def _from_linux() -> frozenset[str] | None:
    """Every feature of the first core; None where the system does not list them."""
    try:
        with _LISTED.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, _, names = line.partition(":")
                if name.strip() in ("flags", "Features"):
                    return frozenset(names.split())
    except OSError:
        pass
    return None


def _from_torch() -> frozenset[str]:
    import torch  # takes seconds

    capabilities = torch.cpu.get_capabilities()
    return frozenset(_TORCH.get(name, name) for name, there in capabilities.items() if there is True)
