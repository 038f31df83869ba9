"""The commands `answer`, `serve` and `mcp`: answers of an evaluated method at a terminal, over HTTP, and for agents."""

import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.markup import escape
from typer import Argument, Option

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import METHOD
from vitalfew.flows.cli import options
from vitalfew.flows.cli.terminal import err, out, prepare, say, table

if TYPE_CHECKING:
    from vitalfew.flows.pipelines.answering import Configured, RagAnswer
    from vitalfew.flows.serving.configurations import Served


def answer(
    question: Annotated[str, Argument(metavar="QUESTION", help="Question to answer.")],
    method: options.Method = METHOD,
    index: options.Index = None,
    model: options.Model = None,
    form: options.Format = "table",
    max_usd: options.MaxUsd = None,
    store: options.Store = options.STORE,
    assignments: options.MethodSettings = None,
    verbose: options.Verbose = False,
) -> None:
    """Answer a question, and show its sources.

    The method has the settings and the generator of its last evaluation in this store. If it was not evaluated here,
    it has those of the experiment. A run's id in place of the experiment's name names one evaluation: `vitalfew runs`
    lists them.

        vitalfew answer "Who approves a trip?" --index handbook
        vitalfew answer "Who approves a trip?" quickstart:ParetoRAG
        vitalfew answer "Who approves a trip?" --model openai:NAME
    """
    prepare(verbose)
    from vitalfew.flows.pipelines.answering import Answering, configured
    from vitalfew.tasks.models.causal.engines.budget import Budget

    chosen = configured(store, method, index, options.answering(model, assignments))
    budget = None if max_usd is None else Budget(max_usd)
    found = Answering(store, chosen, budget).answer([question])[0]
    if form == "json":
        print(json.dumps({**asdict(found), "run": chosen.run}, ensure_ascii=False, indent=1))
    else:
        _show_answer(found, chosen)
    if found.error:
        raise typer.Exit(1)


def _show_answer(found: "RagAnswer", chosen: "Configured") -> None:
    """Print the answer, its sources and what it took."""
    from vitalfew.tasks.reports.shown.sections import READER
    from vitalfew.tasks.reports.shown.text import significant

    text = f"[red]No answer:[/] {escape(found.error)}" if found.error else f"Answer: [bold]{escape(found.text)}[/]"
    out.print(text)
    shown = table("from", "kept text", padding=(1, 2, 0, 0))
    for context in found.contexts:
        names = (name for source in context.sources for name in (source.title, source.source_id, *source.also))
        shown.add_row(escape("\n".join(dict.fromkeys(filter(None, names)))) or "-", escape(context.text))
    out.print(shown)
    seconds = sum(found.seconds.values())
    saved = f"{found.tokens_saved:,} less than the whole passages" if found.tokens_saved else "the whole passages"
    out.print(
        f"\n{found.context_tokens:,} context tokens, {saved}; {found.prompt_tokens:,} prompt tokens; "
        f"{seconds:.2f} s, {significant(found.usd)} USD"
    )
    searched = f"index {chosen.index.name}, " if chosen.index else ""
    about = f"{chosen.experiment}:{chosen.method.name}, {searched}{chosen.whose}; configuration {found.fingerprint}"
    say(escape(about))
    if chosen.method.generate and chosen.method.generate.generator == READER:
        say("The bundled reader copies a few words and never abstains. --model openai:NAME asks a language model.")


def mcp(
    method: options.Method = METHOD,
    index: options.Index = None,
    model: options.Model = None,
    max_usd: options.MaxUsd = None,
    store: options.Store = options.STORE,
    assignments: options.MethodSettings = None,
) -> None:
    """Give agents search and answers over MCP.

    The tools are search, answer and read. The Model Context Protocol uses standard input and output: an agent's
    program starts and ends the command. No result is longer than the tool's `max_tokens`.

        vitalfew mcp quickstart:ParetoRAG --index handbook
    """
    prepare(False)
    from vitalfew.flows.pipelines.answering import Answering, configured
    from vitalfew.flows.serving.agents import Doors, agents_server
    from vitalfew.tasks.models.causal.engines.budget import Budget

    chosen = configured(store, method, index, options.answering(model, assignments))
    budget = None if max_usd is None else Budget(max_usd)
    agents_server(Doors.of(Answering(store, chosen, budget))).run()


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
    encode: Annotated[
        Literal["all"] | None,
        Option(help="all: encode the rest of an index that is encoded later meanwhile, at low priority."),
    ] = None,
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
    from vitalfew.flows.serving.completing import completing, incomplete
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
    rest = incomplete(served) if encode else []
    _announce(served, f"http://{f'[{host}]' if ':' in host else host}:{port}", sorted(keys))

    def ready() -> None:
        say(f"Ready after {time.monotonic() - began:.1f} s.")
        sys.stdout.flush()

    if encode:
        what = f"of {escape(', '.join(rest))} is encoded meanwhile" if rest else "of no index is left to encode"
        say(f"The rest {what}.")
    rows, origins = RequestRows(RequestLog(store), keep_questions), known_origins(host, port, origin or ())
    with computing(served) as models, completing(store, rest):
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
