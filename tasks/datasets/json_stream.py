"""A JSON document read value by value: a scan of quotes and brackets finds its end, and the json module reads it.

Why not ijson 3.6: its C backend silently turns lone surrogates into "?" and crashes the process on an integer of more
than 4,300 digits; its Python backend keeps most of a file with long strings in memory.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from vitalfew.tasks.datasets.base import InputError, Reject

CHUNK = 64 * 1024
VALUE_LIMIT = 64 << 20
"""The longest value, in bytes: a longer one is skipped, so that it is never held."""
MOST_MARKS = 1 << 22
"""The most quotes, brackets and commas of a value: three bytes of JSON can be a hundred bytes of Python's objects."""
_FEW_MARKS = 1 << 20
"""Bytes of a text that is too short to have many marks."""
_BLANK = re.compile(rb"[ \t\n\r]*+")
_BEYOND = re.compile(rb'[^"\[\]{},]*+')
_WITHIN = re.compile(rb'(?:[^"\[\]{}]++|"(?:[^"\\]++|\\.)*+")*+', re.DOTALL)
_QUOTED = re.compile(rb'(?:[^"\\]++|\\.)*+', re.DOTALL)
"""What can end no value, as far as it is read: beyond brackets, within them, and within a string."""


def over_long(text: bytes) -> str | None:
    """Return why a value of JSON must not be parsed; None if it can be."""
    marks = sum(map(text.count, (b'"', b"[", b"{", b","))) if len(text) > _FEW_MARKS else 0
    return f"the value has more than {MOST_MARKS:,} quotes, brackets and commas" if marks > MOST_MARKS else None


@dataclass(eq=False)
class BrokenJson(Exception):
    """A fault of a document: its description, the byte of the file, and the remedy."""

    what: str
    byte: int
    remedy: str

    def told(self, path: Path, last: str) -> InputError:
        """Return the error for users. `last`: what was read before the fault, such as "record 3"."""
        remedy = self.remedy.replace("FILE", str(path))
        return InputError(f"{path}: {self.what} after {last}, at byte {self.byte}. {remedy}")


class JsonReader:
    """A cursor in a JSON document. Every method raises BrokenJson if the document is not what the method expects."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._start = source.tell()
        self._held = b""
        self._at = 0

    def peek(self) -> str:
        """Move to the next character that is not blank and return it; "" at the end of the document."""
        while True:
            self._at = _BLANK.match(self._held, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._held) or not self._read_on():
                return self._held[self._at : self._at + 4].decode(errors="replace")[:1]

    def value(self) -> Any:
        """Read one value. A Reject stands for one that is too long, which is skipped."""
        raw = self._raw(VALUE_LIMIT)
        if raw is None:
            return Reject("over_long", f"the value is longer than {VALUE_LIMIT:,} bytes")
        if reason := over_long(raw):
            return Reject("over_long", reason)
        return self._parsed(raw)

    def _parsed(self, raw: bytes) -> Any:
        """Read the value that ends at the cursor."""
        first = self._start + self._at - len(raw)
        try:
            return json.loads(raw.decode())
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data":
                raise self._broken("", first, b"") from error
            fault = f"invalid UTF-8 ({error.reason})"
            raise BrokenJson(fault, first + error.start, "Save the file as UTF-8") from error
        except json.JSONDecodeError as error:
            byte, is_cut = first + len(error.doc[: error.pos].encode()), error.msg.startswith("Unterminated")
            rest = error.doc[error.pos :].encode() + self._held[self._at :]
            raise self._broken(error.msg, byte, b"" if is_cut else rest) from error
        except RecursionError as error:
            raise self._broken("nested too deeply", first, raw) from error
        except ValueError as error:  # an integer with more digits than Python converts
            raise self._broken(str(error).partition(";")[0], first, raw) from error

    def skip(self) -> None:
        """Move past a value of any length, without holding it."""
        self._raw(0)

    def array(self) -> Iterator[Any]:
        for _ in self._entries("[", "]"):
            yield self.value()

    def members(self) -> Iterator[str]:
        """Yield the keys of an object; who asks for the next one has moved past the value of the last."""
        for _ in self._entries("{", "}"):
            if self.peek() != '"':
                raise self._broken("expected a key", self._start + self._at, self._held[self._at :])
            name = self.value()
            self._take(":")
            yield name

    def array_at(self, key: str) -> Iterator[Any]:
        """Yield the values of the array at `key` of an object, and skip everything else."""
        for name in self.members():
            if name == key and self.peek() == "[":
                yield from self.array()
            else:
                self.value()

    def object_at(self, key: str) -> Iterator[tuple[str, Any]]:
        """Yield the keys and values of the object at `key` of an object, and skip everything else."""
        for name in self.members():
            if name == key and self.peek() == "{":
                for inner in self.members():
                    yield inner, self.value()
            else:
                self.skip()

    def end(self) -> None:
        """Check that the document ends here."""
        if self.peek():
            raise self._broken("the document has already ended", self._start + self._at, self._held[self._at :])

    def _entries(self, opening: str, closing: str) -> Iterator[None]:
        """Stop before every entry of an array or an object."""
        self._take(opening)
        if self.peek() == closing:
            self._take(closing)
            return
        yield
        while self._take(",", closing) == ",":
            yield

    def _take(self, *expected: str) -> str:
        """Move past the next character, which must be one of these, and return it."""
        found = self.peek()
        if found not in expected:
            fault = f"expected {' or '.join(map(repr, expected))}"
            raise self._broken(fault, self._start + self._at, self._held[self._at :])
        self._at += 1
        return found

    def _raw(self, limit: int) -> bytes | None:
        """Move past a value and return it; None where it has more than `limit` bytes, which are not held."""
        self.peek()
        parts, size, first, depth, in_string = list[bytes](), 0, self._at, 0, False
        while True:
            pattern = _QUOTED if in_string else _WITHIN if depth else _BEYOND
            self._at = pattern.match(self._held, self._at).end()  # type: ignore[union-attr]
            mark = self._held[self._at : self._at + 1]
            is_end = depth == 0 and not in_string and mark in (b",", b"]", b"}")
            if not is_end and mark not in (b"", b"\\"):
                self._at += 1
                in_string ^= mark == b'"'
                depth += (mark in b"[{") - (mark in b"]}")
                is_end = depth == 0 and not in_string
            if is_end or self._at >= len(self._held) or mark == b"\\":
                parts.append(self._held[first : self._at])
                size += len(parts[-1])
                if size > limit:
                    parts.clear()
                if is_end:
                    return b"".join(parts) if size <= limit else None
                first = 0
                if not self._read_on():
                    if size <= limit:
                        self._parsed(b"".join(parts))  # for an earlier fault, whose place is known
                    raise self._broken("", self._start, b"")

    def _read_on(self) -> bool:
        """Drop what is before the cursor and read on; False at the end of the document."""
        read = self._source.read(CHUNK)
        self._start += self._at
        self._held, self._at = self._held[self._at :] + read, 0
        return bool(read)

    def _broken(self, what: str, byte: int, rest: bytes) -> BrokenJson:
        """Return the error for a fault at a byte of the file. `rest`: what is read from there on."""
        if not rest:
            remedy = "It was cut short, or a quote or bracket is not closed: fetch or write it again"
            end = self._start + len(self._held)
            return BrokenJson("the file ends in the middle of a value", end, remedy)
        excerpt = rest[:80].decode(errors="replace")[:20]
        remedy = "Fix the file; `python -m json.tool FILE` names the line"
        return BrokenJson(f"broken JSON ({what}; got {excerpt!r})", byte, remedy)
