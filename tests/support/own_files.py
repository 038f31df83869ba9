"""The files that a reader of the how-to pages has, as a user would: notes, a handbook of Markdown, questions."""

import json
from pathlib import Path

from tests.support.towns import towns

MANY = tuple(f"{stem}{end}" for stem in ("Vel", "Kess", "Orr", "Tam", "Dun") for end in ("mar", "in", "ow", "eth"))
PEOPLE = ("Ada Winter", "Bo Lind", "Cleo Marsh", "Dag Thorne", "Eve Sands", "Finn Okoro")
HANDBOOK = {
    "travel.md": "---\nteam: travel\n---\n# Travel\n\nThe head of a team approves trips within the country. A trip"
    " abroad needs the word of the director, at least a week before it begins.\n\n## Costs\n\nKeep every receipt. The"
    " office pays within a month.\n",
    "leave.md": "# Leave\n\nEverybody has thirty days of leave a year. Ten of them may be kept for the next one.\n",
    "tools/printer.md": "# Printer\n\nThe printer is on the second floor. Ask Ada Winter for paper.\n",
    "readme.txt": "This handbook is kept by the office. Whoever finds a mistake in it mends it. Its first edition was"
    " written by Bo Lind in 1998, in the year after the office had moved.\n",
}


def write_own_files(folder: Path) -> None:
    """`handbook/`, `notes.jsonl` (one row of which lacks its text), `mine.json` (20 articles, in SQuAD's form),
    `more.json` (six articles) and `pages.json` (title and text)."""
    for name, text in HANDBOOK.items():
        (folder / "handbook" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "handbook" / name).write_text(text, encoding="utf-8")
    (folder / "notes.jsonl").write_text("".join(json.dumps(note) + "\n" for note in _notes()), encoding="utf-8")
    towns(folder / "mine.json", MANY)
    towns(folder / "more.json")
    pages = [{"title": note["headline"], "text": f"About films. {note['body']}"} for note in _notes() if "body" in note]
    (folder / "pages.json").write_text(json.dumps(pages), encoding="utf-8")


def write_own_packages(folder: Path) -> None:
    """Packages of the user's own project, with the names of the folders that `vitalfew` links to."""
    for name in ("configs", "flows", "storage", "tasks"):
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text(f"NAME = {name!r}\n")
    (folder / "flows" / "evaluate.py").write_text("def evaluate() -> None:\n    raise SystemExit('the wrong flows')\n")


def _notes() -> list[dict[str, str]]:
    notes = [
        {
            "headline": f"The Silent Bridge {number}",
            "body": f"The film was shot in {1950 + number}. It is based on a novel. {person} wrote the novel.",
        }
        for number, person in enumerate(PEOPLE)
    ]
    return [*notes, {"headline": "A note without its text"}]
