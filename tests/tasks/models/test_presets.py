"""Models by name: where each lies; and SmolLM2, whose conversion is whole or absent, checked, and found by engines."""

from pathlib import Path

import pytest
from huggingface_hub import constants
from typer.testing import CliRunner

from tests.support import tiny_models
from vitalfew.flows.cli.main import app
from vitalfew.tasks.models.causal import smollm2
from vitalfew.tasks.models.causal.engines.transformers import Transformers
from vitalfew.tasks.models.files import find_model
from vitalfew.tasks.models.presets import presets


def test_the_list_says_where_each_lies_or_what_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
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


@pytest.fixture
def converted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The converted model; the first conversion was killed."""

    def killed(source: Path, folder: Path) -> None:
        tiny_models.llama(folder)
        raise KeyboardInterrupt

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(smollm2, "_source", lambda: Path("packaged.gguf"))
    monkeypatch.setattr(smollm2, "_write", killed)
    with pytest.raises(KeyboardInterrupt):
        smollm2.convert()
    with pytest.raises(FileNotFoundError, match="not on this machine"):
        smollm2.find()
    monkeypatch.setattr(smollm2, "_write", lambda source, folder: tiny_models.llama(folder))
    return smollm2.convert()


def test_every_engine_finds_it(converted: Path) -> None:
    assert [path.name for path in converted.parent.iterdir() if path.is_dir()] == [converted.name]
    assert find_model("smollm2", "generate.model") == converted == smollm2.find() == smollm2.convert()
    engine = Transformers(Transformers.Options(model="smollm2", max_tokens=4, temperature=0), "generate")
    assert smollm2.CHECKSUMS not in engine.identity()["files"]
    assert engine.complete(["Who founded it?"])[0].completion_tokens == 4


def test_a_damaged_file_is_named_and_made_again(converted: Path) -> None:
    name = "model.safetensors"
    content = (converted / name).read_bytes()
    (converted / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(FileNotFoundError, match=rf"{name} is missing or damaged.*`vitalfew models get smollm2`"):
        smollm2.find()
    assert (smollm2.convert() / name).read_bytes() == content
