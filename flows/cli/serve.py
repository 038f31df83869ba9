"""The command `serve`."""

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

from rich.markup import escape
from typer import Option

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import METHOD
from vitalfew.flows.cli import options
from vitalfew.flows.cli.terminal import err, out, prepare, say

if TYPE_CHECKING:
    from vitalfew.flows.serving.configurations import Served


def serve(
    configurations: Annotated[
        list[str] | None,
        options.method_argument("RUN:METHOD", f"Methods to serve, or a file with `configurations`; default: {METHOD}."),
    ] = None,
    index: options.IndexOfOthers = None,
    model: options.Model = None,
    port: Annotated[int, Option(metavar="PORT", min=0, max=65535, help="0: any free port.")] = 8765,
    host: Annotated[
        str,
        Option(
            metavar="ADDRESS",
            help="Address to listen on; other than 127.0.0.1 only with keys in VITALFEW_SERVE_KEYS=NAME:KEY,NAME:KEY.",
        ),
    ] = "127.0.0.1",
    origin: Annotated[
        list[str] | None, Option(metavar="URL", help="A further address by which clients reach the server. Repeatable.")
    ] = None,
    runner: Annotated[
        Literal["serial", "ray"],
        Option(
            help="serial: this process answers; ray: replicas do, on the cluster at RAY_ADDRESS or, without one, on a "
            "Ray of this machine."
        ),
    ] = "serial",
    replicas: Annotated[
        str | None,
        Option(
            metavar="N|MIN-MAX",
            help="With --runner ray: replicas of every configuration, each on one CPU. MIN-MAX: as many in this range "
            "as the load needs. Default: 1.",
        ),
    ] = None,
    keep_questions: Annotated[
        bool,
        Option(
            "--keep-questions",
            help="Keep the questions' texts in the table `requests`, for questions.dataset=requests:",
        ),
    ] = False,
    max_usd: options.MaxUsd = None,
    store: options.Store = options.STORE,
    assignments: options.MethodSettings = None,
    verbose: options.Verbose = False,
) -> None:
    """Answer questions over HTTP.

    A method answers as it was evaluated, also for clients of OpenAI. It has the settings of the last evaluation in
    this store, or of the run whose id is given. The server switches to a new generation of the index by itself.
    SIGTERM or Ctrl-C ends the server when the accepted requests are answered. --max-usd is for the time from its start
    to its end; after that, questions are refused (402) and searches are not. The file serve.yaml names several
    configurations:

        vitalfew serve
        vitalfew serve quickstart:ParetoRAG --index wiki
        vitalfew serve serve.yaml --port 9000
        vitalfew serve serve.yaml --runner ray --replicas 2-8
    """
    prepare(verbose)
    began = time.monotonic()
    from vitalfew.flows.serving.application import application
    from vitalfew.flows.serving.recording import RequestRows
    from vitalfew.flows.serving.running import checked_keys, known_origins, listen, opened, read_entries, run
    from vitalfew.flows.serving.telemetry import tracing
    from vitalfew.storage.requests import RequestLog
    from vitalfew.tasks.models.causal.engines.budget import Budget

    keys, traces, computing = checked_keys(host), tracing(), _computing(runner, replicas)
    entries = read_entries(configurations or [METHOD], index, options.answering(model, assignments))
    listening = listen(host, port)
    port = listening.getsockname()[1]
    with err.status("Opening the index …"):
        served = opened(store, entries, None if max_usd is None else Budget(max_usd))
    _announce(served, f"http://{f'[{host}]' if ':' in host else host}:{port}", sorted(keys))

    def ready(seconds: float) -> None:
        say(f"Ready after {time.monotonic() - began:.1f} s.")
        sys.stdout.flush()

    rows, origins = RequestRows(RequestLog(store), keep_questions), known_origins(host, port, origin or ())
    with computing(served) as models:
        run(application(models, keys, origins, rows=rows, tracing=traces), listening, ready)
    err.print("Stopped. All accepted requests were answered.")


def _computing(runner: str, replicas: str | None) -> "Callable[[list[Served]], AbstractContextManager[list[Served]]]":
    """Return what makes configurations compute: in this process as they are, or with replicas. Raises ConfigError."""
    if runner == "serial":
        if replicas:
            raise ConfigError("--replicas needs --runner ray")
        return nullcontext
    from vitalfew.flows.serving.replicas import Replicas, on_ray

    return partial(on_ray, replicas=Replicas.parse(replicas or "1"))


def _announce(served: "list[Served]", address: str, keys: list[str]) -> None:
    for each in served:
        chosen = each.answering.configured
        where = f"index {chosen.index.name}" if chosen.index else "without an index"
        say(escape(f"{each.name}: {where}, {chosen.whose}"))
    say(escape(f"Address: {address}  (OpenAI clients: {address}/v1; description: {address}/docs; Ctrl-C ends it)"))
    out.print(f"Keys: {escape(', '.join(keys))}" if keys else "No key is needed: only this machine can connect.")
    sys.stdout.flush()
