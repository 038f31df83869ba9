"""Files as damage or malice leaves them: thousands of changed copies of a whole one, read in processes of their own.

The same seed gives the same copy. A copy that ends the process that reads it, takes longer than `SECONDS` or more
memory than `ROOM` is a failure, like any error that readers do not document.
"""

import faulthandler
import os
import re
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import psutil
import pyarrow as pa

SECONDS = 20
"""How long a copy may take, on a busy machine: a whole one takes milliseconds."""
ROOM = 5 << 30
"""Bytes of address space that reading may take."""
ENDS = 600
"""Bytes at both ends of a file, where headers, footers and directories are: most changes are made there."""
NUMBERS = (0, 1, -1, 7, 255, 2**16, 2**31 - 1, 2**31, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63))
MOST_FAILURES = 12
"""So many are shown; the rest of the copies is then left out."""

Read = Callable[[Path], Any]


def zigzag(number: int) -> bytes:
    """An integer as Thrift's compact protocol has it, in Parquet's footer and page headers."""
    number, written = number << 1 ^ number >> 63, bytearray()
    while number > 127:
        written.append(number & 127 | 128)
        number >>= 7
    return bytes([*written, number])


def announced(parquet: bytes, number: int, instead: int, times: int = -1) -> bytes:
    """A Parquet file whose footer has another number, in the first so many places. `number`: no other bytes look so."""
    size = int.from_bytes(parquet[-8:-4], "little")
    pages, footer = parquet[: -8 - size], parquet[-8 - size : -8]
    changed = footer.replace(zigzag(number), zigzag(instead), times)
    return pages + changed + len(changed).to_bytes(4, "little") + b"PAR1"


def mutated(content: bytes, seed: int) -> bytes:
    """Return a copy of a file's bytes with one to four changes."""
    random = Random(seed)
    changed = bytearray(content)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        random.choice(_CHANGES)(changed, random)
    return bytes(changed)


def _place(content: bytearray, random: Random) -> int:
    """Choose a byte: in four of five cases near one of the ends."""
    ends = min(ENDS, len(content))
    first, last = random.choice([(0, ends)] * 2 + [(len(content) - ends, len(content))] * 2 + [(0, len(content))])
    return random.randrange(first, last) if first < last else 0


def _flip(content: bytearray, random: Random) -> None:
    if content:
        content[_place(content, random)] ^= 1 << random.randrange(8)


def _integer(content: bytearray, random: Random) -> None:
    """Overwrite 1 to 8 bytes with a number that a reader may take for a size."""
    size, place = random.choice((1, 2, 4, 8, 8)), _place(content, random)
    number = (random.choice(NUMBERS) & ((1 << 64) - 1)).to_bytes(8, "little")[:size]
    content[place : place + size] = number[: max(0, len(content) - place)]


def _varint(content: bytearray, random: Random) -> None:
    """Overwrite some bytes with such a number in the form that Thrift gives it."""
    place, written = _place(content, random), zigzag(random.choice(NUMBERS))
    content[place : place + random.choice((1, 2, len(written)))] = written


def _digits(content: bytearray, random: Random) -> None:
    """Replace a number in a text, such as a header's shape, and let the spaces behind it make up for its length."""
    if numbers := [*re.finditer(rb"\d+", content[:ENDS])]:
        old, new = random.choice(numbers), str(random.choice(NUMBERS)).encode()
        spare = re.compile(rb" {%d}" % max(0, len(new) - len(old[0]))).search(content, old.end())
        if spare:
            del content[spare.start() : spare.end()]
        else:
            new = new[: len(old[0])]
        content[old.start() : old.end()] = new.ljust(len(old[0]))


def _cut(content: bytearray, random: Random) -> None:
    """Remove the end, or some bytes anywhere."""
    place = _place(content, random)
    del content[place : place + random.choice((1, 8, 100, len(content)))]


def _copy(content: bytearray, random: Random) -> None:
    """Put a block of the file in another place, over what is there or before it."""
    source, place, size = _place(content, random), _place(content, random), random.choice((1, 4, 8, 32, 256))
    content[place : place + random.choice((0, size))] = content[source : source + size]


_CHANGES = (_flip, _flip, _integer, _integer, _varint, _digits, _cut, _copy)


def touched(value: Any) -> Any:
    """Read every byte of what a reader returned: what is mapped, or has offsets, is otherwise not read."""
    match value:
        case pa.Table():
            value.to_pylist()
        case np.ndarray():
            value.tobytes()
        case Mapping():
            for member in value.values():
                touched(member)
        case _ if hasattr(value, "numpy"):
            value.float().numpy().tobytes()
    return value


def failures(whole: Path, read: Read, documented: tuple[type[Exception], ...], count: int, first: int = 0) -> list[str]:
    """Read so many changed copies of a file, and return a line for every one that was neither read nor refused with a
    `documented` error. `mutated(content, seed)` gives the copy again."""
    content = whole.read_bytes()
    return _tried(((seed, mutated(content, seed)) for seed in range(first, first + count)), whole, read, documented)


def _tried(
    copies: Iterable[tuple[int, bytes]], whole: Path, read: Read, documented: tuple[type[Exception], ...]
) -> list[str]:
    """Have one process after the other read the copies: the next one begins behind the copy that ended the last one."""
    left, failed = dict(copies), list[str]()
    while left and len(failed) < MOST_FAILURES:
        said, status = _in_child(left, whole, read, documented)
        done = {int(line.partition(" ")[0]): line.partition(" ")[2] for line in said}
        failed += [f"{seed}: {fault}" for seed, fault in done.items() if fault]
        left = {seed: copy for seed, copy in left.items() if seed not in done}
        if status:
            killed = os.waitstatus_to_exitcode(status)
            failed.append(f"{next(iter(left), 'end')}: the process ended ({_named(killed)})")
            left.pop(next(iter(left), -1), None)
    return failed


def _named(code: int) -> str:
    return f"exit {code}" if code >= 0 else signal.Signals(-code).name


def _in_child(
    copies: dict[int, bytes], whole: Path, read: Read, documented: tuple[type[Exception], ...]
) -> tuple[list[str], int]:
    """The lines that a child wrote, one for every copy it came to an end with, and the status that it ended with."""
    out, into = os.pipe()
    if (child := os.fork()) == 0:
        status = 1
        try:
            _confine()
            with os.fdopen(into, "w") as answers:
                for line in _answers(copies, whole, read, documented):
                    print(line, file=answers, flush=True)
            status = 0
        finally:
            os._exit(status)
    os.close(into)
    with os.fdopen(out) as answers:
        lines = answers.read().splitlines()
    return lines, os.waitpid(child, 0)[1]


def _confine() -> None:
    """Limit what this process may take, and keep it from reporting its death."""
    faulthandler.disable()
    warnings.simplefilter("ignore")
    sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    resource.setrlimit(resource.RLIMIT_AS, (psutil.Process().memory_info().vms + ROOM,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _answers(
    copies: dict[int, bytes], whole: Path, read: Read, documented: tuple[type[Exception], ...]
) -> Iterator[str]:
    """The seed of every copy, and what was wrong with the reader."""
    path = whole.with_name(f"changed-{whole.name}")
    for seed, copy in copies.items():
        path.write_bytes(copy)
        signal.alarm(SECONDS)
        try:
            touched(read(path))
        except documented as error:
            named = path.name in str(error)
            yield f"{seed} {'' if named else f'the error does not name the file: {error}'}"
        except BaseException as error:
            yield f"{seed} {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        else:
            yield f"{seed} "
        finally:
            signal.alarm(0)
