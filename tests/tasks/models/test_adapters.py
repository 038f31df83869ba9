"""LoRA adapters on a tiny Llama: the same answers as of merged weights, identity, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.support import tiny_models
from vitalfew.tasks.models.causal.engines.base import Completion, EngineUnavailable
from vitalfew.tasks.models.causal.engines.transformers import Transformers

TEXTS = ["Who founded it?", "Where does the river rise? " * 3, "The mill"]


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.llama(tmp_path_factory.mktemp("llama"))


@pytest.fixture(scope="module")
def lora(llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.lora(tmp_path_factory.mktemp("lora"), llama)


def engine(model: Path, adapter: Path | str | None) -> Transformers:
    given: dict[str, Any] = {"precision": "fp32", "device": "cpu", "max_tokens": 12, "temperature": 0.0}
    options = Transformers.Options(model=str(model), adapter=adapter and str(adapter), **given)
    return Transformers(options, "generate")


def answers(model: Path, adapter: Path | None) -> list[Completion]:
    return engine(model, adapter).complete(TEXTS)


@pytest.fixture
def _peft(monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not load an adapter is tested without the library."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)


def test_answers_are_those_of_the_merged_weights(llama: Path, lora: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    adapted = answers(llama, lora)
    expected = answers(tiny_models.merged(tmp_path / "merged", llama, lora), None)
    assert [each.text for each in adapted] == [each.text for each in expected]
    assert [each.logprob for each in adapted] == pytest.approx([each.logprob for each in expected], abs=1e-3)
    assert [each.text for each in adapted] != [each.text for each in answers(llama, None)]


@pytest.mark.usefixtures("_peft")
def test_identity_follows_the_adapter(llama: Path, lora: Path, tmp_path: Path) -> None:
    plain, adapted = (engine(llama, each).identity() for each in (None, lora))
    assert "adapter" not in plain
    assert adapted["adapter"].keys() == {"adapter_config.json", "adapter_model.safetensors"}
    other = tiny_models.lora(tmp_path / "other", llama, lora_alpha=4)
    assert engine(llama, other).identity() != adapted
    assert "model" not in vars(engine(llama, lora))


def test_an_adapter_of_another_model_is_refused(llama: Path, lora: Path, tmp_path: Path) -> None:
    pytest.importorskip("peft")
    weights = load_file(lora / "adapter_model.safetensors")
    for name, changed, fault in (
        ("wide", {key: torch.cat([each, each], -1) for key, each in weights.items()}, "size mismatch"),
        ("less", dict([*weights.items()][1:]), "1 weights are missing"),
        ("more", weights | {"base_model.model.model.layers.7.mlp.lora_A.weight": torch.ones(4, 4)}, "unknown"),
    ):
        folder = tiny_models.lora(tmp_path / name, llama)
        save_file(changed, folder / "adapter_model.safetensors")
        with pytest.raises(EngineUnavailable, match=rf"an adapter for someone/tiny-llama.*{fault}"):
            answers(llama, folder)


@pytest.mark.usefixtures("_peft")
def test_what_is_missing_is_named(llama: Path, lora: Path, tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match=r"Ori/llama-2-13b-peft-nq-retrobust is not on .*generate\.adapter"):
        engine(llama, "retrobust-nq")
    with pytest.raises(EngineUnavailable, match=r"is not an adapter: it has no adapter_config\.json"):
        engine(llama, llama)
    with pytest.raises(EngineUnavailable, match="kind IA3 are not supported, only LORA"):
        engine(llama, tiny_models.lora(tmp_path / "ia3", llama, peft_type="IA3"))
