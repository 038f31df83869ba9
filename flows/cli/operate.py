"""The commands `doctor`, `ui` and `deploy`."""

import json
import os
import re
import shlex
import signal
import socket
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import urlopen

import typer
from rich.markup import escape
from typer import Option

from vitalfew.configs.loading import ConfigError
from vitalfew.flows.cli import options
from vitalfew.flows.cli.terminal import err, out, prepare, say, say_error, table, waiting
from vitalfew.tasks.reports.shown.text import one_line

if TYPE_CHECKING:
    from vitalfew.flows.server.access import Server
    from vitalfew.flows.server.service import Service
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
    cached = f" ({answer.cached_tokens} of them cached)" if answer.cached_tokens else ""
    thought = "" if answer.thought_tokens is None else f" ({answer.thought_tokens} of them thought)"
    counted = f"{answer.prompt_tokens} of the prompt{cached}, {answer.completion_tokens} of the answer{thought}"
    return [
        Check(ASKED, bool(answer.text) and not doubt, shown, needed=not answer.text),
        *(_server(engine, answer) if kind == "openai" else []),
        Check("tokens", bool(answer.prompt_tokens), counted, needed=False),
        Check("seconds", True, f"{answer.seconds:.2f}"),
    ]


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
    if not server:
        remedy = "not running; every run starts a temporary one. `vitalfew ui` starts one with UI and schedules"
        checks = [Check("Prefect server", False, remedy, needed=False)]
    elif not server.answers():
        remedy = "start `vitalfew ui` again" if service else "start it, or unset PREFECT_API_URL"
        checks = [Check("Prefect server", False, f"{server.address} does not answer; {remedy}")]
    elif server.status("/api/version") == 401:
        remedy = "refuses access; set PREFECT_API_AUTH_STRING to its secret"
        checks = [Check("Prefect server", False, f"{server.address} {remedy}")]
    else:
        checks = [Check("Prefect server", True, f"{server.address} answers"), *_pool(server), *_lost_runs(server)]
    return [*checks, *_corpora(store), *_webhook()]


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
    """Check the files of the user's corpora and say when each is re-encoded."""
    from vitalfew.flows.pipelines.gate import power
    from vitalfew.flows.pipelines.named import CORPORA, corpora, read_corpora

    read, bad = read_corpora(store)
    own = [name for name, path in corpora(store).items() if path.parent != CORPORA and name in read]
    checks = []
    for name in own:
        corpus = read[name]
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
    for candidate in filter(None, (generations.waiting(store, name) for name in indexes)):
        said = f"generation {candidate.number} of {candidate.name} is {candidate.verdict or 'not judged yet'}"
        remedy = f"vitalfew index promote {candidate.name} {candidate.number}, or decline"
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


def ui(
    port: Annotated[int, Option(metavar="PORT", min=1, max=65535, help="Port of the UI, on 127.0.0.1 only.")] = 4200,
    corpora: options.Corpora = None,
    link: Annotated[
        bool, Option("--link", help="Print a new link to the UI of this store that is running, and end.")
    ] = False,
    store: options.Store = options.STORE,
    verbose: options.Verbose = False,
) -> None:
    """Start, watch and schedule runs in a browser.

    Ctrl-C stops the UI and its runs. Serves Prefect's UI with all flows. The printed link gives access to one browser,
    once, within ten minutes; --link prints another one. Corpora whose file sets `cron` are re-encoded on that schedule.
    The database and the logs are in $PREFECT_HOME, or in the user's state directory (~/.local/state/vitalfew).

        vitalfew ui --store store
    """
    prepare(verbose)
    from vitalfew.flows.server import access

    if link:
        if (server := access.running(store)) is None:
            raise ConfigError(f"no `vitalfew ui` of {store} is running: start it without --link")
        say(escape(access.link(server)))
        return
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _end)
    from vitalfew.flows.pipelines.named import read_corpora
    from vitalfew.flows.server.home import prepare as prepare_home
    from vitalfew.flows.server.processes import ProcessEnded
    from vitalfew.flows.server.service import service
    from vitalfew.storage import version

    with err.status(f"Reading the store {escape(str(store))} …"):
        version.check(store)
        prepare_home(store)
        read, bad = read_corpora(store, corpora)
    for name, error in bad.items():
        err.print(escape(f"The corpus {name} is left out, and the others are served. {error}"), soft_wrap=True)
    scheduled = {name: corpus.cron for name, corpus in read.items() if corpus.cron}
    try:
        with ExitStack() as stack:
            with waiting("Starting Prefect's server …"):
                running = stack.enter_context(service(store, port, corpora))
            say(f"Ready: {escape(access.link(running.server))}  (Ctrl-C stops the UI and its runs)")
            _announce(running, scheduled)
            while True:
                running.check()
                time.sleep(1)
    except KeyboardInterrupt:
        err.print("Stopped. Active runs are cancelled; finished shards are kept.")
    except ProcessEnded as error:
        say_error(str(error))
        raise typer.Exit(1) from None


def _announce(service: "Service", scheduled: dict[str, str]) -> None:
    say("The link works once, for ten minutes; `vitalfew ui --link` prints another one.")
    for name, cron in scheduled.items():
        say(f"Corpus {escape(name)} is re-encoded automatically: {escape(cron)}")
    exports = escape(shlex.quote(str(service.exports)))
    say(f"To show runs of the command line there too:  . {exports}")
    say(f"Database and logs: {escape(str(service.folder))}")
    sys.stdout.flush()


def _end(number: int, frame: FrameType | None) -> NoReturn:
    for handled in (signal.SIGINT, signal.SIGTERM):
        signal.signal(handled, signal.SIG_IGN)  # the service is being stopped already
    raise KeyboardInterrupt


_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|WEBHOOK|AUTH_STRING")
_COLOURS = {"new": "green", "updated": "yellow", "removed": "red"}


def deploy(
    pool: Annotated[str, Option(metavar="NAME", help="Work pool of the workers; made if there is none.")] = POOL,
    corpora: options.Corpora = None,
    folder: Annotated[
        Path | None,
        Option(
            metavar="DIR",
            help="Working directory of the runs on the workers, where relative paths of data sets begin. Default: the "
            "directory that has the store; for a bucket, a new one, with copies of your corpora and experiments.",
        ),
    ] = None,
    variable: Annotated[
        list[str] | None, Option("--env", metavar="NAME=VALUE", help="Environment variable of the runs. Repeatable.")
    ] = None,
    secret: Annotated[
        list[str] | None,
        Option(
            metavar="NAME=BLOCK",
            help="Environment variable of the runs, with the name of the Prefect Secret block that holds its value. "
            "Repeatable. Not needed for what the environment of the workers has.",
        ),
    ] = None,
    at_once: Annotated[
        int,
        Option(
            metavar="N",
            min=1,
            help="Number of runs of a deployment that work at the same time, on all workers; others wait.",
        ),
    ] = 2,
    dry_run: Annotated[bool, Option("--dry-run", help="Print what would change, and change nothing.")] = False,
    print_yaml: Annotated[
        bool,
        Option(
            "--print-yaml",
            help="Print the deployments as a prefect.yaml, which `prefect deploy --all` registers, and do nothing "
            "else. Needs no server.",
        ),
    ] = False,
    take_over: Annotated[bool, Option("--take-over", help="Take over deployments that are of another store.")] = False,
    store: options.Store = options.STORE,
    verbose: options.Verbose = False,
) -> None:
    """Register flows and corpora with Prefect.

    Workers on any machine then run them. Deployments: index-corpus, evaluate, write-questions, train, and
    re-encode/NAME for every corpus, with the `cron` of its file. Run it again after an update of vitalfew, and whenever
    a file in corpora/ changes. It updates what differs, removes what is gone, and leaves alone what you schedule or
    pause in Prefect's page. PREFECT_API_URL names the server, and `prefect worker start --pool vitalfew` starts a
    worker, which needs the installed package alone:

        vitalfew deploy --store store
        vitalfew deploy --store s3://BUCKET/store --secret KEY=aws-key --dry-run
    """
    prepare(verbose)
    variables, secrets = _pairs("--env", variable), _pairs("--secret", secret)
    for name, value in variables.items():
        is_secret = _SECRET.search(name) and not name.endswith(("_PATH", "_FILE"))
        if is_secret or "{{" in value:  # `prefect deploy` fills in blocks when it registers
            raise ConfigError(
                f"--env {name}=…: everybody who sees the deployment would see the value. Put it into a Secret block of "
                f"Prefect, and give --secret {name}=BLOCK"
            )
    from vitalfew.flows.pipelines.gate import power
    from vitalfew.flows.pipelines.named import read_corpora
    from vitalfew.flows.server.access import named_for_workers
    from vitalfew.flows.workers.deploy import Target, prefect_yaml
    from vitalfew.flows.workers.deploy import deploy as deployed
    from vitalfew.storage import files

    read, bad = read_corpora(store, corpora)
    for corpus in read.values():
        if corpus.gate and (known := power(corpus, corpus.gate)).fault:
            err.print(escape(f"The corpus {corpus.name}: {known.said}."), soft_wrap=True)
    for name, error in bad.items():
        err.print(escape(f"The corpus {name} is left out, and the others are deployed. {error}"), soft_wrap=True)
    own, place = (each.absolute() if each else None for each in (corpora, folder))
    target = Target(pool, files.absolute(store), own, place, variables, secrets, at_once)
    if print_yaml:
        print(prefect_yaml(target), end="")
        return
    server = named_for_workers(store)
    changes = [*deployed(target, dry_run, take_over)]
    rows = (
        (each.name, f"[{_COLOURS.get(each.state, 'dim')}]{each.state}[/]", each.schedule, ", ".join(each.settings))
        for each in changes
    )
    out.print(table("deployment", "state", "schedule", "differs in", rows=rows))
    differing = sum(change.state != "unchanged" for change in changes)
    told = f"{differing} of {len(changes)} deployments {'would change' if dry_run else 'changed'}"
    say(escape(f"{server.address}, work pool {pool}: {told if differing else 'unchanged'}."))


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    """Raises ConfigError for what is not NAME=VALUE."""
    pairs = {}
    for each in given or ():
        name, equals, value = each.partition("=")
        if not equals or not name.isidentifier() or not value:
            raise ConfigError(f"{option} {name}…: write NAME=VALUE, for example AWS_REGION=eu-central-1")
        pairs[name] = value
    return pairs
