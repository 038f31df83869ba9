"""`--model`: one way to name a language model on every command that asks one, and `doctor --model`."""

from pathlib import Path

import pytest
from typer import BadParameter
from typer.testing import CliRunner

from tests.support import dialects as servers
from tests.support.fakes import ChatServer, Reply
from tests.support.towns import TOWNS, towns
from vitalfew.flows.cli import operate, options
from vitalfew.flows.cli.main import app
from vitalfew.tasks.models.causal.engines import dialects

EXPERIMENT = """
questions: {{dataset: "squad:{file}", where: "text LIKE 'How many%'"}}
methods: {{alone: {{retrieve: null, generate: {{generator: reader}}}}}}
"""


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialects, "_learnt", {})
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def run(*words: str, status: int = 0) -> str:
    done = CliRunner().invoke(app, [*words], env={"COLUMNS": "200"})
    assert done.exit_code == status, done.output
    return done.output


@pytest.mark.parametrize(
    ("model", "section", "settings"),
    [
        ("openai:meta/Llama-3:free", "generate", ["generate.generator=openai", "generate.model=meta/Llama-3:free"]),
        ("vllm:Qwen/Qwen3", "write", ["write.engine=vllm", "write.model=Qwen/Qwen3"]),
        ("a:b", "judge", ["judge.engine=transformers", "judge.model=a:b"]),  # a directory may have any name
        ("openai:4.1", "generate", ["generate.generator=openai", 'generate.model="4.1"']),
        (None, "generate", []),
    ],
)
def test_a_model_is_an_engine_and_a_name(
    model: str | None, section: str, settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a:b").mkdir()
    assert options.of_model(model, section) == settings


@pytest.mark.parametrize("wrong", ["foo:bar", "openai:", ""])
def test_what_is_no_model_is_said(wrong: str) -> None:
    with pytest.raises(BadParameter, match="write openai:NAME"):
        options.of_model(wrong, "generate")


def test_an_evaluation_and_an_answer_ask_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(EXPERIMENT.format(file=towns(tmp_path / "towns.json", TOWNS[:2])))
    store = ["--store", str(tmp_path / "store")]
    with servers.server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        shown = run("evaluate", str(file), "--model", "openai:azure", "--runner", "serial", *store)
        assert "100 %" in next(line for line in shown.splitlines() if line.startswith("alone"))
        assert {body["model"] for _, body, _ in server.asked if body} == {"azure"}
        both = ("--model", "openai:azure", "--judge", "openai:azure")
        judged = " ".join(run("evaluate", str(file), *both, "--runner", "serial", *store).split())
        assert "The judge judged no answer of alone: correct: the reply must be a JSON object" in judged[:200]
        planned = run("plan", str(file), "--model", "openai:azure", "--set", "generate.max_tokens=5", *store)
        for said in (shown, planned, run("costs", *store)):
            assert "openai:azure has no price, so USD leave its tokens out." in " ".join(said.split())
    with servers.server() as server:  # at another address than the method was evaluated with
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        method = [f"{file}:alone"]
        answer = run("answer", "How many people live in Kessin?", "--model", "openai:gemini", *method, *store)
        assert answer.splitlines()[0].endswith("400")
        assert {body["model"] for _, body, _ in server.asked if body} == {"gemini"}


def test_the_doctor_asks_a_model_and_says_what_it_learnt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operate, "ASKED", "How many people live in Velmar?")
    with servers.server() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        shown = " ".join(run("doctor", "--model", "openai:openai").split())
    assert "'300' (stop; expected 5)" in shown
    assert f"server {server.url}, no key" in shown
    assert "parameters refused top_p, logprobs" in shown
    assert "limit of an answer max_completion_tokens" in shown
    assert "7 of the prompt (4 of them cached), 42 of the answer (40 of them thought)" in shown


def test_the_doctor_says_why_there_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def behave(path: str, body: object, attempt: int) -> Reply:
        listed = path.endswith("models")
        return Reply({"data": []}) if listed else Reply({"error": {"message": "no such model"}}, status=404)

    with ChatServer(behave) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "o")  # which is hidden nowhere within a word
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert "no such model" in " ".join(run("doctor", "--model", "openai:tiny", status=1).split())
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_KEY")  # with a key, OpenAI itself would be asked
    assert "OPENAI_BASE_URL" in run("doctor", "--model", "openai:tiny", status=1)
