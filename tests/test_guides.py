"""Every command of the tutorials, the how-to pages and the front pages runs, in its page's order, on files that a user
could have. How-to pages share a store, and so do tutorials, whose output is compared too.

Here they run in this process, serially where the page leaves the runner open; those with servers and clusters run in
`test_guides_served.py` (slow).
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
import yaml
from typer.testing import CliRunner

from tests.support.documents import FRONT, HOW_TO, ROOT, TUTORIALS, Command, File, printed, steps
from tests.support.fakes import ChatServer, completion
from tests.support.own_files import write_own_files
from vitalfew.flows.cli.main import app
from vitalfew.tasks.models.causal import smollm2

RUNNERS = {"index", "evaluate", "train"}
NO_RUN = {"history", "promote", "decline", "rollback"}
"""Commands below `index` that run nothing."""
GPU, SERVER, CLUSTER, MODEL = "a GPU", "a server", "a cluster", "SmolLM2"
PAGES = [*TUTORIALS, *HOW_TO, *FRONT]
READ_BEFORE = [
    "vitalfew index folder:handbook --name handbook",
    """vitalfew index squad:mine.json 'jsonl:notes.jsonl?text=body&title=headline' --name mine""",
    "vitalfew evaluate my.yaml",
    "vitalfew evaluate quickstart --index mine --set questions.sample=10 --set choose=null",
]
"""What a reader of a how-to page has done, by the pages on corpora and experiments."""
VARIES = re.compile(r"\b[\da-f]{6,8}\b|[\d.,]*\d|[▲▼≈]|\s+")
"""What a machine, a processor or an edited page changes in what is printed."""
SET_UP = {"make", "git", "cd", "."}
"""How a reader comes to an environment; a test has one."""
FEWER = ("train", "train_generators")
"""Pages whose many evaluations ask eight questions here, and whose PPO makes four steps."""
NEVER_RUN = {
    "export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=/home/me/ray-token",
    "ray start --head",
    "ray start --address=head.example.org:6379",
}
"""What makes a cluster of several machines. A cluster of several nodes on this one runs the page's other commands."""


class Reader:
    """Somebody in a folder with files of their own. `output`: of all commands so far."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch
        self.fewer = False
        self.output = ""

    def follow(self, step: Command | File) -> None:
        """Do what a page says. Raises AssertionError where a command ends with another status than the page says."""
        if isinstance(step, File):
            Path(step.name).parent.mkdir(parents=True, exist_ok=True)
            Path(step.name).write_text(step.content, encoding="utf-8")
        elif step.words()[0] == "export":
            self.monkeypatch.setenv(*step.words()[1].split("=", 1))
        else:
            status, output = self._vitalfew(step.words()[1:]) if step.words()[0] == "vitalfew" else _shell(step.line)
            assert status == step.status, f"{step.line}\n{output}"
            self.output += output

    def _vitalfew(self, arguments: list[str]) -> tuple[int, str]:
        runs = arguments[0] in RUNNERS and not NO_RUN.intersection(arguments[1:2])
        more = ["--runner", "serial"] if runs and "--runner" not in arguments else []
        if self.fewer and arguments[0] == "evaluate":
            more += ["--set", "questions.sample=8"]
        if self.fewer and arguments[:2] == ["train", "oreo"] and "ppo=null" not in arguments:
            more += ["--set", "ppo.steps=4"]
        done = CliRunner().invoke(app, [*arguments, *more], input="SELECT 42")
        return done.exit_code, done.output


def _shell(line: str) -> tuple[int, str]:
    done = subprocess.run(line, shell=True, executable="bash", capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


@contextmanager
def reading(folder: Path) -> Iterator[Reader]:
    """A reader who works in a folder, and has no server and no key."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        for name in ("PREFECT_API_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
            monkeypatch.delenv(name, raising=False)
        yield Reader(monkeypatch)


@pytest.fixture(scope="module")
def tutorials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with its pages, whose store the tutorials share: a passage that one has encoded, the next one finds."""
    clone = tmp_path_factory.mktemp("clone")
    shutil.copytree(ROOT / "docs" / "how_to", clone / "docs" / "how_to")
    return clone


@pytest.fixture(scope="module")
def how_to(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a reader who goes from one how-to page to another."""
    folder = tmp_path_factory.mktemp("reader")
    write_own_files(folder)
    with reading(folder) as reader:
        for step in (step for step in steps(ROOT / "docs" / "how_to" / "experiment.md") if isinstance(step, File)):
            reader.follow(step)
        for line in READ_BEFORE:
            reader.follow(Command(line))
    return folder


@pytest.fixture
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reader]:
    page = request.node.callspec.params["page"]
    if page in FRONT:
        write_own_files(tmp_path)
    with reading(tmp_path if page in FRONT else request.getfixturevalue(page.parent.name)) as somebody:
        somebody.fewer = page.stem in FEWER
        yield somebody


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem) for page in PAGES],
)
def test_every_command_of_a_page_runs(page: Path, reader: Reader) -> None:
    with ChatServer(lambda *_: completion("1700")) as server:
        local = server.url.removeprefix("http://").removesuffix("/v1")
        for step in steps(page):
            if isinstance(step, File) or _runs_here(step):
                reader.follow(step.on({"127.0.0.1:8000": local}) if isinstance(step, Command) else step)
    if page in TUTORIALS:
        shown = VARIES.sub(" ", reader.output)
        assert [line for line in printed(page) if VARIES.sub(" ", line).strip() not in shown] == [], reader.output


def _runs_here(command: Command) -> bool:
    if command.words()[0] in SET_UP:
        return False
    lacking = {CLUSTER} | ({GPU} if not torch.cuda.is_available() else set())
    return not command.served() and command.needs not in lacking | ({MODEL} if not _has_model() else set())


def _has_model() -> bool:
    try:
        return smollm2.find().is_dir()
    except FileNotFoundError:
        return False


def test_the_workflow_that_a_reader_copies_has_the_commands_that_are_run_here() -> None:
    page = [*steps(ROOT / "docs" / "how_to" / "check.md")]
    (workflow,) = (step for step in page if isinstance(step, File) and step.name.startswith(".github/workflows/"))
    job = yaml.safe_load(workflow.content)["jobs"]["check"]
    lines = [line for step in job["steps"] for line in step.get("run", "").splitlines() if line.startswith("vitalfew ")]
    assert [line.split()[1] for line in lines] == ["index", "evaluate", "check"]
    assert {*lines} <= {step.line for step in page if isinstance(step, Command)}


def test_what_a_page_needs_is_known_and_little_of_it_is_never_run() -> None:
    commands = [step for page in PAGES for step in steps(page) if isinstance(step, Command)]
    assert {command.needs for command in commands} == {"", GPU, SERVER, CLUSTER, MODEL}
    cluster = {command.line.partition("#")[0].strip() for command in commands if command.needs == CLUSTER}
    assert {line for line in cluster if not line.startswith("RAY_ADDRESS=")} == NEVER_RUN
