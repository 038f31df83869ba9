"""What is written beside trained weights: the card for people, the figures and the held-out titles for programs."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from configs.training import Train, TrainCritic, TrainReader
from storage.files import write_atomically, write_json
from tasks.trainers.articles import Material
from tasks.trainers.discrimination import RETRIEVED, Discrimination
from tasks.trainers.judgements import RIGHT
from tasks.trainers.quality import Quality

CARD, FIGURES, HELD_OUT = "README.md", "figures.json", "held_out.txt"

Split = tuple[Sequence[str], Sequence[str]]
"""Titles of the articles that are held out, and of those that choose the weights."""


def write_card(
    directory: Path, parameters: TrainReader, material: Material, split: Split, figures: Sequence[Quality]
) -> None:
    """The card of a reader."""
    rows = "\n".join(
        f"| {'the gold passage' if each.contexts == 1 else f'the gold passage and {each.contexts - 1} distractors'} "
        f"| {each.questions:,} | {each.exact_match:.1f} | {each.f1:.1f} | {each.prompt_tokens:,.0f} |"
        for each in figures
    )
    made = "distractors and cloze questions" if parameters.clozes else "distractors"
    text = f"""# The embedded reader

An extractive reader: low-rank updates (rank {parameters.rank}, float16) over the encoder `{parameters.base}`, and a
head for start, end and answerability. `adapter.safetensors` has the weights, `tasks/generators/reader.py` says how they
are used.

{_data(parameters, material, split, made)}

## Quality on the held-out articles
SQuAD's normalisation, percent. Distractors: the passages without the answer that BM25 ranks highest for the question,
among all {len(material.passages):,}.

| contexts | questions | exact match | F1 | tokens a question |
|---|---|---|---|---|
{rows}

{_again("train-reader", parameters)}
"""
    _write_all(directory, parameters, split, figures, text)


def write_critic_card(
    directory: Path, parameters: TrainCritic, material: Material, split: Split, figures: Sequence[Discrimination]
) -> None:
    """The card of a critic."""
    rows = "\n".join(
        f"| {each.unit}s | {each.aspect.upper()}{' of relevant contexts' if each.among == 'relevant' else ''} "
        f"| {each.auc:.3f} | {each.low:.3f}-{each.high:.3f} | {each.questions:,} | {each.candidates:,} "
        f"| {100 * each.positive:.0f} |"
        for each in figures
    )
    text = f"""# The embedded critic

A cross-encoder that judges a question's answer by its context: low-rank updates (float16) over the encoder that its
reader is laid over, begun from that reader's, and a head for ISREL, ISSUP and ISUSE. `adapter.safetensors` has the
weights, `tasks/critics/embedded.py` says how they are used.

{_data(parameters, material, split, "distractors")}

## Quality on the held-out articles
Area under the ROC curve, with its 95 % interval (bootstrap over questions). For each question BM25 retrieves
{RETRIEVED} contexts, sentences or passages, among those of all {len(material.passages):,} passages, and the reader
answers from each. ISREL: the context holds the gold answer where it is marked. ISUSE: the answer's token F1 with a gold
answer is at least {RIGHT}. ISSUP: so it is, and the context has a gold answer's text. The last row of each kind asks
for ISSUP among the relevant contexts alone, where only the answer can tell.

| contexts | aspect | AUC | 95 % | questions | candidates | positive, % |
|---|---|---|---|---|---|---|
{rows}

{_again("train-critic", parameters)}
"""
    _write_all(directory, parameters, split, figures, text)


def _data(parameters: Train, material: Material, split: Split, made: str) -> str:
    """`made`: what comes from the passages besides the questions."""
    held_out, choosing = split
    learnt = material.without([*held_out, *choosing])
    titles = {material.passages[asked.passage].article for asked in learnt.questions}
    named = ", ".join(Path(each.partition(":")[2]).name for each in (*parameters.datasets, *parameters.passages))
    return f"""## Data and split
{named}:

- {len(learnt.questions):,} questions of {len(titles)} articles to learn from;
- those of {len(choosing)} more to choose the weights by: {", ".join(choosing)};
- {len(held_out)} articles held out altogether, a random choice of titles with seed {parameters.seed}: `held_out.txt`;
- {len(learnt.passages):,} passages that {made} come from. No title is shown to the model."""


def _again(command: str, parameters: Train) -> str:
    options = "".join(f" --passages {_short(each)}" for each in parameters.passages)
    line = f"vitalfew {command} {' '.join(map(_short, parameters.datasets))}{options} --out DIR"
    changed = parameters.model_dump(exclude_defaults=True, exclude={"datasets", "passages", "out", "threads"})
    line += "".join(f" --set {name}={value}" for name, value in changed.items())
    return f"""## Training it again

    {line}

The weights inherit the licences of the data they were trained on (SQuAD: CC BY-SA 4.0) and of their encoder
(Apache-2.0)."""


def _write_all(
    directory: Path, parameters: Train, split: Split, figures: Sequence[Quality | Discrimination], card: str
) -> None:
    settings = parameters.model_dump(mode="json", exclude={"out", "threads"})
    write_json(directory / FIGURES, {"figures": [asdict(each) for each in figures], "settings": settings})
    _write(directory / HELD_OUT, "".join(f"{title}\n" for title in split[0]))
    _write(directory / CARD, card)


def _write(path: Path, text: str) -> None:
    write_atomically(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))


def _short(specification: str) -> str:
    name, _, path = specification.partition(":")
    return f"{name}:{Path(path).name}"
