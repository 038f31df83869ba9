"""SmolLM2 from the package index: its conversion is whole or absent, checked, and found by every engine.

A tiny Llama stands in for what the package carries; the real one is converted in test_real_model.py.
"""

from pathlib import Path

import pytest

from tests.support import tiny_models
from vitalfew.tasks.models.causal import smollm2
from vitalfew.tasks.models.causal.engines.transformers import Transformers
from vitalfew.tasks.models.files import find_model


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def converted(monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(smollm2, "_source", lambda: Path("packaged.gguf"))
    monkeypatch.setattr(smollm2, "_write", lambda source, folder: tiny_models.llama(folder))
    return smollm2.convert()


def test_every_engine_finds_it(converted: Path) -> None:
    assert find_model("smollm2", "generate.model") == converted == smollm2.find() == smollm2.convert()
    engine = Transformers(Transformers.Options(model="smollm2", max_tokens=4, temperature=0), "generate")
    assert smollm2.CHECKSUMS not in engine.identity()["files"]
    assert engine.complete(["Who founded it?"])[0].completion_tokens == 4


def test_a_killed_conversion_leaves_nothing_and_is_done_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def killed(source: Path, folder: Path) -> None:
        tiny_models.llama(folder)
        (folder / "half").write_text("written")
        raise KeyboardInterrupt

    monkeypatch.setattr(smollm2, "_source", lambda: Path("packaged.gguf"))
    with monkeypatch.context() as patched:
        patched.setattr(smollm2, "_write", killed)
        with pytest.raises(KeyboardInterrupt):
            smollm2.convert()
    with pytest.raises(FileNotFoundError, match="not on this machine"):
        smollm2.find()
    monkeypatch.setattr(smollm2, "_write", lambda source, folder: tiny_models.llama(folder))
    folder = smollm2.convert()
    assert not (folder / "half").exists()
    assert [path.name for path in folder.parent.iterdir() if path.is_dir()] == [folder.name]


def test_a_damaged_file_is_named_and_made_again(converted: Path) -> None:
    name = "model.safetensors"
    content = (converted / name).read_bytes()
    (converted / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(FileNotFoundError, match=rf"{name} is missing or damaged.*`vitalfew models get smollm2`"):
        smollm2.find()
    assert (smollm2.convert() / name).read_bytes() == content
    (converted / name).unlink()
    with pytest.raises(FileNotFoundError, match=name):
        smollm2.find()
