"""What a page of the documentation tells its reader to do: commands to run and files to write, in their order.

Commands stand in fenced blocks of `bash` or `sh`, one a line, with a comment behind them where one is needed;
`# needs …` says what a machine may lack, and `# ends with …` an exit status. A file, also one of `sh`, stands in a
fenced block, and the paragraph before ends with its name: "`a.yaml`:". A block of `text` shows what was printed.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
HOW_TO = sorted((ROOT / "docs" / "how_to").glob("*.md"))
FRONT = [ROOT / "README.md"]
SHELL = {"bash", "sh"}
FILES = {"yaml", "csv", "json", "jsonl"}
_BLOCK = re.compile(r"^```(?P<language>\w+)\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"`([\w./-]+\.\w+)`[^`]*:\s*\Z")


@dataclass(frozen=True)
class File:
    """A file that the reader is to write, relative to the working directory."""

    name: str
    content: str


@dataclass(frozen=True)
class Command:
    """A line of the shell; `needs`: what a machine may lack for it, else ""; `status`: what it ends with."""

    line: str
    needs: str = ""
    status: int = 0

    def on(self, places: Mapping[str, str]) -> "Command":
        """The same with other addresses or paths than the page's."""
        line = self.line
        for place, other in places.items():
            line = line.replace(place, other)
        return replace(self, line=line)

    def served(self) -> bool:
        """Whether it starts a server, or belongs to one of Prefect's."""
        words = (["vitalfew", "ui"], ["vitalfew", "serve"], ["vitalfew", "deploy"])
        return self.words()[:2] in words or "prefect" in self.line.lower()

    def words(self) -> list[str]:
        """Without comment and without leading assignments of variables."""
        words = shlex.split(self.line, comments=True)
        return words[len(self.variables()) :]

    def variables(self) -> dict[str, str]:
        """Those that are set before the command's name: `NAME=VALUE command`."""
        found = {}
        for word in shlex.split(self.line, comments=True):
            name, equals, value = word.partition("=")
            if not equals or not name.isidentifier():
                break
            found[name] = value
        return found


def steps(page: Path) -> Iterator[Command | File]:
    """What the page tells to do; other blocks show what is printed, or a part."""
    text = page.read_text(encoding="utf-8")
    for block in _BLOCK.finditer(text):
        named = _NAMED.search(text, 0, block.start())
        if named and (block["language"] in FILES or named[1].endswith(".sh")):
            yield File(named[1], block["content"])
        elif block["language"] in SHELL:
            yield from (_command(line) for line in block["content"].splitlines() if line.strip())


def printed(page: Path) -> Iterator[str]:
    """The lines that the page says were printed, in its blocks of `text`."""
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        if block["language"] == "text":
            yield from filter(str.strip, block["content"].splitlines())


def _command(line: str) -> Command:
    needs, status = line.partition("# needs ")[2], line.partition("# ends with ")[2]
    return Command(line, needs.strip(), int(status or 0))
