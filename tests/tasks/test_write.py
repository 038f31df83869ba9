"""The stage `write`: which passages are drawn, and what it leaves in the tables."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.indexing import index
from tests.support.stages import staged
from vitalfew.configs.writing import WriteConfig
from vitalfew.storage.artifacts import Artifact
from vitalfew.storage.runs import find_index
from vitalfew.tasks.models.ticks import no_tick
from vitalfew.tasks.write import Write
from vitalfew.tasks.writers.base import GivenPassage, Refusal, Writer, WrittenQuestion

DOCUMENTS = {"long.md": 40, **{f"short{number}.md": 2 for number in range(9)}}


class TellsAll(Writer):
    """A writer that asks of every passage; those with an even number are refused."""

    def write(self, passages: Sequence[GivenPassage], tick: Any = no_tick) -> list[WrittenQuestion | Refusal]:
        tick(len(passages), 5 * len(passages))
        return [self._written(passage.text) for passage in passages]

    def _written(self, text: str) -> WrittenQuestion | Refusal:
        name, number = text.split()[1], int(text.split()[-1].rstrip("."))
        return (
            WrittenQuestion(f"What about {name}{number}?", name, text, "what") if number % 2 else Refusal("no_question")
        )


class TellsOfTwo(TellsAll):
    """Asks of a passage and its partner what they have in common; without one, what has no answer."""

    needs_partners = True

    def write(self, passages: Sequence[GivenPassage], tick: Any = no_tick) -> list[WrittenQuestion | Refusal]:
        return [self._of_two(passage) for passage in passages]

    def _of_two(self, passage: GivenPassage) -> WrittenQuestion:
        if not (partner := passage.partner):
            return WrittenQuestion(f"Is {passage.text.split()[0]} so?", "", "", "unanswerable")
        quotes = {each.passage_id: each.text for each in (passage, partner)}
        assert all(partner.shared in quote for quote in quotes.values())
        return WrittenQuestion(f"What of {passage.text}?", partner.shared, passage.text, "two hops", quotes)


@pytest.fixture(scope="module")
def passages(tmp_path_factory: pytest.TempPathFactory) -> Artifact:
    """A corpus of a long document and short ones."""
    folder = tmp_path_factory.mktemp("corpus")
    rows = [
        {"id": f"{name}#part{number}", "text": f"Passage {name} has the number {number}."}
        for name, size in DOCUMENTS.items()
        for number in range(size)
    ]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    index(folder / "store", f"jsonl:{folder}/rows.jsonl", encode={"units": ["passage"]})
    return find_index(folder / "store", "test").located(folder / "store")["passages"]


def stage(passages: Artifact, writer: str = "TellsAll", **settings: Any) -> Write:
    made = staged(Write, passages.store, passages, WriteConfig(writer=f"{__name__}:{writer}", **settings))
    made.run("test")
    return made


def rows(stage: Write, table: str = "written_questions") -> list[dict[str, Any]]:
    return stage.artifact.read(0, table).to_pylist()


def test_every_passage_that_was_tried_is_a_question_or_a_reject(passages: Artifact) -> None:
    found = stage(passages, n=20, batch=6, spare=2)
    manifest = found.artifact.completed()
    refused, known = rows(found, "rejects"), passages.completed().read(passages.store, "passages", ["passage_id"])
    assert manifest.rows_in == len(rows(found)) + len(refused) == manifest.rows["drafts"]
    assert {(row["stage"], row["reason"]) for row in refused} == {("write", "no_question")}
    assert {row["offset"] for row in refused} <= {*known["passage_id"].to_pylist()}
    assert {row["passage_id"] for row in rows(found)}.isdisjoint(row["offset"] for row in refused)
    assert sum(record.cost.tokens for record in manifest.shards) == 5 * manifest.rows_in


def test_partners_have_a_rare_name_in_common_and_are_of_one_half(tmp_path: Path) -> None:
    towns = ("Orvik", "Velmar", "Hale", "Tarn")
    texts = {f"{at}{town}.md": f"{at} has a mill, as {town} knows." for town in towns for at in ("A", "B", "C", "D")}
    lines = [json.dumps({"id": name, "text": text}) for name, text in {**texts, "alone.md": "Nothing is here."}.items()]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    index(tmp_path / "store", f"jsonl:{tmp_path}/rows.jsonl", encode={"units": ["passage"]})
    found = stage(find_index(tmp_path / "store", "test").located(tmp_path / "store")["passages"], "TellsOfTwo", n=17)
    ids = {row["passage_id"]: row for row in rows(found)}
    pairs = [row for row in rows(found) if row["kind"] == "two hops"]
    assert len(pairs) >= 12
    for row in pairs:
        first, second = (ids[each] for each in row["gold_passages"])
        assert (first["passage_id"], first["half"]) == (row["passage_id"], second["half"])
        assert first != second
        quotes = [{"source": each["document"], "quote": texts[each["document"]]} for each in (first, second)]
        assert row["gold_places"] == quotes
        assert row["answers"] == [row["quote"].split()[-2]]
    (alone,) = (row for row in rows(found) if row["document"] == "alone.md")
    assert (alone["answers"], alone["gold_passages"], alone["gold_places"]) == ([], [], [])
