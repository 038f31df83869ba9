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
        self.passages: list[dict[str, object]] = [
            {"id": name, "text": f"{name} {name} has a mill by guild-{name}"} for name in names
        ]
        asked = [{"question": f"mill {name}", "answers": [f"guild-{name}"], "source": name} for name in names]
        self._lines("questions", asked)
        (folder / "experiments" / "recall.yaml").write_text(EXPERIMENT)

    def _lines(self, name: str, rows: Sequence[dict[str, object]]) -> None:
        (self.folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    def index(self, encoder: str, margin: float = 0.1, first: int = 0, status: int = 0) -> str:
        """Index the corpus from its `first` town on; return what is said of generations."""
        self._lines("passages", self.passages[first:])
        settings = CORPUS.replace("FOLDER", str(self.folder)).replace("ENCODER", encoder)
        (self.folder / "corpora" / "towns.yaml").write_text(settings.replace("MARGIN", str(margin)))
        return self._index("--corpus", "towns", status=status)

    def index_plainly(self) -> str:
        """Index what is there with the same settings, as one who knows nothing of the gate."""
        dataset = f"jsonl:{self.folder}/passages.jsonl"
        chosen = ("encode.encoder=tests.support.fakes:OtherEncoder", "encode.units=[passage]", "load.shard_passages=7")
        settings = [word for each in chosen for word in ("--set", each)]
        return self._index(dataset, "--name", "towns", "--runner", "serial", *settings, status=4)

    def _index(self, *words: str, status: int = 0) -> str:
        printed = vitalfew("index", *words, store=self.store, status=status)
        told = lines_with(
            printed,
            "metric",
            "passage_recall",
            "Generation",
            "the gate",
            "About",
            "Searches",
            "To promote",
            "Index towns is",
            "Error",
        )
        return self._steady(told)

    def say(self, *words: str, status: int = 0) -> str:
        return self._steady(vitalfew(*words, store=self.store, status=status))

    def history(self) -> str:
        printed = vitalfew("index", "history", "towns", store=self.store)
        table = columns(printed, "generation", "state", "gate's verdict")
        below = printed.splitlines()[len(table.splitlines()) :]
        return f"{table}\n{self._steady(' '.join(map(str.strip, below)))}"

    def _steady(self, text: str) -> str:
        return steady(text, self.folder)


def test_gate(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    towns = Towns(tmp_path)
    told = [
        ("the first generation", towns.index("HashEncoder")),
        ("a worse encoder", towns.index("DisturbedEncoder", status=4)),
        ("another one, as good", towns.index("OtherEncoder")),
        ("a margin that so few questions cannot show", towns.index("HaltedEncoder", margin=0.01, status=1)),
        ("half of the corpus is gone", towns.index("OtherEncoder", first=40, status=4)),
        ("index, not by the name of the corpus", towns.index_plainly()),
        ("index decline", towns.say("index", "decline", "towns", "4", "--note", "Half is missing.")),
        ("what a person declined, within wide limits", towns.index("OtherEncoder", margin=0.2, first=40, status=4)),
        ("index history", towns.history()),
        ("index rollback", towns.say("index", "rollback", "towns")),
        ("index promote, of what was rejected", towns.say("index", "promote", "towns", "2", "--note", "A trial.")),
        ("index promote, of what is not there", towns.say("index", "promote", "towns", "9", status=1)),
        ("index history", towns.history()),
    ]
    golden("gate.txt", "\n".join(f"# {title}\n{text}" for title, text in told))
