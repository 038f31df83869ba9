"""`store.runs`, `store.explore`, `store.compare`: the questions of evaluations, by who is right and one at a time."""

import polars as pl
import pytest

import vitalfew as vf
from vitalfew.tasks.reports.advice import titled
from vitalfew.tasks.reports.comparison import compare, question_table
from vitalfew.tasks.reports.runs import NoReport

HOSTILE = "x'); DROP TABLE asked; --\u202e<b>\0"


def test_questions_are_those_of_the_comparison(store: vf.Store) -> None:
    explorer = store.explore("shapes")
    (compared,) = compare(store.place, "shapes:naive", "shapes:ParetoRAG")
    expected = question_table(store.place, compared)
    asked = explorer.questions("naive", "ParetoRAG", metric="f1")
    found = asked.pl("question", descending=False)
    assert len(asked) == len(found) == 12
    both = found.join(expected, "question_id", "inner")
    assert both["question"].equals(both["question_right"].rename("question"))
    assert both["value"].equals(both["a.f1"].rename("value"))
    assert both["other_value"].equals(both["b.f1"].rename("other_value"))
    assert both["answer"].equals(both["a.answer"].rename("answer"))
    assert both["other_answer"].equals(both["b.answer"].rename("other_answer"))
    assert found["question"].is_sorted()


def test_cells_pages_and_neighbours_are_of_the_same_questions(store: vf.Store) -> None:
    explorer = store.explore("shapes")
    everything = explorer.questions("naive", "ParetoRAG")
    counted = {(one, other): count for one, other, count in everything.cells().rows()}
    assert sum(counted.values()) == 12
    for (right, other_right), count in counted.items():
        chosen = explorer.questions("naive", "ParetoRAG", right=right, other_right=other_right)
        assert len(chosen) == count
        values = chosen.pl().select(pl.col("value") >= 0.5, pl.col("other_value") >= 0.5).unique()
        assert values.rows() == [(right, other_right)]
    won = explorer.outcomes().filter(method="ParetoRAG").row(0, named=True)
    assert (won["lost"], won["won"]) == (counted.get((True, False), 0), counted.get((False, True), 0))
    ids = everything.pl()["question_id"].to_list()
    pages = [everything.pl(limit=5, offset=offset)["question_id"].to_list() for offset in (0, 5, 10)]
    assert [number for page in pages for number in page] == ids
    assert everything.around(ids[4]) == (ids[3], ids[5])
    assert everything.around(ids[0])[0] is None
    assert everything.around(1) == (None, None)


def test_hostile_texts_are_texts(store: vf.Store) -> None:
    explorer = store.explore("shapes")
    assert len(explorer.questions(containing=HOSTILE)) == 0
    assert len(explorer.questions(source=HOSTILE.replace("\0", ""))) == 0
    with pytest.raises(NoReport, match="it has: naive, cut"):
        explorer.questions(HOSTILE)
    with pytest.raises(NoReport, match="has no metric"):
        explorer.questions(metric=HOSTILE)
    with pytest.raises(ValueError, match="order: give one of question"):
        explorer.questions().pl(HOSTILE)


def test_story_says_why(store: vf.Store) -> None:
    explorer = store.explore("shapes")
    for number in explorer.questions().pl()["question_id"]:
        story = explorer.question(number)
        told = {own.method: own for own in story.methods}
        assert [*told] == [*explorer.methods]
        (gold,) = story.gold_passages
        naive = told["naive"]
        rank = naive.gold_ranks[gold]
        if rank is None:
            assert naive.why.startswith("The gold passage was not retrieved")
        else:
            assert naive.hits[rank - 1].passage_id == gold
            assert naive.why.startswith(f"The gold passage was retrieved at rank {rank}")
            assert naive.hits[rank - 1].has_fact
        assert told["model alone"].why.startswith("It did not search: the model answered alone.")
        for context in told["ParetoRAG"].contexts:
            for passage, spans in context.kept.items():
                text = story.passages[passage].text
                assert all(text[start:end].strip() in context.text for start, end in spans)
        assert naive.is_right == (naive.values["accuracy"] == 1)
    with pytest.raises(NoReport, match="did not ask question 5"):
        explorer.question(5)


def test_figures_are_those_of_the_report(own: vf.Store) -> None:
    explorer = own.explore("shapes")
    written = explorer.figures
    report = own.report("shapes")
    for path in (own.place / "reports").rglob("*.*"):
        path.unlink()
    computed = report.explorer.figures
    chosen = ["method", "metric", "heading", "unit", "value", "low", "high", "difference", "p_holm"]
    assert written.select(chosen).equals(computed.select(chosen))
    assert explorer.title == titled(report.results)
    assert written.filter(metric="accuracy", method="cut")["value"][0] == report.methods["accuracy"][1]
