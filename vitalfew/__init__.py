"""Vital Few: the least context that still answers, in retrieval-augmented generation.

This package is the only import name of the distribution. Its four subpackages are links to the folders at the top of
the repository: `configs` (settings), `storage` (tables and files), `tasks` (stages and methods) and `flows` (Prefect,
Ray and the command line). The wheel holds real folders in their place.

The public API will be here: `Store`, `Index`, `Report`, `Rag`, `refine` and `sql`. Until then use the command line,
`vitalfew --help`; what the subpackages hold may move without notice.
"""

from importlib.metadata import version

__version__ = version("vitalfew")
