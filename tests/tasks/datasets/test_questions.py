"""The formats of question sets: on real data, on small files of each layout, on bad rows."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.datasets.test_datasets import check, only, read, write
from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import InputError, Passage, Question, Record, Reject

Records = list[tuple[int, Record]]


def lines(folder: Path, *rows: Any) -> Path:
    """A file of JSON lines; a row that is text goes into it as it is."""
    return write(folder, "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows) + "\n")


def tsv(folder: Path, *rows: tuple[str, ...]) -> Path:
    """A tab-separated file, quoted as pandas does it."""

    def field(value: str) -> str:
        return f'"{value.replace(chr(34), 2 * chr(34))}"' if re.search(r'["\t\n\r]', value) else value

    return write(folder, "".join("\t".join(map(field, row)) + "\n" for row in rows))


def rejects(records: Records) -> list[tuple[int, str]]:
    return [(offset, record.reason) for offset, record in records if isinstance(record, Reject)]


# --- NQ-open


def test_nq_open_rows(tmp_path: Path) -> None:
    rows: list[Any] = [
        {"question": " why ", "answer": [" a", "b", "a "]},
        "",
        {"question": "why", "answers": ["a"]},
        {"question": "why", "answer": {"a": 1}},
        '{"question": "why"',
    ]
    records = read("nq_open", lines(tmp_path, *rows))
    assert records[0] == (1, Question("why", ("a", "b")))
    assert rejects(records) == [(3, "missing_column"), (4, "wrong_type"), (5, "malformed_json")]


# --- PopQA

POPQA = ("id", "subj", "prop", "obj", "s_pop", "o_pop", "question", "possible_answers")


def popqa(number: str, question: str, answers: str, views: str = "142") -> tuple[str, ...]:
    return number, "George Rankin", "occupation", "politician", views, "25692", question, answers


def test_popqa_reads_the_quoted_lists_of_its_tsv(tmp_path: Path) -> None:
    asked, listed = "What is George Rankin's occupation?", '["politician", "the \\"pol\\"", "politician"]'
    path = tsv(tmp_path, POPQA, popqa("4222362", asked, listed), popqa("5", 'Who is "Ada"?', "[]"))
    assert '"[""politician""' in path.read_text()
    assert read("popqa", path) == [
        (2, Question(asked, ("politician", 'the "pol"'), source_id="4222362")),
        (3, Question('Who is "Ada"?', (), source_id="5")),
    ]
    of_self_rag = {"id": 7, "question": "Who?", "answers": ["a", "b"], "ctxs": [{"text": "x"}]}
    assert read("popqa", lines(tmp_path, "", of_self_rag)) == [(2, Question("Who?", ("a", "b"), source_id="7"))]


def test_popqa_can_be_cut_to_its_long_tail_and_rejects_what_is_no_list(tmp_path: Path) -> None:
    rows = [popqa("1", f"Who is {views}?", '["a"]', views) for views in ("99", "100", "12.5", "many")]
    path = tsv(tmp_path, POPQA, *rows, popqa("1", "Who?", "['a', b]"), popqa("1", "Who?", '["a", true]'), POPQA[:3])
    faults = [(6, "malformed_json"), (7, "wrong_type"), (8, "malformed_row")]
    assert rejects(read("popqa", path)) == faults
    records = read("popqa", path, max_views="100")
    assert [question.text for question in only(Question, records)] == ["Who is 99?", "Who is 12.5?"]
    assert rejects(records)[:2] == [(3, "left_out"), (5, "wrong_type")]


# --- TriviaQA


def test_triviaqa_gives_the_value_then_its_aliases_then_what_people_answered(tmp_path: Path) -> None:
    entry = {"Question": "Which musical?", "QuestionId": "tc_33", "EntityPages": [], "SearchResults": []}
    answer = {
        "Value": "Sunset Boulevard",
        "Aliases": ["Sunset Blvd", "Sunset Boulevard", "  "],
        "NormalizedAliases": ["sunset blvd"],
        "HumanAnswers": ["Sunset Blvd."],
    }
    faults = [7, entry | {"Answer": {"Aliases": []}}, entry | {"Question": ""}]
    given = {"Version": 1.0, "Data": [entry | {"Answer": answer}, entry, *faults], "Domain": "Web"}
    records = read("triviaqa", write(tmp_path, given))
    assert records[:2] == [
        (1, Question("Which musical?", ("Sunset Boulevard", "Sunset Blvd", "Sunset Blvd."), source_id="tc_33")),
        (2, Question("Which musical?", (), source_id="tc_33")),
    ]
    assert rejects(records) == [(3, "wrong_type"), (4, "missing_column"), (5, "empty_text")]
    with pytest.raises(InputError, match='has no questions in a top-level "Data": this format expects'):
        read("triviaqa", write(tmp_path, {"data": []}))


# --- ARC

CHOICES = [{"text": "dry palms", "label": "A"}, {"text": " wet palms", "label": "B"}]
FLAT = {"text": [choice["text"] for choice in CHOICES], "label": ["A", "B"]}


def arc(**changes: Any) -> dict[str, Any]:
    return {"id": "M_1", "question": {"stem": "Which is warm? ", "choices": CHOICES}, "answerKey": "A"} | changes


@pytest.mark.parametrize("row", [arc(), arc(question="Which is warm?", choices=FLAT)])
def test_arc_puts_its_options_into_the_question(tmp_path: Path, row: dict[str, Any]) -> None:
    text = "Which is warm?\nA: dry palms\nB: wet palms"
    assert read("arc", lines(tmp_path, row)) == [(1, Question(text, ("dry palms", "A: dry palms"), source_id="M_1"))]


# --- PubHealth

PUBHEALTH = ("claim_id", "claim", "date_published", "explanation", "fact_checkers", "main_text", "sources", "label")


def claim(number: str, text: str, label: str, article: str = "An article.") -> tuple[str, ...]:
    return number, text, "May 1, 2020", 'It says "so".', "Ada", article, "", label


def test_pubhealth_gives_claims_and_rejects_rows_without_a_label_of_its_own(tmp_path: Path) -> None:
    claims = [("It cures.", "false"), ("It is wet.", "true"), ("It is old.", "mixture"), ("It is cold.", "National")]
    article = 'A long\n\n"one"\tof lines.'
    rows = [claim(str(number), text, label, article) for number, (text, label) in enumerate(claims)]
    path = tsv(tmp_path, PUBHEALTH, *rows, claim("6", "Short.", "true")[:7])
    records = read("pubhealth", path)
    questions = [(question.source_id, question.text, question.answers) for question in only(Question, records)]
    assert questions == [(str(number), text, (label,)) for number, (text, label) in enumerate(claims[:3])]
    bad = [(11, "unknown_label"), (14, "malformed_row")]  # an article has three lines
    assert rejects(records) == bad
    assert rejects(read("pubhealth", path, binary="true")) == [(8, "left_out"), *bad]
    corpus = only(Question, read("pubhealth", path, passages="true"))  # the articles
    assert {question.gold_passages for question in corpus} == {(passage_id(article),)}


def test_pubhealth_reads_what_others_made_of_it(tmp_path: Path) -> None:
    made: list[dict[str, Any]] = [
        {"claim": "C", "question": "C", "label": "SUPPORTS", "answers": ["true"]},
        {"claim": "C", "label": "REFUTES"},
        {"question": "C", "label": False},
        {"question": "C", "answers": ["true", "false"]},
        {"claim": "C"},
    ]
    records = read("pubhealth", lines(tmp_path, *made))
    assert [question.answers for question in only(Question, records)] == [("true",), ("false",), ("false",)]
    assert rejects(records) == [(4, "unknown_label"), (5, "missing_column")]


# --- QMSum


def meeting(*turns: Any, specific: Any = (), general: Any = ()) -> dict[str, Any]:
    """A meeting of (speaker, content) turns and (query, spans) questions."""
    said = [{"speaker": turn[0], "content": turn[1]} if isinstance(turn, tuple) else turn for turn in turns]
    asked = [{"query": query, "answer": "A.", "relevant_text_span": spans} for query, spans in specific]
    broad = [{"query": query, "answer": "A."} for query in general]
    return {"meeting_transcripts": said, "specific_query_list": asked, "general_query_list": broad}


def facts(records: Records, question: Question) -> list[str]:
    texts = {passage_id(passage.text): passage.text for passage in only(Passage, records)}
    return [texts[span.passage_id][span.start : span.end] for span in question.supporting_facts]


def test_qmsum_joins_turns_to_contexts_and_finds_the_gold_turns_in_them(tmp_path: Path) -> None:
    row = meeting(
        ("Ada", " Oil burns {vocalsound} , {disfmarker} slowly . "),
        ("Bob", "{vocalsound}"),
        ("Bob", "Yes ."),
        ("Ada", "Lamps are bright , and so are we ."),
        specific=[("Who agrees?", [[2, 3], [0, 0]])],
        general=["Summarize."],
    )
    first, last = "Ada: Oil burns , slowly .\n\nBob: Yes .", "Ada: Lamps are bright , and so are we ."
    records = read("qmsum", lines(tmp_path, "", row), words="12")
    check(records)
    assert only(Passage, records) == [
        Passage("meeting 2", first, "meeting 2#0"),
        Passage("meeting 2", last, "meeting 2#1"),
    ]
    agrees, summary = only(Question, records)
    assert facts(records, agrees) == ["Ada: Oil burns , slowly .", "Bob: Yes .", last]
    assert agrees.gold_passages == (passage_id(first), passage_id(last))
    assert summary == Question("Summarize.", ("A.",), source_id="meeting 2/general_query_list[0]")
    [marked] = only(Passage, read("qmsum", lines(tmp_path, {"id": "ES1"} | row), marks="true"))
    assert marked.source_id == "ES1#0"
    assert marked.text.startswith("Ada: Oil burns {vocalsound} , {disfmarker} slowly .\n\nBob: {vocalsound}\n\nBob: ")


def test_qmsum_cuts_a_long_turn_after_a_sentence_or_between_words(tmp_path: Path) -> None:
    content = "One two three . Four five six seven eight . " + " ".join(map(str, range(20)))
    row = meeting(("Ada", content), specific=[("What?", [["0", "0"]])])
    records = read("qmsum", lines(tmp_path, row), words="10")
    texts = [passage.text for passage in only(Passage, records)]
    assert texts[:3] == ["Ada: One two three .", "Ada: Four five six seven eight .", "Ada: 0 1 2 3 4 5 6 7 8"]
    assert facts(records, only(Question, records)[0]) == texts


# --- MS MARCO question answering

QA = {
    "answers": {"0": ["Ada lit it.", "Ada lit it.", ""], "1": ["No Answer Present."], "2": ["Bob."]},
    "passages": {
        "0": [{"is_selected": 0, "passage_text": "A lamp."}, {"is_selected": 1, "passage_text": "Ada lit it."}],
        "1": [{"is_selected": 0, "passage_text": " "}],
        "2": [],
    },
    "query": {"0": "who lit it", "1": "why", "2": "who"},
    "query_id": {"0": 7, "1": 8, "2": 9},
    "wellFormedAnswers": {"0": ["Ada lit the lamp."], "1": "[]", "2": "[]"},
}


def test_msmarco_qa_in_every_layout(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{name: column[key] for name, column in QA.items()} for key in ("0", "1", "2")]
    fields = ("passage_text", "is_selected")  # the hub has an object of lists
    hub = [row | {"passages": {name: [each[name] for each in row["passages"]] for name in fields}} for row in rows]
    expected = [
        (1, Passage("", "A lamp.")),
        (1, Passage("", "Ada lit it.")),
        (1, Question("who lit it", ("Ada lit the lamp.",), (passage_id("Ada lit it."),), source_id="7")),
        (2, Reject("empty_text", "passages[0]: 'passage_text' is blank")),
        (2, Question("why", source_id="8")),
        (3, Question("who", ("Bob.",), source_id="9")),
    ]
    for content in (QA, {name: QA[name] for name in reversed(QA)}):
        assert read("msmarco_qa", write(tmp_path, content), well_formed=True) == expected
    for listed in (rows, hub):
        assert read("msmarco_qa", lines(tmp_path, *listed), well_formed=True) == expected
    assert only(Question, read("msmarco_qa", write(tmp_path, QA)))[0].answers == ("Ada lit it.",)


# --- ctxs


def row(*contexts: Any, **changes: Any) -> dict[str, Any]:
    return {"question": "who?", "answers": ["Ada"], "ctxs": list(contexts)} | changes


def test_contexts_are_passages_and_the_gold_ones_are_named(tmp_path: Path) -> None:
    contexts = [
        {"id": "wiki:7", "title": "Ada", "text": " Ada lit it. ", "score": "1.2", "has_answer": True},
        {"title": "Oil", "text": "Oil burns.", "isgold": True},
    ]
    rows = [row(*contexts), row(contexts[0], id="q7", question="why?")]
    records = read("ctxs", lines(tmp_path, *rows))
    assert read("ctxs", write(tmp_path, rows)) == records
    assert records == [
        (1, Passage("Ada", "Ada lit it.", "wiki:7")),
        (1, Passage("Oil", "Oil burns.", "1#1")),
        (1, Question("who?", ("Ada",), (passage_id("Oil burns."),))),
        (2, Passage("Ada", "Ada lit it.", "wiki:7")),
        (2, Question("why?", ("Ada",), source_id="q7")),
    ]


def test_answers_stand_where_dpr_and_self_rag_put_them(tmp_path: Path) -> None:
    places: list[dict[str, Any]] = [
        {"answers": ["a", "b", "a"]}, {"possible_answers": '["a", "b"]'}, {"golden_answers": ["a", "b"]},
        {"answer": "a"}, {"output": ["a"]},
    ]  # fmt: skip
    records = read("ctxs", lines(tmp_path, *({"question": "who?", "ctxs": []} | place for place in places)))
    assert [question.answers for question in only(Question, records)] == [("a", "b")] * 3 + [("a",)] * 2
