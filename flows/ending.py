"""The end of the processes that this one has started."""

from collections.abc import Callable
from contextlib import suppress

import psutil

PATIENCE = 2.0
"""Seconds that processes have to end by themselves."""


def end_workers() -> None:
    """End the workers of a Ray on this machine before their cluster: only now can they enter in the ledger what the
    shards took that they are working on. Without its agents ("ray::…", too) a cluster ends at once."""
    _end(lambda process: process.name().startswith("ray::Worker"))


def end_children() -> None:
    """End the workers, then everything else that this process has started."""
    end_workers()
    _end(lambda process: True)


def end_working_in(folder: str) -> None:
    """End the processes whose commands name a folder, such as what an attempt to start Ray has left."""
    _end(lambda process: any(folder in word for word in process.cmdline()))


def _end(is_meant: Callable[[psutil.Process], bool]) -> None:
    """End the processes among those that this one has started that are meant."""
    processes = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            if is_meant(process):
                process.terminate()
                processes.append(process)
    for process in psutil.wait_procs(processes, timeout=PATIENCE)[1]:
        with suppress(psutil.NoSuchProcess):
            process.kill()
