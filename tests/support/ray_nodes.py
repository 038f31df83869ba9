"""Three Ray nodes on this machine, one CPU each, in processes of their own: `with three_nodes(folder) as nodes: ...`

With a folder each is as good as a machine of its own: it has a working directory, a home, a folder for what is
temporary and one for copies of objects, and no key. What lies in `nodes.driver`, the folder of the cluster's user,
is not there for a node: Python's `open` and `listdir` do not find it.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).parents[2]
KEYS = ("AWS_", "AZURE_", "GOOGLE_", "OPENAI_")
BLIND = """
import errno, os, sys

def _unseen(event, arguments, folder={folder!r}):
    if event in ("open", "os.listdir", "os.scandir") and isinstance(arguments[0], (str, bytes)):
        if os.path.abspath(os.fsdecode(arguments[0])).startswith(folder):
            raise FileNotFoundError(errno.ENOENT, "No such file on this node", arguments[0])

sys.addaudithook(_unseen)
"""
"""What every Python of a node runs first (sitecustomize.py)."""


@dataclass(frozen=True)
class Nodes:
    """`environment`: of a process that is to use the cluster; `raylets`: a process number for every node, head first,
    on which drivers of this machine are; `driver`: a folder that nodes apart have no sight of."""

    process: "subprocess.Popen[str]"
    environment: Mapping[str, str]
    driver: Path
    raylets: list[int] = field(default_factory=list)

    def kill(self, raylet: int) -> None:
        """Kill a node with all of its processes, as a power cut does."""
        for process in [psutil.Process(raylet), *psutil.Process(raylet).children(recursive=True)]:
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.raylets.remove(raylet)

    def replace(self, count: int = 3) -> None:
        """Have so many nodes again."""
        while len(self.raylets) < count:
            assert self.process.stdin
            assert self.process.stdout
            self.process.stdin.write("one more\n")
            self.process.stdin.flush()
            self.raylets.append(int(self.process.stdout.readline()))


@contextmanager
def three_nodes(folder: Path) -> Iterator[Nodes]:
    """A cluster with token authentication on the loopback interface, that ends with the block however that ends."""
    environment = {
        **os.environ,
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": "0123456789abcdef" * 4,
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        "RAY_TMPDIR": str(folder),
        "RAY_gcs_server_port_wait_time_s": "900",
        "RAY_health_check_initial_delay_ms": "0",
        "RAY_health_check_period_ms": "500",
        "RAY_health_check_failure_threshold": "20",
    }
    command = [sys.executable, "-m", "tests.support.ray_nodes", str(folder)]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    try:
        started = json.loads(process.stdout.readline())
        # The workers are to get what is to be passed on from the driver, and nothing from the nodes.
        environment |= {"RAY_ADDRESS": started["address"]}
        yield Nodes(process, environment, folder / "driver", started["raylets"])
    finally:
        family = [process, *psutil.Process(process.pid).children(recursive=True)]
        for one in family:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait()


def wait_for(condition: Callable[[], object], seconds: float = 900) -> None:
    """Wait until the condition holds. Raises TimeoutError."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.1)


def _apart(folder: Path, number: int) -> dict[str, str]:
    """What a node has for itself; it starts in its own working directory."""
    own = {name: folder / f"node-{number}" / name for name in ("work", "home", "tmp", "copies", "first")}
    for path in own.values():
        path.mkdir(parents=True)
    (own["first"] / "sitecustomize.py").write_text(BLIND.format(folder=f"{folder / 'driver'}{os.sep}"))
    os.chdir(own["work"])
    return {
        "HOME": str(own["home"]),
        "TMPDIR": str(own["tmp"]),
        "VITALFEW_CACHE": str(own["copies"]),
        "PYTHONPATH": os.pathsep.join(map(str, (own["first"], ROOT))),
    }


def _start(folder: Path | None) -> None:
    """Nodes, and one more for every line of standard input, until that ends."""
    from ray._private import services
    from ray.cluster_utils import Cluster

    def node(number: int) -> dict[str, Any]:
        own = {"env_vars": _apart(folder, number)} if folder else {}
        return {"num_cpus": 1, "object_store_memory": 80 << 20, "include_dashboard": False, **own}

    if folder:
        (folder / "driver").mkdir()
        for name in [name for name in os.environ if name.startswith(KEYS)]:
            del os.environ[name]
    # Ray gives up on a node after 30 s, which a busy machine may need.
    services.get_node = partial(_patiently, services.get_node)
    cluster = Cluster(initialize_head=True, head_node_args=node(0))
    nodes = [cluster.head_node, *(cluster.add_node(**node(number)) for number in (1, 2))]
    print(json.dumps({"address": cluster.address, "raylets": [_raylet(each) for each in nodes]}), flush=True)
    for number, _ in enumerate(sys.stdin, 3):
        print(_raylet(cluster.add_node(**node(number))), flush=True)


def _patiently(get_node: Callable[..., Any], *arguments: Any) -> Any:
    for _ in range(9000):
        with suppress(RuntimeError):
            return get_node(*arguments)
        time.sleep(0.1)
    return get_node(*arguments)


def _raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


if __name__ == "__main__":
    _start(Path(sys.argv[1]) if sys.argv[1:] else None)
