"""What a worker takes counts with its processes': those that end, those that stay, and what those started."""

import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection

import pytest

from vitalfew.storage.costs import Meter

BUSY = "import time\nwhile time.process_time() < {}: pass"


def burn(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def compute(asked: Connection) -> None:
    """An engine's own process: computes when it is asked to, and stays."""
    memory = bytearray(64 << 20)
    while (seconds := asked.recv()) is not None:
        burn(seconds)
        asked.send(len(memory))


@pytest.fixture
def engine() -> Iterator[Connection]:
    """A stand-in for an engine like vLLM's."""
    asking, asked = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=compute, args=(asked,))
    process.start()
    asking.send(0.0)
    asking.recv()
    yield asking
    asking.send(None)
    process.join()


def test_an_engine_in_a_process_of_its_own_is_charged_to_the_shard_that_asks_it(engine: Connection) -> None:
    costs = []
    for seconds in (0.3, 0.0):
        with Meter() as meter:
            engine.send(seconds)
            engine.recv()
        costs.append(meter.cost)
    asked, idle = costs
    assert 0.28 <= asked.cpu_seconds < 0.6  # its start, and what it took before, are not this shard's
    assert idle.cpu_seconds < 0.1
    assert asked.usd > 3 * idle.usd
    assert asked.peak_memory_bytes > 64 << 20


def test_what_ends_within_a_shard_counts_once(engine: Connection) -> None:
    with Meter() as meter:
        subprocess.run([sys.executable, "-c", BUSY.format(0.3)], check=True)
    assert 0.28 <= meter.cost.cpu_seconds < 0.9  # Python's start among it
    with Meter() as meter:
        pass
    assert meter.cost.cpu_seconds < 0.1
