"""Rankings and judgements in TREC's formats: read by ir-measures, which asks trec_eval, they give the figures of the
run itself."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import ir_measures
import pytest
from ir_measures import RR, R, nDCG

from tests.support.evaluating import copied, run, searchable, values
from tests.support.indexing import index
from vitalfew.tasks.reports.runs import NoReport
from vitalfew.tasks.reports.trec import write_qrels, write_run

SETTINGS: dict[str, Any] = {
    "index": "test",
    "generate": None,
    "methods": {
        "sentences": {"retrieve": {"retriever": "core_context", "top_k": 10}},
    },
    "score": {"metrics": ["passage_recall", "mrr", "ndcg"], "k": [10]},
}
MEASURES = {"passage_recall@10": R @ 10, "mrr": RR, "ndcg@10": nDCG @ 10}


def computed(run_file: Path, qrels: Path) -> dict[str, float]:
    judged, ranked = ir_measures.read_trec_qrels(str(qrels)), ir_measures.read_trec_run(str(run_file))
    found = ir_measures.calc_aggregate([*MEASURES.values()], judged, ranked)
    return {name: found[measure] for name, measure in MEASURES.items()}


def graded_ties(folder: Path) -> Path:
    """A corpus of BEIR: passages of the same words in other orders, grades of 1 to 3, a question that is a passage."""
    words = ["amber", "basalt", "cobalt", "dolomite", "emerald", "feldspar", "garnet"]
    orders = [words[n:] + words[:n] for n in range(7)]
    texts = {f"d{n}": " ".join(order) for n, order in enumerate([*orders, *(order[::-1] for order in orders)])}
    questions = {"d3": texts["d3"], "q1": "amber cobalt", "q2": "garnet basalt emerald", "q3": "feldspar"}
    judged = [(name, f"d{n}", 1 + n % 3) for place, name in enumerate(questions) for n in range(place, 14, 4) if n != 3]
    (folder / "qrels").mkdir(parents=True)
    for file, rows in (("corpus", texts), ("queries", questions)):
        written = (json.dumps({"_id": name, "text": text}) for name, text in rows.items())
        (folder / f"{file}.jsonl").write_text("\n".join(written))
    (folder / "qrels" / "test.tsv").write_text(
        "\n".join("\t".join(map(str, row)) for row in [("q", "d", "s"), *judged])
    )
    return folder


RETRIEVERS = {
    "dense": {"retriever": "passage"},
    "keywords": {"retriever": "bm25", "unit": "passage"},
    "hybrid": {"retriever": "hybrid", "unit": "passage"},
    "filtered": {"retriever": "hybrid", "unit": "passage", "where": "passage_id % 2 = 0"},
}


def test_five_kinds_of_rankings_are_as_trec_eval_has_them(tmp_path: Path) -> None:
    store, source = tmp_path / "store", f"beir:{graded_ties(tmp_path / 'ties')}"
    index(store, source, bm25={"enabled": True}, encode={"units": ["passage"]}, load={"shard_passages": 100})
    methods = {name: {"retrieve": {**one, "top_k": 20}} for name, one in RETRIEVERS.items()}
    run(store, {**SETTINGS, "methods": methods})
    write_run(store, "trial", "hybrid", tmp_path / "foreign")
    methods["foreign"] = {"retrieve": {"retriever": "run_file", "file": str(tmp_path / "foreign"), "top_k": 20}}
    outcome = run(store, {**SETTINGS, "methods": methods})
    write_qrels(store, "trial", None, tmp_path / "qrels")
    for name in methods:
        write_run(store, "trial", name, tmp_path / "run")
        own = {metric: values(store, outcome, name)[metric] for metric in MEASURES}
        assert computed(tmp_path / "run", tmp_path / "qrels") == pytest.approx(own, abs=1e-6), name


def test_of_sentences_a_passage_is_listed_once_at_its_best(tmp_path: Path) -> None:
    store = copied(searchable(), tmp_path / "store")
    outcome = run(store, SETTINGS)
    write_qrels(store, "trial", "sentences", tmp_path / "qrels")
    write_run(store, "trial", "sentences", tmp_path / "run")
    rows = [line.split(" ") for line in (tmp_path / "run").read_text().splitlines()]
    assert len({(row[0], row[2]) for row in rows}) == len(rows)
    for above, row in pairwise([[""], *rows]):
        is_next = above[0] == row[0]
        assert int(row[3]) == (int(above[3]) + 1 if is_next else 1)
        assert not is_next or float(row[4]) < float(above[4])
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
