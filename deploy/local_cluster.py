"""A small version of the cluster of `compose.yaml`, without containers, on this machine alone: an S3 server, Prefect's
server with its database (SQLite), a Prefect worker, and three Ray nodes of one CPU each. `make cluster`.

    python -m deploy.local_cluster [--exports FILE] [--bucket NAME]

It writes a file with a client's environment for a shell, which only its owner reads, and prints its name once all parts
answer. Ctrl-C ends all parts. The cluster is for trying things out: the bucket is in memory, and is lost at the end, as
are Prefect's runs and the secrets. Everything listens on 127.0.0.1 and needs a secret.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from argparse import ArgumentParser
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex, token_urlsafe
from shlex import quote
from tempfile import mkdtemp
from typing import Any
from urllib.request import urlopen

from tests.support.object_store import REGION
from vitalfew.flows.server.access import QUIET, Server, protected
from vitalfew.flows.server.api import HOST
from vitalfew.flows.server.processes import ProcessEnded, Processes
from vitalfew.storage import files

ROOT = Path(__file__).parents[1]
POOL = "vitalfew"
WORKER = "local"
SERVED = "quickstart:ParetoRAG"


@dataclass(frozen=True)
class Cluster:
    """A cluster that answers. `exports`: the environment of a client."""

    parts: Processes
    exports: Mapping[str, str]
    prefect: Server


@contextmanager
def local_cluster(bucket: str = "vitalfew") -> Iterator[Cluster]:
    """Start all parts, and end them with the block. Raises ProcessEnded or TimeoutError if one does not start."""
    folder = Path(mkdtemp(prefix="vf-"))  # closed to other users; short, for Ray's sockets have long names
    parts = Processes(folder, ROOT)
    try:
        yield _start(parts, bucket)
    finally:
        _on_interrupt(signal.SIG_IGN)  # a second Ctrl-C interrupts nothing
        parts.end()
        shutil.rmtree(folder, ignore_errors=True)


def _start(parts: Processes, bucket: str) -> Cluster:
    s3 = {"AWS_ACCESS_KEY_ID": token_hex(10), "AWS_SECRET_ACCESS_KEY": token_hex(20), "AWS_REGION": REGION}
    ray = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": token_hex(32), "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    clean = _clean(parts)
    parts.start("s3", _module("deploy.object_store", bucket), clean | s3, subprocess.PIPE)
    # The nodes get no key of the bucket: a shared cluster would not have yours either.
    nodes = {"RAY_TMPDIR": str(parts.folder), "RAY_USAGE_STATS_ENABLED": "0"}
    parts.start("ray", _module("tests.support.ray_nodes"), clean | ray | nodes, subprocess.PIPE)
    server = _start_prefect(parts)
    exports = {
        **s3,
        "AWS_ENDPOINT_URL": f"http://{HOST}:{parts.line('s3')}",
        **ray,
        "RAY_ADDRESS": json.loads(parts.line("ray"))["address"],
        "PREFECT_API_URL": f"{server.address}/api",
        "PREFECT_API_AUTH_STRING": server.secret or "",
        "VITALFEW_STORE": f"s3://{bucket}/store",
    }
    parts.until("Prefect's server", server.answers)
    _start_worker(parts, exports)
    parts.until("Prefect's worker", lambda: "ONLINE" in _workers(server))
    return Cluster(parts, exports, server)


def _start_prefect(parts: Processes) -> Server:
    with socket.socket() as bound:
        bound.bind((HOST, 0))
        server = Server(f"http://{HOST}:{bound.getsockname()[1]}", token_urlsafe(32))
        own = {"PREFECT_HOME": str(parts.folder / "server"), "PREFECT_API_URL": f"{server.address}/api"}
        command = _module("vitalfew.flows.server.api", "--descriptor", str(bound.fileno()))
        environment = _clean(parts) | QUIET | protected(server) | own
        parts.start("prefect", command, environment, descriptors=[bound.fileno()])
    return server


def _start_worker(parts: Processes, exports: Mapping[str, str]) -> None:
    """Deploy the flows, for the store in the bucket, and start the worker that runs them."""
    own = {"PREFECT_HOME": str(parts.folder / "worker"), "PREFECT_RUNNER_POLL_FREQUENCY": "2"}
    environment = _clean(parts) | QUIET | dict(exports) | own
    deploy = _module("vitalfew.flows.cli", "deploy", "--pool", POOL, "--store", exports["VITALFEW_STORE"])
    with parts.log("deploy").open("wb") as log:
        if subprocess.run(deploy, cwd=ROOT, env=environment, stdout=log, stderr=log).returncode:
            raise ProcessEnded(f"the flows were not deployed:\n{parts.last_words('deploy')}")
    parts.start("worker", _module("deploy.worker", "--pool", POOL, "--name", WORKER), environment)


def _workers(server: Server) -> list[str]:
    """The states of the pool's workers."""
    with urlopen(server.request(f"/api/work_pools/{POOL}/workers/filter", b"{}"), timeout=10) as answer:
        return [worker["status"] for worker in json.load(answer)]


def _module(name: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", name, *arguments]


def _clean(parts: Processes) -> dict[str, str]:
    """The environment of this process without keys and the names of other clusters, with a folder for temporary
    files."""
    foreign = ("AWS_", "AZURE_", "GOOGLE_", "OPENAI_", "PREFECT_", "RAY_", "VITALFEW_API_KEYS")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    return {**kept, "TMPDIR": str(parts.folder)}


def _on_interrupt(handler: Any) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    parser = ArgumentParser(description="A cluster in small, on this machine alone.")
    parser.add_argument("--exports", type=Path, default=ROOT / "build" / "cluster.env", help="the file for a shell")
    parser.add_argument("--bucket", default="vitalfew", help="its name, 3 characters or more")
    given = parser.parse_args()
    _on_interrupt(_interrupt)  # a shell starts background jobs so that they ignore SIGINT
    try:
        with local_cluster(given.bucket) as cluster:
            _write(given.exports, cluster)
            try:
                _tell(given.exports, cluster)
                while True:
                    cluster.parts.check()
                    time.sleep(0.5)
            finally:
                given.exports.unlink(missing_ok=True)
    except KeyboardInterrupt:
        print("All of it has ended.", flush=True)
    except (ProcessEnded, TimeoutError) as error:
        sys.exit(f"{error}")


def _write(path: Path, cluster: Cluster) -> None:
    lines = [f"export {name}={quote(value)}" for name, value in cluster.exports.items()]
    page = f"# Prefect's UI, in a browser: {cluster.prefect.address}, with the password {cluster.prefect.secret}"
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_private(path, "\n".join([*lines, page, ""]))


def _tell(path: Path, cluster: Cluster) -> None:
    print(
        f"S3       {cluster.exports['AWS_ENDPOINT_URL']}, its bucket in memory: {cluster.exports['VITALFEW_STORE']}\n"
        f"Prefect  {cluster.prefect.address}, with a worker of the pool {POOL}\n"
        f"Ray      {cluster.exports['RAY_ADDRESS']}, three nodes\n\n"
        f"Ready. In another terminal, what a client needs (the page of Prefect's UI, too, is in that file):\n"
        f"  . {path}\n"
        f'  vitalfew index folder:docs --name docs --store "$VITALFEW_STORE"\n'
        f'  vitalfew serve {SERVED} --index docs --store "$VITALFEW_STORE" --runner ray --replicas 2\n'
        "Ctrl-C ends all of it, and forgets what is in the bucket.",
        flush=True,
    )


if __name__ == "__main__":
    main()
