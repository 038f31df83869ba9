"""What all commands share: where they print, how they tell errors, and the option --store."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from configs.loading import ConfigError
from tasks.datasets.base import InputError
from tasks.registry import UnknownName
from tasks.reports.text import printable

out = Console()
err = Console(stderr=True)

StoreOption = Annotated[Path, typer.Option("--store", metavar="DIR", help="Directory of all artifacts.")]
DEFAULT_STORE = Path("store")
CANCELLED = "[yellow]Cancelled.[/] Finished shards are kept: the same command goes on from there."


@contextmanager
def explained_errors() -> Iterator[None]:
    """What a user can mend is one message and exit status 1; Ctrl-C is 130; anything else is a fault of ours."""
    from duckdb import Error as QueryFailed

    from storage.catalog import QueryError
    from storage.runs import IndexNotFound

    try:
        yield
    except KeyboardInterrupt:
        err.print(CANCELLED)
        raise typer.Exit(130) from None
    except (InputError, ConfigError, UnknownName, IndexNotFound, QueryError, QueryFailed, OSError, ValueError) as error:
        err.print(f"[bold red]Error:[/] {escape(printable(str(error)))}", highlight=False, soft_wrap=True)
        raise typer.Exit(1) from None
