"""The tables of a corpus and its index."""

import pyarrow as pa

from vitalfew.storage.schemas.fields import SPAN, column, list_of, table

PASSAGES = table(
    "passages",
    "a passage of a corpus",
    [
        column("passage_id", pa.int64(), "content id of the text"),
        column("source", pa.string(), "dataset it was first seen in, FORMAT:FILE"),
        column("source_id", pa.string(), "id in the source"),
        column("title", pa.string(), "title in the source; may be empty"),
        column("text", pa.string(), "the passage"),
    ],
)

SENTENCES = table(
    "sentences",
    "a core sentence of a passage, or a proposition",
    [
        column(
            "sentence_id",
            pa.int64(),
            "content id of passage and span; for a rewritten sentence, of passage, units and position",
        ),
        column("passage_id", pa.int64(), "passage it belongs to"),
        column("position", pa.int32(), "position in the passage, from 0"),
        column("start", pa.int32(), "offset of the first character in the passage", unit="code points"),
        column(
            "end",
            pa.int32(),
            "offset after the last character; equal to start if rewritten, because the passage does not contain it",
            unit="code points",
        ),
        column(
            "text",
            pa.string(),
            "core sentence with the white space after it; joined, the sentences give the passage, unless rewritten",
        ),
        column("tokens", pa.int32(), "number of words and punctuation marks, independent of the model", unit="words"),
    ],
)

QUESTIONS = table(
    "questions",
    "a question of a data set",
    [
        column("question_id", pa.int64(), "content id of question, answers and gold passages"),
        column("source", pa.string(), "dataset it was first seen in, FORMAT:FILE"),
        column("source_id", pa.string(), "id in the source"),
        column("text", pa.string(), "the question"),
        column("answers", list_of(pa.string()), "gold answers, any of which is correct"),
        column("gold_passages", list_of(pa.int64()), "ids of the passages that contain the answer"),
        column("supporting_facts", list_of(SPAN), "spans that support the answer (passage id, code points)"),
    ],
)

REJECTS = table(
    "rejects",
    "an input row that was not used",
    [
        column("stage", pa.string(), "stage that rejected the row"),
        column("source", pa.string(), "dataset, FORMAT:FILE"),
        column("offset", pa.int64(), "line or record number in the source, from 1; for a question, its question_id"),
        column("reason", pa.string(), "machine-readable reason"),
        column("detail", pa.string(), "reason in words"),
    ],
)

VECTOR_KINDS = ("core", "context", "passage")


def vectors(dimension: int) -> pa.Schema:
    """The schema of `vectors` for one encoder: float32 lists of fixed size `dimension`."""
    return pa.schema(
        [
            column("id", pa.int64(), "sentence_id (core, context) or passage_id (passage)"),
            column("kind", pa.dictionary(pa.int8(), pa.string()), "core, context or passage"),
            column("vector", pa.list_(pa.field("element", pa.float32(), nullable=False), dimension), "embedding"),
        ]
    )


def question_vectors(dimension: int) -> pa.Schema:
    """The schema of `question_vectors` for one encoder."""
    return pa.schema(
        [
            column("question_id", pa.int64(), "the question"),
            column("vector", pa.list_(pa.field("element", pa.float32(), nullable=False), dimension), "embedding"),
        ]
    )


# Their width is the encoder's: 1 stands for "some".
table("vectors", "the vector of a sentence, of its context or of a passage", vectors(1))
table("question_vectors", "the vector of a question", question_vectors(1))

NEIGHBOURS = table(
    "neighbours",
    "a neighbour of a sample query in a shard of an index",
    [
        column("unit", pa.string(), "sentence or passage"),
        column(
            "effort",
            pa.int32(),
            "search effort: -1 for exact search, nprobe of an ivf index, ef_search of hnsw, else 0",
        ),
        column("probe", pa.int32(), "number of the sample query"),
        column("id", pa.int64(), "id of a near unit in this shard; -1 if there are no more"),
        column("score", pa.float32(), "inner product with the query, as the index computes it"),
    ],
)

INDEX_QUALITY = table(
    "index_quality",
    "recall and size of an index at one search effort",
    [
        column("unit", pa.string(), "sentence or passage"),
        column("type", pa.string(), "index.type"),
        column("vectors", pa.int64(), "number of vectors in the index"),
        column("bytes_per_vector", pa.float64(), "size of the index files per vector, including ids", unit="bytes"),
        column("effort", pa.int32(), "search effort: nprobe of an ivf index, ef_search of hnsw, else 0"),
        column("recall_at_10", pa.float64(), "share of the exact top 10 that the index returns at this effort"),
        column("standard_error", pa.float64(), "standard error of recall_at_10, over the probes"),
        column("probes", pa.int32(), "number of sample queries it was measured on; 0 if exact by definition"),
        column("chosen", pa.bool_(), "true if a search uses this effort by default"),
    ],
)

TERMS = table(
    "terms",
    "a term of BM25 in a shard",
    [
        column("unit", pa.string(), "sentence or passage"),
        column("term", pa.string(), "a word as BM25 counts it: lower case, stemmed"),
        column("documents", pa.int32(), "number of units in this shard that contain the term"),
        column("occurrences", pa.int32(), "number of occurrences in this shard"),
    ],
)
