"""What work is charged at: dated prices, prices by model, the energy of a GPU, and the model in the ledger."""

import sys
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from unittest import mock

import pytest

from vitalfew.storage import costs, usage
from vitalfew.storage.costs import Meter, charge, read_prices

LISTS = """
- {dated: 2027-03-01, cpu_core_hour: 0.10, gpu_hour: 3.0, million_tokens: {"openai:large": 2.0},
   million_cached_tokens: {"openai:large": 0.5}}
- {dated: 2026-11-21, cpu_core_hour: 0.05, gpu_hour: 2.5, million_tokens: 1.0}
"""


@pytest.fixture
def prices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Where to write a list of prices; what was read before is forgotten."""
    path = tmp_path / "prices.yaml"
    path.write_text(LISTS)
    monkeypatch.setattr(costs, "PRICES", path)
    costs._price_lists.cache_clear()
    yield path
    costs._price_lists.cache_clear()


def test_charges_by_day_and_model(prices: Path) -> None:
    for day, dated in (("2026-01-01", "2026-11-21"), ("2027-02-28", "2026-11-21"), ("2027-03-01", "2027-03-01")):
        assert read_prices(date.fromisoformat(day)).dated == date.fromisoformat(dated)
    old, new = date(2026, 12, 1), date(2027, 4, 1)
    assert charge(3600, 0, 0, on=old) == pytest.approx(0.05)
    assert charge(3600, 7200, 0, on=new) == pytest.approx(0.10 + 6.0)
    assert charge(0, 0, 1e6, "minilm", old) == pytest.approx(1.0)  # one number: every model
    assert charge(0, 0, 1e6, "minilm", new) == 0
    assert charge(0, 0, 5e5, "openai:large", new) == pytest.approx(1.0)
    assert charge(0, 0, 5e5, "openai:large", new, cached=4e5) == pytest.approx(0.2 + 0.2)
    assert charge(0, 0, 1e6, "minilm", old, cached=1e6) == pytest.approx(1.0)  # no price of its own


def test_energy_is_charged_by_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a GPU that takes 500 J between two looks, in the words of NVML."""
    nvml = mock.Mock(NVMLError=RuntimeError)
    nvml.nvmlDeviceGetTotalEnergyConsumption.side_effect = range(0, 10_000_000, 500_000)
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    usage._gpu.cache_clear()
    with Meter(0.5) as meter:
        sum(range(1000))
    usage._gpu.cache_clear()
    assert meter.cost.gpu_joules == 250
