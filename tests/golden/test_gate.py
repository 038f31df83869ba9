"""A corpus with a gate: a generation that is no worse is promoted, a worse one is not; a person decides otherwise."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.golden.surface import columns, lines_with, steady, vitalfew

EXPERIMENT = """
generate: null
score: {metrics: [passage_recall], k: [10]}
methods:
  passages: {retrieve: {retriever: passage, top_k: 10}}
"""
CORPUS = """
datasets: ["jsonl:FOLDER/passages.jsonl"]
encode: {encoder: "tests.support.fakes:ENCODER", units: [passage]}
runner: serial
gate: {questions: "jsonl:FOLDER/questions.jsonl", margins: {passage_recall@10: MARGIN}, experiment: recall}
"""


class Towns:
    """80 towns with a question each, as the corpus `towns` with a gate."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, folder / "store"
        for name in ("corpora", "experiments"):
            (folder / name).mkdir()
        names = [f"town{number:03d}" for number in range(80)]
        passages = [{"id": name, "text": f"{name} {name} has a mill by guild-{name}"} for name in names]
        asked = [{"question": f"mill {name}", "answers": [f"guild-{name}"], "source": name} for name in names]
        self._lines("passages", passages)
        self._lines("questions", asked)
        (folder / "experiments" / "recall.yaml").write_text(EXPERIMENT)

    def _lines(self, name: str, rows: Sequence[dict[str, object]]) -> None:
        (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def index(self, encoder: str, margin: float = 0.1) -> str:
        """Index the corpus; return what is said of generations."""
        settings = CORPUS.replace("FOLDER", str(self.folder)).replace("ENCODER", encoder)
        (self.folder / "corpora" / "towns.yaml").write_text(settings.replace("MARGIN", str(margin)))
        printed = vitalfew("index", "--corpus", "towns", store=self.store)
        return self._steady(lines_with(printed, "metric", "passage_recall", "Generation", "Index towns is"))

    def say(self, *words: str, status: int = 0) -> str:
        return self._steady(vitalfew(*words, store=self.store, status=status))

    def history(self) -> str:
        printed = vitalfew("index", "history", "towns", store=self.store)
        table = columns(printed, "generation", "state", "verdict")
        below = printed.splitlines()[len(table.splitlines()) :]
        return f"{table}\n{self._steady(' '.join(map(str.strip, below)))}"

    def _steady(self, text: str) -> str:
        return steady(text, self.folder)


def test_gate(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    towns = Towns(tmp_path)
    told = [
        ("the first generation", towns.index("HashEncoder")),
        ("a worse encoder", towns.index("DisturbedEncoder")),
        ("another one, as good", towns.index("OtherEncoder")),
        ("as good, but within a narrow margin: in doubt", towns.index("HaltedEncoder", margin=0.01)),
        ("index history", towns.history()),
        ("index rollback", towns.say("index", "rollback", "towns")),
        ("index promote, of what was rejected", towns.say("index", "promote", "towns", "2")),
        ("index promote, of what is not there", towns.say("index", "promote", "towns", "9", status=1)),
        ("index history", towns.history()),
    ]
    golden("gate.txt", "\n".join(f"# {title}\n{text}" for title, text in told))
