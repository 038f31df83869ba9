"""generate: question and evidence → candidates. What was answered before is not asked again."""

from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from configs.evaluation import Generate as GenerateConfig
from configs.loading import ConfigError
from storage import schemas
from storage.artifacts import Artifact, fingerprint
from storage.ids import content_id
from storage.parquet import read_json, write_json
from tasks import prompts
from tasks.generators.base import Generation, Generator, Prompt
from tasks.registry import resolve
from tasks.stage import Progress, ShardResult, Stage

EXECUTION = {"adapter", "device", "batch_tokens", "base_url", "concurrency", "retries", "timeout"}
"""Settings that change no answer, or are in the generator's identity."""


class Generate(Stage):
    """Stage `generate` over `asked`, with the contexts of `evidence` where there is retrieval."""

    name: ClassVar[str] = "generate"
    table: ClassVar[str] = "candidates"

    def __init__(self, store: Path, asked: Artifact, evidence: Artifact | None, config: GenerateConfig) -> None:
        """Raises UnknownName, ConfigError, GeneratorUnavailable."""
        self.template = prompts.source(config.prompt or ("short_answer" if evidence else "no_context"))
        # A question that nothing was found for, or nothing passed on, is asked as if there were no retrieval.
        self.bare_template = prompts.source(config.prompt or "no_context")
        self.generator = _generator(config)
        super().__init__(store, {"asked": asked} | ({"evidence": evidence} if evidence else {}), config)
        self.num_gpus = 1.0 if self.generator.uses_gpu else 0.0
        self.workers = self.generator.workers

    config: GenerateConfig

    def __getstate__(self) -> dict[str, Any]:
        # A worker makes its own: a model does not travel.
        return {name: value for name, value in vars(self).items() if name != "generator"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.generator = _generator(self.config)

    def config_identity(self) -> dict[str, Any]:
        return self.config.model_dump(mode="json", exclude={*EXECUTION, "prompt"})

    def method_identity(self) -> dict[str, Any]:
        bare = {"prompt_without_contexts": self.bare_template} if self.bare_template != self.template else {}
        return {"generator": self.generator.identity(), "prompt": self.template, **bare}

    def shards(self) -> list[int]:
        return [record.shard for record in self.inputs["asked"].completed().shards]

    def total_rows(self) -> int:
        return self.inputs["asked"].completed().rows["asked"]

    @property
    def _bases(self) -> Path:
        return self.artifact.directory / "reuse.json"

    def is_prepared(self) -> bool:
        return super().is_prepared() and self._bases.exists()

    def prepare(self, progress: Progress) -> None:
        """Choose the artifacts whose answers are taken over, once: whoever goes on after a kill takes the same."""
        answering = self._answering(self.description())
        bases = []
        for directory in sorted(path for path in (self.store / self.table).glob("*") if path.is_dir()):
            other = Artifact(self.store, self.table, directory.name)
            manifest = other.recorded_manifest()
            if manifest and self._answering({"config": manifest.config, "method": manifest.method}) == answering:
                bases += [str(other.path(record.shard).relative_to(self.store)) for record in manifest.shards]
        write_json(self._bases, bases)

    def _answering(self, description: dict[str, Any]) -> str:
        """What an answer depends on besides the prompt."""
        config = {name: value for name, value in description["config"].items() if name not in {*EXECUTION, "prompt"}}
        return fingerprint(config=config, generator=description["method"]["generator"])

    def work(self, shard: int, progress: Progress) -> ShardResult:
        asked = pq.read_table(self.inputs["asked"].path(shard), columns=["question_id", "text"]).to_pylist()
        contexts = self._contexts(shard)
        given = [self._prompt(row["text"], contexts.get(row["question_id"], ())) for row in asked]
        answering = self._answering(self.description())
        ids = [content_id(answering, each.text, each.question, *each.contexts) for each in given]
        known = self._known(ids)
        new = [place for place, key in enumerate(ids) if key not in known and key not in ids[:place]]
        progress(len(asked) - len(new), 0)
        generated = self.generator.generate([given[place] for place in new], tick=progress)
        made = {ids[place]: generation for place, generation in zip(new, generated, strict=True)}
        rows = [
            {"question_id": row["question_id"], "candidate": 0, "prompt_id": key}
            | (_columns(made[key]) | {"reused": False} if key in made else known[key] | {"reused": True})
            for row, key in zip(asked, ids, strict=True)
        ]
        tokens = sum(each.prompt_tokens + each.completion_tokens for each in generated)
        notes = {"reused": len(asked) - len(new), "errors": sum(bool(row["error"]) for row in rows)}
        table = pa.Table.from_pylist(rows, schemas.CANDIDATES)
        return ShardResult(len(asked), {"candidates": table}, tokens=tokens, notes=notes)

    def _prompt(self, question: str, contexts: tuple[str, ...]) -> Prompt:
        template = self.template if contexts else self.bare_template
        return Prompt(prompts.render(template, question, contexts), question, contexts)

    def _contexts(self, shard: int) -> dict[int, tuple[str, ...]]:
        """By question, best first."""
        contexts: dict[int, tuple[str, ...]] = {}
        if "evidence" in self.inputs:
            rows = pq.read_table(self.inputs["evidence"].path(shard), columns=["question_id", "text"])
            for question, text in zip(rows["question_id"].to_pylist(), rows["text"].to_pylist(), strict=True):
                contexts[question] = (*contexts.get(question, ()), text)
        return contexts

    def _known(self, ids: list[int]) -> dict[int, dict[str, Any]]:
        """The answers that earlier runs got for these prompts; what failed is asked again."""
        paths = [path for each in read_json(self._bases) if (path := self.store / each).exists()]
        columns = ", ".join(field.name for field in schemas.CANDIDATES if field.name not in ("question_id", "reused"))
        if not paths:
            return {}
        with duckdb.connect() as connection:
            connection.register("due", pa.table({"prompt_id": pa.array(ids, pa.int64())}))
            connection.from_parquet([str(path) for path in paths]).create_view("answered")
            rows = connection.sql(
                f"SELECT DISTINCT ON (prompt_id) {columns} FROM answered "
                "SEMI JOIN due USING (prompt_id) WHERE error = ''"
            )
            return {row["prompt_id"]: row for row in rows.to_arrow_table().to_pylist()}


def _columns(generation: Generation) -> dict[str, Any]:
    names = ("text", "prompt_tokens", "completion_tokens", "logprob", "seconds", "finish_reason", "error")
    return {name: getattr(generation, name) for name in names}


def _generator(config: GenerateConfig) -> Generator:
    return _kept(config.model_dump_json())


@lru_cache(1)
def _kept(config: str) -> Generator:
    """The model of the latest configuration stays loaded in a worker, for every method that uses it."""
    parsed = GenerateConfig.model_validate_json(config)
    method = resolve("generator", parsed.generator)
    if parsed.adapter and not getattr(method, "takes_adapter", False):
        raise ConfigError(
            f"generate.adapter={parsed.adapter}: generator {parsed.generator!r} takes no adapter; transformers and "
            "vllm do"
        )
    generator: Generator = method(parsed)
    return generator
