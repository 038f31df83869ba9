"""Which way of computing a model is the fastest on this machine's CPU, of those that give float32's vectors.

It is measured once for a machine, a model and the versions of the libraries, and remembered in the user's cache
(`$XDG_CACHE_HOME/vitalfew/calibrations`, else `~/.cache/…`). The choice is part of an encoder's identity, so of the
fingerprint of all vectors: it has to be the same again where nothing has changed. That is why a way is only taken
before one that stands above it in the list if it is faster by more than noise.
"""

import logging
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from vitalfew.configs.section import DtypeName, KernelName, Precision
from vitalfew.storage import files
from vitalfew.tasks.models.batches import cut
from vitalfew.tasks.models.device import choose_dtype, precision_of
from vitalfew.tasks.models.encoder.checkpoint import Checkpoint
from vitalfew.tasks.models.encoder.kernels import Computation, can_pack
from vitalfew.tasks.models.encoder.tower import Tower, Vectors

logger = logging.getLogger("vitalfew")

COSINE = 0.9999
"""To the vector of float32, of the worst text: a way that is further from it is not taken."""
FASTER = 1.25
"""How much faster a way must be than one above it in the list."""
VERSION = 1
"""The version of kernels and measurement: a choice of another version is measured again."""
TOKENS = 4096
"""In the sample of a model of at most 40 million parameters; of larger ones fewer, for the same time."""
COMPARED = 8
"""Texts of the sample that are computed in float32 too."""
_WORDS = (12, 24, 48, 96)

Build = Callable[[Computation], Tower]


@dataclass(frozen=True)
class Measured:
    """One way's speed (tokens per CPU second), and the cosine of its worst vector to that of float32."""

    computation: Computation
    tokens_per_second: float
    cosine: float


def ways(
    checkpoint: Checkpoint, device: torch.device, precision: Precision, kernels: KernelName | None, size: int | None
) -> list[list[Computation]]:
    """The choices, preferred first; a second list only counts where nothing in the first is good enough. `kernels`,
    `size` (tokens in a batch): None leaves them to the measurement."""
    sizes: dict[KernelName, tuple[int, ...]]
    sizes = {"packed": (4096, 2048), "half": (4096,), "autocast": (2048,), "plain": (2048,)}

    def listed(precision: DtypeName, *names: KernelName) -> list[Computation]:
        return [
            Computation(name, precision, tokens)
            for name in names
            if kernels in (None, name) and (name != "packed" or can_pack(checkpoint, device, precision))
            for tokens in ([size] if size else sizes[name])
        ]

    dtype = choose_dtype(precision, device)
    wanted = precision_of(dtype)
    if device.type == "cuda":  # planned by drivers without one too, so that nothing can be measured
        return [[Computation(kernels or ("plain" if wanted == "fp32" else "autocast"), wanted, size or 65_536)]]
    fast: tuple[KernelName, ...] = ("packed", "half", "autocast") if wanted == "bf16" else ("half", "autocast")
    lists = [listed(wanted, *fast)] if wanted != "fp32" else []
    if wanted == "fp32" or precision == "auto":
        lists.append(listed("fp32", "packed", "plain"))
    return [some for some in lists if some]


def calibrated(build: Build, choices: list[list[Computation]], model: Any) -> Computation:
    """The choice for this machine: remembered, or measured now. `model`: the identity of the checkpoint."""
    if len(choices) == 1 and len(choices[0]) == 1:
        return choices[0][0]
    key = {**machine(), "ways": [[str(way) for way in some] for some in choices], "model": _digest(model)}
    place = _place(key)
    known = _remembered(place, key)
    if known and any(known in some for some in choices):
        return known
    # A warning, which a terminal shows: it takes seconds, once.
    logger.warning("measuring the fastest way to compute this model on this machine; the result is kept for later runs")
    began = time.perf_counter()
    chosen, measured = _chosen(build, choices)
    logger.info(
        "calibrated in %.1f s: %s, %s tokens/s, worst cosine %.5f",
        *(time.perf_counter() - began, chosen.computation, f"{chosen.tokens_per_second:,.0f}", chosen.cosine),
    )
    _remember(place, {"key": key, "computation": asdict(chosen.computation), "measured": [asdict(m) for m in measured]})
    return chosen.computation


def machine() -> dict[str, Any]:
    """Everything that a choice depends on besides the model."""
    limits = {name: os.environ[name] for name in ("ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY") if name in os.environ}
    versions = {name: version(name) for name in ("torch", "transformers")}
    return {"version": VERSION, "cpu": _cpu(), "limits": limits, **versions}


def _cpu() -> str:
    """Its name and what it can compute, as Linux has them."""
    described = Path("/proc/cpuinfo")
    if not described.exists():
        return f"{platform.machine()} {platform.processor()}"
    lines = (line.partition(":") for line in described.read_text().split("\n\n")[0].splitlines())
    about = {name.strip(): value.strip() for name, _, value in lines}
    flags = about.get("flags", about.get("Features", ""))
    return f"{about.get('model name', platform.machine())} {_digest(flags)}"


def _digest(value: Any) -> str:
    return blake2b(repr(value).encode(), digest_size=8).hexdigest()


def _place(key: dict[str, Any]) -> Path | None:
    home = files.user_cache()
    return home and home / "calibrations" / f"{_digest(sorted(key.items()))}.json"


def _remembered(place: Path | None, key: dict[str, Any]) -> Computation | None:
    """The choice for the same machine, model and versions; None if it is missing or damaged."""
    try:
        record = files.read_json(place) if place else None
        return Computation(**record["computation"]) if record and record["key"] == key else None
    except (OSError, files.Damaged, KeyError, TypeError):
        return None


def _remember(place: Path | None, record: dict[str, Any]) -> None:
    try:
        if place:
            files.write_json(place, record)
    except (OSError, files.NotWritten) as error:
        logger.warning("the calibration could not be stored and will be repeated: %s", error)


def _chosen(build: Build, choices: list[list[Computation]]) -> tuple[Measured, list[Measured]]:
    """The best way and all that were measured. Raises what the kernels raise where not one of them works."""
    exact = build(Computation("plain", "fp32", 512))
    sample = _sample(exact)
    reference = _vectors(exact, sample[:COMPARED])
    seen: list[Measured] = []
    for some in choices:
        measured = _measure(build, some, sample, reference)
        seen += measured
        if good := [way for way in measured if way.cosine >= COSINE]:
            return fastest(good), seen
    if not seen:
        raise RuntimeError(
            f"{exact.directory}: no way to compute this model works on this machine; see the warnings above"
        )
    best = max(seen, key=lambda way: way.cosine)
    told = (COSINE, best.computation, best.cosine)
    logger.warning("no way to compute this model reaches a cosine of %s to float32: %s has %.5f", *told)
    return best, seen


def fastest(measured: Sequence[Measured]) -> Measured:
    """The fastest, but one further up in the list if the difference may be noise."""
    best = measured[0]
    for way in measured[1:]:
        if way.tokens_per_second > FASTER * best.tokens_per_second:
            best = way
    return best


def _measure(
    build: Build, computations: Sequence[Computation], sample: list[list[int]], reference: Vectors
) -> list[Measured]:
    """Cosine and speed of every way that works; others are left out, with a warning.

    Kernels without fixed shapes are compiled for every batch of a corpus: that counts, on half of the sample. `packed`
    has compiled before. CPU time is measured (there is one thread), which other work on the machine changes less.
    """
    measured = []
    for computation in computations:
        try:
            tower, packed = build(computation), computation.kernels == "packed"
            timed = sample if packed else sample[: max(COMPARED, len(sample) // 2)]
            _vectors(tower, timed if packed else sample[:1])  # loads the weights
            began = time.thread_time()
            found = _vectors(tower, timed)
            seconds = time.thread_time() - began
        except (RuntimeError, ValueError) as error:
            logger.warning("%s do not work here and are left out: %s", computation, str(error).partition("\n")[0])
            continue
        cosine = float(_cosines(found[:COMPARED], reference).min())
        if np.isnan(cosine):
            logger.warning("%s give vectors that are not finite here and are left out", computation)
            continue
        measured.append(Measured(computation, sum(map(len, timed)) / seconds, cosine))
    return measured


def _vectors(tower: Tower, sample: list[list[int]]) -> Vectors:
    """float32 (n, d), batch by batch."""
    vectors = np.empty((len(sample), tower.dimension), np.float32)
    for batch in tower.batches([len(ids) for ids in sample]):
        vectors[batch] = tower.vectors([sample[row] for row in batch])
    return vectors


def _cosines(found: Vectors, reference: Vectors) -> np.ndarray:
    """float64 (n,)"""
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(reference, axis=1)
    return (found * reference).sum(1, dtype=np.float64) / np.maximum(lengths, 1e-12)


def _sample(tower: Tower) -> list[list[int]]:
    """Token ids of texts of 12 to 96 words, from the manual that comes with every Python."""
    from pydoc_data.topics import topics

    due = max(64, min(TOKENS, TOKENS * 40_000_000 // tower.parameters))
    words = " ".join(topics.values()).split()
    sample: list[list[int]] = []
    place = tokens = 0
    while tokens < due:
        count = _WORDS[len(sample) % len(_WORDS)]
        encoding = tower.tokenizer.encode(" ".join(words[place : place + count]))
        sample.append(cut(encoding, tower.recipe.max_tokens) or [tower.padding])
        place, tokens = place + count, tokens + len(sample[-1])
    return sample
