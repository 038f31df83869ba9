"""The command `ui`."""

import shlex
import signal
import sys
import time
from contextlib import ExitStack
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.markup import escape
from typer import Option

from vitalfew.configs.loading import ConfigError
from vitalfew.flows.cli import options
from vitalfew.flows.cli.terminal import err, prepare, say, say_error

if TYPE_CHECKING:
    from vitalfew.flows.server.service import Service


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
            with err.status("Starting Prefect's server …"):
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
