"""Golden: the name of every command, its arguments and its options."""

from collections.abc import Callable, Iterator

import click
import typer

from vitalfew.flows.cli.main import app


def test_commands(golden: Callable[[str, str], None]) -> None:
    golden("commands.txt", "".join(_described(typer.main.get_command(app), "vitalfew")))


def _described(command: click.Command, name: str) -> Iterator[str]:
    """A line per command: its arguments, then its options, in the order of their names."""
    given = [parameter for parameter in command.params if parameter.name != "help"]
    arguments = [str(one.name).upper() for one in given if one.param_type_name == "argument"]
    options = sorted("/".join(one.opts + one.secondary_opts) for one in given if one.param_type_name == "option")
    yield " ".join([name, *arguments, *options]) + "\n"
    for below, child in sorted(getattr(command, "commands", {}).items()):
        yield from _described(child, f"{name} {below}")
