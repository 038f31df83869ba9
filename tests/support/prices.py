"""Prices of the tests' own, also for the processes that a test starts."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from vitalfew.storage.costs import OWN_PRICES

PER_TOKEN = 0.001
"""USD, of the models that are priced."""


@contextmanager
def priced(folder: Path, *models: str) -> Iterator[None]:
    """Within the block a token of these models costs `PER_TOKEN`; machines cost nothing."""
    path = folder / "prices.yaml"
    listed = ", ".join(f'"{model}": {PER_TOKEN * 1e6}' for model in models)
    path.write_text(f"- {{dated: 2026-01-01, cpu_core_hour: 0, gpu_hour: 0, million_tokens: {{{listed}}}}}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(OWN_PRICES, str(path))
        yield
