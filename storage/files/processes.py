"""The names of processes, and whether a process of that name still works.

An id alone says little: another process gets it later, and every container counts again, so that most have a process 1.
The name of a process says where its id counts (a boot of a kernel, and there a PID namespace), the id, and when the
process started, in ticks since the boot. That another has ended can be seen only from the same place: of a process of
another machine, of another container or of an earlier boot, nobody here knows anything.

The temporary files of a process have its name, so that those which a killed process left are known.
"""

import os
import re
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from pathlib import Path
from secrets import token_hex

NAME = r"[0-9a-f]{12}-\d+-\d+"
"""The name of a process, as a pattern."""
_PROC = Path("/proc")
_ENDED = "ended"


@cache
def this_process() -> str:
    """The name of this process: 4f2a9c01d3e7-4711-1347923."""
    return f"{_here()}-{os.getpid()}-{_start(os.getpid()) or 0}"


def is_in_sight(process: str) -> bool:
    """Return true if this process could see that the process of this name has ended."""
    return re.fullmatch(NAME, process) is not None and process.startswith(f"{_here()}-")


def has_ended(process: str) -> bool:
    """Return true if the process of this name is known to have ended; false if it is out of sight."""
    return is_in_sight(process) and not _is_alive(*process.split("-")[1:])


def _is_alive(pid: str, start: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        pass
    return start == "0" or _start(int(pid)) in ("", start)


@cache
def _here() -> str:
    """The place in which ids of processes count as they do here; if it is not known, a name that no process shares."""
    try:
        if os.readlink(_PROC / "self") != str(os.getpid()):  # /proc has the ids of another namespace
            return token_hex(6)
        place = [(_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii"), _inode("pid")]
    except OSError:
        return token_hex(6)
    with suppress(OSError):  # not before Linux 5.6
        place.append(_inode("time"))  # which ticks are counted from
    return blake2b("\n".join(place).encode(), digest_size=6).hexdigest()


def _inode(kind: str) -> str:
    """The number of this process's namespace; it is given again once all processes in there have ended."""
    return str((_PROC / "self/ns" / kind).stat().st_ino)


def _start(pid: int) -> str:
    """When a process started; "" where the system does not say, and _ENDED for a zombie: a process that has ended, and
    that its parent has not taken note of."""
    try:
        # The second field is the program's name in brackets, which may hold anything.
        text = (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2]
    except OSError:
        return ""
    fields = text.split()
    return _ENDED if fields[0] in "ZX" else fields[19]


def _forget() -> None:
    this_process.cache_clear()
    _here.cache_clear()


os.register_at_fork(after_in_child=_forget)


TEMPORARY = re.compile(rf"\..+\.(?P<process>{NAME})\.tmp")
"""The name of a temporary file."""


def temporary_name(path: Path) -> Path:
    """Name for a file while this process writes it: it names the process."""
    return path.with_name(f".{path.name}.{this_process()}.tmp")


def is_temporary(path: Path) -> bool:
    """Return true for a temporary file, or folder, of any process."""
    return TEMPORARY.fullmatch(path.name) is not None


def is_leftover(path: Path) -> bool:
    """Return true for a temporary file, or folder, of a process that is known to have ended."""
    match = TEMPORARY.fullmatch(path.name)
    return match is not None and has_ended(match["process"])
