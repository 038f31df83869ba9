"""Networks that OpenVINO computes on x86-64 processors: converted once, kept in the user's cache, compiled when used.

A network reads token ids and gives the states of the tokens. It is converted from PyTorch once for a model, and kept in
`$XDG_CACHE_HOME/vitalfew/openvino` (else `~/.cache/…`) by the checksums of the model's files. It is
read only if its checksums are the recorded ones.

**A text's states are the same bytes whatever it is computed with.** A text is padded to the next multiple of STEP
tokens, only texts of one padded length are computed together, and one thread computes a batch.
A product's row then has one order of sums, whatever the number of rows. Every loaded network is tried: where a text
does not get the same bytes alone and among others, every text is computed alone.
"""

import json
import logging
import platform
import queue
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from vitalfew.configs.installing import install_command
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.section import NumberName
from vitalfew.storage import files
from vitalfew.tasks.models.batches import computed
from vitalfew.tasks.models.device import features

if TYPE_CHECKING:
    from torch import Tensor, nn

logger = logging.getLogger("vitalfew")

Engine = Literal["openvino", "torch"]
States = NDArray[np.float32]
Build = Callable[[], "tuple[nn.Module, tuple[Tensor, ...]]"]
"""Make a network in PyTorch, and an example of its inputs: token ids, mask, perhaps token types; or vectors."""

VERSION = 1
"""The version of the conversion: models converted by another one are converted again."""
STEP = 4
"""A text is padded to a multiple of this number of tokens."""
BATCH_TOKENS = 1024
"""Tokens in a batch, padding included: more are no faster."""
GROUP = 64
"""Numbers of an activation that share a scale in int8."""
AGREES = 0.9999
"""The least cosine of a converted network's states to those of PyTorch, in float32."""
HINTS = {"fp32": "f32", "bf16": "bf16", "int8": "f32"}
"""OpenVINO's names of precisions. What int8 leaves is computed in float32."""
SHAPES = 256
"""Kernels that a stream keeps, one per shape. By OpenVINO's default, 5,000, memory grows with every new length."""
KEPT = 2
"""Compiled networks that a process keeps."""
XML, ABOUT = "model.xml", "about.json"
NATIVE = {"bf16": ("avx512_bf16", "amx_bf16"), "int8": ("avx512_vnni", "avx_vnni", "amx_int8")}
"""The processor's features, of which one makes a precision fast."""


_IS_X86 = platform.machine().lower() in ("x86_64", "amd64")


class NotConverted(Exception):
    """OpenVINO cannot compute this network, or computes something else; the message says why."""


def has_native(precision: str) -> bool:
    """Return whether the processor multiplies in this precision."""
    return precision == "fp32" or bool(features().intersection(NATIVE.get(precision, ())))


def engine_of(device: str, precision: NumberName) -> Engine:
    """The library that computes networks on this device in this precision. It follows from the settings and from the
    processor, never from a measurement."""
    able = precision == "int8" or (precision != "fp16" and has_native(precision))
    return "openvino" if device == "cpu" and able and is_usable() else "torch"


def is_usable() -> bool:
    """Return whether this processor is one that OpenVINO is used on, and OpenVINO is installed."""
    return _IS_X86 and find_spec("openvino") is not None


def lacks_openvino() -> bool:
    """Return whether OpenVINO would be used on this processor, but is not installed."""
    return _IS_X86 and not is_usable()


CONVERTER, TELEMETRY = "openvino.tools.ovc", "openvino_telemetry"
"""Modules of OpenVINO: the first takes longer to import than all the rest, the second sends usage data to Google."""


def runtime() -> Any:
    """The module openvino, without its converter."""
    for name in (CONVERTER, TELEMETRY):
        sys.modules.setdefault(name, None)  # type: ignore[arg-type]
    import openvino  # type: ignore[import-untyped]

    return openvino


def converter() -> Any:
    """The module that converts, which sends nothing to anybody."""
    runtime()
    if sys.modules[CONVERTER] is None:
        del sys.modules[CONVERTER]
    return import_module(CONVERTER)


class Compiled:
    """A network compiled for this processor. Several threads may call it."""

    def __init__(self, model: Any, precision: NumberName, streams: int) -> None:
        """`model`: a converted network, or the path of one; `streams`: batches that are computed at once."""
        hints = {
            "INFERENCE_PRECISION_HINT": HINTS[precision],
            "INFERENCE_NUM_THREADS": streams,
            "NUM_STREAMS": streams,
            "CPU_RUNTIME_CACHE_CAPACITY": SHAPES,
        }
        grouped = {"DYNAMIC_QUANTIZATION_GROUP_SIZE": GROUP} if precision == "int8" else {}
        network = runtime().Core().compile_model(model, "CPU", {**hints, **grouped})
        self.streams = streams
        self._idle: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(streams):
            self._idle.put(network.create_infer_request())
        self.inputs = len(network.inputs)
        self.alone = not self._is_independent()
        if self.alone:
            logger.warning("on this processor a text's vector depends on its batch: every text is computed alone")

    def __call__(self, ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None = None) -> States:
        """float32 (tokens, d): the states of all tokens, text after text, without padding. `types`: of every token, for
        a network that reads them."""
        places: dict[int, list[int]] = {}
        for row, own in enumerate(ids):
            places.setdefault(row if self.alone else padded_length(len(own)), []).append(row)

        def compute(rows: list[int]) -> list[States]:
            return self._computed([ids[row] for row in rows], types and [types[row] for row in rows])

        # Those with most tokens first, so that the streams end at about the same time.
        batches = sorted(places.values(), key=lambda rows: -sum(padded_length(len(ids[row])) for row in rows))
        states: dict[int, States] = {}
        for rows, found in zip(batches, computed(compute, batches, self.streams, loaded=True), strict=True):
            states.update(zip(rows, found, strict=True))
        return np.concatenate([states[row] for row in range(len(ids))])

    def _computed(self, ids: Sequence[Sequence[int]], types: Sequence[Sequence[int]] | None) -> list[States]:
        """The states of texts of one padded length, in one batch."""
        lengths = np.array([len(own) for own in ids])
        mask = np.arange(padded_length(int(lengths.max()))) < lengths[:, None]
        given = [_filled(mask, ids), mask.astype(np.int64), *([_filled(mask, types)] if types else [])]
        with self._request() as request:
            (found,) = request.infer(given).values()
            return [row[:length].copy() for row, length in zip(found, lengths, strict=True)]

    def rows(self, given: States) -> States:
        """float32 (n, d) → (n, d'), for a network that reads vectors."""
        with self._request() as request:
            (found,) = request.infer([given]).values()
            return np.array(found)

    @contextmanager
    def _request(self) -> Any:
        request = self._idle.get()
        try:
            yield request
        finally:
            self._idle.put(request)

    def _is_independent(self) -> bool:
        """Return whether a text among others gets the bytes that it gets alone."""
        self.alone = False
        if self.inputs < 2:
            return True
        for tokens in (STEP, 3 * STEP - 1):
            texts = [[(7 * row + 3 * place) % 11 + 1 for place in range(tokens)] for row in range(5)]
            types = [[0] * tokens for _ in texts] if self.inputs > 2 else None
            among = self(texts, types)
            alone = [self([text], types and types[:1]) for text in texts]
            if not np.array_equal(among, np.concatenate(alone)):
                return False
        return True


def padded_length(tokens: int) -> int:
    """The number of tokens that a text of this length has with padding."""
    return max(1, -(-tokens // STEP)) * STEP


def _filled(mask: NDArray[np.bool_], rows: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    filled = np.zeros(mask.shape, np.int64)
    filled[mask] = np.concatenate([np.asarray(row, np.int64) for row in rows])
    return filled


def compiled(model: Mapping[str, Any], precision: NumberName, build: Build, streams: int) -> Compiled:
    """A network ready for use; the latest ones of this process are kept. `model`: everything that it depends on, above
    all its files' checksums; `build` makes it in PyTorch, where it is not in the cache; `streams`: batches that are
    computed at once. To prepare a stream takes a part of a second.

    Raises NotConverted, and ConfigError if int8 needs a library that is not installed."""
    key = (_name(model, precision), precision, streams)
    if key not in _kept:
        while len(_kept) >= KEPT:
            del _kept[next(iter(_kept))]
        _kept[key] = Compiled(_found_or_made(model, precision, build), precision, key[-1])
    return _kept[key]


_kept: dict[tuple[str, NumberName, int], Compiled] = {}


def _name(model: Mapping[str, Any], precision: NumberName) -> str:
    """The name of a converted network's folder: the network, then what converted it."""
    by = {"version": VERSION, "openvino": version("openvino"), "nncf": precision == "int8"}
    return "-".join(blake2b(repr(sorted(each.items())).encode(), digest_size=12).hexdigest() for each in (model, by))


def _found_or_made(model: Mapping[str, Any], precision: NumberName, build: Build) -> Any:
    """The path of a converted network, or the network itself where it could not be kept."""
    home = files.user_cache()
    place = home / "openvino" / _name(model, precision) if home else None
    about = _about(place) if place else None
    if place and about and (reason := about.get("reason")):
        raise NotConverted(f"{reason} (remembered in {place})")
    if place and about:
        return place / XML
    if precision == "int8":
        return _saved(_in_int8(_found_or_made(model, "fp32", build)), place)
    try:
        return _saved(_converted(*build()), place)
    except NotConverted as error:
        _saved(None, place, str(error))
        raise


def _about(place: Path) -> dict[str, Any] | None:
    """Return the record of a converted network; None where it is missing or damaged."""
    if not place.is_dir():
        return None
    try:
        about: dict[str, Any] = files.read_json(place / ABOUT) or {}
        if about and all(files.remembered_checksum(place / name) == due for name, due in about["checksums"].items()):
            return about
    except (OSError, KeyError, files.Damaged):
        logger.debug("%s cannot be read", place, exc_info=True)
    logger.warning("%s is damaged: the model is converted again", place)
    return None


def _converted(network: "nn.Module", example: "tuple[Tensor, ...]") -> Any:
    """A PyTorch network as OpenVINO's, with the same outputs. Raises NotConverted."""
    openvino = runtime()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the tracer's, on branches that the shapes of texts do not take
            model = converter().convert_model(network, example_input=example)
            # All that OpenVINO does not know is found now, or where it is compiled.
            found = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    except Exception as error:  # of many kinds, none of them documented
        raise NotConverted(" ".join(f"{type(error).__name__}: {error}".split())[:200]) from error
    import torch

    for given in _samples(example):
        with torch.inference_mode():
            due = network(*given).numpy()
        own = found([each.numpy() for each in given])[0]
        kept = given[1].numpy().astype(bool) if len(given) > 1 else ...
        own, due = own[kept], due[kept]
        lengths = np.linalg.norm(own, axis=-1) * np.linalg.norm(due, axis=-1)
        if not (np.isfinite(own).all() and ((own * due).sum(-1) >= AGREES * lengths).all()):
            raise NotConverted("its states are not those of PyTorch")
    return model


def _samples(example: "tuple[Tensor, ...]") -> "Iterator[tuple[Tensor, ...]]":
    """Inputs of other shapes than the example's: a conversion may have taken its shape for a constant."""
    import torch

    if len(example) == 1:
        yield (torch.linspace(-1, 1, 3 * example[0].shape[1]).reshape(3, -1),)
        return
    ids, mask, *types = example
    for rows, tokens in ((1, 3), (3, 13)):
        some = (torch.arange(rows * tokens).reshape(rows, tokens) * 7) % 11 + 1
        ends = torch.tensor([tokens - 2 * row for row in range(rows)])
        covered = (torch.arange(tokens) < ends[:, None]).to(mask.dtype)
        yield some.to(ids.dtype), covered, *(torch.zeros_like(some) for _ in types)


def _in_int8(model: Any) -> Any:
    """A network with its weights in int8, by NNCF. Raises ConfigError if that is not installed."""
    if find_spec("nncf") is None:
        raise ConfigError(
            "encode.precision=int8 quantises the model once with NNCF, which is not installed: "
            f"{install_command('int8')}, or use --set encode.precision=auto"
        )
    openvino = runtime()
    import nncf  # type: ignore[import-untyped]

    whole = openvino.Core().read_model(model) if isinstance(model, Path) else model
    return nncf.compress_weights(whole, mode=nncf.CompressWeightsMode.INT8_ASYM)


def _saved(model: Any, place: Path | None, reason: str = "") -> Any:
    """Keep a network, or the reason why there is none. Return its path; the network itself if it cannot be kept."""
    if place is None:
        return model
    try:
        files.make_private_folder(place.parent)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix=".") as folder:
            made = Path(folder, place.name)
            made.mkdir()
            if model is not None:
                runtime().save_model(model, made / XML, compress_to_fp16=False)
            checksums = {path.name: files.checksum(path) for path in sorted(made.iterdir())}
            (made / ABOUT).write_text(json.dumps({"checksums": checksums, "reason": reason}))
            if not (place / ABOUT).exists() or _about(place) is None:  # else another process was first
                files.remove_tree(place)
                made.rename(place)
    except (OSError, RuntimeError, files.NotWritten) as error:
        logger.warning("the converted model could not be kept and will be converted again: %s", error)
        return model
    return place / XML
