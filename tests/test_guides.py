"""Every command of the tutorials, the guides and the front pages runs, in its page's order, on files that a user could
have and in one store, which all pages share.

Here they run in this process, serially where the page leaves the runner open; those with servers and clusters run in
`test_guides_served.py` (slow).
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import yaml
from typer.testing import CliRunner

from tests.support.documents import FRONT, GUIDES, ROOT, Command, File, steps
from tests.support.fakes import ChatServer, completion
from tests.support.own_files import write_own_files
from vitalfew.flows.cli.main import app
from vitalfew.tasks.models.causal import smollm2

RUNNERS = {"index", "evaluate", "train"}
NO_RUN = {"history", "promote", "rollback"}
"""Commands below `index` that run nothing."""
GPU, SERVER, CLUSTER, MODEL = "a GPU", "a server", "a cluster", "SmolLM2"
FAST = {"index": []}
"""Pages whose commands take seconds; those of all others take minutes (trainings, the demo, evaluations of a grid)."""
FIRST = {"README", "your_documents", "own_corpus"}
"""Pages that begin where there is no store yet: `start` takes no name whose index has other settings."""
SET_UP = {"make", "git", "cd", "."}
"""How a reader comes to an environment; a test has one."""
NEVER_RUN = {
    "export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=/home/me/ray-token",
    "ray start --head",
    "ray start --address=head.example.org:6379",
}
"""What makes a cluster of several machines. A cluster of several nodes on this one runs the page's other commands."""


class Reader:
    """Somebody in a folder with files of their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.monkeypatch = monkeypatch

    def follow(self, step: Command | File) -> None:
        """Do what a page says. Raises AssertionError where a command fails."""
        if isinstance(step, File):
            Path(step.name).parent.mkdir(parents=True, exist_ok=True)
            Path(step.name).write_text(step.content, encoding="utf-8")
        elif step.words()[0] == "export":
            self.monkeypatch.setenv(*step.words()[1].split("=", 1))
        elif step.words()[0] == "vitalfew":
            _vitalfew(step.words()[1:])
        else:
            done = subprocess.run(step.line, shell=True, executable="bash", capture_output=True, text=True)
            assert done.returncode == 0, f"{step.line}\n{done.stdout}{done.stderr}"


def _vitalfew(arguments: list[str]) -> None:
    runs = arguments[0] in RUNNERS and not NO_RUN.intersection(arguments[1:2])
    serially = ["--runner", "serial"] if runs and "--runner" not in arguments else []
    done = CliRunner().invoke(app, [*arguments, *serially], input="SELECT 42")
    assert done.exit_code == 0, f"vitalfew {arguments}\n{done.output}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a reader who goes from page to page: what one page has computed, the next finds there."""
    made = tmp_path_factory.mktemp("reader")
    write_own_files(made)
    return made


@pytest.fixture
def reader(folder: Path, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Reader]:
    if request.node.callspec.params["page"].stem in FIRST:
        folder = tmp_path
        write_own_files(folder)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.chdir(folder)
        monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
        for name in ("PREFECT_API_URL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
            monkeypatch.delenv(name, raising=False)
        yield Reader(monkeypatch)


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, id=page.stem, marks=FAST.get(page.stem, pytest.mark.slow)) for page in (*GUIDES, *FRONT)],
)
def test_every_command_of_a_page_runs(page: Path, reader: Reader) -> None:
    with ChatServer(lambda *_: completion("1700")) as server:
        local = server.url.removeprefix("http://").removesuffix("/v1")
        for step in steps(page):
            if isinstance(step, File) or _runs_here(step):
                reader.follow(step.on({"127.0.0.1:8000": local}) if isinstance(step, Command) else step)


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
    page = [*steps(ROOT / "docs" / "guides" / "check.md")]
    (workflow,) = (step for step in page if isinstance(step, File) and step.name.startswith(".github/workflows/"))
    job = yaml.safe_load(workflow.content)["jobs"]["check"]
    lines = [line for step in job["steps"] for line in step.get("run", "").splitlines() if line.startswith("vitalfew ")]
    assert [line.split()[1] for line in lines] == ["index", "evaluate", "check"]
    assert {*lines} <= {step.line for step in page if isinstance(step, Command)}


def test_what_a_guide_needs_is_known_and_little_of_it_is_never_run() -> None:
    commands = [step for page in GUIDES for step in steps(page) if isinstance(step, Command)]
    assert {command.needs for command in commands} == {"", GPU, SERVER, CLUSTER, MODEL}
    cluster = {command.line.partition("#")[0].strip() for command in commands if command.needs == CLUSTER}
    assert {line for line in cluster if not line.startswith("RAY_ADDRESS=")} == NEVER_RUN
