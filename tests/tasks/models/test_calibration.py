"""The choice of kernels: the fastest good one, remembered for this machine, model and versions alone."""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.support import tiny_models
from tests.tasks.encoders.test_transformer import TEXTS, encoder
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.models.encoder import calibration
from vitalfew.tasks.models.encoder.kernels import Computation
from vitalfew.tasks.models.encoder.tower import Tower

FREE: dict[str, Any] = {"precision": "auto", "batch_tokens": None}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.bert(tmp_path_factory.mktemp("models") / "bert")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(calibration, "TOKENS", 512)  # no test is about what is the fastest
    return tmp_path / "cache" / "vitalfew" / "calibrations"


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU that has bf16, as all of these machines pretend to be."""
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True})
    monkeypatch.setattr("vitalfew.tasks.models.encoder.kernels.packs", lambda *_: True)


@pytest.fixture
def spoil(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make some kernels give other vectors, by a function of them."""

    def spoil(change: Callable[[np.ndarray], np.ndarray], *kernels: str, precision: str = "bf16") -> None:
        honest = Tower.vectors

        def vectors(self: Tower, ids: Any) -> np.ndarray:
            spoilt = self.computation.kernels in kernels and self.computation.precision == precision
            return change(honest(self, ids)) if spoilt else honest(self, ids)

        monkeypatch.setattr(Tower, "vectors", vectors)

    return spoil


def chosen(model: Path, **options: Any) -> Computation:
    found: Computation = encoder("huggingface", model, **FREE | options).computation
    return found


def test_a_choice_is_remembered_and_part_of_the_method(model: Path, cache: Path) -> None:
    first = chosen(model)
    [file] = cache.iterdir()
    written = file.stat().st_mtime_ns
    again = encoder("huggingface", model, **FREE)
    assert again.computation == first
    assert file.stat().st_mtime_ns == written
    identity = again.identity()
    assert {name: identity[name] for name in ("kernels", "precision", "batch_tokens")} == vars(first)
    assert identity != encoder("huggingface", model, kernels="autocast", precision="bf16").identity()


@pytest.mark.parametrize("other", ["cpu", "torch", "version", "limits"])
def test_a_choice_of_another_machine_or_version_is_not_trusted(
    model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """Neither under its own name, nor copied to the name that this machine's would have."""
    mine = calibration.machine()
    monkeypatch.setattr(calibration, "machine", lambda: mine | {other: "another"})
    chosen(model)
    [foreign] = cache.iterdir()
    monkeypatch.setattr(calibration, "machine", lambda: mine)
    chosen(model)
    [own] = {*cache.iterdir()} - {foreign}
    own.write_bytes(foreign.read_bytes())
    chosen(model)
    assert json.loads(own.read_text())["key"][other] == mine[other]


def test_a_damaged_record_is_measured_again(model: Path, cache: Path) -> None:
    first = chosen(model)
    [file] = cache.iterdir()
    for damage in ("", "{", '{"key": 1}', file.read_text().replace('"bf16"', '"fp16"')):
        file.write_text(damage)
        assert chosen(model).precision == first.precision
        json.loads(file.read_text())


def test_what_gives_no_numbers_is_left_out_and_said(
    model: Path, native: None, spoil: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    spoil(lambda vectors: vectors * np.nan, "packed", "half")
    with caplog.at_level(logging.WARNING):
        assert chosen(model).kernels == "autocast"
    assert "half kernels in bf16, 4,096 tokens a batch give vectors that are not finite here" in caplog.text


def test_what_fails_is_left_out_and_said(
    model: Path, native: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def missing(*_: Any) -> None:
        raise NotImplementedError("no such operator\nand a long list of others")

    monkeypatch.setattr("vitalfew.tasks.models.encoder.kernels.PackedBert", missing)
    with caplog.at_level(logging.WARNING):
        assert chosen(model).kernels != "packed"
    assert "do not work here and are left out: no such operator" in caplog.text
    assert "a long list" not in caplog.text


def test_float32_is_taken_where_nothing_else_is_close(
    model: Path, native: None, spoil: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    def bend(vectors: np.ndarray) -> np.ndarray:
        bent = vectors.copy()
        bent[:, 0] += 0.1
        return bent

    spoil(bend, "packed", "half", "autocast")
    assert chosen(model).precision == "fp32"
    with caplog.at_level(logging.WARNING):
        assert chosen(model, precision="bf16").precision == "bf16"  # as the user says
    assert "no way to compute this model reaches a cosine of 0.9999" in caplog.text


@pytest.mark.parametrize(
    ("speeds", "kernels"),
    [((100, 100, 120), "packed"), ((100, 100, 140), "autocast"), ((100, 130, 140), "half")],
)
def test_only_what_is_clearly_faster_is_preferred(speeds: tuple[int, ...], kernels: str) -> None:
    """So that noise does not change a choice, which would encode a corpus again."""
    names = ("packed", "half", "autocast")
    measured = [
        calibration.Measured(Computation(name, "bf16", 2048), speed, 1.0)  # type: ignore[arg-type]
        for name, speed in zip(names, speeds, strict=True)
    ]
    assert calibration.fastest(measured).computation.kernels == kernels


def test_settings_leave_nothing_to_measure(model: Path, cache: Path) -> None:
    given = encoder("huggingface", model, kernels="autocast", precision="bf16", batch_tokens=64)
    assert given.computation == Computation("autocast", "bf16", 64)
    assert chosen(model, kernels="plain", batch_tokens=64) == Computation("plain", "fp32", 64)
    assert not cache.exists()
    given.encode(TEXTS)


def test_a_home_that_cannot_be_written_costs_a_measurement_alone(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with caplog.at_level(logging.WARNING):
        chosen(model)
    assert "the calibration could not be stored" in caplog.text


def test_packed_is_refused_for_other_models(tmp_path: Path) -> None:
    t5 = tiny_models.t5(tmp_path / "t5")
    with pytest.raises(ConfigError, match=r"kernels=packed supports only a plain BERT .*--set encode\.kernels=auto"):
        chosen(t5, kernels="packed")
    assert chosen(t5).kernels != "packed"


@pytest.mark.parametrize(
    ("kernels", "precision"),
    [("half", "fp32"), ("autocast", "fp32"), ("packed", "fp16"), ("packed", "bf16"), ("half", "auto")],
)
def test_kernels_and_precision_that_do_not_go_together_are_refused(
    model: Path, monkeypatch: pytest.MonkeyPatch, kernels: str, precision: str
) -> None:
    monkeypatch.setattr(torch.cpu, "get_capabilities", dict)  # a CPU without bf16, where auto is fp32
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    with pytest.raises(ConfigError, match=rf"kernels={kernels} does not work with encode\.precision={precision}"):
        chosen(model, kernels=kernels, precision=precision)
