"""The tables: their Arrow schemas, with the meaning and unit of every column as field metadata."""

import pyarrow as pa

TEXT, BOOLEAN = pa.string(), pa.bool_()
INTEGER, LONG, FLOAT, DOUBLE = pa.int32(), pa.int64(), pa.float32(), pa.float64()

TABLES: dict[str, pa.Schema] = {}
"""Every table of the catalog."""
ROWS: dict[str, str] = {}
"""The description of a row, by table: "a unit retrieved for a question"."""


def table(name: str, row: str, *columns: pa.Field) -> pa.Schema:
    """Declare a table of the catalog. `row`: what a row is, "a unit that was retrieved for a question"."""
    TABLES[name], ROWS[name] = pa.schema(columns), row
    return TABLES[name]


def column(name: str, kind: pa.DataType, about: str, nullable: bool = False, unit: str = "") -> pa.Field:
    return pa.field(name, kind, nullable, {"about": about, "unit": unit})


def described(row: str, *columns: pa.Field) -> pa.Schema:
    """The schema of a table that its files describe themselves; `row`: what a row is, "a sentence of an answer"."""
    return pa.schema(columns, {"row": row})


def struct(**kinds: pa.DataType) -> pa.DataType:
    """The type of a record with these fields, which are never NULL."""
    return pa.struct([pa.field(name, kind, nullable=False) for name, kind in kinds.items()])


def list_of(kind: pa.DataType, size: int = -1) -> pa.DataType:
    """The type of a list without NULL; `size`: of a list of fixed size."""
    return pa.list_(pa.field("element", kind, nullable=False), size)


SPAN = struct(passage_id=LONG, start=INTEGER, end=INTEGER)
PLACE = struct(source=TEXT, quote=TEXT)

_START = column("start", INTEGER, "offset of the first character in the passage", unit="code points")
_END = column(
    "end",
    INTEGER,
    "offset after the last character; equal to start if rewritten, because the passage does not contain it",
    unit="code points",
)
_ALSO = column("also", list_of(TEXT), "further ids of the same row, where it stands several times in the sources")


# The tables of a corpus and its index.

PASSAGES = table(
    "passages",
    "a passage of a corpus",
    column("passage_id", LONG, "content id of the text"),
    column("source", TEXT, "dataset it was first seen in, FORMAT:FILE"),
    column("source_id", TEXT, "id in the source"),
    _ALSO,
    column("title", TEXT, "title in the source; may be empty"),
    column("text", TEXT, "the passage"),
    column("metadata", TEXT, "further fields of the document, such as a front matter's, as a JSON object"),
)

SENTENCES = table(
    "sentences",
    "a core sentence of a passage, or a proposition",
    column(
        "sentence_id", LONG, "content id of passage and place; for a rewritten sentence, of passage, units and position"
    ),
    column("passage_id", LONG, "passage it belongs to"),
    column("position", INTEGER, "position in the passage, from 0"),
    _START,
    _END,
    column(
        "text",
        TEXT,
        "core sentence with the white space after it; joined, the sentences give the passage, unless rewritten",
    ),
    column("tokens", INTEGER, "number of words and punctuation marks, independent of the model", unit="words"),
)

QUESTIONS = table(
    "questions",
    "a question of a data set",
    column("question_id", LONG, "content id of question, answers and gold passages"),
    column("source", TEXT, "dataset it was first seen in, FORMAT:FILE"),
    column("source_id", TEXT, "id in the source"),
    _ALSO,
    column("text", TEXT, "the question"),
    column("answers", list_of(TEXT), "gold answers, any of which is correct"),
    column("gold_passages", list_of(LONG), "ids of the passages that contain the answer"),
    column("gold_grades", list_of(INTEGER), "grade of relevance of every gold passage, from 1; empty if all have 1"),
    column("itself", list_of(LONG), "ids of passages that are the question itself, and no hits for it"),
    column("supporting_facts", list_of(SPAN), "places that support the answer (passage id, code points)"),
    column(
        "gold_places",
        list_of(PLACE),
        "files, headings and quotes that the question names as gold; `asked` has the passages that they name",
    ),
)

REJECTS = table(
    "rejects",
    "an input row that was not used",
    column("stage", TEXT, "stage that rejected the row"),
    column("source", TEXT, "dataset, FORMAT:FILE"),
    column(
        "offset",
        LONG,
        "line or record number in the source, from 1; for a question, its question_id; for a passage that gave no "
        "question (write), its passage_id",
    ),
    column("reason", TEXT, "machine-readable reason"),
    column("detail", TEXT, "reason in words"),
)

_OF_DRAFT = (
    column("half", TEXT, "development or test: questions from one document are in one half"),
    column("kind", TEXT, "what it asks for, as its writer calls it: name, year, number, who, two hops, unanswerable"),
    column("text", TEXT, "the question"),
    column("answers", list_of(TEXT), "gold answers, any of which is correct; empty if the question has no answer"),
    column("quote", TEXT, "part of a passage that answers, in one line; empty without an answer"),
    column("gold_passages", list_of(LONG), "ids of the passages that it takes: two if of two hops"),
    column("gold_places", list_of(PLACE), "documents of these passages, with a quote from every one"),
    column("passage_id", LONG, "passage it was written from"),
    column("source", TEXT, "dataset of the passage, FORMAT:FILE"),
    column("source_id", TEXT, "id of the passage in its source"),
    column("document", TEXT, "document of the passage: its file, else its title, else empty"),
)
DRAFTS = table(
    "drafts",
    "a passage that was given to a writer of questions, with what it wrote",
    *_OF_DRAFT,
    column("reason", TEXT, "machine-readable reason why there is no question; empty if there is one"),
    column("detail", TEXT, "reason in words"),
)
WRITTEN_QUESTIONS = table(
    "written_questions",
    "a question that was written from a passage",
    column("question_id", LONG, "content id of question, answer and passage"),
    *_OF_DRAFT,
)

VECTOR_KINDS = ("core", "context", "passage")


def vectors(dimension: int) -> pa.Schema:
    """The schema of `vectors` for one encoder: float32 lists of fixed size `dimension`."""
    identity = column("id", LONG, "sentence_id (core, context) or passage_id (passage)")
    kind = column("kind", pa.dictionary(pa.int8(), TEXT), "core, context or passage")
    return pa.schema([identity, kind, column("vector", list_of(FLOAT, dimension), "embedding")])


def question_vectors(dimension: int) -> pa.Schema:
    """The schema of `question_vectors` for one encoder."""
    return pa.schema(
        [column("question_id", LONG, "the question"), column("vector", list_of(FLOAT, dimension), "embedding")]
    )


# Their width is the encoder's: 1 stands for "some".
table("vectors", "the vector of a sentence, of its context or of a passage", *vectors(1))
table("question_vectors", "the vector of a question", *question_vectors(1))

NEIGHBOURS = table(
    "neighbours",
    "a neighbour of a sample query in a shard of an index",
    column("unit", TEXT, "sentence or passage"),
    column("effort", INTEGER, "search effort: -1 for exact search, nprobe of an ivf index, ef_search of hnsw, else 0"),
    column("probe", INTEGER, "number of the sample query"),
    column("id", LONG, "id of a near unit in this shard; -1 if there are no more"),
    column("score", FLOAT, "inner product with the query, as the index computes it"),
)

INDEX_QUALITY = table(
    "index_quality",
    "recall and size of an index at one search effort",
    column("unit", TEXT, "sentence or passage"),
    column("type", TEXT, "index.type"),
    column("vectors", LONG, "number of vectors in the index"),
    column("bytes_per_vector", DOUBLE, "size of the index files per vector, including ids", unit="bytes"),
    column("effort", INTEGER, "search effort: nprobe of an ivf index, ef_search of hnsw, else 0"),
    column("recall_at_10", DOUBLE, "share of the exact top 10 that the index returns at this effort"),
    column("standard_error", DOUBLE, "standard error of recall_at_10, over the probes"),
    column("probes", INTEGER, "number of sample queries it was measured on; 0 if exact by definition"),
    column("chosen", BOOLEAN, "true if a search uses this effort by default"),
)

TERMS = table(
    "terms",
    "a term of BM25 in a shard",
    column("unit", TEXT, "sentence or passage"),
    column("term", TEXT, "a word as BM25 counts it: lower case, stemmed"),
    column("documents", INTEGER, "number of units in this shard that contain the term"),
    column("occurrences", INTEGER, "number of occurrences in this shard"),
)


# The tables of an evaluation: `asked` is the choice of questions; the others have rows of one method of answering.

ASKED = table(
    "asked",
    "a question that an evaluation asks",
    *QUESTIONS,
    column(
        "gold_groups",
        list_of(INTEGER),
        "group of each gold passage, from 0. One passage of a group is as good as all, such as the passages of a "
        "file that the question names. Empty if each passage counts by itself",
    ),
)

HITS = table(
    "hits",
    "a unit retrieved for a question",
    column("question_id", LONG, "the question"),
    column("rank", INTEGER, "rank, from 1"),
    column("unit", TEXT, "sentence or passage"),
    column("unit_id", LONG, "sentence_id or passage_id"),
    column("passage_id", LONG, "passage that the unit is or belongs to"),
    _START,
    _END,
    column("score", FLOAT, "score from the retriever"),
    column("title", TEXT, "title of the passage"),
    column("text", TEXT, "the unit's text"),
)

PERTURBED = table(
    "perturbed",
    "a hit as given to a refiner, after noise was added or the order was changed",
    *HITS,
    column("noise", BOOLEAN, "true if it was retrieved for another question"),
)

EVIDENCE = table(
    "evidence",
    "a context of a question's prompt",
    column("question_id", LONG, "the question"),
    column("rank", INTEGER, "position in the prompt, from 1"),
    column("text", TEXT, "context as shown in the prompt"),
    column("tokens", INTEGER, "number of words and punctuation marks, independent of the model", unit="words"),
    column("origin", list_of(SPAN), "places it comes from (passage id, code points); empty if it was rewritten"),
    column(
        "score",
        FLOAT,
        "best score of the hits it comes from, from the retriever or the refiner; NULL if a model wrote it from "
        "several hits",
        True,
    ),
)

REFINEMENTS = table(
    "refinements",
    "the length and time of a refiner's work on a question",
    column("question_id", LONG, "the question"),
    column(
        "input_tokens",
        INTEGER,
        "number of words and punctuation marks in all its hits, as shown in a prompt",
        unit="words",
    ),
    column(
        "output_tokens", INTEGER, "number of words and punctuation marks in the contexts made from them", unit="words"
    ),
    column(
        "seconds",
        DOUBLE,
        "share of the batch's time in proportion to the input, including the original time of reused readings and "
        "excluding the loading of a model",
        unit="seconds",
    ),
    column("cpu_seconds", DOUBLE, "the same for CPU time", unit="seconds"),
    column("cut", BOOLEAN, "true if the model that wrote the contexts read only part of the hits"),
    column("finish_reason", TEXT, "stop or length, from the model that wrote the contexts; empty without one"),
)

READINGS = table(
    "readings",
    "what a refiner's model computed for a text, or a reader for a question and a context. It does not depend on how "
    "much is kept, or on other contexts",
    column("reading_id", LONG, "content id of the model and its input; the same input is read once"),
    column(
        "reading",
        list_of(FLOAT),
        "surprisal (nats) of every token, probability of every sentence, or the reader's best answers, by the model",
    ),
    column("tokens", INTEGER, "tokens computed for it", unit="tokens"),
    column("seconds", DOUBLE, "share of the time of the texts read together", unit="seconds"),
    column("cpu_seconds", DOUBLE, "the same for CPU time", unit="seconds"),
)

_APPRAISED = {
    "faithfulness": "faithfulness of the contexts to the hits, 0 to 10; NULL after an error",
    "completeness": "share of the hits' information on the answer that they keep, 0 to 10; NULL after an error",
}
APPRAISALS = table(
    "appraisals",
    "an appraiser's grades of a question's contexts",
    column("question_id", LONG, "the question"),
    *(column(name, DOUBLE, about, nullable=True) for name, about in _APPRAISED.items()),
    column("explanation", TEXT, "reasons for the grades, one or more lines for every grade"),
    column("error", TEXT, "reason if there is no appraisal, else empty"),
)

VERDICTS = table(
    "verdicts",
    "a judge's verdicts on a question's answer",
    column("question_id", LONG, "the question"),
    column("candidate", INTEGER, "number of the answer in `candidates`"),
    column("correct", DOUBLE, "1 if correct by the gold answers, else 0; NULL without them or after an error", True),
    column(
        "supported",
        DOUBLE,
        "share of the answer's claims that its contexts support, 0 to 1; NULL without contexts or claims, or after an "
        "error",
        True,
    ),
    column(
        "preferred",
        DOUBLE,
        "1 if better than the baseline's answer, 0 if worse, 0.5 for a tie. NULL if not asked for (judge.preferred), "
        "if the baseline has no answer, or after an error",
        True,
    ),
    column("correct_id", LONG, "content id of judge, question, answer and gold answers; NULL without them", True),
    column("supported_id", LONG, "content id of judge, question, answer and contexts; NULL without them", True),
    column(
        "preferred_id",
        LONG,
        "content id of judge, question, both answers and all contexts; NULL where nobody is asked",
        True,
    ),
    column(
        "explanation",
        TEXT,
        "lines: the judge's reason, what it preferred in either order with its reasons, and every claim with its "
        "verdict",
    ),
    column("error", TEXT, "reason if a verdict failed, else empty"),
)

LIKELIHOODS = table(
    "likelihoods",
    "how probable a language model finds the gold answer after a method's prompt",
    column("question_id", LONG, "the question"),
    column("answer", TEXT, "the first gold answer; empty for a question without any"),
    column("nats", DOUBLE, "natural logarithm of its probability; NULL after an error", True, "nats"),
    column("tokens", INTEGER, "its tokens, as the model counts them; NULL after an error", True, "tokens"),
    column("error", TEXT, "reason if there is no number, else empty"),
)

PROBABILITY = struct(token=TEXT, probability=DOUBLE)

RATING = struct(rank=INTEGER, score=DOUBLE, kept=BOOLEAN, tokens=INTEGER, rating_id=LONG)

_STEPS = {
    "init": "time until the model starts, including tokenization and excluding loading",
    "prefill": "time until the model gives the first token; NULL if reused ratings replaced part of it",
    "copy": "time to copy the kept contexts' keys and values into one cache",
    "decode": "time for all tokens after the first",
}
CANDIDATES = table(
    "candidates",
    "a generated answer",
    column("question_id", LONG, "the question"),
    column("candidate", INTEGER, "number of the answer, from 0"),
    column("contexts", list_of(INTEGER), "ranks in `evidence` of the contexts in its prompt"),
    column("prompt_id", LONG, "content id of model, prompt and parameters; the same prompt is answered once"),
    column("text", TEXT, "the answer"),
    column("prompt_tokens", INTEGER, "tokens of the prompt, as the model counts them", unit="tokens"),
    column("completion_tokens", INTEGER, "tokens of the answer, as the model counts them", unit="tokens"),
    column("cached_tokens", INTEGER, "tokens of the prompt that its server had cached", unit="tokens"),
    column("logprob", DOUBLE, "natural logarithm of the answer's probability", True, "nats"),
    column(
        "seconds",
        DOUBLE,
        "time taken by the model, including the original time of reused readings",
        unit="seconds",
    ),
    column(
        "finish_reason",
        TEXT,
        "stop, length (cut by the limit of tokens), refusal (by the model), content_filter (by its server) or error",
    ),
    column("error", TEXT, "reason if there is no answer, else empty"),
    column(
        "probabilities",
        list_of(PROBABILITY),
        "probabilities of the reflection tokens that the generator self_rag reads",
    ),
    column("reused", BOOLEAN, "true if an earlier run had answered this prompt"),
    column("ratings", list_of(RATING), "generator's ratings of the prompt's contexts; see the view `ratings`"),
    column(
        "prefill_tokens",
        INTEGER,
        "tokens read before the first token was written, counted every time they were read; NULL if unknown",
        True,
        "tokens",
    ),
    column(
        "kv_tokens",
        INTEGER,
        "tokens in the cache that the answer was written from: question and kept contexts; NULL if unknown",
        True,
        "tokens",
    ),
    *(column(f"{step}_seconds", DOUBLE, about, True, "seconds") for step, about in _STEPS.items()),
    column(
        "thought_tokens",
        INTEGER,
        "tokens among completion_tokens that a reasoning model thought, which are no part of the text; NULL if unknown",
        True,
        "tokens",
    ),
    column("left_out", list_of(TEXT), "parameters that the model's server refused, so that it was asked without them"),
)

_JUDGED = {
    "isrel": "ISREL: usefulness of the context for the question, 0 to 1; NULL after an error",
    "issup": "ISSUP: support of the context for the answer, 0 to 1; NULL after an error",
    "isuse": "ISUSE: usefulness of the answer, 0 to 1; NULL after an error",
    "utility_f1": "harmonic mean of ISUSE and ISSUP",
    "geometric_mean": "cube root of ISREL * ISSUP * ISUSE",
}
CRITIQUES = table(
    "critiques",
    "a critic's scores for a candidate",
    column("question_id", LONG, "the question"),
    column("candidate", INTEGER, "number of the answer in `candidates`"),
    *(column(name, DOUBLE, about, nullable=True) for name, about in _JUDGED.items()),
    column("error", TEXT, "reason if there is no critique, else empty"),
)

ANSWERS = table(
    "answers",
    "an answer chosen from the candidates",
    column("question_id", LONG, "the question"),
    column("strategy", TEXT, "selector that chose the answer"),
    column("rank", INTEGER, "rank among the answers to the question, from 1"),
    column("candidate", INTEGER, "number of the answer in `candidates`"),
    column("text", TEXT, "the answer"),
    column("score", DOUBLE, "score from the selector; NULL if chosen without a critique", nullable=True),
    column("on_front", BOOLEAN, "true if no other candidate dominates it in utility_f1 and ISREL"),
    column("error", TEXT, "reason if there is no answer, else empty"),
)

SCORES = table(
    "scores",
    "the value of one metric for one question",
    column("question_id", LONG, "the question"),
    column("metric", TEXT, "name of the metric, with its k if it has one"),
    column("value", DOUBLE, "value for this question"),
)

SUMMARIES = table(
    "summaries",
    "the value of one metric over all questions",
    column("metric", TEXT, "name of the metric, with its k if it has one"),
    column(
        "value",
        DOUBLE,
        "mean over the questions it applies to, or one value for all of them; NULL if it applies to none",
        nullable=True,
    ),
    column("questions", INTEGER, "number of questions it applies to"),
    column("left_out", INTEGER, "number of questions left out because it does not apply to them"),
    column("heading", TEXT, "display name of the metric"),
    column("unit", TEXT, "unit of its values"),
    column("direction", TEXT, "better values: higher, lower or neither"),
    column("needs", list_of(TEXT), "data that a question must have, else it is left out"),
    column("detail", BOOLEAN, "true if reports show it only when they show every metric"),
)


# The tables of Oreo's training.

GOLD_CONTEXTS = table(
    "gold_contexts",
    "a collector's attempt at the evidence text of a question",
    column("question_id", LONG, "the question"),
    column(
        "attempt", INTEGER, "number of the attempt: 0 without the answer; from 1, the collector was given the answer"
    ),
    column("text", TEXT, "evidence text, or empty if there is none"),
    column("verdict", TEXT, "kept, or the reason for dropping it"),
    column("collector", TEXT, "collector that wrote it"),
    column("tokens", LONG, "tokens that a model computed for it, including prompts", unit="tokens"),
    column("seconds", DOUBLE, "time taken", unit="seconds"),
    column("error", TEXT, "reason if a model gave no text, else empty"),
)

CHUNK = struct(passage_id=LONG, title=TEXT, text=TEXT)

COPIED = struct(chunk=INTEGER, start=INTEGER, end=INTEGER)

OREO_EXAMPLES = table(
    "oreo_examples",
    "a question with the evidence text that Oreo learns to write",
    column("question_id", LONG, "the question"),
    column("question", TEXT, "text of the question"),
    column("answers", list_of(TEXT), "gold answers, any of which is correct"),
    column("chunks", list_of(CHUNK), "retrieved chunks, best first; the title is empty if none is shown"),
    column("target", TEXT, "the evidence text"),
    column(
        "copied",
        list_of(COPIED),
        "places in the chunks, as shown, that make up the target (chunk from 0, code points). Empty if the target is "
        "not copied from the chunks",
    ),
    column("attempt", INTEGER, "attempt in `gold_contexts` that was kept"),
    column("split", TEXT, "learn, choose or held_out, decided by the article of its first gold passage"),
)

OREO_CANDIDATES = table(
    "oreo_candidates",
    "a text that Oreo's contrastive training compared with others",
    column("question_id", LONG, "the question"),
    column("epoch", INTEGER, "pass over the training data, from 1"),
    column("rank", INTEGER, "rank among the candidates by ROUGE-L, from 1"),
    column("kind", TEXT, "beam (written by the policy), gold (the target) or batch (another question's target)"),
    column("text", TEXT, "the text"),
    column("rouge", DOUBLE, "ROUGE-L with the question's target"),
    column("logprob", DOUBLE, "natural logarithm of its probability; NULL for another question's target", True, "nats"),
)

ROLLOUTS = table(
    "rollouts",
    "a text that Oreo's reinforcement learning sampled",
    column("step", INTEGER, "step of the training, from 1"),
    column("question_id", LONG, "the question"),
    column("text", TEXT, "the text"),
    column("answer", TEXT, "generator's answer from the text"),
    column("rouge", DOUBLE, "agreement of that answer with the gold answers, 0 to 1"),
    column("kl", DOUBLE, "log-probability minus the log-probability under the initial policy", False, "nats"),
    column("reward", DOUBLE, "rouge if the text ended before the limit, else 0, minus the penalty on kl"),
    column("tokens", INTEGER, "number of actions in the text", unit="tokens"),
    column("ended", BOOLEAN, "true if the text ended before the limit"),
)


# The tables of runs and what they cost, which outlive the artifacts.

_STAGE = column(
    "stage",
    TEXT,
    "step of the work. Of an index: load, split, terms, encode, index (dense), bm25. Of an evaluation: ask (choose "
    "the questions), encode_questions, retrieve, refine, generate, critique, select, score. Of training: train, "
    "train_…. Of any: loading (of models)",
)

COSTS = table(
    "costs",
    "the cost of one shard of one stage",
    _STAGE,
    column("shard", INTEGER, "shard number; -1 for the work before the first shard"),
    column("run_id", TEXT, "run that did the work and is charged for it"),
    column("model", TEXT, "model that did the work: punkt, minilm, openai:NAME; NULL for a stage without one", True),
    column("started", pa.timestamp("us", "UTC"), "start of the work"),
    column("rows", LONG, "rows written to the stage's first table", unit="rows"),
    column("tokens", LONG, "model tokens computed, without padding", unit="tokens"),
    column("cached_tokens", LONG, "those of the tokens that a server had cached, at their own price", unit="tokens"),
    column("wall_seconds", DOUBLE, "elapsed time", unit="seconds"),
    column("cpu_seconds", DOUBLE, "CPU time of the worker and of the processes it started", unit="seconds"),
    column("gpu_seconds", DOUBLE, "time a GPU was held", unit="seconds"),
    column("gpu_joules", DOUBLE, "energy of the GPU share, measured by NVML; NULL without NVML", True, "joules"),
    column(
        "peak_memory_bytes", LONG, "peak resident memory of the worker and of the processes it started", unit="bytes"
    ),
    column("usd", DOUBLE, "cost at the prices in configs/prices.yaml", unit="USD"),
    column("node", TEXT, "machine that did the work, HOST/NODE in a cluster; NULL if not recorded", True),
    column("finished", BOOLEAN, "false for a shard that was cancelled midway"),
    *(
        column(f"reused_{name}", kind, about, unit=unit)
        for name, kind, about, unit in (
            ("tokens", LONG, "model tokens of answers, readings and vectors that earlier work had computed", "tokens"),
            ("wall_seconds", DOUBLE, "elapsed time they had taken, without loading a model", "seconds"),
            ("cpu_seconds", DOUBLE, "CPU time they had taken", "seconds"),
            ("usd", DOUBLE, "cost they would have had today; with `usd`: the cost without cache", "USD"),
        )
    ),
)

QUOTES = table(
    "quotes",
    "the expected cost of a stage",
    _STAGE,
    column("quoted", pa.timestamp("us", "UTC"), "time of the estimate"),
    column("runner", TEXT, "ray or serial"),
    column("workers", INTEGER, "number of parallel workers that the estimate assumes"),
    column("rows", LONG, "rows of the stage's first table", unit="rows"),
    column("tokens", LONG, "model tokens to compute, without padding", unit="tokens"),
    column("wall_seconds", DOUBLE, "elapsed time of the stage, with all workers in parallel", unit="seconds"),
    column("cpu_seconds", DOUBLE, "CPU time of all workers", unit="seconds"),
    column("gpu_seconds", DOUBLE, "time GPUs are held", unit="seconds"),
    column("peak_memory_bytes", LONG, "peak resident memory of a worker", unit="bytes"),
    column("disk_bytes", LONG, "size of the files that stay on disk", unit="bytes"),
    column("usd", DOUBLE, "cost at the prices in configs/prices.yaml", unit="USD"),
)

RUNS = table(
    "runs",
    "a run of a flow",
    column("run_id", TEXT, "the run"),
    column("flow", TEXT, "flow that ran"),
    column("name", TEXT, "name of its index or experiment"),
    column("state", TEXT, "running, completed, failed, cancelled, interrupted (its process is gone) or unreadable"),
    column("started", pa.timestamp("us", "UTC"), "start time"),
    column("ended", pa.timestamp("us", "UTC"), "end time", nullable=True),
    column("config", TEXT, "parameters, JSON"),
    column("fingerprints", list_of(TEXT), "artifacts that it writes or uses, TABLE/FINGERPRINT"),
    column("error", TEXT, "reason if it failed, else empty"),
)

INDEXES = table(
    "indexes",
    "a version of an index: the artifacts that it has now, or had before it was encoded again",
    column("index", TEXT, "name of the index"),
    column("current", BOOLEAN, "true for the version that a search finds"),
    column("run_id", TEXT, "run that made this version; a later run that changed nothing made none"),
    column("completed", pa.timestamp("us", "UTC"), "end of that run; NULL if unknown", nullable=True),
    column("datasets", list_of(TEXT), "its data sets, FORMAT:FILE"),
    column("encoder", TEXT, "encode.encoder", nullable=True),
    column("context", TEXT, "encode.context: source of a sentence's context vector", nullable=True),
    column("type", TEXT, "index.type", nullable=True),
    *(
        column(name, LONG, f"number of {name}; NULL if there are none, or none in the store any more", True)
        for name in ("passages", "sentences", "vectors")
    ),
    column("bytes", LONG, "size of its files that are in the store", unit="bytes"),
    column("fingerprints", list_of(TEXT), "its artifacts, TABLE/FINGERPRINT"),
    column("previous_run", TEXT, "run that made the version before; NULL for the first", nullable=True),
)

GENERATIONS = table(
    "generations",
    "a generation of an index: a finished build, whatever became of it",
    column("name", TEXT, "name of the index"),
    column("generation", INTEGER, "its number, which orders the generations of a name"),
    column("made_at", pa.timestamp("us", "UTC"), "when it was built"),
    column("run_id", TEXT, "run that built it"),
    column("settings", TEXT, "fingerprint of all that determines it besides its corpus"),
    column("corpus", TEXT, "fingerprint of its passages"),
    column("datasets", list_of(TEXT), "data sets that it was made from"),
    column("verdict", TEXT, "of the gate: promoted, held, rejected, in doubt; declined by a person; else empty"),
    column("decided", TEXT, "latest decision about it; empty where there is none"),
    column("decided_by", TEXT, "what made that decision: build, gate, command, page, run, library, and who"),
    column("current", BOOLEAN, "true for the generation that a search finds"),
    column("removed", BOOLEAN, "true once `store gc` has removed artifacts of it"),
)

GATES = table(
    "gates",
    "a gate's comparison of a candidate with the current generation, in a metric of a method",
    column("name", TEXT, "name of the index"),
    column("generation", INTEGER, "the candidate"),
    column("against", INTEGER, "generation that it was compared with, on the same questions"),
    column("verdict", TEXT, "of the gate: promoted, held, rejected, in doubt"),
    column("method", TEXT, "method of the experiment; NULL where nothing could be compared", nullable=True),
    column("metric", TEXT, "gated metric", nullable=True),
    column("margin", DOUBLE, "loss that is accepted, in the metric's unit", nullable=True),
    column("questions", LONG, "questions with a value of both", nullable=True),
    column("current", DOUBLE, "mean of the current generation", nullable=True),
    column("candidate", DOUBLE, "mean of the candidate", nullable=True),
    column("difference", DOUBLE, "candidate minus current", nullable=True),
    column("low", DOUBLE, "lower end of the paired 95 % interval of the difference", nullable=True),
    column("high", DOUBLE, "upper end, corrected for the number of gated metrics", nullable=True),
    column("metric_verdict", TEXT, "no worse, worse, in doubt", nullable=True),
    column(
        "settled_by",
        LONG,
        "number of questions that would settle a doubt; NULL without a doubt, or if no number would",
        True,
    ),
    column("vanished", LONG, "further questions, whose gold passages the candidate's corpus lost", True),
    column("current_counted", DOUBLE, "mean of the current generation with these", nullable=True),
    column("candidate_counted", DOUBLE, "mean of the candidate if these count as lost", nullable=True),
    column("left_out", LONG, "questions left out, as their gold passages are not in both corpora"),
    column("said", TEXT, "the verdict in a sentence"),
    column("run_id", TEXT, "the evaluation that asked both; NULL where nothing was asked", nullable=True),
    column("approval", TEXT, "a person's: waiting, approved, declined; NULL if no person was asked", nullable=True),
    column("losses", list_of(TEXT), "what the candidate's corpus lost beyond what the gate accepts"),
)

DECISIONS = table(
    "decisions",
    "a decision about a generation of an index; they are added, never changed",
    column("name", TEXT, "name of the index"),
    column("decided_at", pa.timestamp("us", "UTC"), "when"),
    column("generation", INTEGER, "generation that it is about; of a rollback, the one that the name came back to"),
    column("decision", TEXT, "promoted, held, rejected, in doubt, declined, rolled back"),
    column("decided_by", TEXT, "build (no gate), gate, or a person's command, page, run (Prefect's form) or library"),
    column("who", TEXT, "user of the process in which a person decided, else empty"),
    column("note", TEXT, "a person's reason, or the gate's verdict in a sentence"),
    column("instead_of", INTEGER, "generation that the name pointed at; 0 for none"),
)

METHODS = table(
    "methods",
    "the artifact that holds a method's rows in one table of a run",
    column("run_id", TEXT, "run of the evaluation"),
    column("experiment", TEXT, "its experiment"),
    column("method", TEXT, "name of the method in the experiment"),
    column("table_name", TEXT, "table that holds the rows"),
    column("fingerprint", TEXT, "artifact in that table; join on the column `fingerprint` of the table"),
    column("index", TEXT, "index that the method searches; NULL if it searches none", nullable=True),
)

REQUESTS = table(
    "requests",
    "a request that a server answered or refused",
    column("request_id", TEXT, "the request; the response has it in the header X-Request-Id"),
    column("received", pa.timestamp("us", "UTC"), "time of arrival"),
    column("path", TEXT, "address of the server, and for agents the tool: /mcp search"),
    column("configuration", TEXT, "configuration that answered; NULL if there is none of that name", True),
    column("fingerprint", TEXT, "fingerprint of the configuration's settings, models, prompts and index", True),
    column("key", TEXT, "name of the client's key; NULL where none is needed", True),
    column("question", TEXT, "the question; NULL unless the server keeps questions", True),
    column("hits", list_of(SPAN), "places in passages that the search found, or that the answer was written from"),
    column("prompt_tokens", LONG, "tokens of all prompts; NULL unless a model generated", True, "tokens"),
    column("completion_tokens", LONG, "tokens that a model generated; NULL unless one did", True, "tokens"),
    column(
        "tokens_saved", LONG, "length of the whole passages minus that of the contexts; NULL if unknown", True, "words"
    ),
    column("usd", DOUBLE, "cost at the prices in configs/prices.yaml; NULL unless a model generated", True, "USD"),
    column("seconds", DOUBLE, "time from arrival to the end of the response", unit="seconds"),
    column(
        "steps",
        pa.map_(TEXT, pa.field("value", DOUBLE, False)),
        "time by step, the question's share of its batch; empty unless a model generated",
        unit="seconds",
    ),
    column("status", INTEGER, "HTTP status; 499 if the client hung up"),
    column("error", TEXT, "reason if there is no answer, else empty"),
)

REVIEWS = table(
    "reviews",
    "a person's verdict on an answer, or on two answers to the same question",
    column("reviewer", TEXT, "who reviewed"),
    column("reviewed", pa.timestamp("us", "UTC"), "when"),
    column("run_id", TEXT, "evaluation that the answers are of"),
    column("question_id", LONG, "the question"),
    column("method", TEXT, "method that gave the answer, or the first of two"),
    column("other", TEXT, "method that gave the second answer; NULL where one answer was reviewed", nullable=True),
    column("verdict", TEXT, "of one answer: right, wrong, unsure; of two: first or second (is better), equal, unsure"),
    column("seconds", DOUBLE, "time that the reviewer took; NULL if unknown", True, "seconds"),
)


# The tables of training: labels to learn from, and its steps.

LABELS = table(
    "labels",
    "a judgement of a passage's relevance to a question",
    column("question_id", LONG, "the question"),
    column("passage_id", LONG, "passage retrieved for the question"),
    column("rater", DOUBLE, "first judgement: 1 if relevant, 0 if not; NULL after an error", True),
    column("critic", DOUBLE, "second judgement, which checks the first; NULL if there was none", True),
    column("label", DOUBLE, "second judgement, or the first if there is no second; NULL after an error", True),
    column("error", TEXT, "reason if there is no label, else empty"),
)

TRAINING_STEPS = table(
    "training_steps",
    "a training step",
    column("stage", TEXT, "trainer that took the step"),
    column("step", INTEGER, "number of the step in the whole training, from 1"),
    column("epoch", INTEGER, "pass over the training data, from 1"),
    column("rows", INTEGER, "number of examples in the step", unit="rows"),
    column("tokens", LONG, "number of tokens in the step, without padding", unit="tokens"),
    column("seconds", DOUBLE, "elapsed time of the step", unit="seconds"),
    column("lr", DOUBLE, "learning rate"),
    column("losses", pa.map_(TEXT, pa.field("value", DOUBLE, False)), "losses and rates by name"),
    column(
        "quality",
        DOUBLE,
        "quality of the weights on the data for choosing an epoch, at the last step of an epoch, else NULL",
        nullable=True,
    ),
)
