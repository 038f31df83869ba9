"""Results of other systems as an experiment: a method per file, whose generator is `recorded`, on the questions that
all files have. So a score is an evaluation like any other: report, page, SQL, compare, review and check."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from vitalfew.tasks.datasets.base import InputError

NAME = "score"
"""The usual name of the run."""
METRICS = ("accuracy", "exact_match", "f1", "answer_shown", "answer_words", "tokens")
"""The metrics that need no index; a question without gold answers is left out of those that compare with them."""


def scoring(files: Sequence[str | Path], questions: str | None = None, columns: str | None = None) -> dict[str, Any]:
    """The settings of an experiment that scores files of results; the first file is the baseline.

    `questions`: a data set with the gold answers, FORMAT:PATH, in place of the files' own questions; `columns`: names
    of columns that are not recognised (question=prompt,answer=completion). Raises InputError.
    """
    paths = [Path(file).expanduser() for file in files]
    if not paths or len({path.absolute() for path in paths}) < len(paths):
        raise InputError("name one file of results or several, each once")
    if comma := next((path for path in paths[1:] if "," in str(path)), None):
        raise InputError(f"{comma}: the path has a comma; rename it, or name this file first")
    shared = {"generator": "recorded", **({"columns": columns} if columns else {})}
    named = zip(_names(paths), paths, strict=True)
    methods = {name: {"generate": {**shared, "file": str(path.absolute())}} for name, path in named}
    return {
        "about": "Results of other systems, read from files.",
        "questions": {"dataset": questions or _dataset(paths, columns)},
        "score": {"metrics": METRICS},
        "methods": methods,
    }


def _dataset(paths: Sequence[Path], columns: str | None) -> str:
    paired = ",".join(quote(str(path), safe="/,") for path in paths[1:])
    options = [f"paired={paired}"] if paired else []
    options += [f"columns={quote(columns)}"] if columns else []
    return f"recorded:{paths[0]}{'?' if options else ''}{'&'.join(options)}"


def _names(paths: Sequence[Path]) -> list[str]:
    """The stems of files, or as much of their paths as tells them apart."""
    ways = ([path.stem for path in paths], [path.name for path in paths], [str(path) for path in paths])
    return next(names for names in ways if len({*names}) == len(names))
