"""The shared parts of commands: consoles, tables, error messages, the end on Ctrl-C, and the steps of a journey."""

import atexit
import inspect
import logging
import os
import re
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.logging import RichHandler
from rich.markup import escape
from rich.segment import Segment
from rich.table import Column, Table
from typer.core import TyperCommand, TyperGroup

from vitalfew.configs.schema import Execution, GateConfig
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.reports.shown.text import printable


class _Safe(Console):
    """A console whose only control characters are those of its styles: texts of a store cannot command the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control or text.isprintable() else printable(text), style, control)


out, err = _Safe(highlight=False), _Safe(highlight=False, stderr=True)


def say(text: str) -> None:
    """Print a line that a user may copy: it is not wrapped."""
    out.print(text, soft_wrap=True)


def waiting(text: str) -> AbstractContextManager[Any]:
    """Show what is waited for: beside a spinner, or on a line where no terminal shows one."""
    if not err.is_terminal:
        err.print(text)
    return err.status(text)


def say_error(message: str) -> None:
    err.print(f"[bold red]Error:[/] {escape(printable(message))}", soft_wrap=True)


def table(
    *columns: Column | str, figures: Iterable[str] = (), rows: Iterable[Iterable[Any]] = (), **options: Any
) -> Table:
    """Make a table without lines, whose texts take several lines where the terminal is narrow.

    `figures`: the headings of further columns, aligned right, whose cells stay on one line; `rows`: cells as markup.
    """
    settings: dict[str, Any] = {"box": None, "header_style": "bold", "pad_edge": False, **options}
    texts = (Column(each, overflow="fold") if isinstance(each, str) else each for each in columns)
    made = Table(*texts, **settings)
    for heading in figures:
        made.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        made.add_row(*row)
    return made


def print_table(shown: Table, *spare: str) -> None:
    """Print a table without the columns that a reader can do without, the first of them first, until it fits the
    terminal; in a pipe or a file it has all of them."""
    for heading in spare if out.is_terminal else ():
        if _width(shown) > out.width:
            kept = [column for column in shown.columns if column.header != heading]
            shown.columns = [replace(column, _index=place) for place, column in enumerate(kept)]
    if not out.is_terminal:
        shown.width = _width(shown)
    out.print(shown, crop=out.is_terminal)


def _width(shown: Table) -> int:
    return out.measure(shown, options=out.options.update(max_width=_UNBOUNDED)).maximum


_UNBOUNDED = 10_000


GOES_ON = "Finished shards are kept: run the same command again to resume."
CANCELLED = f"[yellow]Cancelled.[/] {GOES_ON}"


@cache
def _end_quietly() -> None:
    """Drop what is written to standard error behind the exit handlers, of which this one is the last: DuckDB's binding
    then reports objects that other libraries still hold."""
    atexit.register(os.dup2, os.open(os.devnull, os.O_WRONLY), 2)


def prepare(verbose: bool) -> None:
    """Set up logging to the terminal, and keep libraries from sending telemetry and from printing too much."""
    _end_quietly()
    level = logging.INFO if verbose else logging.WARNING
    handler = RichHandler(console=err, show_path=False, show_level=False)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", handlers=[handler])
    logging.getLogger("vitalfew").setLevel(level if sys.stderr.isatty() else logging.INFO)
    quiet = {
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "PREFECT_LOGGING_LEVEL": "INFO" if verbose else "CRITICAL",  # this command reports an error once
        "DO_NOT_TRACK": "1",
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_VERBOSITY": "error",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": "1",
    }
    for name, value in quiet.items():
        os.environ.setdefault(name, value)


class Plain:
    """The looks of help, shared by commands and groups: a paragraph is one line, which the terminal breaks; commands to
    copy keep theirs; a flag shows no type."""

    def __init__(self, *args: Any, help: str | None = None, **given: Any) -> None:
        paragraphs = inspect.cleandoc(help or "").split("\n\n")
        joined = (text if text.startswith((" ", "vitalfew ")) else " ".join(text.split()) for text in paragraphs)
        super().__init__(*args, help="\n\n".join(joined) or None, **given)  # type: ignore[call-arg]

    def get_params(self, ctx: Any) -> Any:
        parameters = super().get_params(ctx)  # type: ignore[misc]
        for parameter in parameters:
            if getattr(parameter, "is_flag", False):
                parameter.metavar = ""
        return parameters


class Command(Plain, TyperCommand):
    """A command of `vitalfew`."""


class Group(Plain, TyperGroup):
    """A command with further commands, such as `store`."""


class Commands(Group):
    """All commands. They explain errors: one that a user can correct gives one message and exit status 1, Ctrl-C gives
    130; others are bugs. Errors of `check`, of usage and bugs too, have a status that differs from those of its
    verdicts. An option that has a new name is an error that says which. A command whose name has two words comes before
    the one that is named by the first: `index history` is not `index` with a data set.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        for argument in args:
            if argument != argument.encode(errors="replace").decode():
                ctx.invoked_subcommand = args[0]
                shown = argument.encode(errors="backslashreplace").decode()
                raise InputError(f"the argument {shown} is not UTF-8: set the terminal to UTF-8, or rename the file")
        if (name := " ".join(args[:2])) in self.commands and len(args) > 1:
            return name, self.commands[name], args[2:]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            err.print(CANCELLED)
            raise typer.Exit(130) from None
        except (typer.Exit, BrokenPipeError):  # such as `| head`: the end, quietly
            raise
        except Exception as error:
            is_check = ctx.invoked_subcommand == "check"
            if hasattr(error, "format_message"):  # Typer explains errors of usage, and ends with this status
                _name_the_new(error)
                error.exit_code = NOT_CHECKED if is_check else error.exit_code  # type: ignore[attr-defined]
                raise
            if (message := _explanation(error)) is not None:
                say_error(message)
            elif is_check:
                traceback.print_exc()  # Python itself would end with 1, which says worse
            else:
                raise
            raise typer.Exit(NOT_CHECKED if is_check else 1) from None


NOT_CHECKED = 3


RENAMED = {
    "--json": "--format json",
    "--method": "part of the first argument: RUN:METHOD",
    "answer --method": "an argument: vitalfew answer QUESTION RUN:METHOD",
    "compare --questions": "--n",
    "deploy --replace": "--take-over",
    "review import --replace": "--overwrite",
    "significance --alpha": "--significance",
}
"""Options of before, by what they are called now; with a command, of that one alone."""


def _name_the_new(error: Any) -> None:
    """Let the message about an unknown option say what it is called now."""
    option = getattr(error, "option_name", "")
    context = getattr(error, "ctx", None)
    command = context.command_path.partition(" ")[2] if context else ""
    if new := RENAMED.get(f"{command} {option}", RENAMED.get(option)):
        error.message, error.possibilities = f"{option} is now {new}", None


def _explanation(error: Exception) -> str | None:
    """Return the message for an error that the user can correct; None for a bug."""
    # Imported only now: a command that goes well does without these libraries.
    from duckdb import Error as QueryFailed
    from httpx import TransportError

    from vitalfew.storage.runs import IndexNotFound

    if isinstance(error, IndexNotFound | QueryFailed | OSError | ValueError):
        return str(error)
    if isinstance(error, TransportError):
        return f"Prefect's server stopped responding ({type(error).__name__}). {GOES_ON}"
    return None


def end_at_once_on_interrupt(store: Path) -> None:
    """Let Ctrl-C end the run, its workers and its server within seconds.

    A terminal interrupts the whole process group, with Prefect's temporary server; after an exception, Prefect would
    wait for that server for minutes.
    """

    def end(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        cancel_own_runs(store)
        give_up_work()
        err.show_cursor()
        err.print(f"\n{CANCELLED}")
        end_children()
        os._exit(130)

    from vitalfew.flows.ending import end_children
    from vitalfew.storage.runs import cancel_own_runs
    from vitalfew.tasks.stage import give_up_work

    signal.signal(signal.SIGINT, end)


def execute(parameters: Execution, form: Any = None, gate: GateConfig | None = None) -> Any:
    """Execute a run as `dispatch.execute` does; Ctrl-C ends its workers and its server too."""
    from vitalfew.flows import dispatch

    quoting = err.status("Estimating the requests to servers …")
    return dispatch.execute(
        parameters, form, lambda: end_at_once_on_interrupt(parameters.store), asking(), quoting, gate
    )


def asking() -> Callable[[str], bool] | None:
    """Return a function that asks whoever is at the terminal a question; None where nobody is."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    return lambda question: typer.confirm(question, err=True)


@contextmanager
def step(seconds: dict[str, float], *words: str) -> Iterator[None]:
    """Print the command that does the same as the block, and keep the seconds that the block takes, by the words of the
    command before its first argument."""
    command(*words)
    began = time.monotonic()
    yield
    name = " ".join(words[:2] if words[0] == "questions" else words[:1])
    seconds[name] = seconds.get(name, 0.0) + time.monotonic() - began
    out.print()


def command(*words: str) -> None:
    """Print a command as a shell takes it."""
    say(f"[bold cyan]$ vitalfew {escape(' '.join(map(_quoted, words)))}[/]")


def _quoted(word: str) -> str:
    """In double quotes where there are single ones, unless the shell would read more than the word in it."""
    return f'"{word}"' if "'" in word and not re.search(r'["$`\\!]', word) else shlex.quote(word)


def took(seconds: Mapping[str, float]) -> str:
    """'This took 74 s: index 41 s, evaluate 33 s.'"""
    parts = ", ".join(f"{name} {own:,.0f} s" for name, own in seconds.items())
    return f"This took {sum(seconds.values()):,.0f} s: {parts}."
