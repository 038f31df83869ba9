"""A Prefect worker that ends with the process that started it (`deploy/local_cluster.py`).

python -m deploy.worker --pool NAME [further options of `prefect worker start`]
"""

import runpy
import sys

from vitalfew.flows.server.api import end_with_parent

if __name__ == "__main__":
    end_with_parent()
    sys.argv = ["prefect", "worker", "start", *sys.argv[1:]]
    runpy.run_module("prefect", run_name="__main__")
