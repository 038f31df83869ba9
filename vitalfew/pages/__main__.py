"""The process of `vitalfew ui`: Prefect's server with its UI, and the product's pages.

    python -m vitalfew.pages --store STORE [--corpora DIR]

It ends with the process that started it.
"""

from argparse import ArgumentParser
from pathlib import Path

from vitalfew.flows.server.api import end_with_parent, serve

if __name__ == "__main__":
    end_with_parent()
    from vitalfew.configs.paths import store_place

    arguments = ArgumentParser()
    arguments.add_argument("--store", type=store_place, required=True)
    arguments.add_argument("--corpora", type=Path)
    given = arguments.parse_args()

    from vitalfew.pages.mounting import mounted
    from vitalfew.pages.site import Site

    serve(None, given.store, mounted(Site(given.store, given.corpora)))
