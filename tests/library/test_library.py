"""The public API on a small store: typed, lazy, and with the figures and the errors of the command line."""

import asyncio
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

import vitalfew as vf
from vitalfew.storage.runs import IndexNotFound
from vitalfew.tasks.datasets.base import InputError

QUESTION = "Who founded Velmar?"
HEAVY = {"torch", "ray", "prefect", "faiss", "duckdb", "polars", "transformers", "pydantic", "numpy", "openvino"}


def test_the_import_takes_no_library() -> None:
    code = f"import sys, vitalfew; print(sorted({HEAVY} & set(sys.modules)), vitalfew.__version__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("[] 0."), done.stdout
    assert set(vf.__all__) <= set(dir(vf))
    assert all(callable(getattr(vf, name)) for name in vf.__all__)
    with pytest.raises(AttributeError, match="Store"):
        vf.Shop  # noqa: B018


def test_hits_have_at_most_max_tokens(store: vf.Store) -> None:
    index = store.index("towns")
    whole = index.search(QUESTION)
    for most in (1, 20, whole.tokens - 1, whole.tokens):
        within = index.search(QUESTION, max_tokens=most)
        assert within.tokens <= most
        assert [*within] == [*whole[: len(within)]]
    assert len(index.search(QUESTION, max_tokens=whole.tokens)) == len(whole)


def test_bad_questions_and_names_get_a_sentence(store: vf.Store) -> None:
    index = store.index("towns")
    with pytest.raises(InputError, match="the question is empty"):
        index.search("  ")
    with pytest.raises(InputError, match="max_tokens must be at least 1, got 0"):
        index.search(QUESTION, max_tokens=0)
    with pytest.raises(IndexNotFound, match="there are: towns"):
        store.index("twons")
    with pytest.raises(KeyError, match="no passage 5"):
        index.passage(5)


def test_a_report_is_frames_and_a_page(store: vf.Store) -> None:
    report = store.report("shapes")
    assert report.run == store.report().run
    assert report.methods["method"].to_list() == ["naive", "cut", "ParetoRAG", "PFE", "Oreo", "model alone"]
    of_scores = report.scores.filter(pl.col("metric") == "accuracy").group_by("method").agg(pl.col("value").mean())
    means = dict(of_scores.iter_rows())
    for method, accuracy in report.methods.select("method", "accuracy").iter_rows():
        assert means[method] == pytest.approx(accuracy)
    of_naive = report.summaries.filter(method="naive", metric="accuracy")["value"].item()
    difference = report.differences.filter(method="ParetoRAG", metric="accuracy")["difference"].item()
    assert difference == pytest.approx(means["ParetoRAG"] - of_naive)
    assert report.page.exists()
    assert "ParetoRAG" in str(report)
    assert "srcdoc" in report._repr_html_()


def test_questions_of_a_program(own: vf.Store, tmp_path: Path) -> None:
    """A list, a Polars frame and a pandas frame are one data set, and so the first evaluation is that of all."""
    rows = [{"question": QUESTION, "answers": ["nobody"]}, {"question": "Where is Kessin?", "answers": ["here"]}]
    given = [rows, pl.DataFrame(rows), pl.DataFrame(rows).to_pandas()]
    settings = {"generate": {"generator": "tests.support.fakes:FirstWords"}}
    experiment = tmp_path / "naive.yaml"
    experiment.write_text("methods:\n  naive: {retrieve: {retriever: passage, top_k: 3}}\n")
    reports = [own.evaluate(str(experiment), "towns", asked, settings=settings, runner="serial") for asked in given]
    assert len({report.methods.write_csv() for report in reports}) == 1
    assert reports[0].methods["paid_usd"].item() > 0
    assert set(reports[0].scores["question"]) == {row["question"] for row in rows}
    with pytest.raises(InputError, match=r"row 2: give a text, or `question` and `answers`, got \{'query'"):
        own.evaluate(str(experiment), "towns", [QUESTION, {"query": "?"}], settings=settings)
    for asked, said in (([], "no questions"), (5, "got int")):
        with pytest.raises(InputError, match=said):
            own.evaluate(str(experiment), "towns", asked, settings=settings)


def test_threads_get_the_answers_of_one(store: vf.Store, corpus: Path) -> None:
    rag = store.rag(f"{corpus / 'shapes.yaml'}:cut")
    questions = store.sql("SELECT DISTINCT text FROM asked ORDER BY text LIMIT 6")["text"].to_list()
    expected = [answer.text for answer in rag.answers(questions)]
    with ThreadPoolExecutor(6) as pool:
        assert [answer.text for answer in pool.map(rag.answer, questions)] == expected
    assert asyncio.run(rag.aanswer(questions[0])).text == expected[0]


def test_sql(store: vf.Store) -> None:
    frame = store.sql("SELECT count(*) AS n FROM passages")
    assert frame.equals(vf.sql("SELECT count(*) AS n FROM passages", store.place))
    assert frame["n"].item() == 20
    with pytest.raises(ValueError, match="only reads"):
        store.sql("DROP VIEW passages")
    with pytest.raises(FileNotFoundError, match="no store at"):
        vf.sql("SELECT 1", "nowhere")


PASSAGES = [
    {"title": "Travel", "text": "Trips are fun. A trip abroad needs the word of the director. Keep every receipt."},
    "The printer is on the second floor. Ask Ada Winter for paper.",
]


def test_a_refiner_shortens_passages_of_ones_own() -> None:
    contexts = vf.refine("oreo", "Who approves a trip abroad?", PASSAGES, max_tokens=16)
    assert contexts
    assert sum(context.tokens for context in contexts) <= 16
    for source in (source for context in contexts for source in context.sources):
        assert source.passage_id in (0, 1)
        assert source.title == ("Travel" if source.passage_id == 0 else "")
        assert 0 <= source.start < source.end


def test_a_review_marks_what_was_kept(own: vf.Store) -> None:
    session = own.review("shapes", reviewer="Ada", methods=["cut", "ParetoRAG"], one=True)
    pieces = 0
    for item in session.items:
        for texts, sources in zip(session.contexts(item), session.passages(item), strict=True):
            for text, passages in zip(texts, sources, strict=True):
                kept = [passage.text[start:end] for passage in passages for start, end in passage.kept]
                assert all(piece.strip() in text for piece in kept)
                pieces += len(kept)
    assert pieces > len(session.items)
