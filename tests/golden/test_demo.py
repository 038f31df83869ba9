"""Golden: the commands that `vitalfew demo` prints, and its methods, metrics and numbers of questions.

Its figures are left out: the demo computes in the precision that a machine chooses, and they differ from processor to
processor. Those of the same experiment in fp32 are in `quickstart/`. The demo reads the manual that comes with
Python: another Python has another text, and is left out.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import vitalfew as vf
from tests.golden.evaluating import metrics
from tests.golden.stores import lines
from tests.golden.surface import vitalfew

PYTHON = (3, 11, 7)
"""The Python whose manual the expected file is about."""


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:3] != PYTHON, reason="the manual of another Python is another text")
def test_demo(golden: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the language model that this user may have in the cache: the demo would ask it, too. In a store that has
    a demo (continuous integration names the one that `make demo` wrote) it takes seconds."""
    store = Path(os.environ.get("VITALFEW_DEMO_STORE", tmp_path / "store"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    printed = vitalfew("demo", store=store)
    commands = [line.partition(" --store")[0] for line in printed.splitlines() if line.startswith("$ vitalfew ")]
    report = vf.Store(store, progress=False).report()
    table = [line.split(" | ") for line in metrics(report).splitlines()]
    text = "\n".join(commands) + "\n\n"
    golden("demo.txt", text + lines((method, metric, asked) for method, metric, *_, asked in table))
