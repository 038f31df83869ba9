"""The time and memory that a worker's process and its descendants take, and the energy of a GPU.

An engine may compute in further processes, which stay between shards (vLLM's EngineCore). A process whose parent ended
before it is not counted any more, nor is a server that this worker did not start.
"""

import os
import resource
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil

_PROC = Path("/proc")


class Family:
    """This process and its descendants, as they live now; `alone`: without these."""

    def __init__(self, alone: bool = False) -> None:
        # They are looked for among all processes of the machine, and only where there is a child.
        self.others = psutil.Process().children(recursive=True) if not alone and _has_children() else []

    def cpu_seconds(self) -> float:
        """CPU time so far of this process with all its threads, of the others, and of the children that they and it
        have waited for. What a child took stays in it when it ends: differences count nothing twice."""
        ended = resource.getrusage(resource.RUSAGE_CHILDREN)
        total = time.process_time() + ended.ru_utime + ended.ru_stime
        for process in self.others:
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                total += times.user + times.system + times.children_user + times.children_system
        return total

    def peak_memory(self) -> int:
        """Peak resident memory in bytes: since the last reset on Linux, else since the start of the process. The peaks
        of several processes are added up, which is an upper bound: they need not come together."""
        scale = 1 if sys.platform == "darwin" else 1024
        own = _peak("self") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale
        return own + sum(_peak(str(process.pid)) for process in self.others)

    def reset_peak_memory(self) -> None:
        """Linux does so on request; where a sandbox forbids it, the peak is that since the start of the process."""
        for number in ("self", *(str(process.pid) for process in self.others)):
            with suppress(OSError):
                (_PROC / number / "clear_refs").write_text("5")


def _peak(number: str) -> int:
    with suppress(OSError):
        for line in (_PROC / number / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _has_children() -> bool:
    try:
        lists = [file.read_text() for file in (_PROC / "self" / "task").glob("*/children")]
    except OSError:  # a thread has ended
        return True
    return any(lists) or not lists  # no lists: not Linux


def gpu_joules() -> float | None:
    """Energy that the first visible GPU has taken since its driver was loaded (joules); None where NVIDIA's management
    library (NVML, the extra `nvml`) does not say."""
    device = _gpu()
    if device is None:
        return None
    import pynvml

    try:
        return pynvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1000  # it counts millijoules
    except pynvml.NVMLError:  # GPUs before Volta do not count it
        return None


@cache
def _gpu() -> Any:
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
