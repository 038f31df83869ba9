"""configs/models.yaml has every model that a setting knows by a name, and where it lies."""

from pathlib import Path

import pytest
from huggingface_hub import constants
from typer.testing import CliRunner

from vitalfew.configs.schema import EncodeConfig
from vitalfew.flows.cli.main import app
from vitalfew.tasks.encoders.transformer import TransformerEncoder
from vitalfew.tasks.models.presets import Preset, presets, source_of
from vitalfew.tasks.models.small import provence
from vitalfew.tasks.refiners.compact import Compact
from vitalfew.tasks.refiners.rewriting import Recomp, Refiner7B
from vitalfew.tasks.registry import METHODS, resolve
from vitalfew.tasks.splitters.propositions import Propositions


def listed(*kinds: str) -> dict[str, Preset]:
    return {preset.name: preset for preset in presets() if preset.kind in kinds}


def test_the_list_has_what_the_methods_look_for() -> None:
    encoders = {name: resolve("encoder", name) for name in METHODS["encoder"] if name != "huggingface"}
    assert set(listed("encoder")) == set(encoders)
    for name, encoder in encoders.items():
        assert issubclass(encoder, TransformerEncoder)
        hub = tuple(filter(None, (encoder.preset.model, encoder.preset.question_model)))
        assert listed("encoder")[name].hub == hub
    rewriters = {**Recomp.presets, **Propositions.presets, **Compact.presets}
    assert {name: preset.source for name, preset in listed("rewriter").items()} == rewriters
    assert {name: source_of("language model", name) for name in Refiner7B.presets} == Refiner7B.presets
    assert listed("pruner")["provence"].source == provence.PUBLISHED
    assert EncodeConfig().encoder in listed("encoder")


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
