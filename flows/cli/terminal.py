"""The shared parts of commands: consoles, error messages, the end on Ctrl-C, and common options."""

import atexit
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.logging import RichHandler
from rich.markup import escape
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text
from typer.core import TyperGroup

from vitalfew.configs.loading import parse_assignments, read_yaml
from vitalfew.configs.paths import store_place
from vitalfew.configs.schema import Execution
from vitalfew.tasks.reports.shown.text import printable


class _Safe(Console):
    """A console whose only control characters are those of its styles: texts of a store cannot command the terminal."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for text, style, control in super().render(renderable, options):
            yield Segment(text if control or text.isprintable() else printable(text), style, control)


out = _Safe()
err = _Safe(stderr=True)


def say(text: str) -> None:
    """Print a line that a user may copy: it is neither wrapped nor highlighted."""
    out.print(text, highlight=False, soft_wrap=True)


def say_error(message: str) -> None:
    err.print(f"[bold red]Error:[/] {escape(printable(message))}", highlight=False, soft_wrap=True)


_WORD = 28
"""Longer words of a text, such as a path, are broken where the room is short."""


class FittedTable(Table):
    """A table that fits the terminal and cuts nothing off: texts take several lines, and figures never do.

    Where the columns do not fit side by side, those named in `spare` go, the first of them first; the rest follows in
    further tables below one another, which all begin with the first columns, `keys` of them.
    """

    def __init__(self, *columns: Column | str, spare: Sequence[str] = (), keys: int = 1, **settings: Any) -> None:
        super().__init__(*columns, **settings)
        self.spare, self.keys, self.settings = spare, keys, settings

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if self.expand:
            yield from super().__rich_console__(console, options)
            return
        gap = sum(self.padding[1::2])
        needs = [_needs(column, self._cells(place)) for place, column in enumerate(self.columns)]
        left = [*range(len(self.columns))]
        for name in self.spare:
            if sum(needs[place][0] + gap for place in left) - gap > options.max_width:
                left = [place for place in left if self.columns[place].header != name]
        blocks = _blocks(left, self.keys, [least + gap for least, _ in needs], options.max_width + gap)
        for number, block in enumerate(blocks):
            if number:
                yield Segment.line()
            widths = _widths([needs[place] for place in block], options.max_width - gap * (len(block) - 1))
            yield from self._of(block, widths).__rich_console__(console, options)

    def _cells(self, place: int) -> Sequence[RenderableType]:
        """The cells of a column, with its heading and its footer where they are shown."""
        column = self.columns[place]
        return [*([column.header] if self.show_header else []), *column.cells, *([column.footer] * self.show_footer)]

    def _of(self, places: Sequence[int], widths: Sequence[int]) -> Table:
        """Some of the columns, of these widths."""
        columns = [self.columns[place].copy() for place in places]
        for column, width in zip(columns, widths, strict=True):
            column.width, column.overflow, column.no_wrap = width, "fold", False
        part = Table(*columns, **self.settings)
        for row, cells in zip(
            self.rows, zip(*(self.columns[place].cells for place in places), strict=True), strict=True
        ):
            part.add_row(*cells, style=row.style, end_section=row.end_section)
        return part


def _needs(column: Column, cells: Sequence[RenderableType]) -> tuple[int, int]:
    """The width that a column needs at least, and the one at which it takes no further line."""
    texts = [cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain for cell in cells]
    lines = [cell_len(line) for text in texts for line in text.split("\n")]
    words = [cell_len(word) for text in texts for word in text.split()]
    heading = max(map(cell_len, texts[0].split()), default=0) if texts else 0
    if column.no_wrap:
        least = max(lines, default=0)
    elif column.justify == "right":
        least = max([heading, *(cell_len(line) for text in texts[1:] for line in text.split("\n"))])
    else:
        least = min(max(words, default=0), max(_WORD, heading))
    most = max(lines, default=0)
    return max(1, min(least, column.max_width or least)), max(1, min(most, column.max_width or most))


def _blocks(places: Sequence[int], keys: int, needs: Sequence[int], room: int) -> Iterator[list[int]]:
    """As many columns at a time as fit beside the first ones, at least one."""
    first = list(places[:keys])
    block = list(first)
    for place in places[keys:]:
        if len(block) > len(first) and sum(needs[each] for each in [*block, place]) > room:
            yield block
            block = list(first)
        block.append(place)
    if block:
        yield block


def _widths(needs: Sequence[tuple[int, int]], room: int) -> list[int]:
    """Widths between the least and the most: the widest column that can gives way first."""
    widths = [most for _, most in needs]
    while sum(widths) > room:
        able = [place for place, (least, _) in enumerate(needs) if widths[place] > least] or [*range(len(widths))]
        widest = max(able, key=lambda place: widths[place])
        if widths[widest] == 1:
            break
        widths[widest] -= 1
    return widths


def table(*columns: Column | str, figures: Iterable[str] = (), **options: Any) -> FittedTable:
    """Make a table without lines. `figures`: the headings of further columns, aligned right; `spare`, `keys`: of
    `FittedTable`."""
    settings: dict[str, Any] = {"box": None, "header_style": "bold", "pad_edge": False, **options}
    made = FittedTable(*columns, **settings)
    for heading in figures:
        made.add_column(heading, justify="right")
    return made


def store_argument(given: str | Path) -> Path:
    """A store's place as a parameter of a command."""
    try:
        return store_place(given)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


StoreOption = Annotated[
    Path,
    typer.Option(
        "--store",
        metavar="DIR",
        parser=store_argument,
        help="Place of all artifacts: a directory, or s3://BUCKET/PREFIX.",
    ),
]
DEFAULT_STORE = Path("store")
GOES_ON = "Finished shards are kept: run the same command again to resume."
CANCELLED = f"[yellow]Cancelled.[/] {GOES_ON}"


class Runner(StrEnum):
    auto = "auto"
    ray = "ray"
    serial = "serial"


ConfigOption = Annotated[
    Path | None, typer.Option("--config", metavar="FILE.yaml", help="Read settings from a YAML file.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY.PATH=VALUE", help="Set one setting, e.g. encode.context=late. Repeatable."),
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", metavar="N", min=1, help="Number of parallel workers; default: one per core.")
]
RunnerOption = Annotated[
    Runner | None,
    typer.Option(
        "--runner",
        help="ray: Prefect and Ray; serial: this process only; auto (default): ray if that ends sooner, or if "
        "PREFECT_API_URL or RAY_ADDRESS names a server.",
    ),
]
MaxUsdOption = Annotated[
    float | None,
    typer.Option(
        "--max-usd",
        metavar="USD",
        min=0,
        help="Stop before a request to a server (openai) could make this command pay more.",
    ),
]
YesOption = Annotated[bool, typer.Option("--yes", help="Begin although the quote is above --max-usd, and stop there.")]
VerboseOption = Annotated[bool, typer.Option("-v", "--verbose", help="Print progress messages.")]


@cache
def _end_quietly() -> None:
    """Drop everything written to standard error after the exit handlers: DuckDB's binding then reports objects that
    other libraries still hold. Handlers run last in, first out: this one is the last."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    atexit.register(os.dup2, nowhere, 2)


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


def layers(config: Path | None, assignments: list[str] | None, **given: Any) -> list[dict[str, Any]]:
    """Settings from least to most specific: file, --set, options. The first two decide the store if --store is not
    given."""
    unset = (("store", DEFAULT_STORE), *((key, None) for key in given))
    options = {key: value for key, value in given.items() if (key, value) not in unset}
    if isinstance(runner := options.get("runner"), Runner):
        options["runner"] = runner.value
    return [read_yaml(config) if config else {}, parse_assignments(assignments or []), options]


class ExplainedErrors(TyperGroup):
    """Commands that explain errors: one that a user can correct gives one message and exit status 1, Ctrl-C gives 130;
    others are bugs.

    A command whose name has two words comes before the one that is named by the first: `index history` is not `index`
    with a data set.
    """

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
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
            if (message := explanation(error)) is None:
                raise
            say_error(message)
            raise typer.Exit(1) from None


def explanation(error: Exception) -> str | None:
    """Return the message for an error that the user can correct; None for a bug."""
    if hasattr(error, "format_message"):  # Typer explains errors of usage
        return None
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


def execute(parameters: Execution, flow: Callable[[], Callable[[Any], Any]]) -> Any:
    """Execute a run and return its outcome; Ctrl-C ends its workers and its server too. `flow` imports the flow that
    does it on Prefect and Ray."""
    from vitalfew.flows import start

    quoting = err.status("Quoting the requests to servers …")
    return start.execute(parameters, flow, lambda: end_at_once_on_interrupt(parameters.store), asking(), quoting)


def asking() -> Callable[[str], bool] | None:
    """Return a function that asks whoever is at the terminal a question; None where nobody is."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return None
    return lambda question: typer.confirm(question, err=True)
