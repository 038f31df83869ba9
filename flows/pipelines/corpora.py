"""Corpora by name: the files of configs/corpora, and of a directory of the user's own."""

from pathlib import Path

from vitalfew.configs.corpus import Corpus
from vitalfew.configs.loading import ConfigError, build, read_yaml
from vitalfew.configs.paths import beside
from vitalfew.tasks.registry import UnknownName

FOLDER = Path(__file__).parents[2] / "configs" / "corpora"


def corpora(store: Path, own: Path | None = None) -> dict[str, Path]:
    """The files of all corpora by name; the directory `own` (default: `corpora` beside the store) takes precedence.

    Raises ConfigError if `own` is given and does not exist.
    """
    if own and not own.is_dir():
        raise ConfigError(f"there is no directory {own}; give an existing directory of corpora")
    folders = [FOLDER, own or beside(store, "corpora")]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.yaml"))}


def find_corpus(name: str, store: Path, own: Path | None = None) -> Corpus:
    """Raises UnknownName, which lists the known corpora, and ConfigError, which names the file."""
    known = corpora(store, own)
    if name not in known:
        raise UnknownName("corpus", name, sorted(known))
    try:
        return build(Corpus, {"name": name, "store": store}, read_yaml(known[name]))
    except ConfigError as error:
        raise ConfigError(f"{known[name]}: {error}") from None
