"""`vitalfew check`: a run against a baseline, in its four exit codes, as it is printed."""

from collections.abc import Callable
from pathlib import Path

from tests.golden.surface import index_synthetic, steady, vitalfew

METHOD = """
index: synthetic
generate: null
score: {{metrics: [passage_recall], k: [1, 10]}}
methods:
  keywords: {{retrieve: {{retriever: bm25, top_k: {top_k}}}}}
"""


class Trial:
    """An experiment over an index by keywords, in a store of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, folder / "store"
        index_synthetic(self.store, "passages=120,questions=45,seed=3")

    def evaluate(self, top_k: int = 10) -> None:
        file = self.folder / "trial.yaml"
        file.write_text(METHOD.format(top_k=top_k))
        vitalfew("evaluate", file, "--runner", "serial", store=self.store)

    def check(self, *words: object, status: int, run: str = "trial") -> str:
        given = [word for each in words for word in (("--margin", each) if "=" in str(each) else (each,))]
        against = ("--against", self.folder / "baseline.json")
        return steady(vitalfew("check", run, *against, *given, store=self.store, status=status), self.folder)


def test_check(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    trial = Trial(tmp_path)
    trial.evaluate()
    written = vitalfew("check", "trial", "--write", trial.folder / "baseline.json", store=trial.store)
    told = [
        ("--write", steady(written, trial.folder)),
        ("0: no worse", trial.check("passage_recall@10=0.3", status=0)),
        ("2: in doubt", trial.check("passage_recall@10=0.02", status=2)),
    ]
    trial.evaluate(top_k=1)
    told += [("1: worse", trial.check("passage_recall@10=0.02", "passage_recall@1=0.5", status=1))]
    told += [("3: a method that is not there", trial.check("passage_recall@10=0.3", run="trial:other", status=3))]
    golden("check.txt", "\n".join(f"# {title}\n{text}" for title, text in told))
