"""The command `serve`, as a process of its own."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import httpx
import pytest

from tests.support.evaluating import searchable
from tests.support.serving import PATIENCE, experiment
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.serving.entrance import parse_keys
from vitalfew.flows.serving.running import checked_keys, known_origins, read_entries

ROOT = Path(__file__).parents[3]
GOOD = "me:0123456789abcdefghij"


def until_ready(output: IO[str]) -> tuple[str, str]:
    """What a server prints until it is ready, and its address."""
    lines = []
    for line in output:
        lines.append(line)
        if line.startswith("Ready"):
            break
    printed = "".join(lines)
    found = re.search(r"Address: (http://\S+)", printed)
    assert found, printed
    assert lines[-1].startswith("Ready"), printed
    return printed, found[1]


def test_a_server_runs_until_it_is_asked_to_end(tmp_path: Path) -> None:
    """With a file of two configurations."""
    file = experiment(tmp_path)
    (tmp_path / "serve.yaml").write_text(
        f"index: test\nconfigurations:\n  fine: {{method: '{file}:sentences'}}\n"
        f"  few: {{method: '{file}:passages', set: {{retrieve: {{top_k: 1}}}}}}\n"
    )
    words = ["serve", str(tmp_path / "serve.yaml"), "--port", "0", "--store", str(searchable())]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "VITALFEW_SERVE_KEYS": ""}
    command = [sys.executable, "-m", "vitalfew.flows.cli", *words]
    pipes: Any = {"text": True, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with subprocess.Popen(command, cwd=ROOT, env=environment, **pipes) as process:
        try:
            printed, address = until_ready(process.stdout)
            body = {"question": "Who founded the town of Velmar?", "model": "few"}
            with httpx.Client(base_url=address, timeout=PATIENCE) as client:
                assert client.get("/ready").status_code == 200
                assert len(client.post("/answer", json=body).raise_for_status().json()["contexts"]) == 1
            process.send_signal(signal.SIGTERM)
            rest = process.communicate(timeout=PATIENCE)[0]
        finally:
            process.kill()
    assert "fine: index test, not evaluated in this store" in printed
    assert (process.returncode, "Stopped." in rest) == (0, True), rest
    assert "Velmar" not in printed + rest


def test_no_name_is_served_twice_and_settings_are_spelt_right(tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text("index: wiki\nconfigurations: {a: {method: 'x:y'}, b: {method: 'x:z', index: other}}")
    with pytest.raises(ConfigError, match="named twice"):
        read_entries([str(file), str(file)])
    file.write_text("configurations: {a: {method: 'x:y', indx: z}}")
    with pytest.raises(ConfigError, match="did you mean"):
        read_entries([str(file)])


@pytest.mark.parametrize("value", ["abc", "me:short", f"{GOOD},{GOOD}"])
def test_faulty_keys_are_explained_and_not_repeated(value: str) -> None:
    with pytest.raises(ConfigError) as fault:
        parse_keys(value)
    assert "0123456789" not in str(fault.value)
    assert "short" not in str(fault.value)


def test_other_machines_need_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITALFEW_SERVE_KEYS", "")
    assert checked_keys("127.0.0.1") == {}
    with pytest.raises(ConfigError, match="keys are needed"):
        checked_keys("0.0.0.0")
    monkeypatch.setenv("VITALFEW_SERVE_KEYS", f"{GOOD}, you:{'k' * 20}")
    assert set(checked_keys("0.0.0.0")) == {"me", "you"}
    assert "https://rag.example" in known_origins("0.0.0.0", 8765, ["https://rag.example/"])
    assert "http://127.0.0.1:8765" in known_origins("127.0.0.1", 8765)
