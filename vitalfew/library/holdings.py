"""The contents of a store, as frames: its indexes, how they were judged, what they left out and cost; and corpora."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import polars as pl

INDEXES = """
SELECT i."index" AS name, passages, sentences, encoder, context, type, g.generation, made_at, bytes,
  latest.generation AS latest, latest.verdict, i.datasets
FROM indexes i
LEFT JOIN (FROM generations WHERE current) g ON g.name = i."index"
LEFT JOIN (SELECT name, max(generation) AS generation, arg_max(verdict, generation) AS verdict FROM generations
  GROUP BY name) latest ON latest.name = i."index"
WHERE i.current ORDER BY i."index"
"""


GATES = "SELECT * EXCLUDE (name) FROM gates WHERE name = {index} ORDER BY generation, method, metric"
REASONS = """
SELECT reason, stage, count(*) AS rows, arg_min(detail, "offset") AS example
FROM rejects WHERE "index" = {index} GROUP BY ALL ORDER BY rows DESC, reason
"""
REJECTS = """
SELECT stage, source, "offset", reason, detail FROM rejects
WHERE "index" = {index} AND reason = coalesce({reason}, reason)
ORDER BY source, "offset", stage LIMIT {limit} OFFSET {offset}
"""
COSTS = """
SELECT stage, model, count(*) AS shards, sum(rows)::BIGINT AS rows, sum(tokens)::BIGINT AS tokens,
  sum(wall_seconds) AS wall_seconds, sum(cpu_seconds) AS cpu_seconds, sum(gpu_seconds) AS gpu_seconds, sum(usd) AS usd
FROM costs WHERE fingerprint IN (
  SELECT split_part(unnest(fingerprints), '/', 2) FROM indexes WHERE "index" = {index} AND current)
GROUP BY ALL ORDER BY min(started)
"""


def corpora(store: Path, own: Path | None) -> "pl.DataFrame":
    """See `Store.corpora`."""
    import polars as pl

    from vitalfew.flows.pipelines import named

    files = named.corpora(store, own)
    read, bad = named.read_corpora(store, own)
    names = ("name", "datasets", "cron", "timezone", "gate", "margins", "questions", "experiment", "approve")
    shape: dict[str, Any] = dict.fromkeys((*names, "file", "error"), pl.String)
    shape |= {"datasets": pl.List(pl.String), "gate": pl.Boolean}
    rows: list[dict[str, Any]] = []
    for name, file in files.items():
        row: dict[str, Any] = {"name": name, "file": str(file), "error": bad.get(name, "")}
        if corpus := read.get(name):
            row |= {"datasets": [*corpus.datasets], "cron": corpus.cron, "timezone": corpus.timezone}
            row["gate"] = corpus.gate is not None
            if gate := corpus.gate:
                row |= {"questions": gate.questions, "experiment": gate.experiment, "approve": gate.approve}
                row["margins"] = ", ".join(f"{metric}: {margin:g}" for metric, margin in gate.margins.items())
        rows.append(row)
    return pl.DataFrame(rows, schema=shape).sort("name")
