"""The commands `methods` and `datasets`: the available methods and formats, their settings, and examples."""

from typing import Annotated

import typer
from pydantic import BaseModel
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from vitalfew.configs.section import Section
from vitalfew.flows.cli.descriptions import Description, Setting, default_of, described, sections_of, summary
from vitalfew.flows.cli.terminal import explained_errors, out
from vitalfew.tasks.registry import METHODS, UnknownName, resolve

SERVED = ("splitter", "encoder", "refiner", "generator")
"""Kinds with methods that bring no model of their own."""


def methods(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Name of a method, or module:Class.")] = None,
) -> None:
    """List all methods by kind, or describe one: what it does, its options, an example.

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
            _explain(described(kind, name))


def _list() -> None:
    from vitalfew.tasks.models.presets import serving

    table = Table("kind", "name", "what it does", box=None, header_style="bold", pad_edge=False)
    for kind, names in METHODS.items():
        for name in sorted(names) if kind != "dataset" else []:
            models = serving(name) if kind in SERVED else []
            about = escape(summary(kind, name))
            if models and not any(model.directories() for model in models):
                about += f"\n[yellow]needs a model that is not installed:[/] [green]{escape(models[0].command)}[/]"
            table.add_row(kind, name, about)
    out.print(table)
    out.print(
        "\nOptions and an example of a method: [b]vitalfew methods NAME[/b]. Formats of data sets: `vitalfew datasets`."
    )
    out.print("To use your method, write [b]module:Class[/b] in place of a name.")


def _models(method: Description) -> None:
    """The models that it can run with, and which of them are on this machine."""
    from vitalfew.tasks.models.presets import serving

    if method.kind in SERVED and (models := serving(method.name)):
        out.print("\nRuns with:")
        for model in models:
            here = (
                "installed" if model.directories() else f"[yellow]not installed:[/] [green]{escape(model.command)}[/]"
            )
            words = f"  [cyan]{model.name}[/]  {escape(model.about)}; {here}"
            out.print(words, highlight=False, soft_wrap=True)


def _kind_of_own(name: str) -> str:
    options = getattr(resolve("metric", name), "Options", None)
    if options is None or not issubclass(options, Section):
        raise ValueError(f"{name} has no Options class; add one that subclasses the settings of its kind")
    return options.kind


def _explain(method: Description) -> None:
    if method.kind == "dataset":
        _format(method)
        return
    out.print(f"[b]{escape(method.name)}[/]  ({method.kind})\n{escape(method.about)}\n")
    for heading, listed in (("Options:", method.own), (f"Options of every {method.kind}:", method.shared)):
        if listed:
            out.print(heading)
            _options(listed)
    _models(method)
    if method.example:
        out.print(f"\n    [green]{escape(method.example)}[/]", highlight=False, soft_wrap=True)
    if method.before:
        out.print(f"    after  [green]{escape(method.before)}[/]", highlight=False, soft_wrap=True)
    out.print()


def _options(listed: list[Setting]) -> None:
    """Key, default, type and meaning."""
    for setting in listed:
        words = f"  [cyan]{setting.name}[/] = {escape(setting.default)}  ({setting.type})"
        out.print(words, highlight=False)
        out.print(Padding(escape(setting.about), (0, 0, 0, 6)), highlight=False)


def datasets() -> None:
    """Describe the formats of data sets, with examples."""
    for name in sorted(METHODS["dataset"]):
        _format(described("dataset", name))


def _format(method: Description) -> None:
    """A format: what it reads, an example, its options."""
    out.print(f"[b]{method.name}[/]  {escape(method.about)}")
    out.print(f"    [green]{escape(method.example)}[/]", highlight=False, soft_wrap=True)
    for option in method.own:
        out.print(f"    {option.name} = {escape(option.default)}  {escape(option.about)}", highlight=False)
    out.print()


def settings_help(*models: type[BaseModel]) -> str:
    """Every `--set` key of the models' sections with its default and meaning, for a command's help; for a section that
    names a method, the settings that every method has."""
    lines = ["[b]Settings[/b] (--set, --config). For the settings of a method: [b]vitalfew methods NAME[/b]"]
    for model in models:
        for place, section in sections_of(model):
            if section not in models:
                lines += [
                    f"[cyan]{place}.{key}[/cyan] = {escape(default_of(field))}  {escape(field.description or '')}"
                    for key, field in section.model_fields.items()
                ]
    return "\n\n".join(lines)
