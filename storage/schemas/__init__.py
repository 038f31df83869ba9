"""The tables: their Arrow schemas, with the meaning and unit of every column as field metadata."""

import pyarrow as pa

from storage.schemas.corpus import (
    INDEX_QUALITY,
    NEIGHBOURS,
    PASSAGES,
    QUESTIONS,
    REJECTS,
    SENTENCES,
    TERMS,
    VECTOR_KINDS,
    question_vectors,
    vectors,
)
from storage.schemas.evaluation import ANSWERS, CANDIDATES, CRITIQUES, EVIDENCE, HITS, SCORES, SUMMARIES
from storage.schemas.records import COSTS, METHODS, QUOTES, RUNS
from storage.schemas.training import LABELS, TRAINING_STEPS

# Every table of the catalog. `vectors` has a width of its own per encoder: 1 stands for "some".
TABLES: dict[str, pa.Schema] = {
    "passages": PASSAGES,
    "sentences": SENTENCES,
    "questions": QUESTIONS,
    "vectors": vectors(1),
    "index_quality": INDEX_QUALITY,
    "neighbours": NEIGHBOURS,
    "terms": TERMS,
    "asked": QUESTIONS,
    "question_vectors": question_vectors(1),
    "hits": HITS,
    "evidence": EVIDENCE,
    "candidates": CANDIDATES,
    "critiques": CRITIQUES,
    "answers": ANSWERS,
    "scores": SCORES,
    "summaries": SUMMARIES,
    "labels": LABELS,
    "training_steps": TRAINING_STEPS,
    "rejects": REJECTS,
    "costs": COSTS,
    "quotes": QUOTES,
    "runs": RUNS,
    "methods": METHODS,
}

__all__ = [
    "ANSWERS", "CANDIDATES", "COSTS", "CRITIQUES", "EVIDENCE", "HITS", "INDEX_QUALITY", "LABELS", "METHODS",
    "NEIGHBOURS", "PASSAGES", "QUESTIONS", "QUOTES", "REJECTS", "RUNS", "SCORES", "SENTENCES", "SUMMARIES", "TABLES",
    "TERMS", "TRAINING_STEPS", "VECTOR_KINDS", "question_vectors", "vectors",
]  # fmt: skip
