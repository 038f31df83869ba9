"""Golden: answers, contexts, tokens and chosen settings of `quickstart` on forty questions, by bundled models."""

from collections.abc import Callable
from pathlib import Path

import vitalfew as vf
from tests.golden.evaluating import answers, contexts, methods, metrics, questions, settings
from tests.golden.stores import ANSWERING, lines, valley
from tests.support.evaluating import copied

SHOWN_IN_FULL = "test/12"


def test_quickstart(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    """Twenty of the forty choose alpha, twenty are reported."""
    store = vf.Store(copied(valley() / "store", tmp_path / "store"), progress=False)
    report = store.evaluate("quickstart", "valley", runner="serial", settings=ANSWERING)
    chosen = report.methods.select("method", "chosen.settings", "chosen.by", "chosen.questions", "chosen.tried")
    text = f"{report.recommendation}\n\n# chosen\n{lines(chosen.drop_nulls().rows())}\n"
    golden("quickstart/settings.txt", f"{text}{settings(report)}")
    golden("quickstart/metrics.txt", metrics(report))
    text = f"# questions\n{questions(store, report)}"
    for method in methods(report):
        text += f"\n# {method}: answer, contexts, tokens\n{answers(store, report, method)}"
    golden("quickstart/answers.txt", text)
    text = ""
    for method in methods(report):
        text += f"# {method}: {SHOWN_IN_FULL}\n{contexts(store, report, method, SHOWN_IN_FULL)}\n"
    golden("quickstart/contexts.txt", text)
