"""A corpus of which a small share changed: only that is encoded again, and the user sees how much."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from tests.golden.surface import lines_with, vitalfew

SETTINGS = ("--set", "encode.encoder=tests.support.fakes:HashEncoder", "--runner", "serial")


def _write(file: Path, changed: tuple[int, ...] = (), count: int = 250) -> None:
    notes = []
    for number in range(count):
        text = f"Town{number} has a mill by guild{number}. It was built in {1500 + number}."
        notes.append({"id": f"n{number}", "text": f"{text} Ada mended it." if number in changed else text})
    file.write_text("".join(json.dumps(note) + "\n" for note in notes))


def test_re_encoding(golden: Callable[[str, str], None], tmp_path: Path) -> None:
    file, store = tmp_path / "notes.jsonl", tmp_path / "store"
    dataset = f"jsonl:{file}?id=id"
    told = []
    for about, changed, count in (
        ("250 passages", (), 250),
        ("1 of 250 passages has a sentence more (0.4 %)", (7,), 250),
        ("nothing has changed", (7,), 250),
        ("1 of 250 passages is gone", (7,), 249),
        ("1 passage is there again", (7,), 250),
    ):
        _write(file, changed, count)
        printed = vitalfew("index", dataset, "--name", "notes", *SETTINGS, store=store)
        told += [f"# {about}", re.sub(r"\d+ kB", "SIZE", lines_with(printed, "already", "exact search"))]
    golden("re-encoding.txt", "\n".join(told))
