"""Corpora with relevance judgements apart: beir and msmarco; and dpr_wiki, which has none."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.samples import Sample
from tests.tasks.datasets.test_datasets import check, dataset, only, read
from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import InputError, Passage, Question, Record, Reject

Records = list[tuple[int, Record]]
CORPUS = [{"_id": "d1", "title": " T ", "text": " One. "}, {"_id": "d2", "text": "Two."}, {"_id": "d3", "text": " "}]
QUERIES = [{"_id": "q1", "text": " Who? "}, {"_id": "q2", "text": "Why?"}, {"_id": "q3", "text": "When?"}]


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def beir(folder: Path, qrels: str | None = None, split: str = "test", **files: bytes | None) -> Path:
    given = {"corpus.jsonl": lines(*CORPUS), "queries.jsonl": lines(*QUERIES)}
    if qrels is not None:
        given[f"qrels/{split}.tsv"] = f"query-id\tcorpus-id\tscore\n{qrels}".encode()
    changed = {name: files.get(name.partition(".")[0], content) for name, content in given.items()}
    return Sample({name: content for name, content in changed.items() if content is not None}).write(folder)


def rejects(records: Records) -> list[tuple[int, str, str]]:
    return [(number, reject.reason, reject.detail) for number, reject in records if isinstance(reject, Reject)]


def ids(*texts: str) -> tuple[int, ...]:
    return tuple(map(passage_id, texts))


# --- BEIR


def test_beir_gives_the_questions_of_the_split_with_what_is_rated_above_0(tmp_path: Path) -> None:
    path = beir(tmp_path, "q2\td2\t2\nq2\td1\t1\nq2\td2\t0.5\nq1\td1\t0\n")
    records = read("beir", path)
    check(sorted(records, key=lambda pair: pair[0]))
    assert records == [
        (1, Passage("T", "One.", "d1")),
        (2, Passage("", "Two.", "d2")),
        (3, Reject("empty_text", "corpus.jsonl: 'text' is blank")),
        (1, Question("Who?", (), (), (), "q1")),
        (2, Question("Why?", (), ids("Two.", "One."), (), "q2", gold_grades=(1, 1))),
    ]
    assert [path.name for path in dataset("beir", path).files()] == ["corpus.jsonl", "queries.jsonl", "test.tsv"]


def test_beir_rejects_questions_without_a_readable_document_and_judgements_that_cannot_be_used(tmp_path: Path) -> None:
    path = beir(tmp_path, "q1\td3\t1\nq1\tnone\t1\nq2\td3\t1\nq2\td1\t1\nq9\td1\t1\nq1\td1\tyes\nq1\td1\n")
    records = read("beir", path)
    [question] = only(Question, records)
    assert (question.source_id, question.gold_passages) == ("q2", ids("One."))
    assert {
        (1, "no_gold_passage", "none of the 2 relevant documents ('d3', ...) of question 'q1' could be read"),
        (6, "unknown_question", "test.tsv: there is no question 'q9'"),
    } < {*rejects(records)}
    assert {(7, "wrong_type"), (8, "malformed_row")} < {(number, reason) for number, reason, _ in rejects(records)}


def test_beir_without_judgements_or_texts(tmp_path: Path) -> None:
    corpus = lines({"_id": "d1", "title": "Lamp", "text": ""}, {"_id": "d2", "title": None, "text": "Oil."})
    records = read("beir", beir(tmp_path, corpus=corpus))
    assert only(Passage, records) == [Passage("Lamp", "Lamp", "d1"), Passage("", "Oil.", "d2")]
    assert [question.gold_passages for question in only(Question, records)] == [()] * 3


def test_judgements_may_be_of_three_or_four_columns_with_or_without_names(tmp_path: Path) -> None:
    beir(tmp_path)
    (tmp_path / "qrels").mkdir()
    for layout in ("q1\td1\t1\nq2\td2\t1\n", "q1 0 d1 1\r\nq2 0 d2 1\r\n", "q1\tQ0\td1\t1.0\nq2\t0\td2\t1"):
        (tmp_path / "qrels" / "dev.tsv").write_text(layout, newline="")
        golds = [question.gold_passages for question in only(Question, read("beir", tmp_path, split="dev"))]
        assert golds == [ids("One."), ids("Two.")]


def test_beir_a_split_or_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    path = beir(tmp_path, "q1\td1\t1\n", "train")
    for call in (lambda made: made.files(), lambda made: list(made.records())):
        with pytest.raises(InputError, match=r"has no judgements test\.tsv; it has train: choose one with split="):
            call(dataset("beir", path))
    (path / "queries.jsonl").unlink()
    with pytest.raises(InputError, match=r"queries\.jsonl does not exist"):
        read("beir", path, split="train")


# --- MS MARCO


def msmarco(folder: Path, **files: str) -> Path:
    given = {
        "collection.tsv": 'd1\tOne "x.\nd2\t"Two."\n',
        "queries.dev.small.tsv": "q1\tWho?\nq2\tWhy?\n",
        "qrels.dev.small.tsv": "q1\t0\td2\t1\n",
    }
    return Sample({name: content.encode() for name, content in (given | files).items()}).write(folder)


def test_msmarco_reads_the_small_dev_split_if_none_is_named(tmp_path: Path) -> None:
    further = {"queries.train.tsv": "q7\tWhere?\n", "mine.tsv": "q5\tWhat?\n", "trec.txt": "q5 0 d1 3\n"}
    path = msmarco(tmp_path, **further)
    passages: Records = [(1, Passage("", 'One "x.', "d1")), (2, Passage("", '"Two."', "d2"))]
    assert read("msmarco", path) == [*passages, (1, Question("Who?", (), ids('"Two."'), (), "q1", gold_grades=(1,)))]
    assert read("msmarco", path, split="train") == [*passages, (1, Question("Where?", (), (), (), "q7"))]
    named = read("msmarco", path, queries="mine.tsv", qrels="trec.txt")
    assert named == [*passages, (1, Question("What?", (), ids('One "x.'), (), "q5", gold_grades=(3,)))]
    assert read("msmarco", path / "collection.tsv") == passages
    with pytest.raises(InputError, match=r"queries\.dev\.tsv does not exist\. Did you mean .*queries\.dev\.small"):
        read("msmarco", path, split="dev")


# --- DPR's Wikipedia


def test_dpr_wiki_is_quoted_as_csv_is(tmp_path: Path) -> None:
    path = tmp_path / "psgs_w100.tsv"
    path.write_text('id\ttext\ttitle\n1\t"Aaron (""or"" Ahárôn)"\tAaron\n2\tof "Moses"\t"A\tB"\nx\n', encoding="utf-8")
    records = read("dpr_wiki", path)
    check(records)
    assert only(Passage, records) == [Passage("Aaron", 'Aaron ("or" Ahárôn)', "1"), Passage("A\tB", 'of "Moses"', "2")]
    assert rejects(records) == [(4, "malformed_row", "1 fields instead of 3: 'id', 'text', 'title'")]
    path.write_text("1\tA text.\tA title\n")
    with pytest.raises(InputError, match=r"the first line must name the columns id, text, title, .*it has '1', 'A te"):
        read("dpr_wiki", path)
