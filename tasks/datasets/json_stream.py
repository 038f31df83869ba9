"""A JSON document read value by value: the standard library's scanner works on a buffer that moves along the file.

Why not ijson 3.6: its C backend silently turns lone surrogates into "?" and crashes the process on an integer of more
than 4,300 digits; its Python backend keeps most of a file with long strings in memory. This module holds one value at a
time and is faster.
"""

import codecs
import json
import re
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any, BinaryIO

from vitalfew.tasks.datasets.base import InputError, Reject

CHUNK = 64 * 1024
VALUE_LIMIT = 64 << 20
"""The longest value, in characters: a longer one is skipped, so that it is never held."""
MOST_MARKS = 1 << 22
"""The most quotes, brackets and commas of a value: three bytes of JSON can be a hundred bytes of Python's objects."""
_FEW_MARKS = 1 << 20
"""Characters of a text that is too short to have many marks."""
_BLANK = re.compile(r"[ \t\n\r]*")
_TAIL = len("-Infinity")
"""How many characters before the buffer's end may be misread because the rest is not read yet: "tru", "1.", "1e+"."""
_DECODE = json.JSONDecoder().raw_decode
_TO_MARK = re.compile(r'[^"\[\]{},]*+(["\[\]{},]?)')
_TO_QUOTE = re.compile(r'(?:[^"\\]++|\\.)*+("?)', re.DOTALL)
"""The rest of a string, as far as it is read; a backslash at the very end is left for what follows it."""


def over_long(text: str | bytes, start: int = 0) -> str | None:
    """Return why a value of JSON that begins at `start` must not be parsed; None if it can be."""
    if len(text) - start <= _FEW_MARKS:
        return None
    marks = sum(text.count(mark if isinstance(text, str) else mark.encode(), start) for mark in '"[{,')  # type: ignore[arg-type]
    return f"the value has more than {MOST_MARKS:,} quotes, brackets and commas" if marks > MOST_MARKS else None


class BrokenJson(Exception):
    """A fault of a document: its description, the byte of the file, and the remedy."""

    def __init__(self, what: str, byte: int, remedy: str) -> None:
        super().__init__(what)
        self.what = what
        self.byte = byte
        self.remedy = remedy

    def told(self, path: Path, last: str) -> InputError:
        """Return the error for users. `last`: what was read before the fault, such as "record 3"."""
        remedy = self.remedy.replace("FILE", str(path))
        return InputError(f"{path}: {self.what} after {last}, at byte {self.byte}. {remedy}")


class JsonReader:
    """A cursor in a JSON document. Every method raises BrokenJson if the document is not what the method expects."""

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._read = source.tell()
        self._again = BytesIO()
        self._text = ""
        self._at = 0
        self._ended = False
        self._invalid: UnicodeDecodeError | None = None

    def peek(self) -> str:
        """Move to the next character that is not blank and return it; "" at the end of the document."""
        while True:
            match = _BLANK.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if self._ended:
                if self._invalid:
                    raise self._broken("", self._at)
                return ""
            self._read_on()

    def _take(self, *expected: str) -> str:
        """Move past the next character, which must be one of these, and return it."""
        found = self.peek()
        if found not in expected:
            raise self._broken(f"expected {' or '.join(map(repr, expected))}", self._at)
        self._at += 1
        return found

    def value(self) -> Any:
        """Read one value. If the buffer has only its start, read on to twice as much text and try again.

        A value that is too long is skipped, and a Reject stands for it.
        """
        self.peek()
        while True:
            try:
                value, end = _DECODE(self._text, self._at)
            except json.JSONDecodeError as error:
                # The only fault may be that the buffer ends here; a fault further from its end is a real one.
                cut = error.msg.startswith("Unterminated")
                if self._ended or not (cut or error.pos > len(self._text) - _TAIL):
                    raise self._broken(error.msg, len(self._text) if cut else error.pos) from error
            except RecursionError as error:
                raise self._broken("nested too deeply", self._at) from error
            except ValueError as error:  # an integer with more digits than Python converts
                raise self._broken(str(error).partition(";")[0], self._at) from error
            else:
                if self._ended or end <= len(self._text) - _TAIL:
                    self._at = end
                    self._give_back()
                    return value
            if len(self._text) - self._at > VALUE_LIMIT:
                return self._skipped(f"the value is longer than {VALUE_LIMIT:,} characters")
            self._read_on()
            if reason := over_long(self._text, self._at):
                return self._skipped(reason)

    def array(self) -> Iterator[Any]:
        """Yield the values of an array."""
        for _ in self._entries("[", "]"):
            yield self.value()

    def members(self) -> Iterator[str]:
        """Yield the keys of an object; who asks for the next one has moved past the value of the last."""
        for _ in self._entries("{", "}"):
            if self.peek() != '"':
                raise self._broken("expected a key", self._at)
            name = self.value()
            self._take(":")
            yield name

    def _entries(self, opening: str, closing: str) -> Iterator[None]:
        """Stop before every entry of an array or an object."""
        self._take(opening)
        if self.peek() == closing:
            self._take(closing)
            return
        yield
        while self._take(",", closing) == ",":
            yield

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

    def skip(self) -> None:
        """Move past a value of any length, without holding it."""
        self.peek()
        self._skipped("")

    def end(self) -> None:
        """Check that the document ends here."""
        if self.peek():
            raise self._broken("the document has already ended", self._at)

    def _skipped(self, reason: str) -> Reject:
        """Move past the value that the cursor is in."""
        depth, in_string = 0, False
        while True:
            match = (_TO_QUOTE if in_string else _TO_MARK).match(self._text, self._at)
            assert match, "both patterns match everywhere"
            mark = match[1]
            self._at = match.start(1)
            if depth == 0 and mark in ("]", "}", ","):  # after a number
                return Reject("over_long", reason)
            if not mark:
                if self._ended:
                    raise self._broken("", len(self._text))
                self._read_on()
                continue
            self._at += 1
            depth += (mark in ("[", "{")) - (mark in ("]", "}"))
            in_string = mark == '"' and not in_string
            if depth == 0 and not in_string:
                return Reject("over_long", reason)

    def _give_back(self) -> None:
        """Read again what was read beyond a long value, so that the buffer starts small for the next one."""
        if len(self._text) - self._at > _FEW_MARKS and not self._ended:
            beyond = self._text[self._at :].encode() + self._decoder.getstate()[0]
            self._read -= len(beyond)
            self._again = BytesIO(beyond + self._again.read())
            self._decoder.reset()
            self._text, self._at = "", 0

    def _read_on(self) -> None:
        """Drop the text after the cursor and read at least as much as is left, so that no value is tried often."""
        left = len(self._text) - self._at
        size = max(CHUNK, min(left, VALUE_LIMIT - left + 1))
        raw = self._again.read(size) or self._source.read(size)
        self._read += len(raw)
        self._ended = not raw
        try:
            text = self._decoder.decode(raw, final=not raw)
        except UnicodeDecodeError as error:
            # The values before the fault are still good, so it is reported only after they have been read.
            text = error.object[: error.start].decode("utf-8")
            self._invalid, self._ended = error, True
        self._text = self._text[self._at :] + text
        self._at = 0

    def _broken(self, what: str, position: int) -> BrokenJson:
        """Return the error for a fault at a position of the buffer; at its end, for what ended the document."""
        if self._ended and position >= len(self._text):
            fault = self._invalid
            if fault and fault.reason != "unexpected end of data":
                byte = self._read - len(fault.object) + fault.start
                return BrokenJson(f"invalid UTF-8 ({fault.reason})", byte, "Save the file as UTF-8")
            remedy = "It was cut short, or a quote or bracket is not closed: fetch or write it again"
            return BrokenJson("the file ends in the middle of a value", self._read, remedy)
        fault, held = self._invalid, self._decoder.getstate()[0]
        undecoded = len(fault.object) - fault.start if fault else len(held)
        byte = self._read - undecoded - len(self._text[position:].encode())
        excerpt = self._text[position : position + 20]
        remedy = "Fix the file; `python -m json.tool FILE` names the line"
        return BrokenJson(f"broken JSON ({what}; got {excerpt!r})", byte, remedy)
