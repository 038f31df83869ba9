"""Rankings and judgements in TREC's formats: read by ir-measures, they give the figures of the run itself."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import ir_measures
import pytest
from ir_measures import RR, R, nDCG

from tests.support.evaluating import run, values
from tests.support.indexing import index, sql
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.tasks.reports.runs import NoReport
from vitalfew.tasks.reports.trec import write_qrels, write_run

SETTINGS: dict[str, Any] = {
    "index": "test",
    "generate": None,
    "methods": {
        "pass ages": {"retrieve": {"retriever": "passage", "top_k": 10}},
        "sentences": {"retrieve": {"retriever": "core_context", "top_k": 10}},
        "none": {"retrieve": None},
    },
    "score": {"metrics": ["passage_recall", "mrr", "ndcg"], "k": [10]},
}
MEASURES = {"passage_recall@10": R @ 10, "mrr": RR, "ndcg@10": nDCG @ 10}


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Evaluated]:
    store = tmp_path_factory.mktemp("store")
    index(store, "synthetic:passages=80,questions=20,seed=3")
    return store, run(store, SETTINGS)


def computed(run_file: Path, qrels: Path) -> dict[str, float]:
    judged, ranked = ir_measures.read_trec_qrels(str(qrels)), ir_measures.read_trec_run(str(run_file))
    found = ir_measures.calc_aggregate([*MEASURES.values()], judged, ranked)
    return {name: found[measure] for name, measure in MEASURES.items()}


@pytest.mark.parametrize("ids", ["source", "content"])
def test_the_files_give_the_runs_own_figures(evaluated: tuple[Path, Evaluated], tmp_path: Path, ids: Any) -> None:
    store, outcome = evaluated
    write_qrels(store, "trial", None, tmp_path / "qrels", ids)
    lines = write_run(store, "trial", "pass ages", tmp_path / "run", ids)
    assert lines == sql(store, "SELECT count(*) FROM hits WHERE unit = 'passage'")[0][0]
    own = values(store, outcome, "pass ages")
    assert computed(tmp_path / "run", tmp_path / "qrels") == pytest.approx({name: own[name] for name in MEASURES})


def test_of_sentences_a_passage_is_listed_once_at_its_best(evaluated: tuple[Path, Evaluated], tmp_path: Path) -> None:
    store, outcome = evaluated
    write_qrels(store, "trial", "sentences", tmp_path / "qrels")
    write_run(store, "trial", "sentences", tmp_path / "run")
    rows = [line.split(" ") for line in (tmp_path / "run").read_text().splitlines()]
    assert len({(row[0], row[2]) for row in rows}) == len(rows)
    for above, row in pairwise(rows):
        if above[0] == row[0]:
            assert (int(row[3]), float(row[4]) < float(above[4])) == (int(above[3]) + 1, True)
    own = values(store, outcome, "sentences")
    found = computed(tmp_path / "run", tmp_path / "qrels")
    assert all(found[name] >= (own[name] or 0) - 1e-9 for name in MEASURES)  # later sentences take no places
    assert found["passage_recall@10"] == pytest.approx(own["passage_recall@10"])


def test_a_name_of_two_passages_is_an_error_and_white_space_is_escaped(tmp_path: Path) -> None:
    question = '{"question": "Who?", "id": "q\\u00a01"}'
    for name, second in (("good", "x"), ("bad", "a b%")):
        passages = ['{"text": "Ada lit the lamp.", "id": "a b%"}', f'{{"text": "Oil burns.", "id": "{second}"}}']
        (tmp_path / f"{name}.jsonl").write_text("\n".join([*passages, question]))
        index(tmp_path / name, f"jsonl:{tmp_path / name}.jsonl")
        run(tmp_path / name, {**SETTINGS, "methods": {"m": {"retrieve": {"retriever": "passage"}}}})
    assert write_run(tmp_path / "good", "trial", None, tmp_path / "run") == 2
    written = {tuple(line.split(" ")[:3:2]) for line in (tmp_path / "run").read_text().splitlines()}
    assert written == {("q%C2%A01", "a%20b%25"), ("q%C2%A01", "x")}
    with pytest.raises(NoReport, match=r"two passages have the name 'a b%' in their source; .*--ids content"):
        write_run(tmp_path / "bad", "trial", None, tmp_path / "run")
    assert write_run(tmp_path / "bad", "trial", None, tmp_path / "run", "content") == 2
