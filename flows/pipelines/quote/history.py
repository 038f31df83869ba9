"""What the finished runs of a store say of a run to come: how long answers are, how many tokens a prompt has, how fast
a model is. No request is sent for a quote: what a server's model would come to is told by what it came to before."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from vitalfew.configs.loading import ConfigError
from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact, fingerprint, whole_bases
from vitalfew.storage.manifests import File, Manifest
from vitalfew.tasks.generate import Generate
from vitalfew.tasks.generators import prompts
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.causal.engines.remote import Remote

ENOUGH = 8
"""Answers whose mean length is better than that of a trial."""
PROMPTS = 64
"""Prompts of an earlier run that are rendered again, to learn how many tokens a character has."""
CHARACTERS = 4.0
"""Characters of a token of English, assumed where a model was never asked."""


@dataclass(frozen=True)
class Speed:
    """Seconds of a model for a token."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Known:
    """Of earlier answers: tokens of a prompt's character (None: not known), tokens of an answer, and how many."""

    per_character: float | None
    answer: float
    answers: int


def speeds(store: Path) -> dict[tuple[str, str | None], Speed]:
    """By stage and model, from the ledgers of all artifacts; stages without tokens have none."""
    if not (ledgers := [*_ledgers(store)]):
        return {}
    with duckdb.connect() as connection:
        connection.register("paid", pa.concat_tables(ledgers, promote_options="default"))
        rows = connection.sql(
            "SELECT stage, model, sum(wall_seconds) / sum(tokens), sum(cpu_seconds) / sum(tokens) FROM paid "
            "WHERE shard >= 0 AND tokens > 0 GROUP BY ALL"
        ).fetchall()
    return {(stage, model): Speed(wall, cpu) for stage, model, wall, cpu in rows}


def _ledgers(store: Path) -> Iterator[pa.Table]:
    """Those of all artifacts; not by DuckDB, which does not see a flipped bit."""
    for path in files.find(store, "costs/*/*.parquet"):
        with suppress(FileNotFoundError, files.Damaged):
            yield files.read_table(path)


def answer_length(stage: Generate, like: Manifest, folder: Path) -> tuple[float, int] | None:
    """Mean tokens of the answers that this generator gave, and their number; None where there are too few.

    Those to prompts with the same template and the same kind of contexts count alone, if there are enough of them.
    `like`: the stage as it was tried, in the store `folder`.
    """
    earlier = stage.earlier()
    own = _kind(folder, like)
    alike = [manifest for manifest in earlier if _kind(stage.store, manifest) == own]
    return _length(stage.store, stage.answers_in(alike)) or _length(stage.store, stage.answers_in(earlier))


def _kind(store: Path, manifest: Manifest) -> tuple[Any, ...]:
    """What the prompts of an artifact are made of: settings of the prompt, of its contexts and of their retrieval."""
    settings: list[Any] = [manifest.method["prompt"], manifest.config["per_context"]]
    for role in ("evidence", "hits"):
        name = manifest.inputs.get(role)
        made = name and Artifact(store, *name.split("/")).recorded_manifest()
        if not made:
            break
        manifest = made
        settings.append(fingerprint(**manifest.config))
    return tuple(settings)


def _length(store: Path, answers: Sequence[File]) -> tuple[float, int] | None:
    if not (paths := [*whole_bases(store, answers)]):
        return None
    with duckdb.connect() as connection:
        rows = connection.from_parquet([str(files.local(path)) for path in paths]).filter("error = ''")
        mean, count = rows.aggregate("avg(completion_tokens), count(*)").fetchall()[0]
    return (mean, count) if count >= ENOUGH else None


class Assumption:
    """What a server's model is assumed to answer, by its earlier answers in a store, else by the longest answer that it
    may give. `said`: by model, the basis in words."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.said: dict[str, str] = {}
        self.asked = 0
        """Requests that were not sent."""
        self._known: dict[str, Known | None] = {}

    def __call__(self, engine: Remote, prompt: str) -> Completion:
        self.asked += 1
        known, most = self._of(engine), engine.options.max_tokens
        read = len(prompt) * known.per_character if known and known.per_character else len(prompt) / CHARACTERS
        written = max(1, round(min(most, known.answer if known else most)))
        return Completion(" ".join(["word"] * written), round(read), written, 0.0)

    def _of(self, engine: Remote) -> Known | None:
        key = fingerprint(engine=engine.identity())
        if key not in self._known:
            known = self._known[key] = _known(self.store, key)
            name, most = engine.options.model or type(engine).__name__, engine.options.max_tokens
            read = f"{CHARACTERS:g} characters per token (assumed)"
            if known and known.per_character:
                read = f"{1 / known.per_character:.2f} characters per token (as in earlier prompts)"
            written = f"max_tokens={most:,} for every answer (the maximum cost)"
            if known:
                written = f"{known.answer:,.1f} tokens per answer (mean of {known.answers:,} earlier ones)"
            self.said[name] = f"nothing was sent to {name}; estimate: {read}, {written}"
        return self._known[key]


def _known(store: Path, engine: str) -> Known | None:
    """What the answers of an engine (its identity's fingerprint) came to."""
    manifests = [
        manifest
        for folder in files.folders(store / Generate.table)
        if (manifest := Artifact(store, Generate.table, folder.name).recorded_manifest())
        and fingerprint(engine=manifest.method["generator"]) == engine
    ]
    answers = [file for manifest in manifests for file in manifest.files() if file.table == Generate.table]
    length = _length(store, answers)
    if length is None:
        return None
    asked = [pair for manifest in manifests for pair in islice(_prompts(store, manifest), PROMPTS)]
    characters = sum(size for size, _ in asked)
    return Known(sum(tokens for _, tokens in asked) / characters if characters else None, *length)


def _prompts(store: Path, manifest: Manifest) -> Iterator[tuple[int, int]]:
    """Characters and tokens of answered prompts, rendered again; none where what they were made of is gone or damaged,
    or this version does not render the template."""
    inputs = {role: Artifact(store, *name.split("/")) for role, name in manifest.inputs.items()}
    shard = manifest.shards[0].shard
    try:
        asked = inputs["asked"].read(shard, columns=["question_id", "text"]).to_pylist()
        rows = inputs["evidence"].read(shard).to_pylist() if "evidence" in inputs else []
        candidates = Artifact(store, *manifest.artifact.split("/")).read(shard).to_pylist()
    except (FileNotFoundError, files.Damaged):
        return
    questions = {row["question_id"]: row["text"] for row in asked}
    contexts = {(row["question_id"], row["rank"]): row["text"] for row in rows}
    template = manifest.method["prompt"]
    bare = manifest.method.get("prompt_without_contexts", template)
    with suppress(ConfigError):
        for row in candidates:
            if not row["error"]:
                given = tuple(contexts[row["question_id"], rank] for rank in row["contexts"])
                text = prompts.render(template if given else bare, questions[row["question_id"]], given)
                yield len(text), row["prompt_tokens"]
