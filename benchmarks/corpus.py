"""The corpus that the benchmarks run on: real data where they are, else the generated encyclopaedia."""

import os
from pathlib import Path

DATA = Path(os.environ.get("VITALFEW_DATA", "../shared/data"))
REAL = {
    "hotpotqa": DATA / "hotpotqa" / "hotpot_train_sample100.json",
    "titletext": DATA / "2wikimultihopqa" / "corpus.json",
    "squad": DATA / "squad" / "dev-v1.1.json",
}


def specifications() -> tuple[str, ...]:
    """Dataset specifications of the benchmark corpus."""
    if all(path.exists() for path in REAL.values()):
        return tuple(f"{name}:{path}" for name, path in REAL.items())
    return ("synthetic:passages=9000,questions=1500,seed=0",)


def describe() -> str:
    names = ", ".join(specifications())
    return names if names.startswith("synthetic") else f"{names} (real data)"
