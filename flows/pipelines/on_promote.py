"""The command of a corpus that runs after a promotion (`on_promote`), such as an export to another vector store.

`published/NAME.json` in the store has the generation that it last ran for, and how often in a row it failed. So it runs
once for a generation, and a command that failed, or was killed, runs again with the next run of the corpus."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from vitalfew.configs.loading import ConfigError
from vitalfew.flows.pipelines.named import find_corpus
from vitalfew.storage import files
from vitalfew.storage.runs import IndexNotFound, find_index
from vitalfew.tasks.models.causal.engines import keys
from vitalfew.tasks.registry import UnknownName
from vitalfew.tasks.reports.shown.text import one_line

SECONDS = 3600
"""The most that a command may take."""
_SHOWN = 300
_END = 65536
"""Bytes of a command's output in which its last line is looked for."""


def run_on_promote(store: Path, name: str, own: Path | None = None) -> str:
    """Run the command of an index's corpus, if it has one that has not succeeded for the current generation; what to
    say of it, or ''. A failure is said and counted, and does not undo the promotion. Whoever comes while it runs waits.

    The shell runs it, with VITALFEW_INDEX, VITALFEW_GENERATION and VITALFEW_STORE in its environment. `own`: the
    directory of the corpora, as of `find_corpus`.
    """
    try:
        command = _command(store, name, own)
    except ConfigError as error:
        return f"on_promote of {name} was not run: {error}"
    if not command:
        return ""
    with files.locked(_lock(store, name)):
        generation, record = find_index(store, name).generation, _record(store, name)
        if (record["generation"], record["failed"]) == (generation, 0):
            return ""
        fault = _fault(command, store, name, generation)
        failed = record["failed"] + 1 if fault else 0
        record = {"generation": generation, "failed": failed, "said": fault}
        files.write_json(_place(store, name), record)
    return _said(name, record)


def describe_on_promote(store: Path, name: str, own: Path | None = None) -> str:
    """Say whether the command of an index's corpus has run for the current generation, or when it will; '' where there
    is none."""
    try:
        generation, record = find_index(store, name).generation, _record(store, name)
        if files.is_locked(_lock(store, name)):
            return f"on_promote of {name} runs now."
        if record["generation"] == generation:
            return _said(name, record)
        if not _command(store, name, own):
            return ""
    except (ConfigError, IndexNotFound) as error:
        return f"on_promote of {name} is not known: {error}"
    return f"on_promote of {name} has not run for generation {generation}. {_again(name, generation)}"


def _said(name: str, record: dict[str, Any]) -> str:
    generation, failed = record["generation"], record["failed"]
    said = f"on_promote of {name}, generation {generation}"
    if not failed:
        return f"{said}: done."
    times = f"failed {failed:,} times in a row" if failed > 1 else "failed"
    return f"{said}, {times}: {record['said']}. {_again(name, generation)}"


def _again(name: str, generation: int) -> str:
    return f"The next run of the corpus runs it; or: vitalfew index promote {name} {generation}"


def _command(store: Path, name: str, own: Path | None) -> str:
    """The command of a corpus, '' where there is none. Raises ConfigError, also where a key could not be hidden."""
    try:
        command = find_corpus(name, store, own).on_promote or ""
        find_index(store, name)
    except (UnknownName, IndexNotFound):
        return ""
    keys.blocks()
    return command


def _fault(command: str, store: Path, name: str, generation: int) -> str:
    """Run the command; why it failed, or ''."""
    # `vitalfew` in it is this one, whether or not its environment is active.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    own = {"PATH": path, "VITALFEW_INDEX": name, "VITALFEW_GENERATION": str(generation), "VITALFEW_STORE": str(store)}
    # Files, not pipes: a process that it leaves in the background would hold a pipe open, and this one waiting.
    with TemporaryFile() as out, TemporaryFile() as err:
        try:
            status = _run(command, {**os.environ, **own}, out, err)
        except OSError as error:
            return str(error)[:_SHOWN]
        return f"exit status {status}: {_last_line(err) or _last_line(out) or 'no output'}" if status else ""


def _run(command: str, environment: dict[str, str], out: IO[bytes], err: IO[bytes]) -> int:
    """The exit status of a command. Raises OSError; TimeoutError after `SECONDS`, when its process group is killed."""
    process = subprocess.Popen(
        command, shell=True, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, process_group=0
    )
    try:
        return process.wait(SECONDS)
    except subprocess.TimeoutExpired:
        raise TimeoutError(f"it was ended after {SECONDS:,} s, with all that it had started") from None
    finally:
        if process.returncode is None:  # too late, or this process is interrupted
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _last_line(output: IO[bytes]) -> str:
    """The last line, on which most programs say what is wrong, without keys."""
    output.seek(max(0, output.seek(0, os.SEEK_END) - _END))
    lines = output.read().decode(errors="replace").strip().splitlines()
    return one_line(keys.without_secrets(lines[-1]))[:_SHOWN] if lines else ""


def _record(store: Path, name: str) -> dict[str, Any]:
    try:
        return files.read_json(_place(store, name))
    except FileNotFoundError:
        return {"generation": 0, "failed": 0, "said": ""}


def _place(store: Path, name: str) -> Path:
    return store / "published" / f"{name}.json"


def _lock(store: Path, name: str) -> Path:
    return store / "indexes" / f".{name}.on_promote"
