"""The real language model, where this machine has it, and how tests stand aside where it is not there."""

from pathlib import Path

import pytest

from vitalfew.tasks.models.causal import smollm2


def smollm2_directory() -> Path:
    """The directory of SmolLM2; the test is skipped where it is missing."""
    try:
        return smollm2.find()
    except FileNotFoundError as error:
        pytest.skip(f"{error} (make setup-llm)")
