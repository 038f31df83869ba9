"""Corpora by name: the files of configs/corpora, and those of a directory of the user's own."""

from pathlib import Path

from configs.corpus import Corpus
from configs.loading import ConfigError, build, read_yaml
from tasks.registry import UnknownName

FOLDER = Path(__file__).parents[2] / "configs" / "corpora"


def corpora(store: Path, own: Path | None = None) -> dict[str, Path]:
    """Every corpus's file by its name; one of the directory `own` (default: `corpora` beside the store) wins.

    Raises ConfigError where a directory that was asked for is not there.
    """
    if own and not own.is_dir():
        raise ConfigError(f"no directory of corpora {own}")
    folders = [FOLDER, own or store.absolute().parent / "corpora"]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}


def find_corpus(name: str, store: Path, own: Path | None = None) -> Corpus:
    """Raises UnknownName that lists the known ones, ConfigError that names the file."""
    known = corpora(store, own)
    if name not in known:
        raise UnknownName("corpus", name, sorted(known))
    try:
        return build(Corpus, {"name": name, "store": store}, read_yaml(known[name]))
    except ConfigError as error:
        raise ConfigError(f"{known[name]}: {error}") from None
