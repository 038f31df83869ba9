"""Three Ray nodes on this machine, one CPU each, in a process of its own: `with three_nodes(folder) as nodes: ...`"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Nodes:
    """`environment`: of a process that is to use the cluster; `raylets`: a process number for every node, head first,
    on which drivers of this machine are."""

    environment: dict[str, str]
    raylets: list[int]

    def kill(self, raylet: int) -> None:
        """Kill a node with all of its processes, as a power cut does."""
        for process in [psutil.Process(raylet), *psutil.Process(raylet).children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()


@contextmanager
def three_nodes(folder: Path) -> Iterator[Nodes]:
    """A cluster with token authentication on the loopback interface, that ends with the block however that ends."""
    environment = {
        **os.environ,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "0123456789abcdef" * 4,
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_TMPDIR": str(folder),
        "RAY_health_check_initial_delay_ms": "0",
        "RAY_health_check_period_ms": "500",
        "RAY_health_check_failure_threshold": "6",
    }
    command = [sys.executable, "-m", "tests.support.ray_nodes"]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin
    assert process.stdout
    try:
        started = json.loads(process.stdout.readline())
        # The workers are to get what is to be passed on from the driver, and nothing from the nodes.
        yield Nodes({**environment, "RAY_ADDRESS": started["address"]}, started["raylets"])
    finally:
        family = [process, *psutil.Process(process.pid).children(recursive=True)]
        for one in family:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait()


def wait_for(condition: Callable[[], object], seconds: float = 300) -> None:
    """Wait until the condition holds. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.1)


def _start() -> None:
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    nodes = [cluster.head_node, *(cluster.add_node(**node) for _ in range(2))]
    raylets = [node.all_processes["raylet"][0].process.pid for node in nodes]
    print(json.dumps({"address": cluster.address, "raylets": raylets}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _start()
