"""`vitalfew models` lists every model that a setting knows by a name, and where it lies."""

from pathlib import Path

import pytest
from huggingface_hub import constants
from typer.testing import CliRunner

from vitalfew.flows.cli.main import app
from vitalfew.tasks.models.presets import presets


def test_the_list_says_where_each_lies_or_what_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    snapshot = tmp_path / "models--facebook--contriever" / "snapshots" / "0123"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text("{}")
    printed = CliRunner().invoke(app, ["models"]).output
    for preset in presets():
        assert preset.name in printed
        assert preset.licence in printed
    assert str(snapshot) in printed
    assert "weights/reader" in printed
    for command in ("vitalfew models get smollm2", "hf download meta-llama/Llama-2-7b-chat-hf"):
        assert command in printed
