"""Tiny files in the formats of the data sets that papers train on, all about the same invented towns."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.towns import towns

NAMES = (
    "Velmar", "Kessin", "Orrel", "Tamsin", "Dunmore", "Harrow", "Lindel", "Marrow", "Pernod", "Quill", "Sarn", "Tolm",
)  # fmt: skip
"""A question each."""


def year(number: int) -> str:
    return str(1700 + 7 * number)


def question(number: int) -> str:
    return f"When was the mill of {NAMES[number]} built?"


def sentences(number: int) -> list[str]:
    """The passage on a town; its second sentence has the answer."""
    return [f"{NAMES[number]} lies on a river.", f" The mill of {NAMES[number]} was built in {year(number)}."]


def _contexts(number: int) -> Iterator[int]:
    """The towns whose passages were retrieved for a question; its own is the second."""
    yield from ((number + 3) % len(NAMES), number, (number + 5) % len(NAMES))


def write_stand_ins(folder: Path) -> Path:
    """Write `popqa.tsv` and `triviaqa.json`, which have no passages, `retrieved.jsonl` (Self-RAG's lines, with the
    contexts of both), `nq.jsonl` (DPR's, with gold contexts), `hotpotqa.json` and `squad.json`, and the first three
    questions or towns of these two, `hotpotqa-dev.json` and `squad-dev.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    numbers = range(len(NAMES))
    rows = [f'{n}\t{NAMES[n]}\t{question(n)}\t"[""{year(n)}"", ""in {year(n)}""]"\t{n}' for n in numbers]
    (folder / "popqa.tsv").write_text("\n".join(["id\tsubj\tquestion\tpossible_answers\ts_pop", *rows]) + "\n")
    trivia = [
        {"Question": question(n), "QuestionId": f"tc_{n}", "Answer": {"Value": year(n), "Aliases": [year(n)]}}
        for n in numbers
    ]
    (folder / "triviaqa.json").write_text(json.dumps({"Data": trivia}))
    _lines(folder / "retrieved.jsonl", [_ctxs(n) for n in numbers])
    _lines(folder / "nq.jsonl", [_ctxs(n, isgold=True) for n in numbers])
    (folder / "hotpotqa.json").write_text(json.dumps([_hotpotqa(n) for n in numbers]))
    (folder / "hotpotqa-dev.json").write_text(json.dumps([_hotpotqa(n) for n in numbers[:3]]))
    towns(folder / "squad.json", NAMES)
    towns(folder / "squad-dev.json", NAMES[:3])
    return folder


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _ctxs(number: int, isgold: bool = False) -> dict[str, Any]:
    contexts = [
        {"title": NAMES[n], "text": "".join(sentences(n)), **({"isgold": n == number} if isgold else {})}
        for n in _contexts(number)
    ]
    return {"question": question(number), "answers": [year(number)], "ctxs": contexts}


def _hotpotqa(number: int) -> dict[str, Any]:
    other = (number + 1) % len(NAMES)
    asked = f"Which mill is older, that of {NAMES[number]} or that of {NAMES[other]}?"
    contexts = [[NAMES[n], sentences(n)] for n in (*_contexts(number), other)]
    facts = [[NAMES[n], 1] for n in (number, other)]
    answer = NAMES[number] if year(number) < year(other) else NAMES[other]
    return {"_id": f"h{number}", "question": asked, "answer": answer, "context": contexts, "supporting_facts": facts}
