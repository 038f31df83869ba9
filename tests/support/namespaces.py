"""Processes in a PID namespace of their own, as in a container with the host's name, and how a test stands aside where
the kernel lets nobody make one."""

import shutil
import subprocess
import sys
from functools import cache

import pytest


@cache
def _unshare() -> list[str] | None:
    command = [shutil.which("unshare") or "", "-rpf", "--mount-proc"]
    if not command[0] or subprocess.run([*command, "true"], capture_output=True).returncode:
        return None
    return command


def contained(code: str, *arguments: str) -> list[str]:
    """The command that runs Python code there."""
    unshare = _unshare()
    if unshare is None:
        pytest.skip("no PID namespaces here: unshare -rpf is missing or forbidden")
    return [*unshare, sys.executable, "-c", code, *arguments]
