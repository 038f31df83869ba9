"""The stage `collect`: every question becomes an example or a reject, and what is learnt from is curated."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.support.indexing import index, sql
from tests.support.stages import staged
from tests.support.towns import towns
from vitalfew.configs.evaluation import GenerateConfig, Questions
from vitalfew.configs.schema import RetrieveConfig
from vitalfew.configs.training import CollectConfig
from vitalfew.storage import schemas
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.runs import find_index
from vitalfew.tasks.ask import Ask
from vitalfew.tasks.collect import Collect
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.generators.base import Generator, Prompt
from vitalfew.tasks.models.causal.engines.base import Completion
from vitalfew.tasks.models.small.copied import CopiedRun, rendered
from vitalfew.tasks.models.ticks import no_tick
from vitalfew.tasks.retrieve import Retrieve


@pytest.fixture(scope="module")
def retrieved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Artifact, Artifact, Artifact]:
    """Questions, their hits by keywords, and the passages that were searched."""
    store = tmp_path_factory.mktemp("store")
    towns(store / "towns.json")
    index(store, f"squad:{store / 'towns.json'}", bm25={"enabled": True})
    named = find_index(store, "test")
    passages = named.located(store)["passages"]
    ask = Ask(store, passages, Questions(batch=5))
    ask.run("test")
    config = RetrieveConfig(retriever="bm25", top_k=4, unit="passage")
    retrieve = staged(Retrieve, store, ask.artifact, None, named, config)
    retrieve.run("test")
    return ask.artifact, retrieve.artifact, passages


def collect(retrieved: tuple[Artifact, Artifact, Artifact], **settings: object) -> Collect:
    given = {"held_out": 1, "choosing": 1, **settings}
    stage = staged(Collect, retrieved[0].store, *retrieved, CollectConfig.model_validate(given))
    stage.run("test")
    return stage


COUNTS = """
SELECT (SELECT count(*) FROM asked), (SELECT count(*) FROM oreo_examples WHERE fingerprint = '{0}'),
       (SELECT count(*) FROM rejects WHERE fingerprint = '{0}')
"""


def examples(stage: Collect) -> list[dict[str, Any]]:
    """The examples, which with the rejects are all questions."""
    rows = [row for shard in stage.shards() for row in stage.artifact.read(shard).to_pylist()]
    asked, kept, rejects = sql(stage.store, COUNTS.format(stage.artifact.fingerprint))[0]
    assert asked - rejects == kept == len(rows) > 0
    return rows


def test_the_oracle_keeps_the_clause_with_the_answer(retrieved: tuple[Artifact, Artifact, Artifact]) -> None:
    stage = collect(retrieved)
    assert stage.artifact.read(0).schema.equals(schemas.OREO_EXAMPLES)
    rows = examples(stage)
    for row in rows:
        shown = [f"{chunk['title']}: {chunk['text']}" for chunk in row["chunks"]]
        assert row["target"] == rendered(shown, [CopiedRun(**run) for run in row["copied"]])
        assert row["answers"][0] in row["target"]
        assert len(row["target"]) < len(shown[0])
    assert len(rows) > 6


def test_articles_are_held_out(retrieved: tuple[Artifact, Artifact, Artifact]) -> None:
    stage = collect(retrieved)
    rows = examples(stage)
    assert {row["split"] for row in rows} == {"learn", "choose", "held_out"}
    split = json.loads(stage.prepared()[0].read_text())
    learnt = {chunk["title"] for row in rows if row["split"] == "learn" for chunk in row["chunks"]}
    assert learnt.isdisjoint([*split["held_out"], *split["choose"]])
    assert len({*split["held_out"], *split["choose"]}) == 2


class Hesitant(Generator):
    """Says that it does not know, until it is told the answer; of Orrel it makes something up."""

    Options = GenerateConfig
    version = "1"
    uses_gpu = False
    workers = None

    def __init__(self, options: GenerateConfig) -> None: ...

    def identity(self) -> dict[str, str]:
        return {"class": "Hesitant"}

    def generate(self, prompts: Sequence[Prompt], tick: object = no_tick) -> list[Completion]:
        return [Completion(self.reply(prompt.text), 7, 3, 0.5) for prompt in prompts]

    def reply(self, text: str) -> str:
        _, told, rest = text.partition("Right answer: ")
        if not told:
            return "[UNKNOWN]"
        answer = rest.splitlines()[0]
        if "Orrel?" in text:
            return f"King Zorban says {answer}."
        return f"It was built in {answer}." if "When" in text else "Nobody can say."


def test_a_language_model_is_told_the_answer_where_it_does_not_know(
    retrieved: tuple[Artifact, Artifact, Artifact],
) -> None:
    generator = {"generator": "tests.tasks.test_collect:Hesitant"}
    stage = collect(retrieved, collector="llm", generator=generator, rounds=2)
    rows = examples(stage)
    assert {row["attempt"] for row in rows} == {1}
    assert all(row["target"].startswith("It was built in") for row in rows)
    contexts = [row for shard in stage.shards() for row in stage.artifact.read(shard, "gold_contexts").to_pylist()]
    plain = [row for row in contexts if row["attempt"] == 0]
    assert {row["verdict"] for row in plain} == {"unknown"}
    assert max(row["attempt"] for row in contexts) == 2
    reasons = {row["reason"] for shard in stage.shards() for row in stage.artifact.read(shard, "rejects").to_pylist()}
    assert {"ungrounded", "answer_not_in_output"} <= reasons


def test_nothing_left_and_too_few_articles_are_errors(retrieved: tuple[Artifact, Artifact, Artifact]) -> None:
    with pytest.raises(InputError, match="none of 12 questions became an example: 12 over_long"):
        collect(retrieved, question_tokens=2)
    with pytest.raises(InputError, match=r"collect\.held_out=1"):
        collect(retrieved, held_out=30)
