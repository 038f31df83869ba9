"""The checks of `vitalfew doctor`."""

import json
import os
import re
import socket
import sys
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import typer
from rich.markup import escape
from typer import Option

from vitalfew.flows.cli import options
from vitalfew.flows.cli.terminal import out, table
from vitalfew.tasks.reports.shown.text import one_line

if TYPE_CHECKING:
    from vitalfew.flows.server.access import Server
    from vitalfew.tasks.models.causal.engines.base import Completion
    from vitalfew.tasks.models.causal.engines.openai import OpenAI

POOL = "vitalfew"


ASKED = "What is two plus three? Answer with the number alone."


def doctor(
    model: Annotated[
        str | None,
        Option(
            metavar="MODEL",
            help=f"Ask only this language model one question, and say what that shows: {options.MODEL_PLACES}",
        ),
    ] = None,
    store: options.Store = options.STORE,
) -> None:
    """Check this machine and this store.

    Shows how to fix every problem. With --model, ask a language model one question, and say what it answers, how it
    counts tokens, and which parameters its server refuses:

        vitalfew doctor --model openai:NAME
    """
    checks = _language_model(model) if model else checkup(store)
    out.print(table(show_header=False, rows=((check.mark, check.what, escape(check.found)) for check in checks)))
    raise typer.Exit(0 if all(check.fine or not check.needed for check in checks) else 1)


@dataclass(frozen=True)
class Check:
    """The result of one check; `needed` is False if a run can do without it."""

    what: str
    fine: bool
    found: str
    needed: bool = True

    @property
    def mark(self) -> str:
        return "[green]ok[/]" if self.fine else "[red]no[/]" if self.needed else "[yellow]--[/]"


def _language_model(model: str) -> list[Check]:
    """Ask a model a question, with the settings that answers have by default."""
    from vitalfew.configs.loading import ConfigError
    from vitalfew.tasks.models.causal.engines.base import EngineUnavailable
    from vitalfew.tasks.models.causal.engines.remote import Unanswered
    from vitalfew.tasks.registry import resolve

    kind, name = options.engine_and_name(model)
    engine_type = resolve("engine", kind)
    try:
        engine = engine_type(engine_type.Options(model=name), "generate")
        [answer] = engine.complete([ASKED])
    except (EngineUnavailable, ConfigError, Unanswered) as error:
        return [Check(model, False, str(error))]
    right = re.search(r"\b(5|five)\b", answer.text, re.IGNORECASE) is not None
    doubt = "; it was cut: set a higher generate.max_tokens" if answer.finish_reason == "length" else ""
    doubt += "" if right or not answer.text else "; expected 5"
    shown = answer.error or f"{answer.text!r} ({answer.finish_reason}{doubt})"
    answered = Check(ASKED, bool(answer.text) and not doubt, shown, needed=not answer.text)
    cached = f" ({answer.cached_tokens} of them cached)" if answer.cached_tokens else ""
    thought = "" if answer.thought_tokens is None else f" ({answer.thought_tokens} of them thought)"
    counted = f"{answer.prompt_tokens} of the prompt{cached}, {answer.completion_tokens} of the answer{thought}"
    usage = Check("tokens", bool(answer.prompt_tokens), counted, needed=False)
    time = Check("seconds", True, f"{answer.seconds:.2f}")
    server = _server(engine, answer) if kind == "openai" else []
    return [answered, *server, usage, time]


def _server(engine: "OpenAI", answer: "Completion") -> list[Check]:
    """Say what was learnt of the server that answered."""
    from vitalfew.tasks.models.causal.engines import dialects, keys

    variable = keys.variable_for(engine.base_url)
    key = f"the key in {variable}" if os.environ.get(variable) else "no key"
    refused = ", ".join(answer.left_out) or "none"
    return [
        Check("server", True, f"{engine.base_url}, {key}"),
        Check("parameters refused", not answer.left_out, refused, needed=False),
        Check("limit of an answer", True, dialects.known(engine.base_url, str(engine.options.model)).limit),
    ]


def operations(store: Path) -> list[Check]:
    """Check only what the user has set up: a run needs neither a server nor a pool."""
    from vitalfew.flows.server.access import named, running

    service, elsewhere = running(store), os.environ.get("PREFECT_API_URL", "")
    server = service or (named(store, elsewhere) if elsewhere else None)
    others = [*_corpora(store), *_webhook()]
    if not server:
        remedy = "not running; every run starts a temporary one. `vitalfew ui` starts one with UI and schedules"
        return [Check("Prefect server", False, remedy, needed=False), *others]
    if not server.answers():
        remedy = "start `vitalfew ui` again" if service else "start it, or unset PREFECT_API_URL"
        fault = f"does not answer; {remedy}"
    elif server.status("/api/version") == 401:
        fault = "refuses access; set PREFECT_API_AUTH_STRING to its secret"
    else:
        return [
            Check("Prefect server", True, f"{server.address} answers"),
            *_pool(server),
            *_lost_runs(server),
            *others,
        ]
    return [Check("Prefect server", False, f"{server.address} {fault}"), *others]


def _pool(server: "Server") -> list[Check]:
    """Check the work pool of `vitalfew deploy` and its workers, for schedules that outlive `vitalfew ui`."""
    try:
        _ask(server, f"/api/work_pools/{POOL}")
    except HTTPError as error:
        remedy = "`vitalfew deploy` makes it, if runs must outlive `vitalfew ui`"
        message = f"there is no work pool {POOL}; {remedy}" if error.code == 404 else f"work pool {POOL}: {error}"
        return [Check("work pool", False, message, needed=False)]
    workers = _ask(server, f"/api/work_pools/{POOL}/workers/filter", {})
    online = sorted(worker["name"] for worker in workers if worker["status"] == "ONLINE")
    message = ", ".join(online) or f"not online; run `prefect worker start --pool {POOL}`"
    return [Check("work pool", True, POOL), Check("worker", bool(online), message, needed=False)]


def _lost_runs(server: "Server") -> list[Check]:
    """Name the runs that Prefect takes for working while their process is gone."""
    from vitalfew.flows.workers.holders import names_of_lost_runs

    lost = ", ".join(names_of_lost_runs(server.address, server.secret))
    remedy = "Prefect says that they run, and their process is gone; the next run ends them, and `vitalfew deploy` does"
    return [Check("lost runs", False, f"{lost}: {remedy}", needed=False)] if lost else []


def _ask(server: "Server", path: str, body: Any = None) -> Any:
    content = None if body is None else json.dumps(body).encode()
    with urlopen(server.request(path, content), timeout=5) as answer:
        return json.load(answer)


def _corpora(store: Path) -> list[Check]:
    """Check the file of every corpus and say when the corpus is re-encoded."""
    from vitalfew.flows.pipelines.gate import power
    from vitalfew.flows.pipelines.named import read_corpora

    read, bad = read_corpora(store)
    checks = []
    for name, corpus in read.items():
        zone = f" {corpus.timezone}" if corpus.timezone != "UTC" else ""
        found = f"re-encoded at {corpus.cron}{zone}" if corpus.cron else "re-encoded on request"
        checks.append(Check(f"corpus {name}", True, found, needed=False))
        if corpus.gate:
            known = power(corpus, corpus.gate)
            checks.append(Check(f"gate of {name}", not known.fault, known.said, needed=False))
    return [*checks, *(Check(f"corpus {name}", False, error, needed=False) for name, error in bad.items())]


def _webhook() -> list[Check]:
    """Check the webhook and show only its host: the rest of the URL is often a secret."""
    from vitalfew.flows.webhook import WEBHOOK

    url = os.environ.get(WEBHOOK)
    if not url:
        return []
    parts = urlsplit(url)
    fine = parts.scheme in ("http", "https") and bool(parts.hostname)
    return [Check("webhook", fine, f"{parts.hostname}" if fine else f"{WEBHOOK} must be an http(s) URL")]


def checkup(store: Path) -> list[Check]:
    """Return every check, in the order in which things go wrong."""
    fine = sys.version_info >= (3, 11)
    python = Check("Python", fine, sys.version.split()[0] + ("" if fine else "; it must be 3.11 or newer"))
    machine = [python, *_libraries(), *_models(), _arithmetic(), _punkt(), _disk(store)]
    return [*machine, *_store(store), _ray(), *operations(store)]


def _libraries() -> list[Check]:
    checks = []
    packages = {"torch": "encodes", "faiss-cpu": "searches", "duckdb": "queries"}
    for package, purpose in (packages | dict.fromkeys(("prefect", "ray"), "--runner ray")).items():
        try:
            checks.append(Check(package, True, f"{version(package)} ({purpose})"))
        except PackageNotFoundError:
            needed = purpose != "--runner ray"
            checks.append(Check(package, False, f"not installed ({purpose}); pip install {package}", needed))
    return checks


def _models() -> list[Check]:
    """Check the weights of every encoder that has a model; only those of the default, `minilm`, are required."""
    from vitalfew.configs.schema import EncodeConfig
    from vitalfew.tasks.registry import METHODS, make

    checks = []
    for name in METHODS["encoder"]:
        if name == "huggingface":  # a run names its model
            continue
        encoder = make(EncodeConfig(encoder=name), "encode")
        try:
            directories = dict.fromkeys([str(encoder.passages.directory), str(encoder.questions.directory)])
            checks.append(Check(f"encoder {name}", True, ", ".join(directories)))
        except (FileNotFoundError, ValueError) as error:
            checks.append(Check(f"encoder {name}", False, str(error), needed=name == "minilm"))
    return checks


def _arithmetic() -> Check:
    from vitalfew.tasks.models.compiled import has_native
    from vitalfew.tasks.models.device import is_fast_in_bf16

    faster = "; encode.precision=int8 encodes faster" if has_native("int8") else ""
    found = "bf16" if is_fast_in_bf16() else f"float32: bf16 is not faster on this machine{faster}"
    return Check("arithmetic", True, found, needed=False)


def _ray() -> Check:
    """Check that the cluster of RAY_ADDRESS answers."""
    address = os.environ.get("RAY_ADDRESS", "")
    if not address:
        return Check("Ray", True, f"long runs start Ray on {os.cpu_count()} cores (to use a cluster, set RAY_ADDRESS)")
    host, _, port = address.rpartition("//")[2].partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2):
            return Check("Ray", True, f"{address} answers")
    except (OSError, ValueError) as error:
        return Check("Ray", False, f"{address} (RAY_ADDRESS): {error}; run `ray start --head`, or unset RAY_ADDRESS")


def _punkt() -> Check:
    from vitalfew.tasks.splitters.nltk_punkt import installed

    found = installed()
    shown = str(found) if found else "not installed: Punkt is trained on every corpus instead"
    return Check("NLTK punkt_tab", found is not None, shown, needed=False)


def _disk(store: Path) -> Check:
    from vitalfew.storage import files

    if files.is_in_bucket(store):
        store = files.cache_folder()  # where its copies lie
    free = files.free_bytes(store) / 2**30
    remedy = "" if free > 2 else "; free some space"
    return Check("free disk", free > 2, f"{free:,.1f} GiB for {files.absolute(store)}{remedy}")


def _store(store: Path) -> list[Check]:
    from vitalfew.storage import files, generations, version
    from vitalfew.storage.runs import index_names, read_runs

    if not files.is_folder(store):
        return [Check("store", True, f"{store} does not exist yet; `vitalfew index` creates it", needed=False)]
    try:
        version.check(store)
    except ValueError as error:
        return [Check("store", False, str(error))]
    writable = files.is_writable(store)
    indexes = index_names(store)
    found = f"{store}, version {version.VERSION}"
    checks = [Check("store", writable, found if writable else f"{found}: it is not writable")]
    checks.append(Check("indexes", True, ", ".join(indexes) or "none yet", needed=False))
    for waiting in filter(None, (generations.waiting(store, name) for name in indexes)):
        said = f"generation {waiting.number} of {waiting.name} is {waiting.verdict or 'not judged yet'}"
        remedy = f"vitalfew index promote {waiting.name} {waiting.number}, or decline"
        checks.append(Check("waits for a person", False, f"{said}; {remedy}", needed=False))
    latest = {run.name: run for run in read_runs(store) if run.name}
    if ended := sorted(name for name, run in latest.items() if run.state in ("cancelled", "interrupted")):
        remedy = "run the same command again to resume; finished shards are kept"
        checks.append(Check("unfinished runs", False, f"{', '.join(ended)}; {remedy}", needed=False))
    failed = [run for run in latest.values() if run.state in ("failed", "unreadable")]
    for run in failed:  # with the first sentence of its error, without the name of the error's class
        fault = re.sub(r"^\w+: ", "", one_line(run.error)) or f"its record is {run.state}"
        said = f"{run.name} ({run.run_id}): {re.split(r'(?<=[.;]) ', fault)[0].rstrip('.;')}"
        checks.append(Check("failed run", False, said, needed=False))
    return checks
