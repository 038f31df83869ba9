"""Golden: kinds of answers and gold places, graded judgements, BEIR's identical ids, ties, stop words."""

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import vitalfew as vf
from tests.golden.cases import write_questions
from tests.golden.evaluating import metrics
from tests.golden.stores import ANSWERING, lines, odd, rows
from tests.golden.surface import vitalfew
from tests.support.evaluating import copied

ANSWERED = """
baseline: passages
score: {metrics: [exact_match, accuracy, f1, passage_recall, answer_recall], k: [3]}
methods:
  passages: {retrieve: {retriever: passage, top_k: 3}}
"""
JUDGED = """
generate: null
baseline: passages
score: {metrics: [passage_recall, mrr, ndcg], k: [1, 10]}
methods:
  passages: {retrieve: {retriever: passage, top_k: 20}}
  keywords: {retrieve: {retriever: bm25, unit: passage, top_k: 20}}
"""
ASKED = (
    "SELECT asked.source_id, answers, (SELECT list(DISTINCT source_id ORDER BY source_id) FROM passages "
    "WHERE passage_id IN (SELECT unnest(gold_passages))) FROM asked WHERE run_id = '{run}' ORDER BY ALL"
)
SCORES = (
    "SELECT method, source_id, scores.metric, value FROM scores JOIN methods USING (fingerprint) "
    "JOIN asked USING (question_id) WHERE methods.run_id = '{run}' AND asked.run_id = '{run}' ORDER BY ALL"
)
REJECTS = "SELECT stage, reason, detail FROM rejects WHERE run_id = '{run}' ORDER BY ALL"


@pytest.fixture
def store(tmp_path: Path) -> vf.Store:
    return vf.Store(copied(odd() / "store", tmp_path / "store"), progress=False)


def test_kinds_of_answers(golden: Callable[[str, str], None], store: vf.Store, tmp_path: Path) -> None:
    """Which answers and gold passages are read, and what a reader's answers then score."""
    experiment = tmp_path / "answered.yaml"
    experiment.write_text(ANSWERED)
    asked = f"jsonl:{write_questions(tmp_path / 'questions.jsonl')}"
    report = store.evaluate(
        str(experiment), "documents", asked, runner="serial", settings={"generate": ANSWERING["generate"]}
    )
    text = f"# answers, gold passages\n{lines(rows(store, ASKED, run=report.run))}"
    text += f"\n# rejects\n{lines(rows(store, REJECTS, run=report.run))}"
    text += f"\n# scores\n{lines(row[1:] for row in rows(store, SCORES, run=report.run) if row[2] != 'seconds')}"
    golden("measures/answers.txt", text)


def test_judgements(golden: Callable[[str, str], None], store: vf.Store, tmp_path: Path) -> None:
    """nDCG and MRR on graded judgements, a question that is a document, one text under two ids, and equal scores."""
    experiment = tmp_path / "judged.yaml"
    experiment.write_text(JUDGED)
    report = store.evaluate(str(experiment), "judged", runner="serial")
    text = f"# rejects\n{lines(rows(store, REJECTS.replace('run_id', 'index'), run='judged'))}\n{metrics(report)}"
    golden("measures/judgements.txt", f"{text}\n{lines(rows(store, SCORES, run=report.run))}")
    qrels, run = tmp_path / "qrels", tmp_path / "run"
    for kind, file in {"qrels": qrels, "run": run}.items():
        vitalfew("export", kind, f"{report.run}:keywords", "--out", file, store=store.place)
    written = [line.split() for line in run.read_text().splitlines()]
    falls = all(float(low[4]) < float(high[4]) for high, low in pairwise(written) if high[0] == low[0])
    assert falls, "equal scores have to be written as falling ones: readers order them by name"
    read = sorted(written, key=lambda row: (row[0], np.float32(row[4]), row[2]), reverse=True)
    text = (
        f"# qrels\n{qrels.read_text()}\n# run as it is written\n{lines((*row[:4], float(row[4])) for row in written)}"
    )
    golden(
        "measures/exports.txt",
        f"{text}\n# ties as trec_eval reads them\n{lines(row[:3:2] for row in read if row[0] == 'ties')}",
    )


def test_few_words_and_many_hits(golden: Callable[[str, str], None], store: vf.Store) -> None:
    """Questions of stop words or of none, and more hits than there are passages."""
    text = ""
    for question in ("to be or not to be", "the", "???"):
        for retriever in ("bm25", "hybrid", "passage"):
            words = ["search", question, "--index", "stop", "--retriever", retriever]
            found = json.loads(vitalfew(*words, "--top-k", 1000, "--format", "json", store=store.place))
            text += f"# {question} ({retriever})\n"
            text += lines((hit["rank"], hit["score"], hit["source_id"], hit["text"]) for hit in found)
    golden("measures/stop_words.txt", text)
