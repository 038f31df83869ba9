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


def _short(text: str) -> str:
    """SQL of the text on one line, with as many characters as the parameter `chars` says."""
    line = f"trim(regexp_replace({text}, '\\s+', ' ', 'g'))"
    return (
        f"CASE WHEN chars <= 0 THEN {text} WHEN length({line}) > chars THEN left({line}, chars) || '…' ELSE {line} END"
    )


def _known(what: str, names: str, *checks: str) -> str:
    """SQL of a table `known` with one row, or of an error that lists `names`. `checks`: a parameter, and whether it
    names something, in turn."""
    listed = f"coalesce('there are: ' || (SELECT string_agg(DISTINCT {names}), 'there are none yet')"
    cases = " ".join(
        f"WHEN NOT coalesce({there}, true) THEN error(concat('no {what} ''', {given}, '''; ', {listed}))"
        for given, there in zip(checks[::2], checks[1::2], strict=True)
    )
    return f"known AS (SELECT CASE {cases} ELSE true END AS fine)"


_KNOWN_INDEX = _known(
    "index", 'i."index", \', \' ORDER BY i."index") FROM indexes AS i WHERE i.current',
    "index", 'index = \'\' OR index IN (SELECT i."index" FROM indexes AS i WHERE i.current)',
)  # fmt: skip
_EVALUATIONS = "m.experiment, ', ' ORDER BY m.experiment) FROM methods AS m"


def _evaluated(run: str) -> str:
    return (
        f"{run} = '' OR EXISTS (SELECT 1 FROM methods AS m WHERE m.experiment = {run} OR starts_with(m.run_id, {run}))"
    )


def _answered(questions: str) -> str:
    """SQL of a table `answered`: of these questions the answer that was chosen first; where nothing was chosen, the
    first candidate."""
    return f"""told AS (
    SELECT m.run_id, m.method, a.question_id, a.text, a.error, 1 AS place
    FROM answers AS a JOIN methods AS m ON m.fingerprint = a.fingerprint AND m.table_name = 'answers'
    WHERE a.rank = 1 AND a.question_id IN ({questions})
    UNION ALL SELECT m.run_id, m.method, c.question_id, c.text, c.error, 2
    FROM candidates AS c JOIN methods AS m ON m.fingerprint = c.fingerprint AND m.table_name = 'candidates'
    WHERE c.candidate = 0 AND c.question_id IN ({questions})
), answered AS (
    SELECT told.run_id, told.method, told.question_id, arg_min(told.text, told.place) AS text,
        arg_min(told.error, told.place) AS error
    FROM told GROUP BY ALL
)"""


def _latest(run: str) -> str:
    """SQL of the latest evaluation that a parameter names."""
    return f"""(
    SELECT r.run_id, r.config FROM runs AS r
    WHERE (starts_with(r.run_id, {run}) OR r.name = {run}) AND r.run_id IN (SELECT m.run_id FROM methods AS m)
    ORDER BY r.started DESC LIMIT 1
)"""


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

_WORST = f"""
WITH scored AS (
    SELECT q.value, q.question_id, m.run_id, m.method, {_GOODNESS.format(value="q.value")} AS goodness
    FROM scores AS q JOIN summaries AS s ON s.fingerprint = q.fingerprint AND s.metric = q.metric
        JOIN methods AS m ON m.fingerprint = q.fingerprint AND m.table_name = 'scores'
    WHERE q.metric = of_metric AND {_DIRECTED} AND {_named("m.run_id")} AND (of_method = '' OR m.method = of_method)
    ORDER BY goodness, m.run_id, m.method, q.question_id LIMIT n
), {_answered("SELECT scored.question_id FROM scored")}, wanted AS (
    SELECT q.question_id, any_value(q.text) AS text, any_value(q.answers) AS gold
    FROM asked AS q WHERE q.question_id IN (SELECT scored.question_id FROM scored) GROUP BY q.question_id
)
SELECT scored.value, wanted.text AS question, wanted.gold, answered.text AS answer, answered.error, scored.method,
    scored.run_id, scored.question_id
FROM scored LEFT JOIN wanted USING (question_id) LEFT JOIN answered USING (run_id, method, question_id)
ORDER BY scored.goodness, scored.run_id, scored.method, scored.question_id
"""


# Long contexts are shown from shortly before the place where they differ.
_SINCE = "CASE WHEN chars > 0 AND d.start > 1 THEN '…' || d.text_{0}[d.start:] ELSE d.text_{0} END"

_REGRESSED = f"""
WITH {_known("run", _EVALUATIONS, "run_a", _evaluated("run_a"), "run_b", _evaluated("run_b"))}, run AS (
    SELECT 'a' AS side, a.* FROM {_latest("run_a")} AS a UNION ALL SELECT 'b', b.* FROM {_latest("run_b")} AS b
), measured AS (
    SELECT coalesce(nullif(of_metric, ''), run.config ->> '$.primary', 'accuracy') AS metric FROM run WHERE side = 'b'
), scored AS (
    SELECT run.side, run.run_id, m.method, q.text AS question, q.answers AS gold, avg(t.value) AS value,
        any_value(s.direction) AS direction, min(t.question_id) AS question_id
    FROM run JOIN methods AS m ON m.run_id = run.run_id AND m.table_name = 'scores'
        JOIN scores AS t ON t.fingerprint = m.fingerprint AND t.metric = (SELECT measured.metric FROM measured)
        JOIN summaries AS s ON s.fingerprint = t.fingerprint AND s.metric = t.metric
        JOIN methods AS of_asked ON of_asked.run_id = m.run_id AND of_asked.method = m.method
            AND of_asked.table_name = 'asked'
        JOIN asked AS q ON q.fingerprint = of_asked.fingerprint AND q.question_id = t.question_id
    GROUP BY ALL
), worse AS (
    SELECT a.method, a.question, a.gold, a.value AS value_a, b.value AS value_b, a.run_id AS of_a, b.run_id AS of_b,
        a.question_id AS id_a, b.question_id AS id_b
    FROM scored AS a JOIN scored AS b ON a.method = b.method AND a.question = b.question AND a.gold = b.gold
    WHERE a.side = 'a' AND b.side = 'b'
        AND CASE b.direction WHEN 'higher' THEN b.value < a.value WHEN 'lower' THEN b.value > a.value END
), ids AS (SELECT worse.id_a AS id FROM worse UNION SELECT worse.id_b FROM worse
), {_answered("SELECT ids.id FROM ids")}, read AS (
    SELECT m.run_id, m.method, e.question_id, e.rank, e.text
    FROM evidence AS e JOIN methods AS m ON m.fingerprint = e.fingerprint AND m.table_name = 'evidence'
    WHERE e.question_id IN (SELECT ids.id FROM ids)
), context AS (
    SELECT w.method, w.question, w.gold, e.rank, e.text AS text_a, NULL AS text_b
    FROM worse AS w JOIN read AS e ON (e.run_id, e.method, e.question_id) = (w.of_a, w.method, w.id_a)
    UNION ALL SELECT w.method, w.question, w.gold, e.rank, NULL, e.text
    FROM worse AS w JOIN read AS e ON (e.run_id, e.method, e.question_id) = (w.of_b, w.method, w.id_b)
), differing AS (
    SELECT c.method, c.question, c.gold, c.rank, any_value(c.text_a) AS text_a, any_value(c.text_b) AS text_b
    FROM context AS c GROUP BY c.method, c.question, c.gold, c.rank
    HAVING any_value(c.text_a) IS DISTINCT FROM any_value(c.text_b)
    QUALIFY c.rank = min(c.rank) OVER (PARTITION BY c.method, c.question, c.gold)
), since AS (
    SELECT d.*, list_position(list_transform(
        list_zip(string_split(d.text_a, ''), string_split(d.text_b, '')), lambda pair: pair[1] = pair[2]
    ), false) - chars // 2 AS start
    FROM differing AS d
)
SELECT w.method, w.question, w.gold, w.value_a, w.value_b, {_short("a.text")} AS answer_a,
    {_short("b.text")} AS answer_b, {_short(_SINCE.format("a"))} AS context_a,
    {_short(_SINCE.format("b"))} AS context_b,
    w.id_b AS question_id
FROM worse AS w
    LEFT JOIN answered AS a ON (a.run_id, a.method, a.question_id) = (w.of_a, w.method, w.id_a)
    LEFT JOIN answered AS b ON (b.run_id, b.method, b.question_id) = (w.of_b, w.method, w.id_b)
    LEFT JOIN since AS d ON (d.method, d.question, d.gold) = (w.method, w.question, w.gold)
WHERE (SELECT known.fine FROM known)
ORDER BY w.method, abs(w.value_b - w.value_a) DESC, w.question
"""
# Questions are matched by their text and answers: their ids also depend on the ids of their gold passages, which change
# with these.

_CHANGED = f"""
WITH {_KNOWN_INDEX}, version AS (
    SELECT i."index" AS name, i.current, i.completed,
        list_filter(i.fingerprints, lambda name: starts_with(name, 'passages/'))[1][10:] AS passages
    FROM indexes AS i WHERE (index = '' OR i."index" = index)
), versions AS (
    SELECT i.name, any_value(i.passages) AS now, arg_max(p.passages, p.completed) AS before
    FROM version AS i JOIN version AS p ON p.name = i.name AND p.passages <> i.passages AND p.completed < i.completed
    WHERE i.current GROUP BY i.name
    HAVING arg_max(p.passages, p.completed) IN (SELECT a.fingerprint FROM artifacts AS a)
), after AS (SELECT v.name, p.* FROM versions AS v JOIN all_passages AS p ON p.fingerprint = v.now
), earlier AS (SELECT v.name, p.* FROM versions AS v JOIN all_passages AS p ON p.fingerprint = v.before
)
SELECT coalesce(a.name, e.name) AS "index",
    CASE WHEN e.passage_id IS NULL THEN 'added' WHEN a.passage_id IS NULL THEN 'removed'
        WHEN a.title <> e.title THEN 'retitled' ELSE 'moved' END AS change,
    coalesce(a.source_id, e.source_id) AS source_id,
    CASE WHEN a.title <> e.title THEN concat(e.title, ' → ', a.title)
        ELSE {_short("coalesce(a.text, e.text)")} END AS text
FROM after AS a FULL JOIN earlier AS e ON e.name = a.name AND e.passage_id = a.passage_id
WHERE (a.title, a.source, a.source_id) IS DISTINCT FROM (e.title, e.source, e.source_id)
    AND (SELECT known.fine FROM known)
ORDER BY 1, 3, 2 DESC, coalesce(a.passage_id, e.passage_id)
"""

_NEVER_RETRIEVED = f"""
WITH {_KNOWN_INDEX}, retrieved AS (
    SELECT DISTINCT m."index" AS name, h.passage_id
    FROM hits AS h JOIN methods AS m ON m.fingerprint = h.fingerprint AND m.table_name = 'hits'
)
SELECT p.source_id, {_short("p.text")} AS text, p.passage_id
FROM passages AS p ANTI JOIN retrieved AS r ON r.name = p."index" AND r.passage_id = p.passage_id
WHERE (index = '' OR p."index" = index) AND (SELECT known.fine FROM known)
ORDER BY p."index", p.source_id, p.passage_id
"""


def _step(number: int, table: str, label: str, text: str, detail: str, place: str) -> str:
    return f"""
SELECT w.question_id, m.run_id, m.method, {number} AS number, ({place})::INTEGER AS place, {label} AS step,
    {text} AS text, {detail} AS detail
FROM {table} AS t JOIN chosen AS m ON m.fingerprint = t.fingerprint AND m.table_name = '{table}'
    JOIN wanted AS w ON (w.question_id, w.of_run) = (t.question_id, m.run_id)"""


_FIGURE = "format('{{:.3g}}', {})"
_STEPS = (
    _step(1, "hits", "'hit ' || t.rank", _short("t.text"),
          f"t.title || ', score ' || {_FIGURE.format('t.score')}", "t.rank"),
    _step(2, "evidence", "'context ' || t.rank", _short("t.text"), "t.tokens || ' words'", "t.rank"),
    _step(3, "candidates", "'candidate ' || t.candidate", _short("t.text"),
          "CASE WHEN t.error <> '' THEN 'error: ' || t.error ELSE t.prompt_tokens || ' + ' || t.completion_tokens "
          f"|| ' tokens, ' || {_FIGURE.format('t.seconds')} || ' s' END", "t.candidate"),
    _step(4, "critiques", "'critique ' || t.candidate",
          f"concat('relevant ', {_FIGURE.format('t.isrel')}, ', supported ', {_FIGURE.format('t.issup')}, ', useful ', "
          f"{_FIGURE.format('t.isuse')})",
          f"coalesce('geometric mean ' || {_FIGURE.format('t.geometric_mean')}, 'error: ' || t.error)", "t.candidate"),
    _step(5, "answers", "'answer ' || t.rank", _short("t.text"),
          f"concat('candidate ', t.candidate, ' by ', t.strategy, ', score ' || {_FIGURE.format('t.score')})",
          "t.rank"),
)  # fmt: skip

# Metrics that a report shows only in detail are left out.
_STORY = f"""
WITH {_known("run", _EVALUATIONS, "run", _evaluated("run"))}, wanted AS (
    SELECT unnest(arg_max({{question_id: q.question_id, of_run: m.run_id}}, r.started))
    FROM asked AS q JOIN methods AS m ON m.fingerprint = q.fingerprint AND m.table_name = 'asked'
        JOIN runs AS r ON r.run_id = m.run_id
    WHERE {_named("m.run_id")}
        AND (q.question_id::VARCHAR = which::VARCHAR OR contains(lower(q.text), lower(which::VARCHAR)))
    GROUP BY q.text, q.answers
), chosen AS (SELECT m.* FROM methods AS m WHERE of_method = '' OR m.method = of_method
), told AS (
    SELECT DISTINCT t.question_id, m.run_id, '' AS method, 0 AS number, 0 AS place, 'question' AS step, t.text,
        {_short("'gold: ' || array_to_string(t.answers, ' | ')")} || ' (' || m.experiment || ', run ' || m.run_id || ')'
            AS detail
    FROM asked AS t JOIN chosen AS m ON m.fingerprint = t.fingerprint
        JOIN wanted AS w ON (w.question_id, w.of_run) = (t.question_id, m.run_id)
    UNION ALL {" UNION ALL ".join(_STEPS)}
    UNION ALL
    SELECT t.question_id, m.run_id, m.method, 6, 0, 'scores',
        string_agg(t.metric || ' ' || {_FIGURE.format("t.value")}, ', ' ORDER BY t.metric), ''
    FROM scores AS t JOIN chosen AS m ON m.fingerprint = t.fingerprint AND m.table_name = 'scores'
        JOIN wanted AS w ON (w.question_id, w.of_run) = (t.question_id, m.run_id)
        JOIN summaries AS s ON s.fingerprint = t.fingerprint AND s.metric = t.metric
    WHERE s.detail IS NOT TRUE GROUP BY t.question_id, m.run_id, m.method
)
SELECT told.method, told.step, told.text, told.detail FROM told WHERE (SELECT known.fine FROM known)
ORDER BY told.question_id, told.run_id, told.method, told.number, told.place
"""

_SPENDING = f"""
SELECT c.started::DATE AS day, c.run_id, c.stage, c.model, c.node, sum(c.rows)::BIGINT AS rows,
    sum(c.tokens)::BIGINT AS tokens, sum(c.wall_seconds) AS wall_seconds, sum(c.cpu_seconds) AS cpu_seconds,
    sum(c.gpu_seconds) AS gpu_seconds, sum(c.gpu_joules) AS gpu_joules, sum(c.usd) AS usd,
    sum(c.usd + coalesce(c.reused_usd, 0)) FILTER (c.finished IS DISTINCT FROM false) AS usd_nothing_known
FROM costs AS c WHERE {_named("c.run_id")}
GROUP BY ALL ORDER BY day, c.run_id, usd DESC, c.stage, c.model, c.node
"""

# The methods of the paying run share its work; of a run without methods, those of the last run that used the artifact.
_BY_METHOD = f"""
WITH used AS (SELECT DISTINCT m.run_id, m.fingerprint, m.method FROM methods AS m
), latest AS (SELECT used.fingerprint, max(used.run_id) AS run_id FROM used GROUP BY ALL
), paid AS (
    SELECT c.*, CASE WHEN (c.run_id, c.fingerprint) IN (SELECT (u.run_id, u.fingerprint) FROM used AS u) THEN c.run_id
        ELSE latest.run_id END AS using_run
    FROM costs AS c LEFT JOIN latest USING (fingerprint) WHERE {_named("c.run_id")}
), parts AS (
    SELECT used.run_id AS using_run, used.fingerprint, used.method, count(*) OVER (
        PARTITION BY used.run_id, used.fingerprint
    ) AS n FROM used
), shares AS (SELECT p.*, parts.method, coalesce(parts.n, 1) AS n FROM paid AS p
    LEFT JOIN parts USING (using_run, fingerprint)
)
SELECT s.started::DATE AS day, s.run_id,
    coalesce(s.method, CASE WHEN r.flow = 'index_corpus' THEN 'indexing (no method)' ELSE '(no method)' END) AS method,
    s.stage, s.model, s.n AS shared_by, sum(s.tokens / s.n) AS tokens, sum(s.wall_seconds / s.n) AS wall_seconds,
    sum(s.cpu_seconds / s.n) AS cpu_seconds, sum(s.gpu_seconds / s.n) AS gpu_seconds,
    sum(s.gpu_joules / s.n) AS gpu_joules, sum(s.usd / s.n) AS usd,
    sum((s.usd + coalesce(s.reused_usd, 0)) / s.n) FILTER (s.finished IS DISTINCT FROM false) AS usd_nothing_known
FROM shares AS s LEFT JOIN runs AS r ON r.run_id = s.run_id
GROUP BY ALL ORDER BY day, s.run_id, method, usd DESC, s.stage, s.model, shared_by
"""

_QUOTED = f"""
SELECT l.stage, {
    ", ".join(
        f"l.quoted_{name}, l.{name}, l.{name} / nullif(l.quoted_{name}, 0) AS {name}_ratio"
        for name in ("tokens", "wall_seconds", "cpu_seconds", "disk_bytes", "usd")
    )
}, l.fingerprint, (SELECT max(c.run_id) FROM costs AS c WHERE c.fingerprint = l.fingerprint) AS run_id
FROM ledger AS l WHERE l.fingerprint IN (SELECT c.fingerprint FROM costs AS c WHERE {_named("c.run_id")})
ORDER BY (SELECT min(c.started) FROM costs AS c WHERE c.fingerprint = l.fingerprint)
"""


def _nearest(given: str, condition: str) -> str:
    # What several indexes share is compared once. Vectors of another width are of another encoder. Lists take any
    # width, and are as fast as arrays.
    return f"""
WITH given AS ({given}), neighbour AS (
    SELECT v.id, v.fingerprint,
        list_cosine_similarity(v.vector::FLOAT[], (SELECT given.vector FROM given)) AS similarity
    FROM vectors AS v
    WHERE (v.fingerprint, v."index") IN (SELECT (a.fingerprint, a.indexes[1]) FROM artifacts AS a)
        AND v.kind = 'core' AND len(v.vector) = len((SELECT given.vector FROM given)) AND {condition}
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
        "the best method by each metric, over all runs or one. Compare `questions` too: runs may have asked "
        "different ones",
        "SELECT metric, value, method, run_id FROM best()", _BEST,
    ),
    Macro(
        "worst", "run := '', of_method := '', of_metric := 'f1', n := 10",
        "the questions with the worst values of a metric, with gold answers and the given answer",
        "SELECT value, question, gold, answer, method FROM worst(of_metric := 'accuracy', n := 5)", _WORST,
    ),
    Macro(
        "regressed", "run_a, run_b, of_metric := '', chars := 160",
        "the questions that a method answered worse in run_b than in run_a, with both answers and the first context "
        "that differs. Texts are cut after `chars` characters (0: never). A name means its last run. The metric is "
        "the one that decides run_b, or accuracy. Questions are matched by text and gold answers",
        "SELECT method, question, gold, answer_a, answer_b FROM regressed("
        "(SELECT arg_min(run_id, started) FROM runs WHERE flow = 'evaluate'), "
        "(SELECT arg_max(run_id, started) FROM runs WHERE flow = 'evaluate'))", _REGRESSED,
    ),
    Macro(
        "story", "which, run := '', of_method := '', chars := 200",
        "everything about a question, given by its id or a part of its text: hits, contexts, candidates, critiques, "
        "answers and scores, in order. By default from the last run that asked it. Texts are cut after `chars` "
        "characters (0: never)",
        "FROM story((SELECT min(question_id) FROM asked))", _STORY,
    ),
    Macro(
        "changed", "index := '', chars := 160",
        "the passages that the last re-encoding with a change added, removed, retitled or moved to another source or "
        "source_id. An edited passage counts as one removed and one added. No rows if the version before was removed "
        "from the store. `text` has both titles of a retitled passage, and is cut after `chars` characters (0: never)",
        "SELECT change, count(*) FROM changed() GROUP BY ALL ORDER BY ALL", _CHANGED,
    ),
    Macro(
        "never_retrieved", "index := '', chars := 160",
        "the passages of an index that no evaluation has ever retrieved, in any version of it. Texts are cut after "
        "`chars` characters (0: never)",
        "SELECT source_id, text FROM never_retrieved() LIMIT 5", _NEVER_RETRIEVED,
    ),
    Macro(
        "spending", "run := ''",
        "tokens, CPU and GPU seconds and USD by day (UTC), run, stage, model and node, as paid, with cancelled "
        "shards. `usd_nothing_known` is without cache: as if no answer, reading or vector had been reused",
        "SELECT day, stage, model, sum(tokens), sum(usd) FROM spending() GROUP BY ALL ORDER BY ALL", _SPENDING,
    ),
    Macro(
        "spending_by_method", "run := ''",
        "the rows of `spending`, by method too. Work that several methods of a run share is split equally among them "
        "(`shared_by`), so the sums are those of `spending`. Work of an index is `indexing (no method)`",
        "SELECT method, sum(tokens), sum(usd) FROM spending_by_method() GROUP BY ALL ORDER BY 3 DESC", _BY_METHOD,
    ),
    Macro(
        "quoted", "run := ''",
        "estimated (quoted_…) and actual cost, a row per artifact, with the last run that worked on it. A ratio is "
        "actual divided by estimated",
        "SELECT stage, quoted_usd, usd, usd_ratio FROM quoted()", _QUOTED,
    ),
    Macro(
        "slow_requests", "model := '', n := 20",
        "the requests to `vitalfew serve` that took longest, with the seconds of each step. `other_seconds` are "
        "waiting, the batch's other questions and the network",
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
        "the sentences of current indexes whose core vectors are nearest (cosine) to a sentence, passage or question, "
        "given by its id",
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
