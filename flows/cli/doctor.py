"""What `vitalfew doctor` looks at."""

import os
import socket
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from vitalfew.flows.cli.operations import Check, operations


def checkup(store: Path) -> list[Check]:
    """Return every check, in the order in which things go wrong."""
    machine = [_python(), *_libraries(), *_models(), _arithmetic(), _punkt(), _disk(store)]
    return [*machine, *_store(store), _ray(), *operations(store)]


def _python() -> Check:
    fine = sys.version_info >= (3, 11)
    return Check("Python", fine, sys.version.split()[0] + ("" if fine else "; it must be 3.11 or newer"))


def _libraries() -> list[Check]:
    checks = []
    for package, purpose in {
        "torch": "encodes",
        "faiss-cpu": "searches",
        "duckdb": "queries",
        "prefect": "--runner ray",
        "ray": "--runner ray",
    }.items():
        try:
            checks.append(Check(package, True, f"{version(package)} ({purpose})"))
        except PackageNotFoundError:
            needed = purpose != "--runner ray"
            checks.append(Check(package, False, f"not installed ({purpose}); pip install {package}", needed))
    return checks


def _models() -> list[Check]:
    """Check the weights of every encoder with its own model; only those of the default, `minilm`, are required."""
    from vitalfew.configs.schema import EncodeConfig
    from vitalfew.tasks.registry import METHODS, make

    checks = []
    for name in METHODS["encoder"]:
        if name == "huggingface":  # a run names its model
            continue
        encoder = make(EncodeConfig(encoder=name), "encode")
        try:
            directories = dict.fromkeys([str(encoder.passages.directory), str(encoder.questions.directory)])
            checks.append(Check(f"encoder {name}", True, ", ".join(directories)))
        except (FileNotFoundError, ValueError) as error:
            checks.append(Check(f"encoder {name}", False, str(error), needed=name == "minilm"))
    return checks


def _arithmetic() -> Check:
    from vitalfew.tasks.models.device import native_bf16

    fast = native_bf16()
    arithmetic = (
        "bf16, native" if fast else "float32: this machine has no native bf16, so encoding is 3 to 4 times slower"
    )
    return Check("arithmetic", fast, arithmetic, needed=False)


def _ray() -> Check:
    """Check that a named cluster answers; without one, every run starts its own Ray."""
    address = os.environ.get("RAY_ADDRESS", "")
    if not address:
        return Check("Ray", True, f"every run starts Ray on {os.cpu_count()} cores (to use a cluster, set RAY_ADDRESS)")
    host, _, port = address.rpartition("//")[2].partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2):
            return Check("Ray", True, f"{address} answers")
    except (OSError, ValueError) as error:
        return Check("Ray", False, f"{address} (RAY_ADDRESS): {error}; run `ray start --head`, or unset RAY_ADDRESS")


def _punkt() -> Check:
    import nltk

    try:
        return Check("NLTK punkt_tab", True, str(nltk.data.find("tokenizers/punkt_tab/english")), needed=False)
    except LookupError:
        return Check("NLTK punkt_tab", False, "not installed: Punkt is trained on every corpus instead", needed=False)


def _disk(store: Path) -> Check:
    from vitalfew.storage import files

    if files.is_in_bucket(store):
        store = files.cache_folder()  # where its copies lie
    free = files.free_bytes(store) / 2**30
    remedy = "" if free > 2 else "; free some space"
    return Check("free disk", free > 2, f"{free:,.1f} GiB for {files.absolute(store)}{remedy}")


def _store(store: Path) -> list[Check]:
    from vitalfew.storage import files
    from vitalfew.storage.runs import index_names, read_runs

    if not files.is_folder(store):
        return [Check("store", True, f"{store} does not exist yet; `vitalfew index` creates it", needed=False)]
    writable = files.is_writable(store)
    indexes = index_names(store)
    checks = [Check("store", writable, f"{store}" + ("" if writable else " is not writable"))]
    checks.append(Check("indexes", True, ", ".join(indexes) or "none yet", needed=False))
    latest = {run.name: run.state for run in read_runs(store) if run.name}
    if unfinished := sorted(name for name, state in latest.items() if state not in ("completed", "running")):
        remedy = "run the same command again to resume; finished shards are kept"
        checks.append(Check("unfinished runs", False, f"{', '.join(unfinished)}; {remedy}", needed=False))
    return checks
