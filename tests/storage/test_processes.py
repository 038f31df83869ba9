"""What a worker takes counts with its processes': those that end, those that stay, and what those started."""

import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing import get_context
from multiprocessing.connection import Connection

import psutil
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


def taken() -> float:
    """CPU seconds of this process and its children so far, as the system counts them: in hundredths."""
    return sum(sum(each.cpu_times()[:4]) for each in (psutil.Process(), *psutil.Process().children()))


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
        before = taken()  # its start, and what it took before, are not this shard's
        with Meter() as meter:
            engine.send(seconds)
            engine.recv()
        assert seconds - 0.02 <= meter.cost.cpu_seconds <= taken() - before + 0.05
        costs.append(meter.cost)
    asked, idle = costs
    assert asked.usd > 3 * idle.usd
    assert asked.peak_memory_bytes > 64 << 20


def test_what_ends_within_a_shard_counts_once(engine: Connection) -> None:
    before = taken()
    with Meter() as meter:
        subprocess.run([sys.executable, "-c", BUSY.format(0.3)], check=True)
    assert 0.28 <= meter.cost.cpu_seconds <= taken() - before + 0.05
    before = taken()
    with Meter() as meter:
        pass
    assert meter.cost.cpu_seconds <= taken() - before + 0.05
