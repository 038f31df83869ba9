"""The prompt of `vitalfew sql`: history, completion, statements of several lines."""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import duckdb
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer
from rich.markup import escape

from vitalfew.flows.cli import show
from vitalfew.flows.cli.terminal import out, say_error
from vitalfew.storage.catalog.database import QueryError, limited, without_rows
from vitalfew.storage.catalog.documentation import CatalogEntry, entries, keywords

MOST_ROWS = 1000
"""Rows that a table at the prompt shows."""

HELP = r"""End a statement with ;. It may span several lines. Tab completes, the arrow keys recall earlier statements.
\d        tables and macros          \d NAME   columns of a table, example of a macro
\q        quit (or Ctrl-D)           Ctrl-C    clear the line, stop a query"""


def prompt(store: Path, format: str) -> None:
    """Ask for statements and answer them until the user leaves; an error does not end the prompt."""
    session: PromptSession[str] = PromptSession(
        history=history(),
        completer=CatalogCompleter(),
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
        multiline=True,
        key_bindings=_bindings(),
        prompt_continuation="     ... ",
        enable_history_search=True,
    )
    out.print(f"{escape(str(store))}, read-only.  \\d: tables and macros, \\h: help, \\q: quit", highlight=False)
    while True:
        try:
            text = session.prompt("vitalfew> ").strip()
            if text in ("\\q", "quit", "exit"):
                return
            answer(store, text, format)
        except KeyboardInterrupt:
            continue
        except EOFError:
            return


def answer(store: Path, text: str, format: str) -> None:
    """Answer one statement or command of the prompt; print an error of it."""
    try:
        if text.startswith("\\"):
            _command(store, text)
        elif text.strip("; \n"):
            with limited(store, text) as rows:
                show.rows(rows, format, MOST_ROWS)
    except (QueryError, duckdb.Error, OSError, ValueError) as error:
        say_error(str(error))


def _command(store: Path, text: str) -> None:
    from vitalfew.flows.cli.tables import document

    command, *names = text.rstrip(";").split()
    if command == "\\d":
        document(store, names)
    elif command == "\\h":
        out.print(HELP, markup=False, highlight=False)
    else:
        raise ValueError(f"unknown command {command}; \\h lists the commands")


def history() -> History:
    """Return the history in $XDG_STATE_HOME or ~/.local/state; of this session only if that is not writable."""
    state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    path = state / "vitalfew" / "sql_history"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(path)) if os.access(path, os.R_OK | os.W_OK) else InMemoryHistory()


def _bindings() -> KeyBindings:
    """Bind Enter: it ends a whole statement or a command, and otherwise begins another line."""
    bindings = KeyBindings()

    @bindings.add("enter", filter=Condition(lambda: True))
    def _enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if is_whole(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings


def is_whole(text: str) -> bool:
    """Return whether the text can be answered: it is empty, a command, or a statement with its semicolon."""
    typed = text.strip()
    return not typed or typed.startswith("\\") or typed in ("quit", "exit") or _ends(typed)


def _ends(typed: str) -> bool:
    """Return whether the last token is a semicolon, outside strings and comments."""
    if not typed.endswith(";"):
        return False
    kinds = [(place, kind) for place, kind in duckdb.tokenize(typed)]
    return bool(kinds) and kinds[-1] == (len(typed) - 1, duckdb.token_type.operator)


class CatalogCompleter(Completer):
    """Completes tables, columns, macros and SQL keywords; after `table.`, only that table's columns."""

    def __init__(self) -> None:
        with without_rows() as connection:
            self._entries = {entry.name: entry for entry in entries(connection)}
            self._keywords = keywords(connection)
        self._columns: dict[str, str] = {}
        for entry in self._entries.values():
            for name, column in entry.columns.items():
                self._columns.setdefault(name, column.comment)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        typed = re.search(r"\w*$", before)
        word = typed.group() if typed else ""
        scope = re.search(r"(\w+)\.\w*$", before)
        for name, about in self._names(scope.group(1) if scope else None, bool(word)):
            if name.lower().startswith(word.lower()):
                yield Completion(name, -len(word), display_meta=about)

    def _names(self, scope: str | None, typed: bool) -> Iterator[tuple[str, str]]:
        if scope is not None:
            known = self._entries.get(scope)
            yield from self._columns.items() if known is None else _comments(known)
            return
        for entry in self._entries.values():
            yield f"{entry.name}(" if entry.is_macro else entry.name, entry.about
        if typed:
            yield from self._columns.items()
            yield from ((keyword, "") for keyword in self._keywords)


def _comments(table: CatalogEntry) -> Iterator[tuple[str, str]]:
    return ((name, column.comment) for name, column in table.columns.items())
