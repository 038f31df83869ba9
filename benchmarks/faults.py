"""What breaks others, and what breaks this: `make bench-faults`.

    python -m benchmarks.faults [--flashrag DIR] [--only SYSTEM …]

gives the same passages and questions to `vitalfew`, to a script of Ray Data (benchmarks/faults_ray.py) and to the index
builder of FlashRAG, and lets three faults happen to each:

- *Bad rows*: one row in a thousand is no JSON, has an empty text, or has a number for a text.
- *A kill*: `kill -9` when half of the rows are encoded or half of the answers are given, then the same command again.
- *A server that fails*: every tenth request gets HTTP 500.

The passages are 3,000 sentences of the benchmark corpus, encoded by all-MiniLM-L6-v2, the questions 300 of its own.
Every encoder notes in a file how many rows it has computed, and the server (benchmarks/faults_server.py) every request
that it answered. --flashrag names a folder with the package `flashrag` of github.com/RUC-NLPIR/FlashRAG, and with
`langid`, which it imports. Without it, FlashRAG is left out.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, islice
from pathlib import Path

import psutil
import pyarrow.parquet as pq

from benchmarks.common import describe, machine, options, show, texts
from benchmarks.faults_server import Server
from benchmarks.faults_systems import BUILD, SHARD, Answering, FlashRAG, Ray, System, VitalFew, place
from vitalfew.tasks.datasets.base import Passage, Question

PASSAGES, QUESTIONS, FILES = 10 * SHARD, 300, 10
BAD = {
    "no JSON": '{"id": "p%d", "contents": "cut o',
    "empty": '{"id": "p%d", "contents": ""}',
    "number": '{"id": "p%d", "contents": 7}',
}
HALF = 0.55
"""The share that is done at the kill: in the middle of a shard too."""
PLACES = (450, 1450, 2450)
"""Rows, from 0, that are bad: in three files of ten."""


def run(out: Path, command: list[str], flashrag: str = "", is_half: Callable[[], bool] | None = None) -> str:
    """Run a command; return its log, which ends with its status. Given `is_half`, kill it as soon as that is true."""
    own = {"VITALFEW_BENCH_COUNT": f"{out}.count", "HF_HOME": str(BUILD / "huggingface"), "OMP_NUM_THREADS": "1"}
    own |= {
        "RAY_USAGE_STATS_ENABLED": "0",
        "PYTHONPATH": os.pathsep.join([os.getcwd(), flashrag]),
        "HF_HUB_OFFLINE": "1",
    }
    began = time.monotonic()
    with Path(f"{out}.log").open("a+") as log:
        process = psutil.Popen(command, stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **own})
        if is_half:
            while process.poll() is None and not is_half():
                time.sleep(0.01)
            helpers = process.children(recursive=True) if process.poll() is None else []
            process.kill()
            for helper in psutil.wait_procs(helpers, timeout=20)[1]:  # what Ray leaves ends by itself, or here
                helper.kill()
        status = process.wait()
        log.seek(0)
        print(f"{out.name}: status {status} after {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
        return f"{log.read()}\nstatus {status}"


def how(log: str) -> str:
    return "yes" if log.endswith("status 0") else "no: an error"


def counted(out: Path) -> int:
    path = Path(f"{out}.count")
    return sum(map(int, path.read_text().split())) if path.exists() else 0


def contents(system: System, out: Path) -> list[str]:
    """Checksums of the files that a run left, whatever their names."""
    return sorted(blake2b(lasting(path), digest_size=16).hexdigest() for path in system.files(out))


def lasting(path: Path) -> bytes:
    """A file's bytes; of a table with measured seconds, all else that it has."""
    table = pq.read_table(path) if path.suffix == ".parquet" else None
    if table is None or not any(name.endswith("seconds") or name == "metric" for name in table.column_names):
        return path.read_bytes()
    kept = [name for name in table.column_names if not name.endswith("seconds")]
    return repr([row for row in table.select(kept).to_pylist() if row.get("metric") != "seconds"]).encode()


def left(found: Sequence[str], expected: int) -> tuple[int, int]:
    """How many of the expected rows are missing in an output, and how many are there again."""
    return expected - len({*found}), len(found) - len({*found})


def write(name: str, lines: Sequence[str]) -> Path:
    """The lines as one file, NAME.jsonl, and as ten files of a folder, NAME, which are what Ray divides its work by."""
    folder, each = BUILD / name, len(lines) // FILES
    folder.mkdir()
    (BUILD / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for number in range(FILES):
        part = lines[number * each : (number + 1) * each]
        (folder / f"{number:03}.jsonl").write_text("\n".join(part) + "\n", encoding="utf-8")
    return folder


def spoilt(rows: Sequence[str], kinds: Sequence[str]) -> list[str]:
    """Rows, three of which are bad."""
    bad = {place: BAD[kind] % place for place, kind in zip(PLACES, kinds, strict=True)}
    return [bad.get(number, row) for number, row in enumerate(rows)]


def bad_rows(system: System, corpus: Path, flashrag: str) -> tuple[object, ...]:
    out = place(system, corpus.name)
    log = run(out, system.index(corpus, out), flashrag)
    if how(log) != "yes":
        return system.name, corpus.name, how(log), "", "", ""
    kept, bad = {int(row[1:]) for row in system.rows(out)}, {*PLACES}
    lost = {*range(PASSAGES)} - kept
    unsaid = lost - {*system.named(out, log)}
    return system.name, corpus.name, how(log), len(lost - bad), len(unsaid), len(kept & bad)


def killed(system: System, passages: Path, flashrag: str) -> tuple[object, ...]:
    """A whole indexing, one that is killed in the middle, and the same command again."""
    whole, out = place(system, "index"), place(system, "index-killed")
    run(whole, system.index(passages, whole), flashrag)
    run(out, system.index(passages, out), flashrag, lambda: counted(out) >= HALF * PASSAGES)
    before = counted(out)
    ended = how(run(out, system.index(passages, out), flashrag))
    again = counted(out) - counted(whole)
    same = contents(system, out) == contents(system, whole)
    return system.name, "vectors", before, ended, again, *left(system.rows(out), PASSAGES), "yes" if same else "no"


def killed_answering(system: Answering, questions: Path, server: Server) -> tuple[object, ...]:
    """The same of answers."""
    whole, out = place(system, "answer"), place(system, "answer-killed")
    run(whole, system.answer(questions, whole, server.url))
    server.paid.clear()
    run(out, system.answer(questions, out, server.url), is_half=lambda: server.paid.total() >= HALF * QUESTIONS)
    before = server.paid.total()
    ended = how(run(out, system.answer(questions, out, server.url)))
    again = server.paid.total() - len(server.paid)
    same = contents(system, out) == contents(system, whole)
    return system.name, "answers", before, ended, again, *left(system.answers(out), QUESTIONS), "yes" if same else "no"


def failing(system: Answering, questions: Path, server: Server) -> tuple[object, ...]:
    out = place(system, "failing")
    server.paid.clear()
    server.failing = True
    log = run(out, system.answer(questions, out, server.url))
    server.failing = False
    return system.name, how(log), len(system.answers(out)), server.paid.total() - len(server.paid), server.paid.total()


def every_bad(systems: Sequence[System], rows: Sequence[str], flashrag: str) -> Iterator[tuple[object, ...]]:
    """All kinds of bad rows at once; for FlashRAG, which stops at the first, also one after the other."""
    corpora = {"mixed": [*BAD], **{kind: [kind] * len(PLACES) for kind in BAD}}
    folders = [write(name.replace(" ", "_"), spoilt(rows, kinds)) for name, kinds in corpora.items()]
    for system in systems:
        for folder in folders if isinstance(system, FlashRAG) else folders[:1]:
            yield bad_rows(system, folder, flashrag)


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--flashrag", default="", help="folder with the packages `flashrag` and `langid`")
    parser.add_argument("--only", nargs="+", default=["vitalfew", "Ray Data", "FlashRAG"], help="names of systems")
    given = parser.parse_args()
    shutil.rmtree(BUILD, ignore_errors=True)
    BUILD.mkdir(parents=True)
    sentences = dict.fromkeys(
        sentence for text in texts(Passage) for sentence in re.split(r"(?<=[.!?])\s+", text) if 30 < len(sentence) < 70
    )
    rows = [json.dumps({"id": f"p{n}", "contents": text}) for n, text in enumerate(islice(sentences, PASSAGES))]
    asked = islice(dict.fromkeys(texts(Question)), QUESTIONS)
    questions = write("questions", [json.dumps({"id": f"q{n}", "question": text}) for n, text in enumerate(asked)])
    passages, server = write("passages", rows), Server()
    answering: list[Answering] = [system for system in (VitalFew(), Ray()) if system.name in given.only]
    others = [FlashRAG()] if given.flashrag and FlashRAG.name in given.only else []
    indexing: list[System] = [*answering, *others]
    print(f"{describe()}; {machine()}\n", flush=True)
    columns = ["system", "bad rows", "ended", "good rows lost", "lost and not named", "bad rows with a vector"]
    show(columns, every_bad(indexing, rows, given.flashrag))
    print("\nkill -9 in the middle, and the same command again\n")
    columns = ["system", "work", "done before", "ended", "done or paid again", "missing", "twice", "equal bytes"]
    rows_killed = (killed(system, passages, given.flashrag) for system in indexing)
    show(columns, chain(rows_killed, (killed_answering(system, questions, server) for system in answering)))
    print("\nevery tenth request gets HTTP 500\n")
    failed = [*answering, *([Ray("Ray Data, its HTTP stage", ("--processor",))] if "Ray Data" in given.only else [])]
    columns = ["system", "ended", "answers", "paid twice", "paid"]
    show(columns, (failing(system, questions, server) for system in failed))


if __name__ == "__main__":
    main()
