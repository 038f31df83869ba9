"""The card of a policy of Oreo's: what was trained, and its figures."""

from collections.abc import Mapping, Sequence
from typing import Any

from vitalfew.tasks.models.small.policies import READER, PolicyName
from vitalfew.tasks.trainers.card import HELD_OUT, Split

RECIPES: dict[PolicyName, str] = {"copier": "oreo", "seq2seq": "oreo_t5"}
"""The recipe of configs/recipes that trains a policy."""


def card(
    options: Any, learnt: int, split: Split, rows: Sequence[Mapping[str, Any]], curve: Sequence[Mapping[str, Any]]
) -> str:
    """`learnt`: examples; `rows`: figures by articles; `curve`: those of every pass on the articles that choose."""
    return f"""# Oreo: an evidence text from retrieved chunks

{_model(options)} Trained by `{options.trainer}`.

## Data and split
- {learnt:,} questions with an evidence text to learn from;
- those of {len(split.choosing)} articles to choose the weights: {", ".join(split.choosing)};
- {len(split.held_out)} articles held out: `{HELD_OUT}`. The training uses no chunk of either group.

## Figures
Greedy texts, read by the generator `{options.generator.generator}`. Accuracy: token F1 of at least 0.5.

| articles | questions | answers kept | words | of the chunks | under 8 words | F1 | accuracy | from the chunks |
|---|---|---|---|---|---|---|---|---|
{_rows(rows)}

After every pass, on the articles that choose the weights:

| pass | answers kept | words | F1 | accuracy |
|---|---|---|---|---|
{_passes(curve)}

## Training it again

    vitalfew train {RECIPES[options.policy]} --index NAME --out DIR

The weights inherit the licences of the data they were trained on (SQuAD: CC BY-SA 4.0) and of {_lineage(options)}.
"""


def _model(options: Any) -> str:
    """What was trained."""
    if options.policy == "seq2seq":
        return f"""An encoder-decoder (tasks/models/small/seq2seq_policy.py) that started as `{options.base}`. All its
weights are trained, float32. It can write words that are not in the chunks."""
    encoder = "all-MiniLM-L6-v2" if options.base == READER else f"that of `{options.base}`"
    return f"""A copier (models/small/copier.py). It selects, cuts, orders and joins words of the chunks; it writes
nothing else. Its encoder is {encoder} with low-rank updates, float16."""


def _lineage(options: Any) -> str:
    """What the weights were made of."""
    return "their encoder (Apache-2.0)" if options.base == READER else f"`{options.base}`"


def _rows(rows: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(
        f"| {row['articles']} | {row['questions']} | {row['kept']:.3f} | {row['tokens']:.1f} | {row['share']:.3f} | "
        f"{row['short']:.3f} | {row['f1']:.3f} | {row['right']:.3f} | {row['full_right'] or 0:.3f} |"
        for row in rows
    )


def _passes(curve: Sequence[Mapping[str, Any]]) -> str:
    return "\n".join(
        f"| {number} | {row['kept']:.3f} | {row['tokens']:.1f} | {row['f1']:.3f} | {row['right']:.3f} |"
        for number, row in enumerate(curve, 1)
    )
