"""Networks on OpenVINO: the same bytes in any company, the states of PyTorch, and a cache that may be anything."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.support import tiny_models
from tests.tasks.encoders.test_transformer import TEXTS, cosines, encoder
from vitalfew.tasks.models import compiled as module
from vitalfew.tasks.models.compiled import Compiled, NotConverted, compiled, is_usable

pytestmark = pytest.mark.skipif(not is_usable(), reason="OpenVINO is used on x86-64 alone")

MANY = [" ".join(["river", "hill", "mill", "town"][: 1 + n % 4] * (1 + n % 9)) for n in range(60)]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, in a process that has loaded nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "_kept", {})
    return tmp_path / "cache" / "vitalfew" / "openvino"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.bert(tmp_path_factory.mktemp("models") / "bert")


def vectors(model: Path, texts: list[str] = TEXTS, **options: Any) -> np.ndarray:
    found: np.ndarray = encoder("huggingface", model, **options).encode(texts).vectors
    return found


@settings(max_examples=4)
@given(order=st.permutations(range(len(MANY))), batch_tokens=st.sampled_from([16, 64, 1024]))
def test_a_text_has_the_same_bytes_in_any_company(model: Path, order: list[int], batch_tokens: int) -> None:
    ours = encoder("huggingface", model)
    alone = np.concatenate([ours.encode([text]).vectors for text in MANY])
    found = vectors(model, [MANY[row] for row in order], batch_tokens=batch_tokens)
    np.testing.assert_array_equal(found, alone[order])


def test_the_number_of_threads_changes_no_byte(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = vectors(model, MANY, batch_tokens=64)
    monkeypatch.setenv("VITALFEW_THREADS", "3")
    monkeypatch.setattr(module, "_kept", {})
    np.testing.assert_array_equal(vectors(model, MANY, batch_tokens=64), expected)


def test_where_company_changes_bytes_every_text_is_computed_alone(
    model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As on a processor whose products depend on the number of rows."""
    expected = vectors(model, MANY)
    honest = Compiled._computed

    def depends(self: Compiled, ids: Any, types: Any) -> list[np.ndarray]:
        return [own + np.float32(1e-3 * (len(ids) - 1)) for own in honest(self, ids, types)]

    monkeypatch.setattr(module, "_kept", {})
    monkeypatch.setattr(Compiled, "_computed", depends)
    np.testing.assert_array_equal(vectors(model, MANY), expected)
    assert "every text is computed alone" in caplog.text


@pytest.mark.parametrize("name", ["model.bin", "about.json"])
def test_a_damaged_copy_is_made_again(
    model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    expected = vectors(model)
    (place,) = cache.iterdir()
    content = (place / name).read_bytes()
    (place / name).write_bytes(content[: len(content) // 2])
    monkeypatch.setattr(module, "_kept", {})
    np.testing.assert_array_equal(vectors(model), expected)
    assert f"{place} is damaged: the model is converted again" in caplog.text


class Branching(nn.Module):
    """A trace follows the branch that the example takes."""

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states = torch.nn.functional.one_hot(ids, 16).float()
        return states if ids.shape[0] == 2 else states.cumsum(-1)


def test_a_conversion_that_computes_something_else_is_not_used(cache: Path) -> None:
    ids = torch.ones((2, 8), dtype=torch.int64)
    for _ in range(2):  # the second time from the cache
        with pytest.raises(NotConverted, match="its states are not those of PyTorch"):
            compiled({"branching": 1}, "fp32", lambda: (Branching(), (ids, torch.ones_like(ids))), 1)


def test_int8_is_close_and_another_identity(model: Path) -> None:
    exact, quick = encoder("huggingface", model), encoder("huggingface", model, precision="int8")
    assert exact.identity() != quick.identity()
    found, expected = quick.encode(TEXTS).vectors, exact.encode(TEXTS).vectors
    assert 0.98 < cosines(found, expected).min() < 1 - 1e-6
    assert 950_000 < quick.fidelity(MANY)["worst_cosine"] < 1_000_000


def test_nothing_is_sent_to_anybody() -> None:
    """OpenVINO's converters report to Google Analytics where its package for that can be imported."""
    program = (
        "from vitalfew.tasks.models.compiled import converter; converter(); "
        "from openvino.tools.ovc import telemetry_utils; print(telemetry_utils.tm.__name__)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "openvino.tools.ovc.telemetry_stub"
