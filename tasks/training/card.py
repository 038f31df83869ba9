"""What is written beside a reader's weights: the card for people, the figures and the held-out titles for programs."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from configs.training import TrainReader
from storage.parquet import write_atomically, write_json
from tasks.training.articles import Material
from tasks.training.quality import Quality

CARD, FIGURES, HELD_OUT = "README.md", "figures.json", "held_out.txt"


def write_card(
    directory: Path,
    parameters: TrainReader,
    material: Material,
    split: tuple[Sequence[str], Sequence[str]],
    figures: Sequence[Quality],
) -> None:
    held_out, choosing = split
    settings = parameters.model_dump(mode="json", exclude={"out", "threads"})
    write_json(directory / FIGURES, {"figures": [asdict(each) for each in figures], "settings": settings})
    _write(directory / HELD_OUT, "".join(f"{title}\n" for title in held_out))
    _write(directory / CARD, _card(parameters, material, held_out, choosing, figures))


def _write(path: Path, text: str) -> None:
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _card(
    parameters: TrainReader,
    material: Material,
    held_out: Sequence[str],
    choosing: Sequence[str],
    figures: Sequence[Quality],
) -> str:
    learnt = material.without([*held_out, *choosing])
    titles = {material.passages[asked.passage].article for asked in learnt.questions}
    rows = "\n".join(
        f"| {'the gold passage' if each.contexts == 1 else f'the gold passage and {each.contexts - 1} distractors'} "
        f"| {each.questions:,} | {each.exact_match:.1f} | {each.f1:.1f} | {each.prompt_tokens:,.0f} |"
        for each in figures
    )
    made = "distractors and cloze questions" if parameters.clozes else "distractors"
    named = ", ".join(Path(each.partition(":")[2]).name for each in (*parameters.datasets, *parameters.passages))
    options = "".join(f" --passages {_short(each)}" for each in parameters.passages)
    command = f"vitalfew train-reader {' '.join(map(_short, parameters.datasets))}{options} --out DIR"
    changed = parameters.model_dump(exclude_defaults=True, exclude={"datasets", "passages", "out", "threads"})
    command += "".join(f" --set {name}={value}" for name, value in changed.items())
    return f"""# The embedded reader

An extractive reader: low-rank updates (rank {parameters.rank}, float16) over the encoder `{parameters.base}`, and a
head for start, end and answerability. `adapter.safetensors` has the weights, `tasks/generators/reader.py` says how they
are used.

## Data and split
{named}:

- {len(learnt.questions):,} questions of {len(titles)} articles to learn from;
- those of {len(choosing)} more to choose the weights by: {", ".join(choosing)};
- {len(held_out)} articles held out altogether, a random choice of titles with seed {parameters.seed}: `held_out.txt`;
- {len(learnt.passages):,} passages that {made} come from. No title is shown to the reader.

## Quality on the held-out articles
SQuAD's normalisation, percent. Distractors: the passages without the answer that BM25 ranks highest for the question,
among all {len(material.passages):,}.

| contexts | questions | exact match | F1 | tokens a question |
|---|---|---|---|---|
{rows}

## Training it again

    {command}

The weights inherit the licences of the data they were trained on (SQuAD: CC BY-SA 4.0) and of their encoder
(Apache-2.0).
"""


def _short(specification: str) -> str:
    name, _, path = specification.partition(":")
    return f"{name}:{Path(path).name}"
