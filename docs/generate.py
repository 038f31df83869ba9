"""Writes docs/reference/: `make reference`, or `python -m docs.generate`.

It is in no package of the product, because it reads all of them, the commands among them, and none needs it. It shows
what `vitalfew methods`, `datasets`, `tables` and `--help` show, in another form. The pages depend on the code alone:
neither on the machine, nor on the terminal, nor on a store.
"""

import inspect
import re
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import typer
from pydantic import BaseModel
from rich.text import Text
from typer.main import get_command

from vitalfew.configs.evaluation import Choose, Chosen, Evaluate, Experiment, Method
from vitalfew.configs.schema import Corpus, Execution, IndexCorpus
from vitalfew.configs.section import Section
from vitalfew.configs.training import TrainConfig, TrainOreo
from vitalfew.configs.writing import WriteQuestions
from vitalfew.flows.cli.main import app
from vitalfew.flows.cli.methods import Description, Setting, described, section_of, sections_of, settings
from vitalfew.storage.catalog.database import without_rows
from vitalfew.storage.catalog.macros import MACROS
from vitalfew.storage.catalog.views import documented, rows
from vitalfew.tasks import comparable
from vitalfew.tasks.registry import METHODS, summary

REFERENCE = Path(__file__).parent / "reference"
EXPERIMENT = (Experiment, Method, Evaluate)
COMPILED = (Method, Choose, Chosen)
"""Sections that an experiment's file writes in another form: the experiment's own table describes it."""


def prose(words: str) -> str:
    """Plain words as Markdown: outside of code, no sign of theirs emphasises or begins a tag."""
    return re.sub(r"(`[^`]*`)|((?<! )\*|\*(?! )|\\|<(?=[\w/!]))", lambda m: m[1] or f"\\{m[2]}", words)


def code(words: str) -> str:
    return f"`{words}`" if words else ""


def table(*headings: str, of: Iterable[Iterable[str]]) -> Iterator[str]:
    """Yield a table, or nothing if it has no rows."""
    cells = ([" ".join(words.split()).replace("|", "\\|") for words in row] for row in of)
    if listed := [f"| {' | '.join(row)} |" for row in cells]:
        yield f"| {' | '.join(headings)} |"
        yield f"|{'---|' * len(headings)}"
        yield from listed
        yield ""


def block(*commands: str, language: str = "sh") -> Iterator[str]:
    yield from (f"```{language}", *commands, "```", "")


def paragraphs(documentation: str) -> Iterator[str]:
    """Yield a docstring; a paragraph of commands becomes a block of code."""
    for paragraph in inspect.cleandoc(documentation).split("\n\n"):
        lines = [line.strip() for line in paragraph.splitlines()]
        if all(line.startswith("vitalfew ") for line in lines):
            yield from block(*lines)
        else:
            yield from (prose(" ".join(lines)), "")


def anchor(heading: str) -> str:
    """Return the anchor of a heading, as code hosts and the site make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def options(listed: Iterable[Setting]) -> Iterator[str]:
    rows = (
        (code(each.name), code(each.default.strip('"') or each.default), each.type, prose(each.about))
        for each in listed
    )
    yield from table("setting", "default", "type", "meaning", of=rows)


def _settings_page() -> Iterator[str]:
    shown: set[type[BaseModel]] = set()
    for title, opening, models in (
        ("Where a flow runs", "Settings for all files below.", (Execution,)),
        ("An index", "For `vitalfew index` and `vitalfew plan`.", (IndexCorpus,)),
        ("Written questions", "For `vitalfew questions write`.", (WriteQuestions,)),
        ("An experiment", "For `vitalfew evaluate`; `vitalfew search` takes `retrieve`.", EXPERIMENT),
        ("A training", "For `vitalfew train`: a recipe of `configs/recipes/`, or your file.", (TrainConfig, TrainOreo)),
        ("A corpus that is kept up to date", "A file `corpora/NAME.yaml`: all settings of an index, and", (Corpus,)),
    ):
        yield from (f"## {title}", "", opening, "", *_top(models[0], shown))
        for name, section in chain.from_iterable(map(sections_of, models)):
            if section not in shown and section not in COMPILED:
                yield from (f"### `{name}`", "", *_section(name, section))
            shown.add(section)


def _top(model: type[BaseModel], shown: set[type[BaseModel]]) -> Iterator[str]:
    """Yield the settings outside of sections, without those of a base that was shown before."""
    known = {name for name, _ in sections_of(model)}.union(*(base.model_fields for base in shown & {*model.__mro__}))
    shown.add(model)
    yield from (*options(settings(model, keys=model.model_fields.keys() - known)), *_further(model))


def _section(place: str, section: type[BaseModel]) -> Iterator[str]:
    yield from paragraphs(section.__doc__ or "")
    yield from (*options(settings(section, place)), *_further(section))


def _further(model: type[BaseModel]) -> Iterator[str]:
    if issubclass(model, Section):
        listed = plural(model.kind)
        yield from (f"Further options are those of [{listed.lower()}](methods.md#{anchor(listed)}).", "")


def plural(kind: str) -> str:
    return "Index types" if kind == "index" else f"{kind}s".capitalize()


def heading(kind: str, name: str) -> str:
    """A name can be that of several kinds: the kind makes the heading, and the link to it, unique."""
    return f"`{name}`" if kind == "dataset" else f"`{name}` ({kind})"


def _methods_page() -> Iterator[str]:
    for kind, names in METHODS.items():
        if names and kind != "dataset":
            yield from (f"## {plural(kind)}", "", *_named_by(kind), *_overview(kind, plural(kind)[:-1].lower()))
            methods = [described(kind, name) for name in names]
            shared = [option for option in methods[0].own if all(option in method.own for method in methods)]
            every = shared if len(methods) > 1 else []
            if every:
                yield from (f"Every {kind} has these options:", "", *options(every))
            if methods[0].example:
                yield from ("For example:", "", *block(*filter(None, (methods[0].before, methods[0].example))))
            for method in methods:
                yield from _method(method, "###", every, methods[0])


WITHOUT_SECTION = {
    "engine": "Engines run a language model. The method that uses one names it, as in `generate.engine`.",
    "stage": "Further stages of an evaluation. A method has those that its settings name: `stages: {perturb: {…}}`, or "
    "`perturb: {…}`.",
}


def _named_by(kind: str) -> Iterator[str]:
    if (named := section_of(kind)) is None:
        yield from (WITHOUT_SECTION[kind], "")
        return
    place, section = named
    key = ".".join(filter(None, (place, section.field())))
    others = f"[`{place}`](settings.md#{place})" if place else "[a recipe](settings.md#a-training)"
    about = prose(inspect.getdoc(section) or "")
    yield from (f"{about} Named by `{key}`; every {kind} also has the settings of {others}.", "")


def _overview(kind: str, column: str) -> Iterator[str]:
    linked = ((f"[`{name}`](#{anchor(heading(kind, name))})", prose(summary(kind, name))) for name in METHODS[kind])
    yield from table(column, "description", of=linked)


def _method(method: Description, level: str, known: list[Setting], first: Description | None = None) -> Iterator[str]:
    """`known`: options that were shown before, as the example of the `first` of its kind was."""
    yield from (f"{level} {heading(method.kind, method.name)}", "", *paragraphs(method.about))
    yield from options(option for option in method.own if option not in known)
    if not first or method.example != first.example.replace(first.name, method.name):
        yield from block(method.example)


def _formats_page() -> Iterator[str]:
    yield from _overview("dataset", "format")
    for name in METHODS["dataset"]:
        yield from _method(described("dataset", name), "##", [])


def _comparable_page() -> Iterator[str]:
    yield from paragraphs(comparable.__doc__ or "")


def _tables_page() -> Iterator[str]:
    with without_rows() as catalog:
        listed = rows(catalog)
        yield from table("table", "a row is", of=((f"[`{name}`](#{name})", row) for name, row in listed.items()))
        for name, row in listed.items():
            yield from (f"## `{name}`", "", f"A row is {prose(row)}.", "")
            meaning = documented(catalog, name)
            types = catalog.sql(f"DESCRIBE {name}").fetchall()
            columns = ((code(column), code(kind), prose(meaning[column].comment)) for column, kind, *_ in types)
            yield from table("column", "type", "meaning (unit)", of=columns)


def _macros_page() -> Iterator[str]:
    with without_rows() as catalog:
        for macro in MACROS:
            yield from (f"## `{macro.name}`", "", *block(macro.signature, language="sql"))
            about = prose(macro.about[:1].upper() + macro.about[1:])
            yield from (f"{about}.", "", *block(macro.example, language="sql"))
            called = macro.example[macro.example.index(f"{macro.name}(") :].partition(" GROUP BY")[0]
            types = catalog.sql(f"DESCRIBE FROM {called}").fetchall()
            yield from table("column", "type", of=((code(column), code(kind)) for column, kind, *_ in types))


def _commands_page() -> Iterator[str]:
    yield from _command(get_command(app), "vitalfew")


def _command(command: Any, path: str) -> Iterator[str]:
    context = typer.Context(command, info_name=path)
    yield from (f"## `{path}`", "", *paragraphs(Text.from_markup(command.help or "").plain))
    yield from block(" ".join([path, *command.collect_usage_pieces(context)]), language="text")
    records = [parameter.get_help_record(context) for parameter in command.get_params(context)]
    listed = [(re.sub(r" <(str|path|list.*)>", "", name), words) for name, words in records if name != "--help"]
    yield from table("argument or option", "meaning", of=((code(name), prose(words)) for name, words in listed))
    if any(name.startswith("--set ") for name, _ in listed):
        yield from ("For the keys of `--set` see [settings](settings.md) and [methods](methods.md).", "")
    for name, inner in getattr(command, "commands", {}).items():
        yield from _command(inner, f"{path} {name}")


PAGES = {
    "settings": (
        "Settings",
        "configs/",
        "Settings come from a file (`--config FILE.yaml`, an experiment, a recipe, a corpus) and from `--set "
        "key.path=value`, which wins over the file: `encode: {context: late}` and `--set encode.context=late` mean the"
        " same. Defaults are shown as YAML; a setting without a default is required. Single [methods](methods.md) "
        "have further settings.",
        _settings_page,
    ),
    "formats": (
        "Formats of data sets",
        "tasks/datasets/",
        "A data set is `FORMAT:PATH?option=value&option=value`, or just `FORMAT` if it reads no path; several "
        "form one corpus. In an option's value, write `&` as `%26` and `?` as `%3F`. Files packed with gzip, bzip2, "
        "zstd or xz are read directly. A row that cannot be used goes to the table [`rejects`](tables.md#rejects),"
        " with its offset and a reason.",
        _formats_page,
    ),
    "methods": (
        "Methods",
        "tasks/registry.py and the classes that it names",
        "Methods that the [settings](settings.md) can name, by kind. Give `module:Class` instead of a name to use "
        "your class. For the formats of data sets see [formats](formats.md).",
        _methods_page,
    ),
    "comparable": (
        "The comparable form of a text",
        "tasks/comparable.py",
        "What counts as the same text, for keywords, gold quotes, answers and evidence.",
        _comparable_page,
    ),
    "tables": (
        "Tables",
        "storage/schemas.py and storage/catalog/views.py",
        "Tables for `vitalfew sql`, and for any DuckDB that opens `store/catalog.duckdb`. Types are DuckDB's. "
        "[Macros](macros.md) answer the most frequent questions.",
        _tables_page,
    ),
    "macros": (
        "Macros",
        "storage/catalog/macros.py",
        "Tables with parameters, for `vitalfew sql`. A `run` is the beginning of a run's id, or the name of its "
        "experiment or index; `''` is every run.",
        _macros_page,
    ),
    "command_line": (
        "Command line",
        "flows/cli/",
        "Every command with its arguments and options, as in `--help`.",
        _commands_page,
    ),
}
"""Pages of docs/reference/, by file name: title, the code they are made of, what stands above the lines, and these."""


def pages() -> dict[str, str]:
    """Return the text of every page, by its file's name."""
    written = {}
    for name, (title, source, about, lines) in PAGES.items():
        origin = f"<!-- Written by `make reference` from {source}: change that, not this page. -->"
        written[f"{name}.md"] = "\n".join([origin, f"# {title}", "", about, "", *lines()]).rstrip("\n") + "\n"
    return written


def main() -> None:
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
