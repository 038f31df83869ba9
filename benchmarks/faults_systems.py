"""What benchmarks/faults.py compares: the commands of each system, and how what they leave is read."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import pyarrow.parquet as pq

from benchmarks.common import VITALFEW, count_rows
from vitalfew.tasks.encoders.base import Encoded
from vitalfew.tasks.encoders.transformer import MiniLM
from vitalfew.tasks.models.files import minilm_directory
from vitalfew.tasks.models.ticks import TextTick

BUILD = Path("build/bench/faults").absolute()
SHARD = 300
"""Passages of a shard of `vitalfew`, and of a file for Ray."""
TIMED = ("costs", "quotes", "readings", "refinements", "reports", "runs")
"""Tables of a store that hold when and how long, and no result."""
EXPERIMENT = """
questions: {{dataset: "jsonl:{questions}", batch: 30}}
generate: {{generator: openai, model: test, base_url: "{url}", concurrency: 2}}
methods:
  naive RAG: {{retrieve: {{retriever: passage, top_k: 3}}}}
"""
FLASHRAG = """
from benchmarks.common import count_rows
from flashrag.retriever import encoder, index_builder
encode = encoder.Encoder.single_batch_encode
def counted(self, texts, is_query=True):
    vectors = encode(self, texts, is_query)
    count_rows(len(vectors))
    return vectors
encoder.Encoder.single_batch_encode = counted
index_builder.main()
"""
"""The builder's command line; only the count is added."""


class Counted(MiniLM):
    """all-MiniLM-L6-v2 as `vitalfew` computes it, which notes how many texts it has done."""

    def encode(self, texts: Sequence[str], tick: TextTick = lambda tokens, share: None) -> Encoded:
        done = 0.0

        def noted(tokens: int, share: float) -> None:
            nonlocal done
            before, done = done, done + share
            count_rows(round(done * len(texts)) - round(before * len(texts)))
            tick(tokens, share)

        return super().encode(texts, noted)


class System(Protocol):
    """Indexes `CORPUS.jsonl`, or the files of the folder `CORPUS`, and has a server answer questions."""

    @property
    def name(self) -> str: ...

    def index(self, corpus: Path, out: Path) -> list[str]:
        """The command that writes vectors to `out`."""
        ...

    def rows(self, out: Path) -> list[str]:
        """Ids of the passages that have a vector; `p7` is the passage of row 7, from 0."""
        ...

    def named(self, out: Path, log: str) -> list[int]:
        """Rows, from 0, that the system says it left out: by their number, or by their file."""
        ...

    def files(self, out: Path) -> list[Path]:
        """The files that hold results."""
        ...


class Answering(System, Protocol):
    def answer(self, questions: Path, out: Path, url: str) -> list[str]:
        """The command that writes answers to `out`."""
        ...

    def answers(self, out: Path) -> list[str]:
        """Ids of the questions that have an answer."""
        ...


class VitalFew:
    name = "vitalfew"

    def index(self, corpus: Path, out: Path) -> list[str]:
        given = [
            "encode.encoder=benchmarks.faults_systems:Counted",
            "encode.units=[passage]",
            f"load.shard_passages={SHARD}",
        ]
        settings = [word for setting in given for word in ("--set", setting)]
        source = f"jsonl:{corpus}.jsonl?text=contents"
        return [*VITALFEW, "index", source, "--name", "passages", "--store", str(out), "--runner", "serial", *settings]

    def answer(self, questions: Path, out: Path, url: str) -> list[str]:
        """The index comes first, and is not killed."""
        experiment = BUILD / f"{out.name}.yaml"
        experiment.write_text(EXPERIMENT.format(questions=f"{questions}.jsonl", url=url))
        if not out.exists():
            shutil.copytree(place(self, "index"), out)
        return [*VITALFEW, "evaluate", str(experiment), "--store", str(out), "--runner", "serial"]

    def rows(self, out: Path) -> list[str]:
        return sql(out, "SELECT source_id FROM passages")

    def answers(self, out: Path) -> list[str]:
        return sql(out, "SELECT question_id FROM candidates WHERE error = ''")

    def named(self, out: Path, log: str) -> list[int]:
        return [int(line) - 1 for line in sql(out, 'SELECT "offset" FROM rejects')]

    def files(self, out: Path) -> list[Path]:
        found = [path for path in out.glob("*/*/*") if path.suffix in (".parquet", ".faiss", ".npy", ".npz")]
        return [path for path in found if path.relative_to(out).parts[0] not in TIMED]


@dataclass(frozen=True)
class Ray:
    name: str = "Ray Data"
    how: tuple[str, ...] = ()

    def index(self, corpus: Path, out: Path) -> list[str]:
        return [sys.executable, "-m", "benchmarks.faults_ray", "index", str(corpus), str(out)]

    def answer(self, questions: Path, out: Path, url: str) -> list[str]:
        command = [sys.executable, "-m", "benchmarks.faults_ray", "answer", str(questions), str(out)]
        return [*command, "--url", url, *self.how]

    def rows(self, out: Path) -> list[str]:
        return [row for path in self.files(out) for row in pq.read_table(path)["id"].to_pylist()]

    def answers(self, out: Path) -> list[str]:
        return self.rows(out)

    def named(self, out: Path, log: str) -> list[int]:
        """The rows of the files that the log names."""
        numbers = {int(number) for number in re.findall(r"(\d+)\.jsonl", log)}
        return [row for number in numbers for row in range(number * SHARD, (number + 1) * SHARD)]

    def files(self, out: Path) -> list[Path]:
        return list(out.glob("*.parquet"))


class FlashRAG:
    name = "FlashRAG"

    def index(self, corpus: Path, out: Path) -> list[str]:
        """As docs/original_docs/building-index.md has it, but for --use_fp16, which is for a GPU."""
        model = ["--retrieval_method", "minilm", "--model_path", str(minilm_directory()), "--pooling_method", "mean"]
        given = ["--max_length", "256", "--batch_size", "64", "--faiss_type", "Flat"]
        paths = ["--corpus_path", f"{corpus}.jsonl", "--save_dir", str(out)]
        return [sys.executable, "-c", FLASHRAG, *model, *given, *paths]

    def rows(self, out: Path) -> list[str]:
        """A vector's number is the row's."""
        import faiss

        return [f"p{row}" for path in self.files(out) for row in range(faiss.read_index(str(path)).ntotal)]

    def named(self, out: Path, log: str) -> list[int]:
        return []

    def files(self, out: Path) -> list[Path]:
        return list(out.glob("*.index"))


def sql(store: Path, query: str) -> list[str]:
    command = [*VITALFEW, "sql", query, "--format", "csv", "--store", str(store)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[1:]


def place(system: System, work: str) -> Path:
    return BUILD / re.sub(r"\W+", "-", f"{system.name}-{work}")
