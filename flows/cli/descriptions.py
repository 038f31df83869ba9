"""What can be said of a method and of a setting: `vitalfew methods`, `vitalfew datasets`, the commands' help and
docs/reference/ show it, each in its own form."""

import ast
import inspect
import json
import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pkgutil import get_data
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from vitalfew.configs.evaluation import Evaluate, LabelConfig, Method
from vitalfew.configs.schema import IndexCorpus
from vitalfew.configs.section import Section
from vitalfew.configs.training import CollectConfig, TrainConfig
from vitalfew.tasks.registry import METHODS, options_type, resolve

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


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting in words. `name`: as `--set` takes it; `default`: JSON, '' where a value has to be given."""

    name: str
    default: str
    type: str
    about: str


@dataclass(frozen=True, slots=True)
class Description:
    """A method in words. `own`: the options that it alone has; `shared`: those of every method of its kind.

    `example`: a command that uses it, '' if none does; `before`: the command that makes the index of the example.
    """

    kind: str
    name: str
    about: str
    own: list[Setting]
    shared: list[Setting]
    example: str = ""
    before: str = ""


def sections_of(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """The sections of some settings, with their names."""
    for name, field in model.model_fields.items():
        for kind in (field.annotation, *get_args(field.annotation)):
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield name, kind


def sections() -> Iterator[tuple[str, type[Section]]]:
    """The sections that name a method, with their places in the settings."""
    for model in (IndexCorpus, Method, Evaluate):
        yield from ((name, kind) for name, kind in sections_of(model) if issubclass(kind, Section))
    yield "", TrainConfig  # a recipe holds nothing else
    yield "label", LabelConfig
    yield "collect", CollectConfig


def section_of(kind: str) -> tuple[str, type[Section]] | None:
    """The section that names methods of this kind, with its place; None: other methods name them."""
    return next(((place, section) for place, section in sections() if section.kind == kind), None)


def settings(model: type[BaseModel], place: str = "", keys: Collection[str] | None = None) -> list[Setting]:
    """The fields of a section, or those that `keys` names. `place`: of the section in the settings."""
    types = model.model_json_schema()["properties"]
    listed = []
    for key, field in model.model_fields.items():
        if keys is None or key in keys:
            name, default = ".".join(filter(None, (place, key))), default_of(field)
            kind = type_in_words(types[key])
            # A default of null says already that null is allowed.
            kind = kind.removesuffix(" or null").removesuffix(",") if default == "null" else kind
            listed.append(Setting(name, default, kind, field.description or ""))
    return listed


def default_of(field: FieldInfo) -> str:
    """The default of a field as JSON has it, '' where a value has to be given."""
    return "" if field.is_required() else json.dumps(field.get_default(call_default_factory=True), default=str)


def summary(kind: str, name: str) -> str:
    """The first line of a registered method's docstring, read from its source: importing all methods takes seconds."""
    module, _, attribute = METHODS[kind][name].partition(":")
    package, _, file = module.rpartition(".")
    tree = ast.parse(get_data(package, f"{file}.py") or b"")
    method = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == attribute)
    return (ast.get_docstring(method) or "").partition("\n")[0]


def described(kind: str, name: str) -> Description:
    """A registered method, or module:Class of the user's own. Raises UnknownName."""
    method = resolve(kind, name)
    about = inspect.getdoc(method) or ""
    if kind == "dataset":
        return Description(kind, name, about, settings(method.Options), [], dataset_example(method))
    if (named := section_of(kind)) is None:  # an engine, which is named by the method that uses it
        return Description(kind, name, about, settings(method.Options), [])
    place, section = named
    value = (name,) if section.field() == "metrics" else name
    options = options_type(section.model_validate({section.field(): value}))
    own = [key for key in options.model_fields if key not in section.model_fields]
    shared = [key for key in section.model_fields if key != section.field()]
    example = _example(kind, name, section, place, getattr(method, "example", ()))
    before = DEMO if " demo" in example else ""
    return Description(
        kind, name, about, settings(options, place, own), settings(options, place, shared), example, before
    )


def dataset_example(method: Any) -> str:
    """A command that reads a data set of this format."""
    if method.has_passages:
        return f"vitalfew index {method.example!r} --name mine"
    return f"vitalfew evaluate quickstart --index mine --set 'questions.dataset={method.example}'"


def _example(kind: str, name: str, section: type[Section], place: str, further: tuple[str, ...]) -> str:
    """A command that uses the method; `further`: settings that it needs besides its name. '' if no command uses it."""
    if kind == "trainer":
        return f"vitalfew train {name} squad:train-v1.1.json --out my-{name}"
    if kind not in EXAMPLES:
        return ""
    value = f"[{name}]" if section.field() == "metrics" else name
    settings = [f"{place}.{section.field()}={value}", *further]
    return " ".join([EXAMPLES[kind], *(f"--set {shlex.quote(setting)}" for setting in settings)])


def type_in_words(schema: dict[str, Any]) -> str:
    """The type of a field, from its JSON schema: "number, 0 to 1", "self_rag or pfe", "text or null"."""
    if "anyOf" in schema:
        words = [type_in_words(option) for option in schema["anyOf"]]
        return (", or " if any("," in each for each in words) else " or ").join(words)
    if "enum" in schema:
        return " or ".join(map(str, schema["enum"]))
    if schema.get("type") == "array":
        return f"list of {type_in_words(schema.get('items', {}))}"
    names = {"string": "text", "boolean": "true or false", "object": "settings", None: "settings"}
    kind = schema.get("type")
    name = "path" if schema.get("format") == "path" else names.get(kind, kind)
    return ", ".join(filter(None, [name, _bounds(schema)]))


def _bounds(schema: dict[str, Any]) -> str:
    """The bounds of a number: "0 to 1", "from 1", "above 0, at most 1"; '' if it has none."""
    if "minimum" in schema and "maximum" in schema:
        return f"{_number(schema['minimum'])} to {_number(schema['maximum'])}"
    words = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    return ", ".join(f"{word} {_number(schema[key])}" for key, word in words.items() if key in schema)


def _number(bound: float) -> str:
    return f"{int(bound):,}" if bound == int(bound) else f"{bound:g}"
