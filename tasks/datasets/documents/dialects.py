"""What Markdown's relatives add to it, taken away before a text is parsed: front matter, fences of admonitions and tabs
(Docusaurus, MkDocs, MyST, Quarto), shortcodes, includes, and the JavaScript of MDX. The text in them stays."""

import re
import tomllib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from vitalfew.configs.parsing import parse

_FIELD = re.compile(r"([\w.-]+) *(?::(?= |$)|=)(.*)")
_MOST_FIELDS = 1000
_CODE = re.compile(r"\s*(`{3,}|~{3,})([^`]*)")
_DIRECTIVE = re.compile(r"\{([\w:+.-]+)\}\s*(.*)")
_FENCE = re.compile(r"\s*(?::{3,}|/{3,})(.*)")
_INDENTED = re.compile(r"( *+)(?:(?:!!!|\?\?\?\+?) ++[\w -]++(?:\"([^\"]*)\")?+|===[+!]? ++\"([^\"]*)\") *+")
_ALERT = re.compile(r"\s*+>[\s>]*+(\[![A-Za-z]+\][+-]?)")
_OPTION = re.compile(r"\s*:[\w-]+:.*")
_ATTRIBUTES = re.compile(r"\{[^{}]*\}")
_TITLE = re.compile(r'title="([^"]*)"')
_INCLUDE = re.compile(
    r"\{\{ *#(?:\w*include|playground) .*\}\}|\{\{[<%] *(?:include|readfile|embed|code) .*[>%]\}\}|;?-+8<-+.+|\{!.*!\}"
    r"|\{%-? *(?:include|include_relative|render) .*%\}|!\[\[.*\]\]|<!-- *#include .*-->"
)
_NOTHING = re.compile(r"\{%.*%\}|\[\[?_?toc_?\]?\]", re.IGNORECASE)
_SHORTCODE = re.compile(r"\{\{[<%] *+/?[\w./-]++([^{}]*)[>%]\}\}")
_SHOWN = re.compile(r'text="([^"]*)"')
_TEXTS = set(
    re.findall(
        r"[\w-]+",
        """note tip hint important warning caution attention danger error seealso admonition versionadded versionchanged
        deprecated dropdown details margin sidebar topic epigraph card grid tab-item tab-set callout""",
    )
)
"""Directives of MyST that hold text."""
_LISTS = {"toctree", "contents", "include", "literalinclude", "image", "raw"}
"""Directives of MyST that hold lists of pages, or none of this text."""

_SPAN = r"``[^\n]*?``|`[^`\n]*`"
_BRACES = r"\{[^{}]*+\}"
for _ in range(4):
    _BRACES = rf"\{{(?:[^{{}}]++|{_BRACES})*+\}}"
_NAME = r"(?!https?:|mailto:)(?P<name>[A-Za-z][\w.:-]*+)"
_MARKUP = re.compile(rf"""{_SPAN}|</?>|</?{_NAME}(?:[^<>{{}}"']++|"[^"]*+"|'[^']*+'|{_BRACES})*+>""")
"""A span of code or a tag of JSX, whose attributes may hold braces within braces, but five deep."""
_INLINE = {"a", "abbr", "b", "code", "del", "em", "i", "ins", "kbd", "mark", "q", "s", "small", "span", "strong", "sub"}


def front_matter(text: str) -> tuple[dict[Any, Any], str, str]:
    """The fields at the head of a text, the text below them, and the fault of fields that are not YAML or TOML, of
    which only lines were read."""
    first, *lines = text.split("\n")
    mark = first.rstrip()
    ends = ("+++",) if mark == "+++" else ("---", "...")
    end = next((number for number, line in enumerate(lines) if line.rstrip() in ends), None)
    if mark not in ("---", "+++") or end is None:
        return {}, text, ""
    matter, below = "\n".join(lines[:end]), "\n".join(lines[end + 1 :])
    try:
        fields = tomllib.loads(matter) if mark == "+++" else parse(matter)
    except (ValueError, RecursionError) as error:
        fields = dict(_fields(lines[: min(end, _MOST_FIELDS)]))
        return (fields, below, _fault(error)) if fields else ({}, text, "")
    return (fields, below, "") if isinstance(fields, dict) else ({}, text, "")


def _fields(lines: list[str]) -> Iterator[tuple[str, Any]]:
    """The lines that are a name and a value."""
    for line in lines:
        if match := _FIELD.fullmatch(line.rstrip()):
            written = match[2].strip()
            try:
                value = parse(written)
            except ValueError:
                value = written
            yield match[1], written if isinstance(value, dict) else value


def _fault(error: Exception) -> str:
    mark = getattr(error.__cause__, "problem_mark", None)
    what = f"line {mark.line + 2}: {error.__cause__.problem}" if mark else str(error).partition("\n")[0]  # type: ignore[union-attr]
    return f"front matter: {what}; quote the value or mend the line"


def plain(text: str, is_mdx: bool = False) -> tuple[str, int]:
    """Take away what is no Markdown. Return the text, and the number of includes that were not followed."""
    reader, kept = _Lines(), []
    for is_code, lines in groupby(reader.read(text), key=lambda line: line[0]):
        shown = "\n".join(line for _, line in lines)
        kept.append(_without_javascript(shown) if is_mdx and not is_code else shown)
    return "\n".join(kept), reader.includes


class _Lines:
    """The lines of a text, and the fences that they are in. `code`: the mark of code, or of a directive that is left
    out; `texts`: the marks of directives that hold text; `columns`: where the text of indented admonitions begins;
    `options`: the line before began a directive, so that this one may be an option of it."""

    def __init__(self) -> None:
        self.includes, self.code = 0, ""
        self.is_left_out = self.options = False
        self.texts, self.columns = list[str](), list[int]()

    def read(self, text: str) -> Iterator[tuple[bool, str]]:
        """Yield the lines that stay, with whether they are code."""
        for line in map(self._dedented, text.split("\n")):
            if _INCLUDE.fullmatch(line.strip()):
                self.includes += 1
            elif self.code:
                yield from self._in_code(line)
            else:
                yield from ((False, shown) if not self.code else (True, shown) for shown in self._in_text(line))

    def _dedented(self, line: str) -> str:
        """The line as it would stand outside the indented admonitions that it is in."""
        if line.strip():
            own = len(line) - len(line.lstrip(" "))
            self.columns = [column for column in self.columns if own >= column]
        return line[4 * len(self.columns) :]

    def _in_code(self, line: str) -> Iterator[tuple[bool, str]]:
        if not self.is_left_out:
            yield True, line
        if line.strip().startswith(self.code) and not line.strip().strip(self.code[0]):
            self.code, self.is_left_out = "", False

    def _in_text(self, line: str) -> Iterator[str]:
        if self.options and _OPTION.fullmatch(line):
            return
        self.options = False
        if match := _CODE.fullmatch(line):
            yield from self._fenced(line, match[1], match[2].strip())
        elif match := _FENCE.fullmatch(line):
            self.options = bool(match[1].strip())
            yield from ("", _title(match[1]), "")
        elif match := _INDENTED.fullmatch(line):
            self.columns.append(len(match[1]) + 4 * len(self.columns) + 4)
            yield from ("", (match[2] or match[3] or ""), "")
        elif not _NOTHING.fullmatch(line.strip()):
            alert = _ALERT.match(line)
            shown = _SHORTCODE.sub(_shown, line[: alert.start(1)] + line[alert.end() :] if alert else line)
            yield from () if alert and not shown.strip("> ") else (shown,)

    def _fenced(self, line: str, mark: str, info: str) -> Iterator[str]:
        """A line that begins code or a directive, or ends the innermost directive."""
        directive = _DIRECTIVE.fullmatch(info)
        name = directive[1] if directive else ""
        if self.texts and not info and mark.startswith(self.texts[-1]):
            self.texts.pop()
            yield ""
        elif directive and name in _TEXTS:
            self.texts.append(mark)
            self.options = True
            yield from ("", directive[2], "")
        else:
            self.code, self.is_left_out = mark, name in _LISTS
            self.includes += name in ("include", "literalinclude")
            yield from () if self.is_left_out else (line,)


def _title(written: str) -> str:
    """The title that a fence states after its kind: `note Title`, `note[Title]`, `{.note title="Title"}`."""
    if named := _TITLE.search(written):
        return named[1]
    bare = _ATTRIBUTES.sub("", written).strip(" :/")
    if "{" not in written:
        kind = re.match(r"[\w.-]*", bare)
        bare = bare[kind.end() if kind else 0 :]
    return bare.strip(" |[]")


def _shown(shortcode: re.Match[str]) -> str:
    """The text that a shortcode of Hugo or Quarto shows, if it states one."""
    text = _SHOWN.search(shortcode[1])
    return text[1] if text else ""


def _without_javascript(text: str) -> str:
    """A text of MDX without imports and exports, comments and tags."""
    first, *others = text.split("{/*")
    for other in others:
        comment, end, rest = other.partition("*/}")
        first += rest if end else f"{{/*{comment}"
    return _MARKUP.sub(_without_tag, "\n".join(_without_modules(first.split("\n"))))


def _without_modules(lines: Sequence[str]) -> Iterator[str]:
    """The lines of no import or export, which begins after a blank line and ends before one outside of braces."""
    depth, inside, before = 0, False, ""
    for line in lines:
        begins = not before.strip() and line.startswith(("import ", "export "))
        if inside and not line.strip() and depth <= 0:
            inside = False
        if begins and not inside:
            inside, depth = True, 0
        if inside:
            depth += sum(map(line.count, "{([")) - sum(map(line.count, "})]"))
        else:
            yield line
        before = line


def _without_tag(match: re.Match[str]) -> str:
    """The text that stays of a tag, or of code."""
    if match[0].startswith("`"):
        return match[0]
    if match["name"] in _INLINE:
        return ""
    around = match.string[max(0, match.start() - 1) : match.start()], match.string[match.end() : match.end() + 1]
    return " " if all(sign.isalnum() for sign in around if sign) and all(around) else ""
