"""Commands in processes of their own, to be killed: forks of one that has loaded the libraries, and no client of a
bucket."""

import multiprocessing
import os
import sys
import time
from collections.abc import Mapping, Sequence

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    [
        "vitalfew.flows.cli.main",
        "vitalfew.flows.pipelines.index_corpus",
        "vitalfew.flows.pipelines.evaluate",
        "vitalfew.tasks.train",
    ]
)
Environment = Mapping[str, str]
NOTHING: Environment = {}


def _obey(arguments: Sequence[str], environment: Environment) -> None:
    """The command line in a process of its own, which is there at once."""
    from vitalfew.flows.cli.main import app

    os.environ.update(environment)
    for stream in (sys.stdout, sys.stderr):
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    app(list(arguments))


def seconds(arguments: Sequence[str], environment: Environment = NOTHING) -> float:
    """Run a command to its end. Returns how long it took."""
    began = time.monotonic()
    process = FORKED.Process(target=_obey, args=(arguments, environment))
    process.start()
    process.join()
    assert process.exitcode == 0, arguments
    return time.monotonic() - began


def is_killed(arguments: Sequence[str], after: float, environment: Environment = NOTHING) -> bool:
    """Start a command and kill it after so many seconds; whether it had not ended before."""
    process = FORKED.Process(target=_obey, args=(arguments, environment))
    process.start()
    process.join(after)
    process.kill()
    process.join()
    assert process.exitcode in (0, -9)
    return process.exitcode == -9
