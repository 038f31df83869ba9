"""Vital Few: the least context that still answers, in retrieval-augmented generation.

    import vitalfew as vf

    store = vf.Store("store")
    index = store.index("handbook", "folder:handbook")
    rag = store.rag("quickstart:ParetoRAG", index="handbook")
    print(rag.answer("Who approves a trip abroad?"))

`Store`, `Askable`, `Index`, `Hits`, `QuestionSet`, `Report`, `Rag`, `RagAnswer`, `RagContext`, `RagHit`, `RagPassage`,
`RagSource`, `refine` and `sql` are the public API. This package is the only import name of the distribution. Its
subpackages `configs` (settings), `storage` (tables and files), `tasks` (stages and methods) and `flows` (Prefect, Ray
and the command line) are links to the folders at the top of the repository. The wheel holds real folders in their
place; what they hold may move without notice.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vitalfew.flows.pipelines.answering import RagAnswer, RagContext, RagHit, RagPassage, RagSource
    from vitalfew.flows.pipelines.refining import refine
    from vitalfew.library.askable import Askable
    from vitalfew.library.index import Hits, Index
    from vitalfew.library.questions import QuestionSet
    from vitalfew.library.rag import Rag
    from vitalfew.library.report import Report
    from vitalfew.library.store import Store, sql

__all__ = [
    "Askable",
    "Hits",
    "Index",
    "QuestionSet",
    "Rag",
    "RagAnswer",
    "RagContext",
    "RagHit",
    "RagPassage",
    "RagSource",
    "Report",
    "Store",
    "refine",
    "sql",
]

# bm25s calls JAX, where that is installed, on import, and JAX would take three quarters of the memory of a GPU.
os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

_PLACES = {
    "RagAnswer": "flows.pipelines.answering",
    "RagContext": "flows.pipelines.answering",
    "RagHit": "flows.pipelines.answering",
    "RagPassage": "flows.pipelines.answering",
    "RagSource": "flows.pipelines.answering",
    "refine": "flows.pipelines.refining",
    "Askable": "library.askable",
    "Hits": "library.index",
    "Index": "library.index",
    "QuestionSet": "library.questions",
    "Rag": "library.rag",
    "Report": "library.report",
    "Store": "library.store",
    "sql": "library.store",
}
"""The module of every public name. It is imported when the name is first used: `import vitalfew` is quick."""


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("vitalfew")
    if name not in _PLACES:
        raise AttributeError(f"module 'vitalfew' has no attribute {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f"vitalfew.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
