"""The answers that servers are assumed to give while a run is quoted: nothing is sent."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

import duckdb

from vitalfew.configs.loading import ConfigError
from vitalfew.storage import files
from vitalfew.storage.artifacts import Artifact, Manifest, fingerprint, whole_bases
from vitalfew.storage.costs import Quote, charge, read_ledger
from vitalfew.tasks.generate import Generate
from vitalfew.tasks.generators import prompts
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.causal.engines.remote import Remote
from vitalfew.tasks.stage import Stage

ENOUGH, PROMPTS = 8, 64
"""Earlier answers that make a mean length, and prompts of an earlier run that are rendered again, to count tokens."""
CHARACTERS = 4.0
"""Characters per token of English, assumed for a model that was never asked."""


class Assumption:
    """Assumes the answers of a server's model: as long as its earlier answers in a store were on average, else as long
    as they may be. `said`: by model, the basis in words; `asked`: the number of requests that were not sent."""

    def __init__(self, store: Path) -> None:
        self.store = store
        self.said: dict[str, str] = {}
        self.asked = 0
        self._known: dict[str, tuple[float, float]] = {}

    def __call__(self, engine: Remote, prompt: str) -> Completion:
        self.asked += 1
        key = fingerprint(engine=engine.identity())
        if key not in self._known:
            self._known[key] = self._of(engine, key)
        characters, answer = self._known[key]
        written = max(1, round(min(engine.options.max_tokens, answer)))
        return Completion(" ".join(["word"] * written), round(len(prompt) / characters), written, 0.0)

    def _of(self, engine: Remote, key: str) -> tuple[float, float]:
        """Characters per token of its prompts, and tokens of an answer."""
        manifests = [
            manifest
            for folder in files.folders(self.store / Generate.table)
            if (manifest := Artifact(self.store, Generate.table, folder.name).recorded_manifest())
            and fingerprint(engine=manifest.method["generator"]) == key
        ]
        lengths = _answers(self.store, manifests)
        most, characters = engine.options.max_tokens, CHARACTERS
        read, written = (
            f"{CHARACTERS:g} characters per token (assumed)",
            f"max_tokens={most:,} for every answer (the maximum cost)",
        )
        if lengths[1] >= ENOUGH:
            asked = [pair for manifest in manifests for pair in islice(_prompts(self.store, manifest), PROMPTS)]
            if tokens := sum(tokens for _, tokens in asked):
                characters = sum(size for size, _ in asked) / tokens
                read = f"{characters:.2f} characters per token (as in earlier prompts)"
            written = f"{lengths[0]:,.1f} tokens per answer (mean of {lengths[1]:,} earlier ones)"
        name = engine.options.model or type(engine).__name__
        self.said[name] = f"nothing was sent to {name}; estimate: {read}, {written}"
        return characters, lengths[0] if lengths[1] >= ENOUGH else most


def _answers(store: Path, manifests: list[Manifest]) -> tuple[float, int]:
    """The mean tokens of answers, and their number; damaged files do not count."""
    paths = whole_bases(store, [file for each in manifests for file in each.files() if file.table == Generate.table])
    if not (local := [str(files.local(path)) for path in paths]):
        return 0.0, 0
    with duckdb.connect() as connection:
        rows = connection.from_parquet(local).filter("error = ''")
        mean, count = rows.aggregate("avg(completion_tokens), count(*)").fetchall()[0]
    return mean or 0.0, count


def _prompts(store: Path, manifest: Manifest) -> Iterator[tuple[int, int]]:
    """Yield characters and tokens of answered prompts, rendered again; nothing if their inputs are gone or damaged, or
    if this version does not render the template."""
    inputs = {role: Artifact(store, *name.split("/")) for role, name in manifest.inputs.items()}
    shard, template = manifest.shards[0].shard, manifest.method["prompt"]
    bare = manifest.method.get("prompt_without_contexts", template)
    with suppress(FileNotFoundError, files.Damaged, ConfigError):
        asked = inputs["asked"].read(shard, columns=["question_id", "text"]).to_pylist()
        rows = inputs["evidence"].read(shard).to_pylist() if "evidence" in inputs else []
        questions = {row["question_id"]: row["text"] for row in asked}
        contexts = {(row["question_id"], row["rank"]): row["text"] for row in rows}
        for row in Artifact(store, *manifest.artifact.split("/")).read(shard).to_pylist():
            if not row["error"]:
                given = tuple(contexts[row["question_id"], rank] for rank in row["contexts"])
                text = prompts.render(template if given else bare, questions[row["question_id"]], given)
                yield len(text), row["prompt_tokens"]


def timed(store: Path, stage: Stage, quote: Quote) -> Quote | None:
    """A quote with the time that a server's model has taken per token in earlier runs; None if it was never asked."""
    rows = [row for path in files.find(store, "costs/*/*.parquet") for row in read_ledger(path)]
    own = [row for row in rows if (row["stage"], row["model"]) == (stage.name, stage.model_name) and row["shard"] >= 0]
    if not (tokens := sum(row["tokens"] for row in own)):
        return None
    wall, cpu = (quote.tokens / tokens * sum(row[name] for row in own) for name in ("wall_seconds", "cpu_seconds"))
    return replace(quote, wall_seconds=wall, cpu_seconds=cpu, usd=charge(cpu, 0, quote.tokens, stage.model_name))
