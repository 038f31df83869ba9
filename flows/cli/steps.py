"""The steps of a journey: for every step the command that does the same, and the seconds that it takes."""

import re
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.markup import escape

from vitalfew.flows.cli.terminal import out, say


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


def sets(assignments: Sequence[str]) -> list[str]:
    """The options that make settings."""
    return [word for assignment in assignments for word in ("--set", assignment)]
