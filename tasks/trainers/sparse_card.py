"""The card of the weights that the trainer `sparse_rag` makes."""

from collections.abc import Mapping, Sequence
from typing import Any

from vitalfew.tasks.trainers.card import HELD_OUT, RECIPE, Sources, Split, again_section
from vitalfew.tasks.trainers.retrieved import Retrieved

COLUMNS = {
    "auc": "AUC of ratings",
    "f1": "F1 of ratings",
    "rating_loss": "loss of ratings",
    "answer_loss": "loss of answers",
    "exact": "exact answers %",
}


def card(
    options: Any,
    sources: Sources,
    whole: Retrieved,
    split: Split,
    rows: Sequence[Mapping[str, Any]],
    curve: Sequence[Mapping[str, Any]],
) -> str:
    """`rows`: figures of the best weights; `curve`: of every pass, on the articles that choose."""
    unseen = {*split.held_out, *split.choosing}
    learnt = [question for question in whole.questions if question.article not in unseen]
    files = ", ".join(source.partition(":")[2] for source in (*sources[0], *sources[1]))
    tasks = "rates contexts and answers from those it keeps" if options.ratings else "answers from its contexts"
    return f"""# A LoRA adapter for {options.base}: it {tasks}

Low-rank updates (rank {options.rank}, alpha {options.alpha:g}, of {", ".join(options.targets)}; bf16) in PEFT's format.
Attention: {options.attention}. The texts of the controls are in `{RECIPE}`; causal/controls.py shows how a prompt
is made.

## Data and split
{files}:

- {len(learnt):,} questions of {len({question.article for question in learnt})} articles to learn from,
  {min(options.questions or len(learnt), len(learnt)):,} per pass;
- those of {len(split.choosing)} more articles to choose the pass: {", ".join(split.choosing)};
- {len(split.held_out)} articles held out, a random choice of titles with seed {options.seed}: `{HELD_OUT}`;
- {options.fewest} to {options.contexts} contexts per question: relevant ones (labeller `{options.labeller}`), and
  distractors without an answer's text, from the {options.retrieved} passages whose vectors (all-MiniLM-L6-v2) are
  nearest to the question's among all {len(whole.passages):,} except the held-out ones. The model sees no titles.

## Figures
Questions with {options.contexts} contexts. Exact: the most probable tokens are one gold answer.

{_table(rows, "articles")}

## Passes
On the articles that choose the pass; the best pass has the smallest sum of losses.

{_table([{"pass": number, **row} for number, row in enumerate(curve, 1)], "pass")}

{again_section(sources)}
"""


def _table(rows: Sequence[Mapping[str, Any]], first: str) -> str:
    used = [name for name in COLUMNS if any(row[name] is not None for row in rows)]
    head = [first, "questions", *(COLUMNS[name] for name in used)]
    lines = [
        [row[first], row["questions"], *("–" if row[name] is None else row[name] for name in used)] for row in rows
    ]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in [head, ["---"] * len(head), *lines])
