"""A small valid source of each dataset format that reads files, for what has to hold for every format."""

import io
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


@dataclass(frozen=True)
class Sample:
    """Files by their paths; `path` is the one to name, "" for the folder."""

    files: dict[str, bytes]
    path: str = ""
    options: dict[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> Path:
        """Write the files; the path to read."""
        for name, content in self.files.items():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return folder / self.path


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1).encode()


def _lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def _parquet(*rows: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), file, row_group_size=2)
    return file.getvalue()


def _one(name: str, content: bytes, **options: Any) -> Sample:
    return Sample({name: content}, name, options)


_NOTES = [{"id": number, "title": "é", "text": f'Note {number}, "quoted"\nin two lines.'} for number in range(1, 4)]
_CHOICES = {"text": ["a palm", "a fist"], "label": ["A", "B"]}
_MEETING = {
    "meeting_transcripts": [{"speaker": "Ada", "content": "Yes."}, {"speaker": "Bob", "content": "No."}],
    "general_query_list": [{"query": "Summarise.", "answer": "They disagree."}],
    "specific_query_list": [{"query": "Who says no?", "answer": "Bob.", "relevant_text_span": [["1", "1"]]}],
    "topic_list": [],
}


def _question(number: int) -> dict[str, Any]:
    texts = {"half": "test", "kind": "name", "quote": f"Ada {number} lit it.", "document": "é.md"}
    texts |= {"text": f"_____ {number} lit it.", "source": "folder:f", "source_id": "é.md#lamp"}
    gold = {"gold_passages": [7], "gold_places": [{"source": "é.md", "quote": f"Ada {number} lit it."}]}
    return {"question_id": number, "answers": ["Ada"], "passage_id": 7, **gold, **texts}


_PARAGRAPH = {
    "context": "Ada lit it.",
    "qas": [{"id": "q", "question": "Who?", "answers": [{"text": "Ada", "answer_start": 0}]}],
}
_LAMP = {
    "_id": "q1",
    "question": "Who lit it?",
    "answer": "Ada",
    "context": [["Lamp", ["A lamp.", "Ada lit it."]]],
    "supporting_facts": [["Lamp", 1]],
}

SAMPLES = {
    "hotpotqa": _one("a.json", _json([_LAMP])),
    "titletext": _one("a.json", _json([{"title": "é", "text": "One."}, {"title": "", "text": "Two."}])),
    "squad": _one("a.json", _json({"data": [{"title": "Lamp", "paragraphs": [_PARAGRAPH]}]})),
    "jsonl": _one("a.jsonl", _lines(*_NOTES)),
    "csv": _one("a.csv", 'id,title,text\r\n1,é,"Note, ""a""\r\nb"\r\n\r\n2,,Plain\r\n3,"",\'\r\n'.encode()),
    "parquet": Sample({"a.parquet": _parquet(*_NOTES), "b/c.parquet": _parquet(_NOTES[0])}),
    "huggingface": Sample({"train.jsonl": _lines(*_NOTES), "README.md": b"---\nlicense: mit\n---\n"}),
    "folder": Sample({"a.md": b"# A\n\nText.\n\n## B\n\nMore.", "sub/b.txt": "é\r\n\r\nLine\n".encode()}),
    "beir": Sample(
        {
            "corpus.jsonl": _lines(
                {"_id": "d1", "title": "T", "text": "One."}, {"_id": "d2", "title": "", "text": "Two."}
            ),
            "queries.jsonl": _lines({"_id": "q1", "text": "Who?"}, {"_id": "q2", "text": "Of another split?"}),
            "qrels/test.tsv": b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\n",
        }
    ),
    "msmarco": Sample(
        {
            "collection.tsv": 'd1\tOne "é.\nd2\tTwo.\n'.encode(),
            "queries.dev.small.tsv": b"q1\tWho?\nq2\tNot judged?\n",
            "qrels.dev.small.tsv": b"q1\t0\td2\t1\nq1\t0\td1\t0\n",
        }
    ),
    "msmarco_qa": _one(
        "a.json",
        _json(
            {
                "answers": {"0": ["Ada lit it."], "1": ["No Answer Present."]},
                "passages": {
                    "0": [{"is_selected": 1, "passage_text": "Ada lit é.", "url": "http://a"}],
                    "1": [{"is_selected": 0, "passage_text": "A lamp.", "url": "http://b"}],
                },
                "query": {"0": "who lit it", "1": "why"},
                "query_id": {"0": 7, "1": 8},
                "wellFormedAnswers": {"0": ["Ada lit the lamp."], "1": "[]"},
            }
        ),
    ),
    "dpr_wiki": _one("psgs_w100.tsv", b'id\ttext\ttitle\n1\t"A ""b"" c"\tT\n2\tplain\t"U\tV"\n'),
    "nq_open": _one("a.jsonl", _lines({"question": "why", "answer": ["é", "b"]}, {"question": "who", "answer": ["c"]})),
    "popqa": _one("a.tsv", b'id\tquestion\tpossible_answers\n1\tWho?\t"[""a"", ""b""]"\n2\tWhy?\t[]\n'),
    "triviaqa": _one("a.json", _json({"Data": [{"Question": "Who?", "Answer": {"Value": "Ada", "Aliases": ["A"]}}]})),
    "arc": _one("a.jsonl", _lines({"id": "1", "question": "Which?", "choices": _CHOICES, "answerKey": "A"})),
    "pubhealth": _one(  # test.tsv has a column without a name
        "a.tsv", b'\tclaim_id\tclaim\tlabel\tmain_text\n0\t1\tIt is.\ttrue\t"Long ""text"""\n', passages=True
    ),
    "recorded": _one("a.jsonl", _lines({"question": "Who?", "answer": "Ada", "contexts": ["é"], "gold": ["Ada"]})),
    "qmsum": _one("a.jsonl", _lines(_MEETING)),
    "ctxs": _one(
        "a.jsonl",
        _lines(
            {"question": "who?", "answers": ["Ada"], "ctxs": [{"title": "é", "text": "Ada.", "isgold": True}]},
            {"id": 7, "question": "why?", "ctxs": [{"id": "w1", "text": "So."}, {"title": None, "text": "No."}]},
        ),
    ),
    "written": _one("written_questions.parquet", _parquet(*map(_question, range(3)))),
}
