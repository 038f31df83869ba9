"""What an index without all vectors lacks, encoded beside the server: `vitalfew index --encode all`, at low priority.

The server takes the finished generation as any other. Vectors are kept shard by shard, so that nothing is lost where
the server ends first: the next one goes on, and so does the command.
"""

import logging
import os
import shlex
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

from vitalfew.flows.serving.configurations import Served

logger = logging.getLogger("vitalfew")

LOWEST = 19
"""The priority of what runs only where nothing else does."""
GRACE = 5.0
"""Seconds that the command has to end by itself; a kill loses no finished shard."""


def incomplete(served: Iterable[Served]) -> list[str]:
    """The names of the indexes whose vectors are made on demand."""
    return [*dict.fromkeys(each.index_name for each in served if not each.is_encoded)]


@contextmanager
def completing(store: Path, names: Iterable[str]) -> Iterator[None]:
    """Within the block, these indexes are encoded, one after the other."""
    ended = Event()
    work = Thread(target=_encode_all, args=(store, [*names], ended), name="encode all")
    work.start()
    try:
        yield
    finally:
        ended.set()
        work.join()


def _encode_all(store: Path, names: Iterable[str], ended: Event) -> None:
    for name in names:
        words = ["index", "--name", name, "--encode", "all", "--store", str(store)]
        status, last = _run([sys.executable, "-m", "vitalfew.flows.cli", *words, "--runner", "serial"], ended)
        if ended.is_set():
            return
        if status:
            by_hand = shlex.join(["vitalfew", *words])
            logger.warning("index %s was not encoded (exit status %d): %s. By hand: %s", name, status, last, by_hand)
        else:
            logger.info("index %s is encoded", name)


def _run(command: list[str], ended: Event) -> tuple[int, str]:
    """The exit status of a command and the last line that it wrote. It is interrupted once `ended` is set."""
    with tempfile.TemporaryFile() as said:
        # In a session of its own: Ctrl-C at the terminal is for the server, which ends the command.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said, start_new_session=True
        )
        os.setpriority(os.PRIO_PROCESS, process.pid, LOWEST)
        while process.poll() is None:
            if ended.wait(0.5):
                process.send_signal(signal.SIGINT)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(GRACE)
                process.kill()
        said.seek(0)
        lines = said.read().decode(errors="replace").strip().splitlines()
        return process.wait(), lines[-1] if lines else "it said nothing"
