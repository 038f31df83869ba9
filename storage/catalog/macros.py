"""The catalog's macros: the questions that people ask of a store, as tables with parameters.

A `run` is given by the beginning of its id, or by the name of its experiment or index; '' is every run. Macros read
the catalog's views, which stand for tables that hold nothing yet as well: they answer on any store.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Macro:
    """`parameters`: as in SQL, with defaults; `example`: a statement that answers on any store."""

    name: str
    parameters: str
    about: str
    example: str
    sql: str

    @property
    def signature(self) -> str:
        return f"{self.name}({self.parameters})"


def _named(column: str) -> str:
    """Return whether a run's id is one that the parameter `run` means."""
    named = "SELECT runs.run_id FROM runs WHERE runs.name = run"
    return f"(run = '' OR starts_with({column}, run) OR {column} IN ({named}))"


# Summaries of an older version do not say which way a metric is better: NULL, and left out.
_GOODNESS = "CASE s.direction WHEN 'lower' THEN -{value} ELSE {value} END"
_DIRECTED = "s.direction IN ('higher', 'lower')"

_BEST = f"""
SELECT s.metric, s.value, m.method, m.experiment, m.run_id, s.questions, s.left_out, s.fingerprint
FROM summaries AS s JOIN methods AS m ON m.fingerprint = s.fingerprint AND m.table_name = 'scores'
WHERE s.value IS NOT NULL AND {_DIRECTED} AND {_named("m.run_id")}
QUALIFY row_number() OVER (
    PARTITION BY s.metric ORDER BY {_GOODNESS.format(value="s.value")} DESC, m.run_id DESC, m.method
) <= n
ORDER BY s.metric, {_GOODNESS.format(value="s.value")} DESC
"""

# The answer is the one that was chosen first; where nothing was chosen, the first candidate.
_WORST = f"""
WITH scored AS (
    SELECT q.value, q.question_id, m.run_id, m.method, {_GOODNESS.format(value="q.value")} AS goodness
    FROM scores AS q JOIN summaries AS s ON s.fingerprint = q.fingerprint AND s.metric = q.metric
        JOIN methods AS m ON m.fingerprint = q.fingerprint AND m.table_name = 'scores'
    WHERE q.metric = of_metric AND {_DIRECTED} AND {_named("m.run_id")} AND (of_method = '' OR m.method = of_method)
    ORDER BY goodness, m.run_id, m.method, q.question_id LIMIT n
), answered AS (
    SELECT m.run_id, m.method, a.question_id, a.text, a.error
    FROM answers AS a JOIN methods AS m ON m.fingerprint = a.fingerprint AND m.table_name = 'answers'
    WHERE a.rank = 1 AND a.question_id IN (SELECT scored.question_id FROM scored)
), generated AS (
    SELECT m.run_id, m.method, c.question_id, c.text, c.error
    FROM candidates AS c JOIN methods AS m ON m.fingerprint = c.fingerprint AND m.table_name = 'candidates'
    WHERE c.candidate = 0 AND c.question_id IN (SELECT scored.question_id FROM scored)
), wanted AS (
    SELECT q.question_id, any_value(q.text) AS text, any_value(q.answers) AS gold
    FROM asked AS q WHERE q.question_id IN (SELECT scored.question_id FROM scored) GROUP BY q.question_id
)
SELECT scored.value, wanted.text AS question, wanted.gold, coalesce(answered.text, generated.text) AS answer,
    coalesce(answered.error, generated.error) AS error, scored.method, scored.run_id, scored.question_id
FROM scored LEFT JOIN wanted USING (question_id) LEFT JOIN answered USING (run_id, method, question_id)
    LEFT JOIN generated USING (run_id, method, question_id)
ORDER BY scored.goodness, scored.run_id, scored.method, scored.question_id
"""


def _step(number: int, table: str, place: str, text: str, figure: str, detail: str) -> str:
    return f"""
SELECT w.question_id, w.question, m.run_id, m.method, {number} AS step, '{table}' AS stage, ({place})::INTEGER AS place,
    {text} AS text, ({figure})::DOUBLE AS figure, {detail} AS detail
FROM {table} AS t JOIN chosen AS m ON m.fingerprint = t.fingerprint AND m.table_name = '{table}'
    JOIN wanted AS w ON w.question_id = t.question_id"""


_STEPS = (
    _step(0, "asked", "NULL", "t.text", "len(t.gold_passages)", "'gold: ' || array_to_string(t.answers, ' | ')"),
    _step(1, "hits", "t.rank", "t.text", "t.score", "t.unit || ' of ' || t.title"),
    _step(2, "evidence", "t.rank", "t.text", "t.tokens", "len(t.origin) || ' spans'"),
    _step(3, "candidates", "t.candidate", "t.text", "t.prompt_tokens + t.completion_tokens", "t.error"),
    _step(4, "critiques", "t.candidate", "NULL", "t.geometric_mean",
          "'ISREL ' || t.isrel || ', ISSUP ' || t.issup || ', ISUSE ' || t.isuse"),
    _step(5, "answers", "t.rank", "t.text", "t.score", "t.strategy || ', candidate ' || t.candidate"),
    _step(6, "scores", "NULL", "t.metric", "t.value", "NULL"),
)  # fmt: skip

_STORY = f"""
WITH wanted AS (
    SELECT DISTINCT q.question_id, q.text AS question FROM asked AS q
    WHERE q.question_id::VARCHAR = which::VARCHAR OR contains(lower(q.text), lower(which::VARCHAR))
), chosen AS (
    SELECT m.run_id, m.method, m.table_name, m.fingerprint FROM methods AS m
    WHERE {_named("m.run_id")} AND (of_method = '' OR m.method = of_method)
)
{" UNION ALL ".join(_STEPS)}
ORDER BY question_id, run_id, method, step, place, text
"""

_SPENDING = f"""
SELECT c.started::DATE AS day, c.run_id, c.stage, c.model, c.node, sum(c.rows)::BIGINT AS rows,
    sum(c.tokens)::BIGINT AS tokens, sum(c.wall_seconds) AS wall_seconds, sum(c.cpu_seconds) AS cpu_seconds,
    sum(c.gpu_seconds) AS gpu_seconds, sum(c.gpu_joules) AS gpu_joules, sum(c.usd) AS usd
FROM costs AS c WHERE {_named("c.run_id")}
GROUP BY ALL ORDER BY day, c.run_id, usd DESC, c.stage, c.model, c.node
"""

_QUOTED = f"""
SELECT l.stage, {
    ", ".join(
        f"l.quoted_{name}, l.{name}, l.{name} / nullif(l.quoted_{name}, 0) AS {name}_ratio"
        for name in ("tokens", "wall_seconds", "cpu_seconds", "disk_bytes", "usd")
    )
}, l.fingerprint
FROM ledger AS l WHERE l.fingerprint IN (SELECT c.fingerprint FROM costs AS c WHERE {_named("c.run_id")})
ORDER BY (SELECT min(c.started) FROM costs AS c WHERE c.fingerprint = l.fingerprint)
"""


def _nearest(given: str, condition: str) -> str:
    # Vectors of another width are of another encoder. Lists take any width, and are as fast as arrays.
    return f"""
WITH given AS ({given}), neighbour AS (
    SELECT v.id, v.fingerprint,
        list_cosine_similarity(v.vector::FLOAT[], (SELECT given.vector FROM given)) AS similarity
    FROM vectors AS v
    WHERE v.kind = 'core' AND len(v.vector) = len((SELECT given.vector FROM given)) AND {condition}
    ORDER BY similarity DESC, v.id LIMIT n
), texts AS (
    SELECT s.sentence_id, any_value(s.text) AS text, any_value(s.passage_id) AS passage_id
    FROM sentences AS s WHERE s.sentence_id IN (SELECT neighbour.id FROM neighbour) GROUP BY s.sentence_id
)
SELECT neighbour.similarity, texts.text, neighbour.id AS sentence_id, texts.passage_id, neighbour.fingerprint
FROM neighbour LEFT JOIN texts ON texts.sentence_id = neighbour.id ORDER BY neighbour.similarity DESC, neighbour.id
"""


# A sentence or passage is compared with the vectors of its own artifact, a question with all of its width.
_OF_TEXT = """
    SELECT g.vector::FLOAT[] AS vector, g.fingerprint FROM (
        SELECT a.vector::FLOAT[] AS vector, a.fingerprint FROM vectors AS a WHERE a.id = text_id AND a.kind <> 'context'
        UNION ALL SELECT b.vector::FLOAT[], NULL FROM question_vectors AS b WHERE b.question_id = text_id
    ) AS g ORDER BY g.fingerprint LIMIT 1
"""

_SLOW = """
SELECT r.seconds, r.steps, r.seconds - list_sum(map_values(r.steps)) AS other_seconds, r.received, r.path,
    r.configuration, r.status, r.prompt_tokens, r.completion_tokens, r.question, r.request_id
FROM requests AS r WHERE model = '' OR r.configuration = model ORDER BY r.seconds DESC, r.request_id LIMIT n
"""

_UNANSWERED = """
SELECT r.received, r.configuration, r.path, r.status, r.error, r.question, r.request_id
FROM requests AS r WHERE r.error <> '' AND (model = '' OR r.configuration = model)
ORDER BY r.received DESC, r.request_id LIMIT n
"""

_TRAFFIC = """
SELECT date_trunc(every, r.received) AS time, r.configuration, r.path, count(*) AS requests,
    count_if(r.error <> '') AS unanswered, quantile_cont(r.seconds, 0.5) AS p50_seconds,
    quantile_cont(r.seconds, 0.99) AS p99_seconds, sum(r.prompt_tokens)::BIGINT AS prompt_tokens,
    sum(r.completion_tokens)::BIGINT AS completion_tokens, sum(r.tokens_saved)::BIGINT AS tokens_saved,
    sum(r.usd) AS usd
FROM requests AS r WHERE model = '' OR r.configuration = model
GROUP BY ALL ORDER BY time, r.configuration, r.path
"""

MACROS = (
    Macro(
        "best", "run := '', n := 1",
        "the best method by every metric, over all runs or one, in the direction that the metric declares; summaries "
        "of an older version declare none and are left out; compare `questions`, because runs may have asked different "
        "ones",
        "SELECT metric, value, method, run_id FROM best()", _BEST,
    ),
    Macro(
        "worst", "run := '', of_method := '', of_metric := 'f1', n := 10",
        "the questions with the worst values of a metric, with gold answers and the given answer; scores of an older "
        "version, which declares no direction, are left out",
        "SELECT value, question, gold, answer, method FROM worst(of_metric := 'accuracy', n := 5)", _WORST,
    ),
    Macro(
        "story", "which, run := '', of_method := ''",
        "everything about a question, given by its id or a part of its text: hits, evidence, candidates, critiques, "
        "answers and scores, in order; `figure` is a hit's score, a context's number of words, a candidate's number of "
        "tokens, a critique's geometric mean, an answer's score or a metric's value",
        "SELECT method, stage, place, text, figure FROM story((SELECT min(question_id) FROM asked))", _STORY,
    ),
    Macro(
        "spending", "run := ''",
        "tokens, CPU and GPU seconds and USD by day (UTC), run, stage, model and node",
        "SELECT day, stage, model, sum(tokens), sum(usd) FROM spending() GROUP BY ALL ORDER BY ALL", _SPENDING,
    ),
    Macro(
        "quoted", "run := ''",
        "quoted and actual cost, one row per artifact; a ratio is actual divided by quoted",
        "SELECT stage, quoted_usd, usd, usd_ratio FROM quoted()", _QUOTED,
    ),
    Macro(
        "slow_requests", "model := '', n := 20",
        "the requests to `vitalfew serve` that took longest, with the seconds of every step; the others are those of "
        "the line, of the batch's other questions and of the network",
        "SELECT seconds, steps, path, status FROM slow_requests(n := 5)", _SLOW,
    ),
    Macro(
        "unanswered", "model := '', n := 50",
        "the last requests to `vitalfew serve` that got no answer, and why; the question only with --keep-questions",
        "SELECT received, status, error FROM unanswered(n := 5)", _UNANSWERED,
    ),
    Macro(
        "traffic", "every := 'hour', model := ''",
        "the requests to `vitalfew serve` by time (UTC; every minute, hour or day), configuration and path: how many, "
        "seconds, tokens, tokens saved, USD",
        "SELECT time, configuration, requests, p99_seconds FROM traffic(every := 'day')", _TRAFFIC,
    ),
    Macro(
        "nearest", "text_id, n := 10",
        "the sentences whose core vectors are nearest (cosine) to a sentence, passage or question, given by its id",
        "SELECT similarity, text FROM nearest((SELECT min(sentence_id) FROM sentences), n := 5)",
        _nearest(
            _OF_TEXT,
            "v.id <> text_id AND v.fingerprint = coalesce((SELECT given.fingerprint FROM given), v.fingerprint)",
        ),
    ),
    Macro(
        "nearest_to", "vec, n := 10",
        "like `nearest`, for a vector given as a list of numbers",
        "SELECT similarity, text FROM nearest_to((SELECT vector FROM question_vectors LIMIT 1), n := 5)",
        _nearest("SELECT vec::FLOAT[] AS vector", "true"),
    ),
)  # fmt: skip
