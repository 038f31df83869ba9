"""Quotes whose trial takes no process of its own: to start one, with its imports, takes longer than what it tries."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from types import SimpleNamespace
from typing import Any
from unittest import mock

from vitalfew.flows.pipelines.quote import trial


@contextmanager
def trials_here() -> Iterator[None]:
    """The processes of a trial are calls in this block: they read and write the same files."""
    with mock.patch.object(trial, "subprocess", SimpleNamespace(Popen=_Here, PIPE=subprocess.PIPE)):
        yield


class _Here:
    """Does what the process of this command does, and is over then."""

    def __init__(self, command: list[str], **options: Any) -> None:
        self.stdout = StringIO()
        with mock.patch.object(sys, "argv", ["-c", command[-1]]), redirect_stdout(self.stdout):
            trial.main()
        self.stdout.seek(0)

    def wait(self) -> int:
        return 0
