"""The guide to serving: its commands are run, on a handbook as a user has one."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.flows.serving.test_command import until_ready
from tests.support.documents import File, steps
from tests.support.own_files import write_own_files
from tests.support.serving import PATIENCE

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs/how_to/serve.md"


@pytest.mark.slow
def test_the_guide_to_serving(tmp_path: Path) -> None:
    write_own_files(tmp_path)
    page = PAGE.read_text()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    keys = {"VITALFEW_SERVE_KEYS": f"team:{'k' * 24}"}  # where other machines may connect
    chat, agent = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (curls,) = re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    key = f"-H 'Authorization: Bearer {'k' * 24}' -f -d"

    def run(line: str) -> str:
        done = subprocess.run(
            line, shell=True, executable="bash", cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        return done.stdout

    for step in (step for step in steps(PAGE) if "--runner ray" not in str(step)):  # `test_replicas.py` has a cluster
        if isinstance(step, File):
            (tmp_path / step.name).write_text(step.content)
        elif step.words()[:2] == ["vitalfew", "serve"]:
            words = [sys.executable, "-m", "vitalfew.flows.cli", *step.words()[1:], "--port", "0"]
            own = environment | (keys if "--host" in words else {})
            process = subprocess.Popen(
                words, cwd=tmp_path, env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
            try:
                assert process.stdout
                address = until_ready(process.stdout)[1].replace("0.0.0.0", "127.0.0.1")
                if "quickstart:ParetoRAG" in step.words():
                    said = [run(line.replace("http://127.0.0.1:8765", address).replace(" -d", f" {key}"))
                            for line in curls.splitlines()]  # fmt: skip
                    assert "director" in said[0]
                    assert '"index":1' in said[2].partition("}")[0]
                    for program, expected in ((chat, "CompletionUsage"), (agent, "director")):
                        (tmp_path / "ask.py").write_text(program.replace("http://127.0.0.1:8765", address))
                        assert expected in run(f"{sys.executable} ask.py")
                else:
                    assert '"whole"' in run(f"curl -sf {address}/v1/models {key.removesuffix(' -f -d')}")
            finally:
                process.send_signal(signal.SIGTERM)
                process.communicate(timeout=PATIENCE)
            assert process.returncode == 0
        elif step.words()[0] == "vitalfew":
            run(f"{sys.executable} -m {step.line.replace('vitalfew', 'vitalfew.flows.cli', 1)} --runner serial")
