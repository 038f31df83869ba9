"""Golden: ParetoRAG, Sparse RAG, Oreo, and spans, on ten questions. PFE-Self-RAG is in `quickstart/`.

Models are the bundled ones; Sparse RAG's is a tiny one with random weights, which says nothing sensible, but always the
same.
"""

from collections.abc import Callable
from pathlib import Path

import vitalfew as vf
from tests.golden.evaluating import answers, contexts, methods, metrics, questions
from tests.golden.stores import ANSWERING, lines, rows, valley
from tests.support.evaluating import copied
from tests.support.tiny_models import llama

EXPERIMENT = """
questions: {{where: "source_id LIKE 'test/0%'"}}
baseline: naive RAG
score: {{metrics: [accuracy, exact_match, f1, passage_recall, tokens], k: [1, 3]}}
methods:
  naive RAG: {{retrieve: {{retriever: passage, top_k: 3}}}}
  ParetoRAG: {{retrieve: {{retriever: core_context, top_k: 10, alpha: 0.5}}, refine: {{max_tokens: 80}}}}
  Sparse RAG:
    retrieve: {{retriever: passage, top_k: 3}}
    refine: {{group: apart}}
    generate:
      generator: sparse_rag
      model: {model}
      temperature: 0.0
      max_tokens: 6
      yes: "."
      no: "?"
      threshold: 0.0
      at_most: 2
      score: share
  Oreo: {{retrieve: {{retriever: passage, top_k: 3}}, refine: {{refiner: oreo}}}}
  spans:
    retrieve: {{retriever: spans, top_k: 60, alpha: 0.8}}
    refine: {{refiner: spans, max_tokens: 80}}
"""
SHOWN_IN_FULL = "test/05"
RATINGS = (
    "SELECT source_id, rank, score, kept FROM ratings JOIN asked USING (question_id) WHERE ratings.run_id = '{run}' "
    "AND asked.run_id = '{run}' ORDER BY ALL"
)


def test_methods(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    store = vf.Store(copied(valley() / "store", tmp_path / "store"), progress=False)
    experiment = tmp_path / "papers.yaml"
    experiment.write_text(EXPERIMENT.format(model=llama(tmp_path / "llama", positions=1024)))
    answering = {"generate": ANSWERING["generate"]}
    report = store.evaluate(str(experiment), "valley", runner="serial", settings=answering)
    text = f"# questions\n{questions(store, report)}"
    for method in methods(report):
        text += f"\n# {method}: answer, contexts, tokens\n{answers(store, report, method)}"
        text += f"{SHOWN_IN_FULL}:\n{contexts(store, report, method, SHOWN_IN_FULL)}"
    golden("methods/answers.txt", text)
    golden("methods/metrics.txt", metrics(report))
    golden("methods/ratings.txt", lines(rows(store, RATINGS, run=report.run)))
