"""The prompt of `vitalfew sql`: it reads statements, of one or several lines, and answers them."""

from pathlib import Path

import duckdb
from rich.markup import escape

from vitalfew.flows.cli import show
from vitalfew.flows.cli.tables import document
from vitalfew.flows.cli.terminal import out, say_error
from vitalfew.storage.catalog.database import QueryError, limited

MOST_ROWS = 1000
"""Rows that a table at the prompt shows."""

HELP = r"""End a statement with ;. It may span several lines.
\d        tables and macros          \d NAME   columns of a table, example of a macro
\q        quit (or Ctrl-D)           Ctrl-C    drop the statement, stop a query"""


def prompt(store: Path, format: str) -> None:
    """Ask for statements and answer them until the user leaves; an error does not end the prompt."""
    out.print(f"{escape(str(store))}, read-only.  \\d: tables and macros, \\h: help, \\q: quit", highlight=False)
    while True:
        try:
            text = input("vitalfew> ")
            while not is_whole(text):
                text += "\n" + input("     ... ")
            text = text.strip()
            if text in ("\\q", "quit", "exit"):
                return
            answer(store, text, format)
        except KeyboardInterrupt:
            print()
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
    command, *names = text.rstrip(";").split()
    if command == "\\d":
        document(store, names)
    elif command == "\\h":
        out.print(HELP, markup=False, highlight=False)
    else:
        raise ValueError(f"unknown command {command}; \\h lists the commands")


def is_whole(text: str) -> bool:
    """Return whether the text can be answered: it is empty, a command, or a statement with its semicolon."""
    typed = text.strip()
    if not typed or typed.startswith("\\") or typed in ("quit", "exit"):
        return True
    last = (len(typed) - 1, duckdb.token_type.operator)  # outside strings and comments
    return typed.endswith(";") and duckdb.tokenize(typed)[-1:] == [last]
