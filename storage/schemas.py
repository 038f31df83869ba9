"""The tables: their Arrow schemas, with the meaning and unit of every column as field metadata.

A table is written as a text. Its first line has its name and what a row is; then comes a line per column,
`name type (unit): meaning`, or `*hits` for all columns of another table. A longer line goes on indented.
"""

import re

import pyarrow as pa

TEXT, BOOLEAN = pa.string(), pa.bool_()
INTEGER, LONG, FLOAT, DOUBLE = pa.int32(), pa.int64(), pa.float32(), pa.float64()

TABLES: dict[str, pa.Schema] = {}
"""Every table of the catalog."""
VIEWS: dict[str, pa.Schema] = {}
"""The views that the catalog computes from several tables."""
ROWS: dict[str, str] = {}
"""The description of a row, by table and view: "a unit retrieved for a question"."""


def column(name: str, kind: pa.DataType, about: str, nullable: bool = False, unit: str = "") -> pa.Field:
    return pa.field(name, kind, nullable, {"about": about, "unit": unit})


def described(row: str, *columns: pa.Field) -> pa.Schema:
    """The schema of a table that its files describe themselves; `row`: what a row is, "a sentence of an answer"."""
    return pa.schema(columns, {"row": row})


def _struct(**kinds: pa.DataType) -> pa.DataType:
    return pa.struct([pa.field(name, kind, nullable=False) for name, kind in kinds.items()])


def list_of(kind: pa.DataType, size: int = -1) -> pa.DataType:
    """The type of a list without NULL; `size`: of a list of fixed size."""
    return pa.list_(pa.field("element", kind, nullable=False), size)


_KINDS = {
    "text": TEXT,
    "bool": BOOLEAN,
    "int": INTEGER,
    "long": LONG,
    "float": FLOAT,
    "double": DOUBLE,
    "time": pa.timestamp("us", "UTC"),
    "map": pa.map_(TEXT, pa.field("value", DOUBLE, False)),
    "span": _struct(passage_id=LONG, start=INTEGER, end=INTEGER),
    "place": _struct(source=TEXT, quote=TEXT),
    "probability": _struct(token=TEXT, probability=DOUBLE),
    "rating": _struct(rank=INTEGER, score=DOUBLE, kept=BOOLEAN, tokens=INTEGER, rating_id=LONG),
    "chunk": _struct(passage_id=LONG, title=TEXT, text=TEXT),
    "copied": _struct(chunk=INTEGER, start=INTEGER, end=INTEGER),
}
"""The types of columns; `[]` after one makes a list of it, and `?` says that it may be NULL."""
_COLUMN = re.compile(
    r"(?P<name>\w+) (?P<kind>\w+)(?P<many>(\[\])?)(?P<null>\??)( \((?P<unit>[\w ]+)\))?: (?P<about>.+)"
)


def table(text: str, among: dict[str, pa.Schema] = TABLES) -> pa.Schema:
    """Declare a table of the catalog."""
    heading, *lines = re.sub(r"\n {8}", " ", text).strip().split("\n")
    name, _, row = heading.partition(": ")
    columns: list[pa.Field] = []
    for line in map(str.strip, lines):
        columns += TABLES[line[1:]] if line.startswith("*") else [_column(line)]
    among[name], ROWS[name] = pa.schema(columns), row
    return among[name]


def view(text: str) -> pa.Schema:
    """Declare a view of several tables."""
    return table(text, VIEWS)


def _column(line: str) -> pa.Field:
    match = _COLUMN.fullmatch(line)
    assert match, line
    kind = list_of(_KINDS[match["kind"]]) if match["many"] else _KINDS[match["kind"]]
    return column(match["name"], kind, match["about"], bool(match["null"]), match["unit"] or "")


# The tables of a corpus and its index.

PASSAGES = table("""passages: a passage of a corpus
    passage_id long: content id of the text
    source text: dataset it was first seen in, FORMAT:FILE
    source_id text: id in the source
    also text[]: further ids of the same row, where it stands several times in the sources
    title text: title in the source; may be empty
    text text: the passage
    metadata text: further fields of the document, such as a front matter's, as a JSON object
""")

SENTENCES = table("""sentences: a core sentence of a passage, or a proposition
    sentence_id long: content id of passage and place; for a rewritten sentence, of passage, units and position
    passage_id long: passage it belongs to
    position int: position in the passage, from 0
    start int (code points): offset of the first character in the passage
    end int (code points): offset after the last character; equal to start if rewritten, because the passage does not
        contain it
    text text: core sentence with the white space after it; joined, the sentences give the passage, unless rewritten
    tokens int (words): number of words and punctuation marks, independent of the model
""")

QUESTIONS = table("""questions: a question of a data set
    question_id long: content id of question, answers and gold passages
    source text: dataset it was first seen in, FORMAT:FILE
    source_id text: id in the source
    also text[]: further ids of the same row, where it stands several times in the sources
    text text: the question
    answers text[]: gold answers, any of which is correct
    gold_passages long[]: ids of the passages that contain the answer
    gold_grades int[]: grade of relevance of every gold passage, from 1; empty if all have 1
    itself long[]: ids of passages that are the question itself, and no hits for it
    supporting_facts span[]: places that support the answer (passage id, code points)
    gold_places place[]: files, headings and quotes that the question names as gold; `asked` has the passages that they
        name
""")

REJECTS = table("""rejects: an input row that was not used
    stage text: stage that rejected the row
    source text: dataset, FORMAT:FILE
    offset long: line or record number in the source, from 1; for a question, its question_id; for a passage that gave
        no question (write), its passage_id
    reason text: machine-readable reason
    detail text: reason in words
""")

_OF_DRAFT = """half text: development or test: questions from one document are in one half
    kind text: what it asks for, as its writer calls it: name, year, number, who, two hops, unanswerable
    text text: the question
    answers text[]: gold answers, any of which is correct; empty if the question has no answer
    quote text: part of a passage that answers, in one line; empty without an answer
    gold_passages long[]: ids of the passages that it takes: two if of two hops
    gold_places place[]: documents of these passages, with a quote from every one
    passage_id long: passage it was written from
    source text: dataset of the passage, FORMAT:FILE
    source_id text: id of the passage in its source
    document text: document of the passage: its file, else its title, else empty"""
DRAFTS = table(f"""drafts: a passage that was given to a writer of questions, with what it wrote
    {_OF_DRAFT}
    reason text: machine-readable reason why there is no question; empty if there is one
    detail text: reason in words
""")

WRITTEN_QUESTIONS = table(f"""written_questions: a question that was written from a passage
    question_id long: content id of question, answer and passage
    {_OF_DRAFT}
""")

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
TABLES["vectors"], ROWS["vectors"] = vectors(1), "the vector of a sentence, of its context or of a passage"
TABLES["question_vectors"], ROWS["question_vectors"] = question_vectors(1), "the vector of a question"

NEIGHBOURS = table("""neighbours: a neighbour of a sample query in a shard of an index
    unit text: sentence or passage
    effort int: search effort: -1 for exact search, nprobe of an ivf index, ef_search of hnsw, else 0
    probe int: number of the sample query
    id long: id of a near unit in this shard; -1 if there are no more
    score float: inner product with the query, as the index computes it
""")

INDEX_QUALITY = table("""index_quality: recall and size of an index at one search effort
    unit text: sentence or passage
    type text: index.type
    vectors long: number of vectors in the index
    bytes_per_vector double (bytes): size of the index files per vector, including ids
    effort int: search effort: nprobe of an ivf index, ef_search of hnsw, else 0
    recall_at_10 double: share of the exact top 10 that the index returns at this effort
    standard_error double: standard error of recall_at_10, over the probes
    probes int: number of sample queries it was measured on; 0 if exact by definition
    chosen bool: true if a search uses this effort by default
""")

TERMS = table("""terms: a term of BM25 in a shard
    unit text: sentence or passage
    term text: a word as BM25 counts it: lower case, stemmed
    documents int: number of units in this shard that contain the term
    occurrences int: number of occurrences in this shard
""")


# The tables of an evaluation: `asked` is the choice of questions; the others have rows of one method of answering.

ASKED = table("""asked: a question that an evaluation asks
    *questions
    gold_groups int[]: group of each gold passage, from 0. One passage of a group is as good as all, such as the
        passages of a file that the question names. Empty if each passage counts by itself
""")

HITS = table("""hits: a unit retrieved for a question
    question_id long: the question
    rank int: rank, from 1
    unit text: sentence or passage
    unit_id long: sentence_id or passage_id
    passage_id long: passage that the unit is or belongs to
    start int (code points): offset of the first character in the passage
    end int (code points): offset after the last character; equal to start if rewritten, because the passage does not
        contain it
    score float: score from the retriever
    title text: title of the passage
    text text: the unit's text
""")

PERTURBED = table("""perturbed: a hit as given to a refiner, after noise was added or the order was changed
    *hits
    noise bool: true if it was retrieved for another question
""")

EVIDENCE = table("""evidence: a context of a question's prompt
    question_id long: the question
    rank int: position in the prompt, from 1
    text text: context as shown in the prompt
    tokens int (words): number of words and punctuation marks, independent of the model
    origin span[]: places it comes from (passage id, code points); empty if it was rewritten
    score float?: best score of the hits it comes from, from the retriever or the refiner; NULL if a model wrote it
        from several hits
""")

REFINEMENTS = table("""refinements: the length and time of a refiner's work on a question
    question_id long: the question
    input_tokens int (words): number of words and punctuation marks in all its hits, as shown in a prompt
    output_tokens int (words): number of words and punctuation marks in the contexts made from them
    seconds double (seconds): share of the batch's time in proportion to the input, including the original time of
        reused readings and excluding the loading of a model
    cpu_seconds double (seconds): the same for CPU time
    cut bool: true if the model that wrote the contexts read only part of the hits
    finish_reason text: stop or length, from the model that wrote the contexts; empty without one
""")

READINGS = table("""readings: what a refiner's model computed for a text, or a reader for a question and a context. It
        does not depend on how much is kept, or on other contexts
    reading_id long: content id of the model and its input; the same input is read once
    reading float[]: surprisal (nats) of every token, probability of every sentence, or the reader's best answers, by
        the model
    tokens int (tokens): tokens computed for it
    seconds double (seconds): share of the time of the texts read together
    cpu_seconds double (seconds): the same for CPU time
""")

APPRAISALS = table("""appraisals: an appraiser's grades of a question's contexts
    question_id long: the question
    faithfulness double?: faithfulness of the contexts to the hits, 0 to 10; NULL after an error
    completeness double?: share of the hits' information on the answer that they keep, 0 to 10; NULL after an error
    explanation text: reasons for the grades, one or more lines for every grade
    error text: reason if there is no appraisal, else empty
""")

VERDICTS = table("""verdicts: a judge's verdicts on a question's answer
    question_id long: the question
    candidate int: number of the answer in `candidates`
    correct double?: 1 if correct by the gold answers, else 0; NULL without them or after an error
    supported double?: share of the answer's claims that its contexts support, 0 to 1; NULL without contexts or claims,
        or after an error
    preferred double?: 1 if better than the baseline's answer, 0 if worse, 0.5 for a tie. NULL if not asked for
        (judge.preferred), if the baseline has no answer, or after an error
    correct_id long?: content id of judge, question, answer and gold answers; NULL without them
    supported_id long?: content id of judge, question, answer and contexts; NULL without them
    preferred_id long?: content id of judge, question, both answers and all contexts; NULL where nobody is asked
    explanation text: lines: the judge's reason, what it preferred in either order with its reasons, and every claim
        with its verdict
    error text: reason if a verdict failed, else empty
""")

LIKELIHOODS = table("""likelihoods: how probable a language model finds the gold answer after a method's prompt
    question_id long: the question
    answer text: the first gold answer; empty for a question without any
    nats double? (nats): natural logarithm of its probability; NULL after an error
    tokens int? (tokens): its tokens, as the model counts them; NULL after an error
    error text: reason if there is no number, else empty
""")

CANDIDATES = table("""candidates: a generated answer
    question_id long: the question
    candidate int: number of the answer, from 0
    contexts int[]: ranks in `evidence` of the contexts in its prompt
    prompt_id long: content id of model, prompt and parameters; the same prompt is answered once
    text text: the answer
    prompt_tokens int (tokens): tokens of the prompt, as the model counts them
    completion_tokens int (tokens): tokens of the answer, as the model counts them
    cached_tokens int (tokens): tokens of the prompt that its server had cached
    logprob double? (nats): natural logarithm of the answer's probability
    seconds double (seconds): time taken by the model, including the original time of reused readings
    finish_reason text: stop, length (cut by the limit of tokens), refusal (by the model), content_filter (by its
        server) or error
    error text: reason if there is no answer, else empty
    probabilities probability[]: probabilities of the reflection tokens that the generator self_rag reads
    reused bool: true if an earlier run had answered this prompt
    ratings rating[]: generator's ratings of the prompt's contexts; see the view `ratings`
    prefill_tokens int? (tokens): tokens read before the first token was written, counted every time they were read;
        NULL if unknown
    kv_tokens int? (tokens): tokens in the cache that the answer was written from: question and kept contexts; NULL if
        unknown
    init_seconds double? (seconds): time until the model starts, including tokenization and excluding loading
    prefill_seconds double? (seconds): time until the model gives the first token; NULL if reused ratings replaced part
        of it
    copy_seconds double? (seconds): time to copy the kept contexts' keys and values into one cache
    decode_seconds double? (seconds): time for all tokens after the first
    thought_tokens int? (tokens): tokens among completion_tokens that a reasoning model thought, which are no part of
        the text; NULL if unknown
    left_out text[]: parameters that the model's server refused, so that it was asked without them
""")

RECEIVED = table("""received: what another system's answer came with, of a method that is not run here
    question_id long: the question
    candidate int: number of the answer in `candidates`
    prompt_id long: its `prompt_id` in `candidates`
    with_contexts bool: true if the system says which contexts it had
    contexts text[]: contexts that it says it had, best first; `evidence` has a row for each
    prompt_tokens int? (tokens): tokens of the prompt, or of prompt and answer, by the system's count; NULL if unknown
    completion_tokens int? (tokens): tokens of the answer, by the system's count; NULL if unknown
    usd double? (USD): price of the answer, by the system; NULL if unknown
    seconds double? (seconds): time that the answer took, by the system or as measured; NULL if unknown
""")

CRITIQUES = table("""critiques: a critic's scores for a candidate
    question_id long: the question
    candidate int: number of the answer in `candidates`
    isrel double?: ISREL: usefulness of the context for the question, 0 to 1; NULL after an error
    issup double?: ISSUP: support of the context for the answer, 0 to 1; NULL after an error
    isuse double?: ISUSE: usefulness of the answer, 0 to 1; NULL after an error
    utility_f1 double?: harmonic mean of ISUSE and ISSUP
    geometric_mean double?: cube root of ISREL * ISSUP * ISUSE
    error text: reason if there is no critique, else empty
""")

ANSWERS = table("""answers: an answer chosen from the candidates
    question_id long: the question
    strategy text: selector that chose the answer
    rank int: rank among the answers to the question, from 1
    candidate int: number of the answer in `candidates`
    text text: the answer
    score double?: score from the selector; NULL if chosen without a critique
    on_front bool: true if no other candidate dominates it in utility_f1 and ISREL
    error text: reason if there is no answer, else empty
""")

SCORES = table("""scores: the value of one metric for one question
    question_id long: the question
    metric text: name of the metric, with its k if it has one
    value double: value for this question
""")

SUMMARIES = table("""summaries: the value of one metric over all questions
    metric text: name of the metric, with its k if it has one
    value double?: mean over the questions it applies to, or one value for all of them; NULL if it applies to none
    questions int: number of questions it applies to
    left_out int: number of questions left out because it does not apply to them
    heading text: display name of the metric
    unit text: unit of its values
    direction text: better values: higher, lower or neither
    needs text[]: data that a question must have, else it is left out
    detail bool: true if reports show it only when they show every metric
""")


# The tables of Oreo's training.

GOLD_CONTEXTS = table("""gold_contexts: a collector's attempt at the evidence text of a question
    question_id long: the question
    attempt int: number of the attempt: 0 without the answer; from 1, the collector was given the answer
    text text: evidence text, or empty if there is none
    verdict text: kept, or the reason for dropping it
    collector text: collector that wrote it
    tokens long (tokens): tokens that a model computed for it, including prompts
    seconds double (seconds): time taken
    error text: reason if a model gave no text, else empty
""")

OREO_EXAMPLES = table("""oreo_examples: a question with the evidence text that Oreo learns to write
    question_id long: the question
    question text: text of the question
    answers text[]: gold answers, any of which is correct
    chunks chunk[]: retrieved chunks, best first; the title is empty if none is shown
    target text: the evidence text
    copied copied[]: places in the chunks, as shown, that make up the target (chunk from 0, code points). Empty if the
        target is not copied from the chunks
    attempt int: attempt in `gold_contexts` that was kept
    split text: learn, choose or held_out, decided by the article of its first gold passage
""")

OREO_CANDIDATES = table("""oreo_candidates: a text that Oreo's contrastive training compared with others
    question_id long: the question
    epoch int: pass over the training data, from 1
    rank int: rank among the candidates by ROUGE-L, from 1
    kind text: beam (written by the policy), gold (the target) or batch (another question's target)
    text text: the text
    rouge double: ROUGE-L with the question's target
    logprob double? (nats): natural logarithm of its probability; NULL for another question's target
""")

ROLLOUTS = table("""rollouts: a text that Oreo's reinforcement learning sampled
    step int: step of the training, from 1
    question_id long: the question
    text text: the text
    answer text: generator's answer from the text
    rouge double: agreement of that answer with the gold answers, 0 to 1
    kl double (nats): log-probability minus the log-probability under the initial policy
    reward double: rouge if the text ended before the limit, else 0, minus the penalty on kl
    tokens int (tokens): number of actions in the text
    ended bool: true if the text ended before the limit
""")


# The tables of runs and what they cost, which outlive the artifacts.

_STAGE = """stage text: step of the work. Of an index: load, split, terms, encode, index (dense), bm25. Of an
        evaluation: ask (choose the questions), encode_questions, retrieve, refine, generate, critique, select, score.
        Of training: train, train_…. Of any: loading (of models)"""
COSTS = table(f"""costs: the cost of one shard of one stage
    {_STAGE}
    shard int: shard number; -1 for the work before the first shard
    run_id text: run that did the work and is charged for it
    model text?: model that did the work: punkt, minilm, openai:NAME; NULL for a stage without one
    started time: start of the work
    rows long (rows): rows written to the stage's first table
    tokens long (tokens): model tokens computed, without padding
    cached_tokens long (tokens): those of the tokens that a server had cached, at their own price
    wall_seconds double (seconds): elapsed time
    cpu_seconds double (seconds): CPU time of the worker and of the processes it started
    gpu_seconds double (seconds): time a GPU was held
    gpu_joules double? (joules): energy of the GPU share, measured by NVML; NULL without NVML
    peak_memory_bytes long (bytes): peak resident memory of the worker and of the processes it started
    usd double (USD): cost at the prices in configs/prices.yaml
    node text?: machine that did the work, HOST/NODE in a cluster; NULL if not recorded
    finished bool: false for a shard that was cancelled midway
    reused_tokens long (tokens): model tokens of answers, readings and vectors that earlier work had computed
    reused_wall_seconds double (seconds): elapsed time they had taken, without loading a model
    reused_cpu_seconds double (seconds): CPU time they had taken
    reused_usd double (USD): cost they would have had today; with `usd`: the cost without cache
""")

QUOTES = table(f"""quotes: the expected cost of a stage
    {_STAGE}
    quoted time: time of the estimate
    runner text: ray or serial
    workers int: number of parallel workers that the estimate assumes
    rows long (rows): rows of the stage's first table
    tokens long (tokens): model tokens to compute, without padding
    wall_seconds double (seconds): elapsed time of the stage, with all workers in parallel
    cpu_seconds double (seconds): CPU time of all workers
    gpu_seconds double (seconds): time GPUs are held
    peak_memory_bytes long (bytes): peak resident memory of a worker
    disk_bytes long (bytes): size of the files that stay on disk
    usd double (USD): cost at the prices in configs/prices.yaml
""")

RUNS = table("""runs: a run of a flow
    run_id text: the run
    flow text: flow that ran
    name text: name of its index or experiment
    state text: running, completed, failed, cancelled, interrupted (its process is gone) or unreadable
    started time: start time
    ended time?: end time
    config text: parameters, JSON
    fingerprints text[]: artifacts that it writes or uses, TABLE/FINGERPRINT
    error text: reason if it failed, else empty
""")

INDEXES = table("""indexes: a version of an index: the artifacts that it has now, or had before it was encoded again
    index text: name of the index
    current bool: true for the version that a search finds
    run_id text: run that made this version; a later run that changed nothing made none
    completed time?: end of that run; NULL if unknown
    datasets text[]: its data sets, FORMAT:FILE
    encoder text?: encode.encoder
    context text?: encode.context: source of a sentence's context vector
    type text?: index.type
    passages long?: number of passages; NULL if there are none, or none in the store any more
    sentences long?: number of sentences; NULL if there are none, or none in the store any more
    vectors long?: number of vectors; NULL if there are none, or none in the store any more
    bytes long (bytes): size of its files that are in the store
    fingerprints text[]: its artifacts, TABLE/FINGERPRINT
    previous_run text?: run that made the version before; NULL for the first
""")

GENERATIONS = table("""generations: a generation of an index: a finished build, whatever became of it
    name text: name of the index
    generation int: its number, which orders the generations of a name
    made_at time: when it was built
    run_id text: run that built it
    settings text: fingerprint of all that determines it besides its corpus
    corpus text: fingerprint of its passages
    datasets text[]: data sets that it was made from
    verdict text: of the gate: promoted, held, rejected, in doubt; declined by a person; else empty
    decided text: latest decision about it; empty where there is none
    decided_by text: what made that decision: build, gate, command, page, run, library, and who
    current bool: true for the generation that a search finds
    removed bool: true once `store gc` has removed artifacts of it
""")

GATES = table("""gates: a gate's comparison of a candidate with the current generation, in a metric of a method
    name text: name of the index
    generation int: the candidate
    against int: generation that it was compared with, on the same questions
    verdict text: of the gate: promoted, held, rejected, in doubt
    method text?: method of the experiment; NULL where nothing could be compared
    metric text?: gated metric
    margin double?: loss that is accepted, in the metric's unit
    questions long?: questions with a value of both
    current double?: mean of the current generation
    candidate double?: mean of the candidate
    difference double?: candidate minus current
    low double?: lower end of the paired 95 % interval of the difference
    high double?: upper end, corrected for the number of gated metrics
    metric_verdict text?: no worse, worse, in doubt
    settled_by long?: number of questions that would settle a doubt; NULL without a doubt, or if no number would
    vanished long?: further questions, whose gold passages the candidate's corpus lost
    current_counted double?: mean of the current generation with these
    candidate_counted double?: mean of the candidate if these count as lost
    direction text?: which values are better, higher or lower
    left_out long: questions left out, as their gold passages are not in both corpora
    said text: the verdict in a sentence
    run_id text?: the evaluation that asked both; NULL where nothing was asked
    approval text?: a person's: waiting, approved, declined; NULL if no person was asked
    losses text[]: what the candidate's corpus lost beyond what the gate accepts
""")

DECISIONS = table("""decisions: a decision about a generation of an index; they are added, never changed
    name text: name of the index
    decided_at time: when
    generation int: generation that it is about; of a rollback, the one that the name came back to
    decision text: promoted, held, rejected, in doubt, declined, rolled back
    decided_by text: build (no gate), gate, or a person's command, page, run (Prefect's form) or library
    who text: user of the process in which a person decided, else empty
    note text: a person's reason, or the gate's verdict in a sentence
    instead_of int: generation that the name pointed at; 0 for none
""")

METHODS = table("""methods: the artifact that holds a method's rows in one table of a run
    run_id text: run of the evaluation
    experiment text: its experiment
    method text: name of the method in the experiment
    table_name text: table that holds the rows
    fingerprint text: artifact in that table; join on the column `fingerprint` of the table
    index text?: index that the method searches; NULL if it searches none
""")

REQUESTS = table("""requests: a request that a server answered or refused
    request_id text: the request; the response has it in the header X-Request-Id
    received time: time of arrival
    path text: address of the server, and for agents the tool: /mcp search
    configuration text?: configuration that answered; NULL if there is none of that name
    fingerprint text?: fingerprint of the configuration's settings, models, prompts and index
    key text?: name of the client's key; NULL where none is needed
    question text?: the question; NULL unless the server keeps questions
    hits span[]: places in passages that the search found, or that the answer was written from
    prompt_tokens long? (tokens): tokens of all prompts; NULL unless a model generated
    completion_tokens long? (tokens): tokens that a model generated; NULL unless one did
    tokens_saved long? (words): length of the whole passages minus that of the contexts; NULL if unknown
    usd double? (USD): cost at the prices in configs/prices.yaml; NULL unless a model generated
    seconds double (seconds): time from arrival to the end of the response
    steps map (seconds): time by step, the question's share of its batch; empty unless a model generated
    status int: HTTP status; 499 if the client hung up
    error text: reason if there is no answer, else empty
""")

REVIEWS = table("""reviews: a person's verdict on an answer, or on two answers to the same question
    reviewer text: who reviewed
    reviewed time: when
    run_id text: evaluation that the answers are of
    question_id long: the question
    method text: method that gave the answer, or the first of two
    other text?: method that gave the second answer; NULL where one answer was reviewed
    verdict text: of one answer: right, wrong, unsure; of two: first or second (is better), equal, unsure
    seconds double? (seconds): time that the reviewer took; NULL if unknown
""")


# The tables of training: labels to learn from, and its steps.

LABELS = table("""labels: a judgement of a passage's relevance to a question
    question_id long: the question
    passage_id long: passage retrieved for the question
    rater double?: first judgement: 1 if relevant, 0 if not; NULL after an error
    critic double?: second judgement, which checks the first; NULL if there was none
    label double?: second judgement, or the first if there is no second; NULL after an error
    error text: reason if there is no label, else empty
""")

TRAINING_STEPS = table("""training_steps: a training step
    stage text: trainer that took the step
    step int: number of the step in the whole training, from 1
    epoch int: pass over the training data, from 1
    rows int (rows): number of examples in the step
    tokens long (tokens): number of tokens in the step, without padding
    seconds double (seconds): elapsed time of the step
    lr double: learning rate
    losses map: losses and rates by name
    quality double?: quality of the weights on the data for choosing an epoch, at the last step of an epoch, else NULL
""")


# Views of several tables.

ARTIFACTS = view("""artifacts: a complete artifact
    fingerprint text: the artifact
    table_name text: its first table
    stage text: stage that wrote it
    run_id text: run that completed it
    completed time: time of completion
    bytes long (bytes): size of all its files
    indexes text[]: names of the indexes that it belongs to now
""")

view("""ratings: a generator's rating of how useful a context is for the question
    question_id long: the question
    candidate int: number of the answer in `candidates`
    rank int: rank of the context in `evidence`
    score double: rating by the generator, 0 to 1
    kept bool: true if the answer was written from it
    tokens int (tokens): length, as the model counts it
    rating_id long: content id of model, controls, question and context; the same context is rated once
    reused bool: true if an earlier run had answered this prompt
    error text: reason if there is no answer, else empty
""")

view("""compression: the compression of the hits by a method's refiner, over the questions of a run
    experiment text: experiment of the run
    method text: the method
    questions long: number of questions whose hits were refined
    input_tokens double (words): mean length of a question's hits
    output_tokens double (words): mean length of a question's contexts
    share double: length of all contexts divided by the length of all hits, 0 to 1
    seconds double (seconds): mean time of the refiner for a question
    cut long: number of questions for which the model that wrote the contexts read only part of the hits
    unfinished long: number of questions for which that model stopped at its length limit
    fingerprint text: the artifact that holds the row
    run_id text: run of the method
""")
