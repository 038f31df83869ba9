"""The other sides of `make bench-encode` and `make bench-compressors`, as processes of other environments.

Nothing is downloaded. A process reads a line of JSON from stdin and answers with one; a failure → {"error": …}.

    python -m benchmarks.rivals encoders MODEL TEXTS.json
    python -m benchmarks.rivals compressors

*encoders*: sentence-transformers in the ways that it offers on a CPU. PyTorch in float32 and bf16 run in .venv. The
OpenVINO and ONNX backends run in .venv-rivals (`make setup-rivals`), with sentence-transformers 5.7 and transformers
4.57: optimum-onnx 0.1.0, the newest, takes nothing newer. OpenVINO's and ONNX's models are made from the same weights
here, int8 by sentence-transformers' own `export_dynamic_quantized_onnx_model` for AVX512-VNNI. TEXTS.json: {"passages":
[...], "questions": [...]}. `load` → {"about": …}; `encode` of "passages" or "questions" → {"cpu": …, "clock": …} in
seconds, tokenisation counted in.

*compressors*: LLMLingua, LLMLingua-2 and Selective-Context as their authors' packages have them, in .venv-compressors
(`make setup-compressors`). Models are directories. GPT-3.5's vocabulary, by which the package llmlingua counts, is the
copy that llama-index-core carries, which is installed for that alone. Selective-Context's constructor would fetch GPT-2
and a spaCy model, so the object is built without it and gets a model, and a parser that parts words at blanks.
`load` → {"about": …}; `compress` of prompts [[TEXT, …], …] → {"kept": for every text of every prompt [[start, end,
whether it was kept], …], "cpu": seconds}.
"""

import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
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


Kept = list[tuple[int, int, bool]]
RATE, SEGMENT = 0.5, 200
RATE_2 = 0.33
DROPPED = 0.5
SENTENCE_END = r"(?<!\w\.\w.)(?<![A-Z][a-z]\.)(?<=\.|\?)\s"
"""Selective-Context's pattern."""


def placed(text: str, units: Sequence[str], kept: Sequence[bool]) -> Kept:
    """Return the places of units in their text, one after the other, without units that the text spells otherwise."""
    found: Kept = []
    at = 0
    for unit, keeps in zip(units, kept, strict=True):
        if unit and (start := text.find(unit, at)) >= 0:
            at = start + len(unit)
            found.append((start, at, bool(keeps)))
    return found


class LLMLingua:
    """The package's own settings but for the share, which is the paper's."""

    def __init__(self, model: str) -> None:
        from llmlingua import PromptCompressor

        own = self.compressor = PromptCompressor(model, device_map="cpu", model_config={"trust_remote_code": False})
        self.places: list[int] = []
        self.step, own.get_compressed_input = own.get_compressed_input, self.noted_step

    def noted_step(self, loss: Any, *given: Any, **named: Any) -> Any:
        """The package's step, with a note of the places that it leaves: a token is known by its loss."""
        made = self.step(loss, *given, **named)
        left, before = iter(made[4].tolist()), loss.tolist()
        due = next(left, None)
        places = []
        for place, value in zip(self.places, before, strict=False):
            if value == due:
                places.append(place)
                due = next(left, None)
        self.places = places + self.places[len(before) :]
        return made

    def compress(self, texts: Sequence[str]) -> Callable[[], list[Kept]]:
        [text] = texts
        encoded = self.compressor.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        offsets = encoded["offset_mapping"]
        self.places = [*range(len(offsets))]
        self.compressor.compress_prompt([text], rate=RATE, iterative_size=SEGMENT)
        left = {*self.places}

        def kept() -> list[Kept]:
            return [[(start, end, place in left) for place, (start, end) in enumerate(offsets)]]

        return kept


class LLMLingua2:
    """The package's own settings, but for the rate."""

    def __init__(self, model: str) -> None:
        from llmlingua import PromptCompressor

        config = {"trust_remote_code": False}
        self.compressor = PromptCompressor(model, device_map="cpu", model_config=config, use_llmlingua2=True)

    def compress(self, texts: Sequence[str]) -> Callable[[], list[Kept]]:
        [text] = texts
        made = self.compressor.compress_prompt([text], rate=RATE_2, return_word_label=True)

        def kept() -> list[Kept]:
            pairs = [word.rsplit(" ", 1) for word in made["fn_labeled_original_prompt"].split("\t\t|\t\t")]
            return [placed(text, [word for word, _ in pairs], [label == "1" for _, label in pairs])]

        return kept


class Word:
    """The attributes of a spaCy token that the package reads."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.whitespace_ = " "


class SelectiveContext:
    def __init__(self, model: str, level: str) -> None:
        from selective_context import SelectiveContext as Theirs
        from transformers import AutoModelForCausalLM, AutoTokenizer

        own = self.package = Theirs.__new__(Theirs)
        own.lang, own.model_type, own.device = "en", "gpt2", "cpu"
        own.sent_level_self_info, own.keep_leading_word = True, False
        own.sent_tokenize_pattern = SENTENCE_END
        own.phrase_mask_token = own.sent_mask_token = own.mask_token = ""
        own.nlp = lambda sentence: [Word(word) for word in sentence.split()]
        own.tokenizer = AutoTokenizer.from_pretrained(model)
        own.model = AutoModelForCausalLM.from_pretrained(model, torch_dtype="float32").eval()
        own.get_self_information = own._get_self_info_via_gpt2
        self.level = level
        self.inner, own.self_info_mask = own.self_info_mask, self.noted

    def noted(self, units: Sequence[str], information: Sequence[float], level: str) -> Any:
        """The package's step, with a note of what it masks."""
        made = self.inner(units, information, level)
        self.kept = [not value < self.package.ppl_threshold for value in information]
        return made

    def compress(self, texts: Sequence[str]) -> Callable[[], list[Kept]]:
        [text] = texts
        self.package(text, DROPPED, self.level)
        units, kept = sentences(text) if self.level == "sent" else text.split(), self.kept
        return lambda: [placed(text, units, kept)]


def sentences(text: str) -> list[str]:
    """Split a text as the package does."""
    parts = re.split(SENTENCE_END, text)
    return [part.strip() for part in parts if part.strip()]


METHODS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "LLMLingua": ("llmlingua", LLMLingua),
    "LLMLingua-2": ("llmlingua", LLMLingua2),
    "Selective-Context, words": ("selective-context", lambda model: SelectiveContext(model, "phrase")),
    "Selective-Context, sentences": ("selective-context", lambda model: SelectiveContext(model, "sent")),
}
"""Name → the package, and how it is loaded."""
TOGETHER = {"LLMLingua": 3}
"""Passages of a text, where it is not one: the package leaves a text of fewer tokens than a segment as it is."""


class Compressors:
    """The loaded methods."""

    def __init__(self) -> None:
        self.loaded: dict[str, Any] = {}

    def load(self, name: str, model: str) -> dict[str, str]:
        package, method = METHODS[name]
        self.loaded[name] = method(model)
        self.loaded[name].compress(["A first text, which is not timed. It has two sentences."])
        return {"about": f"{package} {version(package)}, transformers {version('transformers')}"}

    def compress(self, name: str, prompts: Sequence[Sequence[str]]) -> dict[str, Any]:
        began = time.process_time()
        made = [self.loaded[name].compress(texts) for texts in prompts]
        return {"cpu": time.process_time() - began, "kept": [kept() for kept in made]}


if __name__ == "__main__":
    if sys.argv[1] == "encoders":
        serve(Encoders(sys.argv[2], json.loads(Path(sys.argv[3]).read_text())))
    else:
        carried = Path(importlib.util.find_spec("torch").origin).parents[1] / "llama_index" / "core" / "_static"  # type: ignore[union-attr, arg-type]
        os.environ.update(TIKTOKEN_CACHE_DIR=str(carried / "tiktoken_cache"), NLTK_DATA=str(carried / "nltk_cache"))
        serve(Compressors())
