"""Printed figures: the shared facts cell by cell, what is derived of them, and files that contradict them."""

import numpy as np
import pytest
import yaml
from numpy.typing import NDArray
from pydantic import ValidationError

from tests.support.printed import PAPERS
from tests.support.real_data import real_data
from vitalfew.configs.paper import Paper, papers
from vitalfew.configs.printed import Formula, Table, cells, value
from vitalfew.tasks.reports.statistics.ranks import quade

PARETO, PFE = papers()["paretorag"].tables, papers()["pfe_self_rag"].tables
NOT_SHARED = {
    "pfe_self_rag": {"table 4 / * / threshold", "table 5, change / * / *"},
    "sparse_rag": {"table 6 / * / init and copy", "table 13 / * / *"},
}
"""Cells that the shared file leaves out; they are of the paper's text."""


@pytest.mark.parametrize("name", PAPERS)
def test_the_tables_are_the_shared_facts_cell_by_cell(name: str) -> None:
    facts = yaml.safe_load(real_data("../papers/figures.yaml").read_text(encoding="utf-8"))[name]
    tables = papers()[name].tables
    shared = {cell: number for cell, number in PAPERS[name](facts) if number is not None}
    assert shared == {cell: value(tables, cell)[0] for cell in shared}
    further = sum(len(cells(tables, pattern)) for pattern in NOT_SHARED.get(name, ()))
    both = sum(cell.startswith("table 13 /") for cell in shared)
    printed = sum(cell is not None for table in tables.values() for row in table.rows.values() for cell in row)
    assert printed == len(shared) + further - both


def table_2() -> NDArray[np.float64]:
    return np.array(list(PFE["table 2"].rows.values()), dtype=np.float64)


def test_quades_f_of_the_printed_table_is_not_the_printed_one() -> None:
    found = quade(table_2())
    assert found.f == pytest.approx(10.68, abs=0.005)
    assert value(PFE, "Quade / table 2 / F") == (12.40, "")
    rankings = [ranking for (ranking,) in PFE["table 3"].rows.values()]
    assert list(PFE["table 3"].rows) == list(PFE["table 2"].rows)
    assert found.rankings.tolist() == pytest.approx(rankings)


def test_the_changes_of_table_5_are_those_of_its_rows() -> None:
    for method, changes in PFE["table 5, change"].rows.items():
        rows = PFE["table 5"].rows
        with_mmr, without = (np.array(rows[f"{method}, {mmr} MMR"], dtype=float) for mmr in ("with", "without"))
        assert (without - with_mmr).tolist() == pytest.approx(list(changes))


def test_what_is_said_of_table_1_is_so() -> None:
    gains = [
        value(
            PARETO,
            Formula(minus=(f"table 1 / ParetoRAG, {model} / {column}", f"table 1 / naive RAG, {model} / {column}")),
        )
        for model in ("Vicuna-7B", "Vicuna-13B", "Llama2-7B-chat", "Llama2-13B-chat")
        for column, unit in PARETO["table 1"].columns.items()
        if column.startswith(("NQ", "HotpotQA")) and unit
    ]
    assert (len(gains), sum(gain < 0 for gain, _ in gains)) == (24, 3)
    saved = [value(PARETO, Formula(over=(f"table 1, tokens / ParetoRAG / {of}", f"table 1, tokens / naive RAG / {of}")))
             for of in PARETO["table 1, tokens"].columns]  # fmt: skip
    assert [round(100 * share) for share, _ in saved] == [36, 40, 40]


@pytest.mark.parametrize(
    ("experiment", "place", "target", "neutral"),
    [
        ("paretorag/cost", 0, 4.02 / 1.23, 1.0),
        ("pfe_self_rag/table2", 0, 0.004625, 0.0),
        ("pfe_self_rag/table2", 1, 0.0015, 0.0),
        ("pfe_self_rag/table2", 2, 0.0255, 0.0),
        ("pfe_self_rag/table2", 3, None, None),
    ],
)
def test_what_is_derived_is_in_the_unit_of_ours(
    experiment: str, place: int, target: float | None, neutral: float | None
) -> None:
    paper = papers()[experiment.partition("/")[0]]
    figure = paper.experiments[experiment].figures[place]
    assert figure.printed is None
    assert paper.target(figure) == pytest.approx(target)
    assert figure.ours.neutral == neutral


TABLE = Table(what="scores", columns={"a": "%", "b": "tokens"}, rows={"x": (3.0, 9), "y": (1.0, None)})


def test_formulas() -> None:
    tables = {"t": TABLE}
    assert value(tables, "t / x / a") == (3.0, "%")
    assert value(tables, Formula(minus=("t / x / a", "t / y / a"))) == (2.0, "%")
    assert value(tables, Formula(over=("t / x / a", "t / y / a"))) == (3.0, "")
    assert value(tables, Formula(mean=("t / * / a",))) == (2.0, "%")
    assert value(tables, Formula(least=("t / * / a", Formula(minus=("t / y / a", "t / x / a"))))) == (-2.0, "%")


@pytest.mark.parametrize(
    ("formula", "fault"),
    [
        ({"minus": ("t / x / a", "t / x / b")}, "must have one unit"),
        ({"minus": ("t / * / a", "t / x / a")}, "must name one cell, but names 2"),
        ({"mean": ("t / y / b",)}, "there is no cell 't / y / b'"),
        ({"mean": ("u / y / b",)}, "there is no cell"),
    ],
)
def test_formulas_over_what_is_not_printed(formula: dict[str, tuple[str, ...]], fault: str) -> None:
    with pytest.raises(ValueError, match=fault):
        value({"t": TABLE}, Formula.model_validate(formula))


@pytest.mark.parametrize(
    ("figure", "fault"),
    [
        ({"printed": 4.0, "source": "t / x / a", "unit": "%"}, "must be 3.0 as in .*, got 4.0"),
        ({"printed": 3.0, "source": "t / x / a"}, "unit must be '%'"),
        ({"printed": 3.0}, "a printed figure needs a source"),
        ({"derived": {"minus": ["t / x / a", "t / y / a"], "over": ["t / x / a", "t / y / a"]}}, "exactly one of"),
        ({"claim": "higher"}, "a claim compares two methods: set ours.minus or ours.over"),
        ({"margin": 2}, "set claim, or leave margin 2 out"),
    ],
)
def test_a_figure_is_what_the_table_has(figure: dict[str, object], fault: str) -> None:
    whole = {"what": "it", "ours": {"method": "m", "metric": "f1"}, **figure}
    with pytest.raises(ValidationError, match=fault):
        Paper.model_validate({"paper": "P", "tables": {"t": TABLE}, "experiments": {"p/e": {"figures": [whole]}}})


def test_a_figure_of_a_run_stands_once() -> None:
    twice = [{"what": what, "ours": {"method": "m", "metric": "f1", "minus": "n"}} for what in ("it", "the same")]
    with pytest.raises(ValidationError, match="got twice: method='m' metric='f1' minus='n'"):
        Paper.model_validate({"paper": "P", "experiments": {"p/e": {"figures": twice}}})


def test_what_holds_by_construction_or_is_of_one_method_has_no_claim() -> None:
    """Of a copier's words, tokens of fewer units, contexts kept by a higher threshold: nothing could turn out."""
    claimed = [
        figure.ours
        for paper in papers().values()
        for repeated in paper.experiments.values()
        for figure in repeated.figures
        if figure.claim
    ]
    assert not {"prompt_tokens", "context_share", "answer_kept", "grounding"} & {ours.metric for ours in claimed}
    assert not [ours for ours in claimed if ours.metric == "kept" and "labels" not in ours.method]
    assert not [ours for ours in claimed if "no retrieval" in (ours.minus, ours.over)]


def test_a_table_has_a_cell_for_every_column() -> None:
    with pytest.raises(ValidationError, match="these rows must have 2 cells: x"):
        Table(what="scores", columns={"a": "%", "b": "%"}, rows={"x": (1.0,)})
