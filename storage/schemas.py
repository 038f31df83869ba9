"""The tables: their Arrow schemas, with the meaning and unit of every column as field metadata (`storage.tables`)."""

import pyarrow as pa


def _field(name: str, kind: pa.DataType, about: str, nullable: bool = False, unit: str = "") -> pa.Field:
    return pa.field(name, kind, nullable, {"about": about, "unit": unit})


def _list(kind: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", kind, nullable=False))


SPAN = pa.struct(
    [
        pa.field("passage_id", pa.int64(), nullable=False),
        pa.field("start", pa.int32(), nullable=False),
        pa.field("end", pa.int32(), nullable=False),
    ]
)

PASSAGES = pa.schema(
    [
        _field("passage_id", pa.int64(), "content id of the text"),
        _field("source", pa.string(), "dataset it was first seen in, FORMAT:FILE"),
        _field("source_id", pa.string(), "its name in the source"),
        _field("title", pa.string(), "title as the source gives it, may be empty"),
        _field("text", pa.string(), "the passage"),
    ]
)

SENTENCES = pa.schema(
    [
        _field("sentence_id", pa.int64(), "content id of passage and span; rewritten: of passage, units and position"),
        _field("passage_id", pa.int64(), "the passage it is a part of"),
        _field("position", pa.int32(), "place in the passage, from 0"),
        _field("start", pa.int32(), "first character in the passage", unit="code points"),
        _field(
            "end",
            pa.int32(),
            "one past its last character; end = start: rewritten, no part of it",
            unit="code points",
        ),
        _field(
            "text",
            pa.string(),
            "the core sentence with the white space behind it: joined they give the passage, unless rewritten",
        ),
        _field("tokens", pa.int32(), "words and punctuation marks, whatever the model", unit="words"),
    ]
)

QUESTIONS = pa.schema(
    [
        _field("question_id", pa.int64(), "content id of question, answers and gold passages"),
        _field("source", pa.string(), "dataset it was first seen in, FORMAT:FILE"),
        _field("source_id", pa.string(), "its name in the source"),
        _field("text", pa.string(), "the question"),
        _field("answers", _list(pa.string()), "gold answers, any of them right"),
        _field("gold_passages", _list(pa.int64()), "passage ids that hold the answer"),
        _field("supporting_facts", _list(SPAN), "spans that support the answer (passage id, code points)"),
    ]
)

REJECTS = pa.schema(
    [
        _field("stage", pa.string(), "stage that could not use the row"),
        _field("source", pa.string(), "dataset, FORMAT:FILE"),
        _field("offset", pa.int64(), "line or record number in the source, from 1"),
        _field("reason", pa.string(), "machine-readable reason"),
        _field("detail", pa.string(), "the reason in words"),
    ]
)

COSTS = pa.schema(
    [
        _field("stage", pa.string(), "stage"),
        _field("shard", pa.int32(), "shard number; -1 for the work before the first shard"),
        _field("run_id", pa.string(), "the run that did the work and pays for it"),
        _field("model", pa.string(), "what did the work: punkt, minilm, openai:NAME; none: a stage without", True),
        _field("started", pa.timestamp("us", "UTC"), "when the work began"),
        _field("rows", pa.int64(), "rows written to the stage's first table", unit="rows"),
        _field("tokens", pa.int64(), "model tokens computed, padding apart", unit="tokens"),
        _field("wall_seconds", pa.float64(), "elapsed time", unit="seconds"),
        _field("cpu_seconds", pa.float64(), "CPU time of the worker process, all threads", unit="seconds"),
        _field("gpu_seconds", pa.float64(), "time a GPU was held", unit="seconds"),
        _field("gpu_joules", pa.float64(), "energy of the GPU share, as NVML has it; none: no NVML", True, "joules"),
        _field("peak_memory_bytes", pa.int64(), "peak resident memory of the worker", unit="bytes"),
        _field("usd", pa.float64(), "cost at configs/prices.yaml", unit="USD"),
    ]
)

QUOTES = pa.schema(
    [
        _field("stage", pa.string(), "stage"),
        _field("quoted", pa.timestamp("us", "UTC"), "when it was quoted"),
        _field("runner", pa.string(), "ray or serial"),
        _field("workers", pa.int32(), "parallel workers it was quoted for"),
        _field("rows", pa.int64(), "rows of the stage's first table", unit="rows"),
        _field("tokens", pa.int64(), "model tokens to compute, padding apart", unit="tokens"),
        _field("wall_seconds", pa.float64(), "elapsed time of the stage, workers side by side", unit="seconds"),
        _field("cpu_seconds", pa.float64(), "CPU time of all workers", unit="seconds"),
        _field("gpu_seconds", pa.float64(), "time GPUs are held", unit="seconds"),
        _field("peak_memory_bytes", pa.int64(), "peak resident memory of a worker", unit="bytes"),
        _field("disk_bytes", pa.int64(), "size of what stays on the disk", unit="bytes"),
        _field("usd", pa.float64(), "cost at configs/prices.yaml", unit="USD"),
    ]
)

RUNS = pa.schema(
    [
        _field("run_id", pa.string(), "the run"),
        _field("flow", pa.string(), "flow that ran"),
        _field("name", pa.string(), "index or experiment it was for"),
        _field("state", pa.string(), "running, completed, failed, cancelled, interrupted (it is gone) or unreadable"),
        _field("started", pa.timestamp("us", "UTC"), "when it began"),
        _field("ended", pa.timestamp("us", "UTC"), "when it ended", nullable=True),
        _field("config", pa.string(), "parameters, JSON"),
        _field("fingerprints", _list(pa.string()), "artifacts it makes or uses, TABLE/FINGERPRINT"),
        _field("error", pa.string(), "why it failed, else empty"),
    ]
)

METHODS = pa.schema(
    [
        _field("run_id", pa.string(), "the evaluation"),
        _field("experiment", pa.string(), "its experiment"),
        _field("method", pa.string(), "a method of answering, as the experiment names it"),
        _field("table_name", pa.string(), "table that holds rows of the method"),
        _field("fingerprint", pa.string(), "the artifact there: join it with the table's own column"),
    ]
)

VECTOR_KINDS = ("core", "context", "passage")


def vectors(dimension: int) -> pa.Schema:
    """The schema of `vectors` for one encoder: float32 lists of fixed size `dimension`."""
    return pa.schema(
        [
            _field("id", pa.int64(), "sentence_id (core, context) or passage_id (passage)"),
            _field("kind", pa.dictionary(pa.int8(), pa.string()), "core, context or passage"),
            _field("vector", pa.list_(pa.field("element", pa.float32(), nullable=False), dimension), "embedding"),
        ]
    )


def question_vectors(dimension: int) -> pa.Schema:
    """The schema of `question_vectors` for one encoder."""
    return pa.schema(
        [
            _field("question_id", pa.int64(), "the question"),
            _field("vector", pa.list_(pa.field("element", pa.float32(), nullable=False), dimension), "embedding"),
        ]
    )


NEIGHBOURS = pa.schema(
    [
        _field("unit", pa.string(), "sentence or passage"),
        _field("effort", pa.int32(), "-1: exact search; nprobe of an ivf index, ef_search of hnsw, else 0"),
        _field("probe", pa.int32(), "number of the sample query"),
        _field("id", pa.int64(), "a unit near it in this shard; -1: there are no more"),
        _field("score", pa.float32(), "its inner product with the query, as the index has it"),
    ]
)

INDEX_QUALITY = pa.schema(
    [
        _field("unit", pa.string(), "sentence or passage"),
        _field("type", pa.string(), "index.type"),
        _field("vectors", pa.int64(), "vectors in the index"),
        _field("bytes_per_vector", pa.float64(), "size of the index files per vector, ids and all", unit="bytes"),
        _field("effort", pa.int32(), "nprobe of an ivf index, ef_search of hnsw, else 0"),
        _field("recall_at_10", pa.float64(), "share of the exact top 10 that the index finds with this effort"),
        _field("standard_error", pa.float64(), "of recall_at_10, over the probes"),
        _field("probes", pa.int32(), "sample queries it was measured with; 0: exact by definition"),
        _field("chosen", pa.bool_(), "whether a search takes this effort if not told otherwise"),
    ]
)

TERMS = pa.schema(
    [
        _field("unit", pa.string(), "sentence or passage"),
        _field("term", pa.string(), "a word as BM25 counts it: lower case, stemmed"),
        _field("documents", pa.int32(), "units of this shard that it stands in"),
        _field("occurrences", pa.int32(), "times that it stands in this shard"),
    ]
)

# The tables of an evaluation: `asked` is the choice of questions; the others have rows of one method of answering.
HITS = pa.schema(
    [
        _field("question_id", pa.int64(), "the question"),
        _field("rank", pa.int32(), "place, from 1"),
        _field("unit", pa.string(), "sentence or passage"),
        _field("unit_id", pa.int64(), "sentence_id or passage_id"),
        _field("passage_id", pa.int64(), "the passage it is, or is a part of"),
        _field("start", pa.int32(), "first character in the passage", unit="code points"),
        _field(
            "end",
            pa.int32(),
            "one past its last character; end = start: rewritten, no part of it",
            unit="code points",
        ),
        _field("score", pa.float32(), "as the retriever has it"),
        _field("title", pa.string(), "title of the passage"),
        _field("text", pa.string(), "the unit's text"),
    ]
)

EVIDENCE = pa.schema(
    [
        _field("question_id", pa.int64(), "the question"),
        _field("rank", pa.int32(), "place in the prompt, from 1"),
        _field("text", pa.string(), "the context as the prompt has it"),
        _field("tokens", pa.int32(), "words and punctuation marks, whatever the model", unit="words"),
        _field("origin", _list(SPAN), "where it comes from (passage id, code points); empty: it was rewritten"),
    ]
)

PROBABILITY = pa.struct([pa.field("token", pa.string(), False), pa.field("probability", pa.float64(), False)])

CANDIDATES = pa.schema(
    [
        _field("question_id", pa.int64(), "the question"),
        _field("candidate", pa.int32(), "number of the answer, from 0"),
        _field("contexts", _list(pa.int32()), "ranks in `evidence` of the contexts that its prompt had"),
        _field("prompt_id", pa.int64(), "content id of model, prompt and parameters: the same prompt is answered once"),
        _field("text", pa.string(), "the answer"),
        _field("prompt_tokens", pa.int32(), "tokens of the prompt, as the model counts them", unit="tokens"),
        _field("completion_tokens", pa.int32(), "tokens of the answer, as the model counts them", unit="tokens"),
        _field("logprob", pa.float64(), "natural logarithm of the answer's probability", True, "nats"),
        _field("seconds", pa.float64(), "time the model took", unit="seconds"),
        _field("finish_reason", pa.string(), "stop, length or error"),
        _field("error", pa.string(), "why there is no answer, else empty"),
        _field("probabilities", _list(PROBABILITY), "of the tokens that generate.reflection probes for"),
        _field("reused", pa.bool_(), "whether an earlier run had answered this prompt"),
    ]
)

_JUDGED = {
    "isrel": "ISREL: is the context of use for the question? 0 to 1; none where there is an error",
    "issup": "ISSUP: does the context support the answer? 0 to 1; none where there is an error",
    "isuse": "ISUSE: is the answer useful? 0 to 1; none where there is an error",
    "utility_f1": "harmonic mean of ISUSE and ISSUP",
    "geometric_mean": "cube root of ISREL * ISSUP * ISUSE",
}
CRITIQUES = pa.schema(
    [
        _field("question_id", pa.int64(), "the question"),
        _field("candidate", pa.int32(), "number of the answer in `candidates`"),
        *(_field(name, pa.float64(), about, nullable=True) for name, about in _JUDGED.items()),
        _field("error", pa.string(), "why there is no critique, else empty"),
    ]
)

ANSWERS = pa.schema(
    [
        _field("question_id", pa.int64(), "the question"),
        _field("strategy", pa.string(), "selector that chose"),
        _field("rank", pa.int32(), "place among the answers to the question, from 1"),
        _field("candidate", pa.int32(), "number of the answer in `candidates`"),
        _field("text", pa.string(), "the answer"),
        _field("score", pa.float64(), "as the selector has it; none: chosen without a critique", nullable=True),
        _field("on_front", pa.bool_(), "whether no other candidate dominates it in utility_f1 and ISREL"),
        _field("error", pa.string(), "why there is no answer, else empty"),
    ]
)

SCORES = pa.schema(
    [
        _field("question_id", pa.int64(), "the question"),
        _field("metric", pa.string(), "metric, with its k where it has one"),
        _field("value", pa.float64(), "its value for this question"),
    ]
)

SUMMARIES = pa.schema(
    [
        _field("metric", pa.string(), "metric, with its k where it has one"),
        _field(
            "value",
            pa.float64(),
            "mean over the questions it can be told of, or its value for all together; none: it can be told of none",
            nullable=True,
        ),
        _field("questions", pa.int32(), "questions that went in"),
        _field("left_out", pa.int32(), "questions that gave no ground for it"),
    ]
)

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
    "rejects": REJECTS,
    "costs": COSTS,
    "quotes": QUOTES,
    "runs": RUNS,
    "methods": METHODS,
}
