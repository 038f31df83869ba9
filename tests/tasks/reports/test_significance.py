"""`vitalfew significance`: the figures of the PFE-Self-RAG paper, Conover's example, and tables that cannot be used."""

import json
from pathlib import Path

import pytest

from tests.flows.cli.test_main import run

# PFE-Self-RAG, table 2: accuracy in percent on PopQA, ARC, PubHealth and TriviaQA; its table 3: rankings
TABLE_2 = """method,PopQA,ARC,PubHealth,TriviaQA
Alpaca,23.6,45.0,49.8,54.5
LLaMA2,14.7,21.8,34.2,30.5
Alpaca+R,46.7,48.0,40.2,64.1
LLaMA2+R,38.2,48.0,30.0,42.5
Self-RAG,54.9,66.4,72.4,67.0
Pareto closest,55.75,67.4,72.4,67.0
GM,55.8,67.4,72.4,65.7
full set,58.6,68.0,73.0,71.3
"""
TABLE_3 = [6.5, 7.8, 5.4, 6.3, 3.65, 2.75, 2.6, 1.0]
TABLE_4 = [0.055405, 0.121274, 0.135409, 0.215138, 0.455333, 0.622008, 0.652171]


def test_the_papers_figures(tmp_path: Path) -> None:
    (tmp_path / "table2.csv").write_text(TABLE_2)
    found = json.loads(run("significance", tmp_path / "table2.csv", "--format", "json").stdout)
    assert [each["ranking"] for each in found["methods"]] == pytest.approx(TABLE_3)
    assert found["control"] == "full set"
    assert found["threshold"] == pytest.approx(0.018307, abs=5e-7)
    p_values = {each["method"]: each["p"] for each in found["methods"]}
    assert p_values["full set"] is None
    assert sorted(p for p in p_values.values() if p is not None) == pytest.approx(TABLE_4, abs=1e-6)
    assert found["degrees"] == [7, 21]
    assert found["f"] == pytest.approx(10.68, abs=0.005)
    assert not any(each["significant"] for each in found["methods"])


def test_a_table_that_cannot_be_used_says_where_and_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("m,a,b\nx,1,\ny,1,2\n")
    done = run("significance", tmp_path / "bad.csv")
    assert done.exit_code == 1, done.output
    for word in ("bad.csv", "row 1 (x), column 'b' is empty", "fill it in"):
        assert word in done.output.replace("\n", " "), done.output
