"""The commands `methods` and `datasets`: the available methods and formats, their settings, and examples."""

import inspect
import json
import shlex
from collections.abc import Iterator
from typing import Annotated, Any, get_args

import typer
from pydantic import BaseModel
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from configs.evaluation import Evaluate, LabelConfig, Method
from configs.schema import IndexCorpus
from configs.section import Section
from configs.training import TrainConfig
from flows.cli.terminal import explained_errors, out
from tasks.registry import METHODS, UnknownName, options_type, resolve, summary

DEMO = "vitalfew index synthetic:passages=2000,questions=200 --name demo --set bm25.enabled=true"
INDEXING = "vitalfew index synthetic:passages=200,questions=20 --name mine"
EXAMPLES = {
    "splitter": INDEXING,
    "encoder": INDEXING,
    "index": INDEXING,
    "retriever": "vitalfew search 'When was the observatory opened?' --index demo",
    "refiner": "vitalfew evaluate quickstart --index demo",
    "generator": "vitalfew evaluate quickstart --index demo",
    "critic": "vitalfew evaluate pfe_self_rag/table2 --index demo",
    "selector": "vitalfew evaluate pfe_self_rag/table2 --index demo",
    "metric": "vitalfew evaluate quickstart --index demo",
}
"""By kind, a command that uses the method once a setting names it."""


def sections() -> Iterator[tuple[str, type[Section]]]:
    """The sections of the settings that name a method, with their places."""
    for model in (IndexCorpus, Method, Evaluate):
        for name, field in model.model_fields.items():
            for kind in (field.annotation, *get_args(field.annotation)):
                if isinstance(kind, type) and issubclass(kind, Section):
                    yield name, kind
    yield "", TrainConfig  # a recipe holds nothing else
    yield "label", LabelConfig


def methods(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A method, or module:Class of your own.")] = None,
) -> None:
    """List every method by kind, or explain one: what it does, its options, an example.

    vitalfew methods core_context
    """
    with explained_errors():
        if name is None:
            _list()
            return
        kinds = [_kind_of_own(name)] if ":" in name else [kind for kind, names in METHODS.items() if name in names]
        if not kinds:
            raise UnknownName("method", name, sorted({name for names in METHODS.values() for name in names}))
        for kind in kinds:
            _explain(kind, name)


def _list() -> None:
    table = Table("kind", "name", "what it does", box=None, header_style="bold", pad_edge=False)
    for kind, names in METHODS.items():
        for name in sorted(names) if kind != "dataset" else []:
            table.add_row(kind, name, summary(kind, name))
    out.print(table)
    out.print(
        "\nThe options of one, and an example: [b]vitalfew methods NAME[/b]. Dataset formats: `vitalfew datasets`."
    )
    out.print("A method of your own: [b]module:Class[/b] in place of a name.")


def _kind_of_own(name: str) -> str:
    options = getattr(resolve("metric", name), "Options", None)
    if options is None or not issubclass(options, Section):
        raise ValueError(f"{name} has no Options, which would tell its kind and what can be set of it")
    return options.kind


def _explain(kind: str, name: str) -> None:
    method = resolve(kind, name)
    if kind == "dataset":
        dataset_format(name, method)
        return
    out.print(f"[b]{escape(name)}[/]  ({kind})\n{escape(inspect.getdoc(method) or '')}\n")
    place, section = next(((place, section) for place, section in sections() if section.kind == kind), ("", None))
    if section is None:  # an engine, which is named by the method that uses it
        _options(method.Options, "", [*method.Options.model_fields])
        return
    named = (name,) if section.field() == "metrics" else name
    options = options_type(section.model_validate({section.field(): named}))
    own = [key for key in options.model_fields if key not in section.model_fields]
    shared = [key for key in section.model_fields if key != section.field()]
    for heading, keys in (("Options:", own), (f"Of every {kind}:", shared)):
        if keys:
            out.print(heading)
            _options(options, place, keys)
    if command := _example(kind, name, section, place, getattr(method, "example", ())):
        out.print(f"\n    [green]{escape(command)}[/]", highlight=False, soft_wrap=True)
        if " demo" in command:
            out.print(f"    after  [green]{escape(DEMO)}[/]", highlight=False, soft_wrap=True)
    out.print()


def _example(kind: str, name: str, section: type[Section], place: str, further: tuple[str, ...]) -> str:
    """A command that uses the method; `further`: settings that it needs besides its name. '' if no command uses it."""
    if kind == "trainer":
        return f"vitalfew train {name} squad:train-v1.1.json --out my-{name}"
    if kind not in EXAMPLES:
        return ""
    value = f"[{name}]" if section.field() == "metrics" else name
    settings = [f"{place}.{section.field()}={value}", *further]
    return " ".join([EXAMPLES[kind], *(f"--set {shlex.quote(setting)}" for setting in settings)])


def _options(options: type[BaseModel], place: str, keys: list[str]) -> None:
    """Key, default, type and meaning. `place`: of the options in the settings."""
    types = options.model_json_schema()["properties"]
    for key in keys:
        field = options.model_fields[key]
        default = "" if field.is_required() else _default(field)
        out.print(
            f"  [cyan]{'.'.join(filter(None, (place, key)))}[/] = {escape(default)}  ({type_in_words(types[key])})",
            highlight=False,
        )
        out.print(Padding(escape(field.description or ""), (0, 0, 0, 6)), highlight=False)


def type_in_words(schema: dict[str, Any]) -> str:
    """The type of a field, from its JSON schema: "number, 0 to 1", "self_rag or pfe"."""
    if "anyOf" in schema:
        return " or ".join(type_in_words(option) for option in schema["anyOf"])
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {type_in_words(schema.get('items', {}))}"
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    bounds = f"{low:g} to {high:g}" if None not in (low, high) else f"from {low:g}" if low is not None else ""
    if "exclusiveMinimum" in schema and high is None:
        bounds = f"above {low:g}"
    name = {"string": "text", "boolean": "true or false", None: "settings"}.get(schema.get("type"), schema.get("type"))
    return ", ".join(filter(None, [name, bounds]))


def datasets() -> None:
    """Describe the dataset formats, each with an example."""
    for name in sorted(METHODS["dataset"]):
        dataset_format(name, resolve("dataset", name))


def dataset_format(name: str, method: Any) -> None:
    """A format: what it reads, an example, its options."""
    out.print(f"[b]{name}[/]  {escape(inspect.getdoc(method) or '')}")
    use = f"vitalfew index {method.example!r} --name mine"
    if not method.has_passages:
        use = f"vitalfew evaluate quickstart --index mine --set 'questions.dataset={method.example}'"
    out.print(f"    [green]{escape(use)}[/]", highlight=False, soft_wrap=True)
    for key, field in method.Options.model_fields.items():
        out.print(f"    {key} = {field.default!r}  {escape(field.description or '')}", highlight=False)
    out.print()


def settings_help(*models: type[BaseModel]) -> str:
    """Every `--set` key of the models' sections with its default and meaning, for a command's help; for a section that
    names a method, the settings that every method has."""
    lines = ["[b]Settings[/b] (--set, --config); those of one method alone: [b]vitalfew methods NAME[/b]"]
    for model in models:
        for section, outer in model.model_fields.items():
            for inner in (outer.annotation, *get_args(outer.annotation)):
                if isinstance(inner, type) and issubclass(inner, BaseModel) and inner not in models:
                    lines += [_setting(f"{section}.{key}", field) for key, field in inner.model_fields.items()]
    return "\n\n".join(lines)


def _setting(key: str, field: Any) -> str:
    default = _default(field)
    return f"[cyan]{key}[/cyan] = {escape(default)}  {escape(field.description or '')}"


def _default(field: Any) -> str:
    return json.dumps(field.get_default(call_default_factory=True), default=str)
