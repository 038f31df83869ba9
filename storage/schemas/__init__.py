"""The tables: their Arrow schemas, with the meaning and unit of every column as field metadata."""

from vitalfew.storage.schemas.corpus import (
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
from vitalfew.storage.schemas.evaluation import (
    ANSWERS,
    APPRAISALS,
    ASKED,
    CANDIDATES,
    CRITIQUES,
    EVIDENCE,
    HITS,
    PERTURBED,
    READINGS,
    REFINEMENTS,
    SCORES,
    SUMMARIES,
)
from vitalfew.storage.schemas.fields import ROWS, TABLES
from vitalfew.storage.schemas.oreo import GOLD_CONTEXTS, OREO_CANDIDATES, OREO_EXAMPLES, ROLLOUTS
from vitalfew.storage.schemas.records import COSTS, METHODS, QUOTES, RUNS
from vitalfew.storage.schemas.training import LABELS, TRAINING_STEPS

__all__ = [
    "ANSWERS", "APPRAISALS", "ASKED", "CANDIDATES", "COSTS", "CRITIQUES", "EVIDENCE", "GOLD_CONTEXTS", "HITS",
    "INDEX_QUALITY", "LABELS", "METHODS", "NEIGHBOURS", "OREO_CANDIDATES", "OREO_EXAMPLES", "PASSAGES", "PERTURBED",
    "QUESTIONS", "QUOTES", "READINGS", "REFINEMENTS", "REJECTS", "ROLLOUTS", "ROWS", "RUNS", "SCORES", "SENTENCES",
    "SUMMARIES", "TABLES", "TERMS", "TRAINING_STEPS", "VECTOR_KINDS", "question_vectors", "vectors",
]  # fmt: skip
