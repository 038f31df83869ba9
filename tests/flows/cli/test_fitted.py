"""Tables of the command line fit the terminal, and no figure is cut off or broken."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column, Table

from vitalfew.flows.cli import terminal
from vitalfew.flows.cli.terminal import fitted, table

FIGURES = ("1,254,184", "12,345.6", "0.00370", "20,480")
HEADS = ("tokens", "wall s", "USD", "peak MiB")


def shown(made: Table, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(made)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("width", [60, 120])
def test_every_figure_is_whole_where_texts_take_several_lines(width: int) -> None:
    made = table("stage", Column("model", overflow="fold"), figures=HEADS)
    made.add_row("refine", "a model with a name of several words", *FIGURES)
    made.add_row("generate", "reader", *reversed(FIGURES))
    text = shown(made, width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
    for figure in FIGURES:
        assert text.count(figure) == 2


def test_what_can_be_spared_goes_where_the_terminal_is_narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    def listed(width: int) -> str:
        monkeypatch.setattr(terminal.out, "_width", width)
        made = table(Column("run", no_wrap=True), "state", figures=["took"])
        made.add_row("20261126-040512-408922", "interrupted", "16 s")
        return shown(fitted(made, "state"), width)

    assert "interrupted" in listed(60)
    narrow = listed(34)
    assert "interrupted" not in narrow
    assert "20261126-040512-408922" in narrow
    assert "16 s" in narrow
