"""What NVIDIA's management library (NVML, the extra `nvml`) says of the GPU that this process sees."""

import os
from functools import cache
from typing import Any


def joules() -> float | None:
    """Energy that the first visible GPU has taken since its driver was loaded (joules); None where NVML cannot tell."""
    device = _device()
    if device is None:
        return None
    import pynvml

    try:
        return pynvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1000  # it counts millijoules
    except pynvml.NVMLError:  # GPUs before Volta do not count it
        return None


@cache
def _device() -> Any:
    """The GPU that CUDA_VISIBLE_DEVICES names first, by number or UUID; None without NVML or a GPU."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip()
    try:
        import pynvml

        pynvml.nvmlInit()
        if visible.isdigit():
            return pynvml.nvmlDeviceGetHandleByIndex(int(visible))
        return pynvml.nvmlDeviceGetHandleByUUID(visible)
    except ImportError:
        return None
    except pynvml.NVMLError:
        return None
