"""`vitalfew score`: results of other systems from files, beside own methods, and live over HTTP."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import vitalfew as vf
from tests.flows.cli.test_main import run
from tests.support.evaluating import copied, searchable, values
from tests.support.evaluating import run as evaluate
from tests.support.fakes import ChatServer, Reply, completion
from tests.support.paid import PaidServer
from tests.support.prices import PER_TOKEN, priced
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.datasets.recorded import Result, ResultFile
from vitalfew.tasks.models.causal.engines.remote import Unanswered

ROWS = [
    {"question": f"What is {n} plus {n + 1}?", "answer": f"It is {2 * n + 1 + (n % 4 == 0)}.", "gold": str(2 * n + 1)}
    for n in range(24)
]


def lines(path: Path, rows: list[Any]) -> Path:
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return path


def read(path: Path) -> Result:
    [result] = ResultFile(path).results()
    assert isinstance(result, Result)
    return result


CONTEXTS = ['It says: "Ada".', "Two."]
QUOTED = '"[\'It says: ""Ada"".\', \'Two.\']"'
CASE = {
    "input": "Who?",
    "actualOutput": "Ada",
    "expectedOutput": "Ada L.",
    "retrievalContext": CONTEXTS,
    "tokenCost": 0.25,
}
DOCUMENTS = [{"page_content": text, "metadata": {"source": "a.md"}} for text in CONTEXTS]
SHAPES: dict[str, Any] = {
    "ragas.jsonl": {"user_input": "Who?", "retrieved_contexts": CONTEXTS, "response": "Ada", "reference": "Ada L."},
    "ragas.csv": f"user_input,retrieved_contexts,response,reference\nWho?,{QUOTED},Ada,Ada L.\n",
    "deepeval.csv": "input,actual_output,expected_output,retrieval_context,context,token_cost\n"
    'Who?,Ada,Ada L.,"It says: ""Ada"".|Two.",,0.25\n',
    "latest_test_run.json": {
        "testRunData": {"testCases": [{**CASE, "retrievalContext": CONTEXTS}], "metricsScores": []}
    },
    "langsmith.csv": "inputs.question,outputs.answer,outputs.contexts,reference.answer,execution_time\n"
    f"Who?,Ada,{QUOTED},Ada L.,2.5\n",
    "langsmith.jsonl": {
        "inputs": {"q": "Who?"},
        "outputs": {"answer": "Ada", "documents": DOCUMENTS},
        "reference_outputs": {"label": "Ada L."},
    },
    "spans.jsonl": {
        "attributes.input.value": "Who?",
        "attributes.output.value": "Ada",
        "attributes.retrieval.documents": [{"document.content": text} for text in CONTEXTS],
    },
    "ragflow.jsonl": {
        "question": "Who?",
        "answer": "Ada",
        "reference": {"chunks": [{"content": text} for text in CONTEXTS]},
    },
}


@pytest.mark.parametrize("name", SHAPES)
def test_exports_of_other_tools_are_read_as_they_are(name: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    (tmp_path / name).write_text(shape if isinstance(shape, str) else json.dumps(shape))
    result = read(tmp_path / name)
    assert (result.question, result.answer, result.contexts) == ("Who?", "Ada", tuple(CONTEXTS))
    assert result.gold == (() if "spans" in name or "ragflow" in name else ("Ada L.",))
    assert result.usd == (0.25 if "deepeval" in name or "latest" in name else None)


def test_a_file_that_is_not_recognised_is_explained_and_its_columns_can_be_named(tmp_path: Path) -> None:
    file = lines(tmp_path / "own.jsonl", [{"prompt": row["question"], "said": {"text": row["answer"]}} for row in ROWS])
    with pytest.raises(
        InputError, match=r"own\.jsonl: no row has a question.*'prompt', 'said'.*--columns question=NAME"
    ):
        ResultFile(file)
    columns = {"question": "prompt", "answer": "said.text"}
    report = vf.Store(tmp_path / "store", progress=False).score(file, columns=columns)
    assert report.summaries.filter(metric="answer_words")["value"].item() == 3
    assert report.summaries.filter(metric="accuracy")["value"].item() is None  # it has no gold answers


def test_two_files_are_paired_and_what_is_left_out_is_counted(tmp_path: Path) -> None:
    first = lines(tmp_path / "before.jsonl", ["{broken\n", *ROWS, {"answer": "?"}])
    better = [{"user_input": row["question"].upper(), "response": row["gold"], "prompt_tokens": 7} for row in ROWS[1:]]
    pq.write_table(
        pa.Table.from_pylist([*better, {"user_input": "More?", "response": "Yes"}]), tmp_path / "after.parquet"
    )
    store = tmp_path / "store"
    done = run("score", first, tmp_path / "after.parquet", "--store", store)
    assert done.exit_code == 0, done.output
    said = " ".join(done.output.split())
    assert "23 questions" in said
    assert "▲" in said
    for skipped in ("2 left_out", "1 malformed_json", "1 empty_text"):
        assert skipped in said
    means = {
        row["method"]: row["value"] for row in vf.Store(store).report().summaries.filter(metric="accuracy").to_dicts()
    }
    assert means == {"before": pytest.approx(18 / 23), "after": 1.0}
    tokens = vf.Store(store).report().summaries.filter(metric="prompt_tokens")
    assert tokens.sort("method")["value"].to_list() == [7.0, None]  # never 0 where a file does not say


def test_an_answer_that_a_file_lacks_is_an_error_and_no_zero(tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", [*ROWS[:20], {"question": "Why?", "answer": None, "error": "timeout"}])
    done = run("score", file, "--store", tmp_path / "store")
    assert "a: 1 of 21 questions got no answer: a.jsonl: the system failed: timeout." in " ".join(done.output.split())


def test_results_stand_beside_own_methods(tmp_path: Path) -> None:
    store = copied(searchable(), tmp_path / "store")
    asked = vf.Store(store).sql("SELECT text, answers, source_id FROM questions WHERE len(answers) > 0")
    rows = [{"id": row["source_id"], "answer": row["answers"][0], "contexts": ["a b", "c"]} for row in asked.to_dicts()]
    theirs = {"generate": {"generator": "recorded", "file": str(lines(tmp_path / "theirs.jsonl", rows))}}
    ours = {"retrieve": {"retriever": "bm25"}, "generate": {"generator": "tests.support.fakes:FirstWords"}}
    settings = {
        "index": "test",
        "questions": {"where": "len(answers) > 0"},
        "methods": {"ours": ours, "theirs": theirs},
    }
    outcome = evaluate(store, {**settings, "score": {"metrics": ["accuracy", "tokens"]}})
    found = values(store, outcome, "theirs")
    assert found["accuracy"] == 1.0
    assert found["context_tokens"] == 3.0
    assert values(store, outcome, "ours")["prompt_tokens"]


class OtherRag(ChatServer):
    """Another system of answers, which refuses every fifth request at first."""

    def __init__(self) -> None:
        super().__init__(self._reply)
        self.questions: list[str] = []

    def _reply(self, path: str, body: Any, attempt: int) -> Reply:
        question = body["messages"][0]["content"] if path.endswith("completions") else body["ask"]["text"]
        self.questions.append(question)
        if path.endswith("completions"):
            return completion("Ada")
        if len(self.questions) % 5 == 0:
            return Reply({"error": "busy"}, status=503)
        return Reply({"data": {"said": "Ada", "found": [{"t": "One."}, {"t": "Two."}], "n": 7, "cost": 0.5}})


def test_a_system_behind_an_address_is_asked_live_once(tmp_path: Path) -> None:
    file = lines(tmp_path / "a.jsonl", ROWS)
    with OtherRag() as server:
        url = server.url.removesuffix("/v1")
        live: dict[str, Any] = {
            "generator": "http", "url": f"{url}/ask", "request": {"ask": {"text": "{question}"}}, "retries": 0,
            "returns": {
                "answer": "data.said", "contexts": "data.found[].t", "prompt_tokens": "data.n", "usd": "data.cost",
            },
        }  # fmt: skip
        settings = {
            "questions": {"dataset": f"recorded:{file}"},
            "methods": {"live": {"generate": live}},
            "score": {"metrics": ["tokens", "accuracy"]},
        }
        for _ in range(4):
            try:
                outcome = evaluate(tmp_path / "store", settings)
            except Unanswered:
                continue
        found = values(tmp_path / "store", outcome, "live")
        assert (found["contexts"], found["prompt_tokens"], found["usd"]) == (2, 7, 0.5)
        assert found["completion_tokens"] is None
        assert sorted({*server.questions}) == sorted(row["question"] for row in ROWS)
        assert len(server.questions) - 24 == len(server.questions) // 5  # none but the refused ones was asked again
        chat = {"generator": "http", "url": f"{url}/v1/chat/completions"}
        outcome = evaluate(tmp_path / "store", {**settings, "methods": {"chat": {"generate": chat}}})
        assert values(tmp_path / "store", outcome, "chat")["prompt_tokens"]
    assert pl.DataFrame(vf.Store(tmp_path / "store").sql("FROM received WHERE usd = 0.5")).height == 24


def live(folder: Path, url: str) -> Path:
    """An experiment that asks a server as a chat."""
    generate = {"generator": "http", "url": f"{url}/chat/completions", "max_tokens": 150, "concurrency": 2}
    dataset = f"recorded:{lines(folder / 'a.jsonl', ROWS)}"
    file = folder / "live.yaml"
    file.write_text(json.dumps({"questions": {"dataset": dataset}, "methods": {"live": {"generate": generate}}}))
    return file


def test_a_system_that_is_asked_live_is_paid_up_to_the_cap_and_asked_nothing_again(tmp_path: Path) -> None:
    with PaidServer() as server, priced(tmp_path, "http"):
        words = ("evaluate", live(tmp_path, server.url), "--runner", "serial", "--store", tmp_path / "store", "--yes")
        stopped = run(*words, "--max-usd", "0.5")
        assert stopped.exit_code == 1
        assert "the cap of 0.5000 USD is reached" in " ".join(stopped.stderr.split())
        assert 0 < (asked := len(server.prompts())) < 24
        assert sum(map(sum, map(server.usage, server.prompts()))) * PER_TOKEN <= 0.5
        done = run(*words, "--max-usd", "20")
        assert done.exit_code == 0, done.output
        assert (len(server.prompts()), server.paid_again()) == (24, 0), f"{asked} were asked below the cap"


@pytest.mark.slow
def test_a_system_that_is_asked_live_is_asked_nothing_again_after_a_kill(tmp_path: Path) -> None:
    with PaidServer() as server:
        server.seconds = 0.1
        words = ("evaluate", live(tmp_path, server.url), "--runner", "serial", "--store", tmp_path / "store")
        process = subprocess.Popen([sys.executable, "-m", "vitalfew.flows.cli", *map(str, words)])
        while len(server.prompts()) < 8 and process.poll() is None:
            time.sleep(0.01)
        process.kill()
        assert process.wait() == -9
        server.wait()
        assert run(*words).exit_code == 0
        assert {*server.prompts()} == {row["question"] for row in ROWS}
        assert server.paid_again() <= 2, "more than those that were under way"


def test_files_as_spreadsheets_and_other_tools_write_them(tmp_path: Path) -> None:
    semicolons = tmp_path / "semicolons.csv"
    semicolons.write_text("\ufeffquestion;answer;usd;tokens\nWho?;Ada;0,25;1.200,0\n", encoding="utf-8")
    assert (read(semicolons).usd, read(semicolons).prompt_tokens) == (0.25, 1200)
    (tmp_path / "latin.csv").write_bytes("question,answer\nWo ist Köln?,Am Rhein\n".encode("latin-1"))
    with pytest.raises(InputError, match=r"latin\.csv: .*Row 2 cannot be read: not UTF-8 at byte 9"):
        ResultFile(tmp_path / "latin.csv")
    (tmp_path / "a.xlsx").write_bytes(b"PK")
    with pytest.raises(InputError, match=r"a\.xlsx: a workbook is not read\. Save its sheet as CSV"):
        ResultFile(tmp_path / "a.xlsx")


def test_ids_that_count_rows_pair_no_other_question(tmp_path: Path) -> None:
    """As an index of pandas does, whose rows were sorted since."""
    files = [
        lines(tmp_path / f"{name}.jsonl", [{"id": number, **row} for number, row in enumerate(rows)])
        for name, rows in {"a": ROWS, "b": [{**row, "answer": row["gold"]} for row in reversed(ROWS)]}.items()
    ]
    report = vf.Store(tmp_path / "store", progress=False).score(*files)
    means = dict(report.summaries.filter(metric="accuracy").select("method", "value").rows())
    assert means == {"a": pytest.approx(18 / 24), "b": 1.0}
