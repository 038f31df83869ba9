"""The end of the processes that this one has started."""

from collections.abc import Sequence
from contextlib import suppress

import psutil

PATIENCE = 2.0
"""Seconds that processes have to end by themselves."""


def end_workers() -> None:
    """End the workers of a Ray on this machine before their cluster: only now can they enter in the ledger what the
    shards took that they are working on. Without its agents ("ray::…", too) a cluster ends at once."""
    _end([child for child in _children() if _name(child).startswith("ray::Worker")])


def end_children() -> None:
    """End the workers, then everything else that this process has started."""
    end_workers()
    _end(_children())


def end_working_in(folder: str) -> None:
    """End the processes whose commands name a folder, such as what an attempt to start Ray has left."""
    _end([child for child in _children() if any(folder in word for word in _command(child))])


def _children() -> list[psutil.Process]:
    return psutil.Process().children(recursive=True)


def _name(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return process.name()
    return ""


def _command(process: psutil.Process) -> list[str]:
    with suppress(psutil.Error):
        return process.cmdline()
    return []


def _end(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    for process in psutil.wait_procs(processes, timeout=PATIENCE)[1]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
