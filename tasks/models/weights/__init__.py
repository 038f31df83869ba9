"""Trained weights that come with the project: one directory per model, with its card (README.md)."""

from pathlib import Path


def shipped(name: str) -> Path:
    """The directory of the weights of that name: reader, critic, cxmi."""
    return Path(__file__).parent / name
