"""The benchmarks start, and the rows that they invent fit the tables of today."""

import json
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from benchmarks import catalog, celery_docs, lookalikes, multi_hop
from vitalfew.storage import schemas

ROOT = Path(__file__).parents[1]
STARTED = sorted(
    path.stem for path in (ROOT / "benchmarks").glob("*.py") if "def main()" in path.read_text(encoding="utf-8")
)


@pytest.mark.parametrize("stage", catalog.STAGES)
def test_invented_rows_fit_their_table(stage: str) -> None:
    table, rows = catalog.STAGES[stage]
    made = rows(schemas.TABLES[table], np.arange(3))
    made.validate(full=True)
    assert made.schema == schemas.TABLES[table]
    assert made.num_rows


@pytest.mark.parametrize("table", schemas.TABLES)
def test_every_table_can_be_filled_without_naming_its_columns(table: str) -> None:
    made = catalog.filled(schemas.TABLES[table], 2)
    made.validate(full=True)
    assert (made.schema, made.num_rows) == (schemas.TABLES[table], 2)


def test_a_column_that_a_table_lacks_is_an_error() -> None:
    with pytest.raises(KeyError, match="no columns \\['colour'\\]"):
        catalog.filled(schemas.PASSAGES, 1, colour=["red"])


def test_questions_on_celery_are_distinct_and_have_answers_and_a_file() -> None:
    rows = [json.loads(line) for line in celery_docs.QUESTIONS.read_text(encoding="utf-8").splitlines()]
    assert len({row["question"] for row in rows}) == len(rows) >= 150
    assert all(row["answers"] and all(row["answers"]) and row["source"].endswith(".rst") for row in rows)


def test_questions_of_several_hops_have_their_facts_and_no_short_cut() -> None:
    asked = [*multi_hop.questions(0, 60)]
    assert asked == [*multi_hop.questions(0, 60)]
    assert {len(row["supporting_facts"]) for row in asked} == {2, 3}
    assert len({row["question"] for row in asked}) == 60
    for row in asked:
        passages = dict(row["context"])
        assert (len(passages), {4 <= len(sentences) <= 8 for sentences in passages.values()}) == (10, {True})
        *links, (last, place) = row["supporting_facts"]
        assert row["answer"].lower() in passages[last][place].lower()
        assert not any(row["answer"] in sentence for title, _ in links for sentence in passages[title])
        assert not any(title in row["question"] for title, _ in row["supporting_facts"][1:])


def test_the_worlds_of_two_seeds_share_no_name() -> None:
    one, two = ({each.title for each in multi_hop.World(seed).subjects.values()} for seed in (0, 1))
    assert (len(one), len(two), len(one & two)) == (620, 620, 0)


@pytest.fixture(scope="module")
def originals() -> list[lookalikes.Original]:
    return [*lookalikes.read_originals(["synthetic:passages=60,questions=60,seed=0"]).values()]


@pytest.fixture(scope="module")
def alike(originals: list[lookalikes.Original]) -> list[lookalikes.LookAlike]:
    return [*lookalikes.lookalikes(originals, lookalikes.Stock(originals), 400, seed=1)]


def test_look_alikes_are_as_many_as_asked_for_and_follow_from_the_seed(
    originals: list[lookalikes.Original], alike: list[lookalikes.LookAlike]
) -> None:
    stock = lookalikes.Stock(originals)
    assert len({each.text for each in alike} - {each.text for each in originals}) == len(alike) == 400
    assert [*lookalikes.lookalikes(originals, stock, 100, seed=1)] == alike[:100]
    assert [*lookalikes.lookalikes(originals, stock, 100, seed=2)] != alike[:100]


def test_look_alikes_exchange_names_throughout_and_keep_the_other_words(
    originals: list[lookalikes.Original], alike: list[lookalikes.LookAlike]
) -> None:
    known = " ".join(f"{each.title} {each.text}" for each in originals)
    for each in alike:
        original = originals[each.original]
        assert each.exchanged
        assert all(name in original.text and other in known for name, other in each.exchanged.items())
        words = {word.strip(".,;") for word in each.text.split() if word.islower()}
        assert words <= {*known.split()} | {word.strip(".,;") for word in original.text.split()}
    assert {each.title == originals[each.original].title for each in alike} == {True, False}


def test_look_alikes_give_no_answer_to_the_questions_of_their_original(
    originals: list[lookalikes.Original], alike: list[lookalikes.LookAlike]
) -> None:
    asked = [(each, originals[each.original].answers) for each in alike if originals[each.original].answers]
    assert len(asked) > 50
    assert not any(lookalikes.gives(each, answers) for each, answers in asked)
    assert not any(f" {answer.lower()} " in f" {each.text.lower()} " for each, answers in asked for answer in answers)


def test_a_part_of_a_name_becomes_a_part_of_the_other() -> None:
    names = ["Ada Lovelace", "Grace Hopper", "Mary Shelley", "Alan Turing", "Kurt Goedel", "Emmy Noether"]
    others = [lookalikes.Original(f"{name[:3]} Pascal", f"It was {name}.") for name in names]
    one = lookalikes.Original("Nikola Tesla", "Nikola Tesla met Ada Lovelace, and Tesla left Lovelace.")
    made = [*lookalikes.lookalikes([one], lookalikes.Stock([one, *others]), 3, seed=0)]
    for each in made:
        first, last = each.exchanged["Ada Lovelace"].split()
        assert ("Tesla" in each.text) == (each.title == "Nikola Tesla")
        assert f"met {first} {last}, and" in each.text
        assert each.text.endswith(f"left {last}.")


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", STARTED)
def test_a_benchmark_has_help(benchmark: str) -> None:
    command = [sys.executable, "-m", f"benchmarks.{benchmark}", "--help"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    assert "bench" in done.stdout


def test_a_condition_that_tells_corpora_apart_predicts_across_them_alone() -> None:
    """The first condition is the corpus, the second what the difference follows, and in the third all are alike."""
    with mock.patch.dict(os.environ):  # a benchmark sets its threads
        from benchmarks import when
    chance, samples = np.random.default_rng(0), []
    for level in (0.0, 0.3):
        conditions = chance.normal(size=(300, 4))
        conditions[:, 0] += 5 * level
        conditions[:, 2] = 1
        differences = level + 0.1 * conditions[:, 1] + 0.3 * chance.normal(size=300)
        samples.append(when.Sample(differences, conditions))
    slope, low, high = when.regressed(samples, resamples=200)
    is_apart = (low > 0) | (high < 0)
    assert is_apart.tolist() == [[True, True, False, False], [True] * 4, [False] * 4, [False] * 4]
    assert slope[1] == pytest.approx([0.1] * 4, abs=0.02)
    assert np.isnan(slope[2]).all()
