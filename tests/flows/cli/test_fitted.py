"""Tables of the command line fit the terminal, and no figure is cut off or broken."""

import io

import pytest
from rich.cells import cell_len
from rich.console import Console
from rich.table import Column

from vitalfew.flows.cli.terminal import FittedTable, table

FIGURES = ("1,254,184 → 1,254,190", "12,345.6", "0.00370", "20,480")
HEADS = ("tokens", "wall s", "USD", "peak MiB")


def shown(made: FittedTable, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(made)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def filled() -> FittedTable:
    made = table("stage", Column("model"), figures=HEADS, keys=2)
    made.add_row("refine", "a model with a name of several words", *FIGURES)
    made.add_row("generate", "reader", *reversed(FIGURES))
    return made


@pytest.mark.parametrize("width", [46, 60, 80, 120])
def test_every_figure_is_whole_at_every_width(width: int) -> None:
    text = shown(filled(), width)
    assert max(map(cell_len, text.splitlines())) <= width
    assert "…" not in text
    for figure in FIGURES:
        assert text.count(figure) == 2


def test_columns_that_do_not_fit_follow_below_with_the_keys() -> None:
    text = shown(filled(), 50)
    assert text.count("refine") == text.count("generate") == text.count("reader") > 1
    assert shown(filled(), 120).count("refine") == 1


def test_what_can_be_spared_goes_before_anything_follows_below() -> None:
    made = table(Column("run", no_wrap=True), "state", figures=["took"], spare=["state"])
    made.add_row("20261126-040512-408922", "interrupted", "16 s")
    assert "interrupted" in shown(made, 60)
    narrow = shown(made, 34)
    assert "interrupted" not in narrow
    assert "20261126-040512-408922" in narrow
    assert "16 s" in narrow


def test_a_total_is_below_every_part() -> None:
    sums = (Column("tokens", "1,254,184", justify="right"), Column("USD", "0.5", justify="right"))
    made = table("stage", *sums, show_footer=True)
    made.add_row("refine", "1,254,184", "0.5")
    text = shown(made, 20)
    assert text.count("1,254,184") == 2
    assert text.count("0.5") == 2
