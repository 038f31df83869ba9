"""A process that reads documents, so that one of them that takes too long or too much ends it, and not the run.

The process gets a line of JSON and the bytes of a file, and answers with a line of JSON. It sets its bounds itself, so
that they hold where the process that it works for is gone.
"""

import json
import logging
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Mapping
from types import TracebackType
from typing import IO, Any, NamedTuple, Self, cast

import psutil

from vitalfew.tasks.datasets.base import RowError
from vitalfew.tasks.datasets.documents.blocks import DocumentPart, parts
from vitalfew.tasks.datasets.documents.readers import read_document, reader_of

_OUT_OF_MEMORY = 70
"""The exit code of a process that may take no more memory."""


class Bounds(NamedTuple):
    """The most that reading a document may take. `memory` and `text`: MiB."""

    seconds: float = 10.0
    memory: int = 512
    text: int = 64


class Reading(NamedTuple):
    """The passages and fields of a document. `metadata`: a JSON object; `faults` and `notes`: as of a ReadDocument."""

    passages: list[DocumentPart]
    metadata: str
    faults: list[tuple[str, str]]
    notes: dict[str, int]


class ReadingProcess:
    """The process, for `with`. It begins with the first document, and again after one that ended it."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._end()

    def read(self, name: str, content: bytes, words: int, encoding: str | None) -> Reading:
        """Read a file into passages of at most `words` words. Raises RowError."""
        request = {"name": name, "size": len(content), "words": words, "encoding": encoding}
        answer = self._ask(json.dumps(request).encode() + b"\n" + content)
        if not answer:
            raise self._ended()
        if error := answer.pop("error", None):
            raise RowError(*error)
        return Reading(**answer | {"passages": [DocumentPart(*part) for part in answer["passages"]]})

    def _ask(self, request: bytes) -> dict[str, Any]:
        """The answer; empty where the process ended."""
        self._process = self._process or self._begin()
        to, answers = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        try:
            to.write(request)
            to.flush()
        except BrokenPipeError:
            return {}
        return json.loads(answers.readline() or "{}")

    def _begin(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", __name__, *map(str, self.bounds)]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)

    def _ended(self) -> RowError:
        """Say why the process ended."""
        assert self._process
        code, bounds = self._process.wait(), self.bounds
        self._end()
        over = "reading it takes over {}: raise load.{}, or cut it"
        if code == -signal.SIGALRM:
            return RowError("over_time", over.format(f"{bounds.seconds:g} s", "document_seconds"))
        if code == _OUT_OF_MEMORY:
            return RowError("over_memory", over.format(f"{bounds.memory:,} MiB", "document_mb"))
        if code == 1:  # Python's, after an error that it printed
            return RowError("unreadable_file", "the program that reads documents failed: its error is printed above")
        ending = f"signal {-code} ({signal.strsignal(-code)})" if code < 0 else f"exit code {code}"
        return RowError("unreadable_file", f"its reader ended with {ending}: the file may be broken; save it again")

    def _end(self) -> None:
        if self._process:
            self._process.kill()
            self._process.communicate()
            self._process = None


def main(bounds: Bounds) -> None:
    """Answer requests from the standard input until it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; the other process then ends this one
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # nobody is left to answer
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGALRM])  # whoever began this process may have blocked it
    logging.disable()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints is no answer
    while line := sys.stdin.buffer.readline():
        request = json.loads(line)
        content = sys.stdin.buffer.read(request.pop("size"))
        reader_of(request["name"])  # what it imports is no part of the document
        taken = psutil.Process().memory_info().vms
        resource.setrlimit(resource.RLIMIT_AS, (taken + (bounds.memory << 20), resource.RLIM_INFINITY))
        signal.setitimer(signal.ITIMER_REAL, bounds.seconds)
        try:
            answer = json.dumps(_answer(content, most=bounds.text << 20, **request)).encode()
        except MemoryError:
            os._exit(_OUT_OF_MEMORY)
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(answer + b"\n")
        answers.flush()


def _answer(content: bytes, name: str, words: int, encoding: str | None, most: int) -> dict[str, Any]:
    """Read a document. `most`: bytes of all its passages (UTF-8)."""
    passages, size = [], 0
    try:
        document = read_document(name, content, encoding)
        for part in parts(document, name.rpartition("/")[2].strip(), words):
            size += len(part.text.encode())
            if size > most:
                fault = f"its text has over {most >> 20:,} MiB: raise load.document_text_mb, or cut it"
                raise RowError("over_long", fault)
            passages.append(part)
    except RowError as error:
        return {"error": (error.reason, error.detail)}
    metadata = json.dumps(_storable(document.metadata), ensure_ascii=False, sort_keys=True)
    return {"passages": passages, "metadata": metadata, "faults": document.faults, "notes": dict(document.notes)}


def _storable(value: Any) -> Any:
    """The value as JSON can hold it: names are text, and so are dates and what is no number."""
    if isinstance(value, Mapping):
        return {str(name): _storable(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [_storable(each) for each in value]
    is_plain = value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and abs(value) < 1e308)
    return value if is_plain else str(value)


if __name__ == "__main__":
    main(Bounds(float(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
