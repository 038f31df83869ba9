"""The other side of `make bench-encode`: sentence-transformers, as a process that may run in another environment.

    python -m benchmarks.rivals MODEL TEXTS.json

PyTorch in float32 and bf16 run in .venv. The OpenVINO and ONNX backends run in .venv-rivals (`make setup-rivals`), with
sentence-transformers 5.7 and transformers 4.57: optimum-onnx 0.1.0, the newest, takes nothing newer. Nothing is
downloaded: OpenVINO's and ONNX's models are made from the same weights here, int8 by sentence-transformers' own
`export_dynamic_quantized_onnx_model` for AVX512-VNNI. TEXTS.json: {"passages": [...], "questions": [...]}.

The process reads a line of JSON from stdin and answers with one; a failure → {"error": …}. `load` → {"about": …};
`encode` of "passages" or "questions" → {"cpu": …, "clock": …} in seconds, tokenisation counted in.
"""

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.common import serve

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

DEFAULT = "sentence-transformers, defaults"
BATCHES = (8, 32, 128)
TRIED = 128
"""Passages on which the best batch size is chosen."""


def _pytorch(model: str, dtype: str | None = None) -> "SentenceTransformer":
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(model, device="cpu", model_kwargs={"dtype": dtype} if dtype else {})


def _openvino(model: str, hint: str | None = None) -> "SentenceTransformer":
    """`hint`: the precision that OpenVINO computes in; None leaves it to OpenVINO."""
    from sentence_transformers import SentenceTransformer

    settings = {"INFERENCE_NUM_THREADS": "1", **({"INFERENCE_PRECISION_HINT": hint} if hint else {})}
    arguments = {"export": True, "ov_config": settings}
    return SentenceTransformer(model, device="cpu", backend="openvino", model_kwargs=arguments)


def _onnx(model: str, **arguments: Any) -> "SentenceTransformer":
    import onnxruntime
    from sentence_transformers import SentenceTransformer

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # its default is a thread for every core, whatever this process is bound to
    arguments |= {"provider": "CPUExecutionProvider", "session_options": options}
    return SentenceTransformer(model, device="cpu", backend="onnx", model_kwargs=arguments)


def _onnx_int8(model: str) -> "SentenceTransformer":
    from sentence_transformers import export_dynamic_quantized_onnx_model

    with tempfile.TemporaryDirectory() as copy:
        shutil.copytree(model, copy, dirs_exist_ok=True)
        export_dynamic_quantized_onnx_model(_onnx(model, export=True), "avx512_vnni", copy)
        return _onnx(copy, file_name="onnx/model_qint8_avx512_vnni.onnx")


PRODUCT, RIVALS = ".venv", ".venv-rivals"
WAYS: dict[str, tuple[str, Callable[[str], "SentenceTransformer"]]] = {
    DEFAULT: (PRODUCT, _pytorch),
    "sentence-transformers, bf16": (PRODUCT, lambda model: _pytorch(model, "bfloat16")),
    "OpenVINO": (RIVALS, _openvino),
    "OpenVINO, f32": (RIVALS, lambda model: _openvino(model, "f32")),
    "ONNX float32": (RIVALS, lambda model: _onnx(model, export=True)),
    "ONNX int8": (RIVALS, _onnx_int8),
}
"""Name → the environment that it runs in, and how it is loaded."""


def _precision(model: "SentenceTransformer") -> str:
    """Return the precision that OpenVINO says it computes in; the names of the others say it."""
    compiled = getattr(model[0].auto_model, "request", None)
    if compiled is None:
        return ""
    return f", computes in {compiled.get_property('INFERENCE_PRECISION_HINT').get_type_name()}"


class Encoders:
    """The loaded models, each with its batch size."""

    def __init__(self, model: str, texts: dict[str, list[str]]) -> None:
        self.model, self.texts = model, texts
        self.loaded: dict[str, tuple[SentenceTransformer, int]] = {}

    def load(self, name: str) -> dict[str, str]:
        """All but the defaults get the batch size that is best for them here."""
        model = WAYS[name][1](self.model)
        size = 32 if name == DEFAULT else self._best(model)
        self.loaded[name] = model, size
        return {"about": f"batches of {size}{_precision(model)}"}

    def _best(self, model: "SentenceTransformer") -> int:
        passages = self.texts["passages"]
        some = passages[:: max(1, len(passages) // TRIED)][:TRIED]
        model.encode(some[:32])

        def seconds(size: int) -> float:
            began = time.process_time()
            model.encode(some, batch_size=size)
            return time.process_time() - began

        return min(BATCHES, key=seconds)

    def encode(self, name: str, texts: str, to: str | None) -> dict[str, float]:
        import numpy as np

        model, size = self.loaded[name]
        clock, cpu = time.perf_counter(), time.process_time()
        vectors = model.encode(self.texts[texts], batch_size=size)
        spent = {"cpu": time.process_time() - cpu, "clock": time.perf_counter() - clock}
        if to:
            np.save(to, np.asarray(vectors, dtype=np.float32))
        return spent


if __name__ == "__main__":
    serve(Encoders(sys.argv[1], json.loads(Path(sys.argv[2]).read_text())))
