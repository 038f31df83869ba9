"""Which process of this machine wrote something, and whether it works still.

An id is given again: to another process after a reboot, or in a container that was started anew, where it is mostly 1.
What a process is called here has its start as well, in ticks of a boot of the machine.
"""

import os
from functools import lru_cache
from pathlib import Path

_BOOT = Path("/proc/sys/kernel/random/boot_id")
_ENDED = "ended"


def this_process() -> str:
    """What this process is called: 4711-8d9f0a1b52263, and 4711 on a system that does not say when it started."""
    return _name(os.getpid())


def is_alive(process: str) -> bool:
    """Whether a process of this machine still works, by what it called itself.

    Of an id alone, as older versions wrote it, any process that has the id is believed to be the one.
    """
    pid, _, start = process.partition("-")
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        pass
    known = _start(int(pid))
    return not start or known in ("", start)


@lru_cache(1)
def _name(pid: int) -> str:
    return "-".join(filter(None, (str(pid), _start(pid))))


def _start(pid: int) -> str:
    """When a process started; '' where the system does not say, and a word of its own for one that was killed and that
    its parent has not taken note of."""
    try:
        boot = _BOOT.read_text(encoding="ascii")
        # The second field is the program's name in brackets, which may hold anything.
        fields = (
            Path("/proc", str(pid), "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return ""
    return _ENDED if fields[0] in "ZX" else f"{boot[:8]}{fields[19]}"
