"""Load a model of Hugging Face, and a clock that stands still while this thread loads one.

The first batch that needs a model loads it, and must not count as slow: loaders are marked `@loading()`, and batches
are timed by `clock`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import local
from time import perf_counter, process_time
from typing import Any

from vitalfew.tasks.models.files import UnsupportedModel


class _Loaded(local):
    """Seconds that this thread has spent on loading, and the process meanwhile on all processors."""

    seconds = 0.0
    cpu_seconds = 0.0


_loaded = _Loaded()


@contextmanager
def loading() -> Iterator[None]:
    """The block, or the function, loads a model. One that is loaded within another's loading counts once."""
    before, began = (_loaded.seconds, _loaded.cpu_seconds), (perf_counter(), process_time())
    try:
        yield
    finally:
        _loaded.seconds = before[0] + perf_counter() - began[0]
        _loaded.cpu_seconds = before[1] + process_time() - began[1]


def loaded() -> tuple[float, float]:
    """The wall and CPU seconds that this thread has spent on loading so far."""
    return _loaded.seconds, _loaded.cpu_seconds


def clock() -> float:
    """Seconds since some moment, without those in which this thread loaded models."""
    return perf_counter() - _loaded.seconds


def cpu_clock() -> float:
    """Seconds of all processors that this process has taken, without those in which this thread loaded models."""
    return process_time() - _loaded.cpu_seconds


@contextmanager
def quietly() -> Iterator[None]:
    """Within the block, transformers prints neither bars nor reports of what it loads; errors are raised anyway."""
    from transformers.utils import logging as messages

    verbosity, bars = messages.get_verbosity(), messages.is_progress_bar_enabled()
    messages.set_verbosity_error()
    messages.disable_progress_bar()
    try:
        yield
    finally:
        messages.set_verbosity(verbosity)
        if bars:
            messages.enable_progress_bar()


def pretrained(kind: Any, folder: Path, advice: str, spare: str | None = None, **settings: Any) -> Any:
    """Read a model from its directory: from safetensors alone, without code from the directory, and with every weight.

    `kind`: a class of transformers, perhaps an Auto class; `settings`: of its `from_pretrained`. The part named `spare`
    may lack weights. Raises UnsupportedModel if others are missing, with `advice` at the end of its message; OSError or
    ValueError if the directory has no such model.
    """
    with quietly():
        model, report = kind.from_pretrained(
            folder,
            use_safetensors=True,
            trust_remote_code=False,
            local_files_only=True,
            output_loading_info=True,
            **settings,
        )
    if missing := sorted(name for name in report["missing_keys"] if spare not in name.split(".")):
        raise UnsupportedModel(
            f"{folder}: {len(missing)} weights of {type(model).__name__} are missing ({missing[0]}, …); {advice}"
        )
    return model
