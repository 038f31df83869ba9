"""The questions of `vitalfew start`: written by a writer, or given; and the experiment that can be judged by them."""

from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from vitalfew.configs.loading import parse_assignments
from vitalfew.flows.cli.options import at
from vitalfew.flows.cli.questions import write
from vitalfew.flows.cli.steps import sets, step
from vitalfew.tasks.datasets.base import InputError

RETRIEVAL, ANSWERS = "start", "start_answers"
"""The experiments that compare methods by what they find, and by the answers that are given from it."""
PEEKED = 10_000
"""Questions that are looked at to see what they can measure, at most."""


@dataclass(frozen=True)
class Posed:
    """The questions of a journey. `example`: the first; `experiment`: the one that can be judged by them, with the
    `settings` that it needs; `is_written`: a writer wrote them."""

    dataset: str
    example: str
    experiment: str
    is_written: bool
    settings: tuple[str, ...] = ()


def write_questions(
    seconds: dict[str, float], name: str, n: int | None, writer: str | None, settings: list[str], here: dict[str, Any]
) -> Posed:
    """Write the questions. Raises InputError, with what can be done without, where none can be written."""
    from vitalfew.flows.pipelines.write_questions import questions_of
    from vitalfew.tasks.datasets.written import written
    from vitalfew.tasks.registry import resolve

    store = here["store"]
    own = [*(["--n", str(n)] if n else []), *(["--writer", writer] if writer else []), *sets(settings)]
    with step(seconds, "questions", "write", "--index", name, *own, *at(store)):
        try:
            write(name, n=n, writer=writer, assignments=settings, **here)
        except InputError as error:
            raise InputError(
                f"{error}. Nothing can be compared without questions. The index is ready: vitalfew search QUESTION "
                f"--index {name}. With questions of yours (--questions FILE.jsonl) or of a language model "
                "(--writer llm), run `vitalfew start` again"
            ) from None
    artifact = written(store, name)
    config = parse_assignments(settings).get("write", {})
    measures = resolve("writer", writer or config.get("writer", "cloze")).measures
    example = questions_of(artifact)["text"][0].as_py()
    return Posed(f"written:{name}", example, RETRIEVAL if "not answers" in measures else ANSWERS, True)


def given_questions(store: Path, given: str) -> Posed:
    """The questions of a file, or of any data set. Raises InputError where they have nothing to be judged by."""
    from vitalfew.tasks.datasets.base import Question
    from vitalfew.tasks.datasets.specification import likely, parse_dataset
    from vitalfew.tasks.datasets.written import located
    from vitalfew.tasks.writers.cloze import GAP

    dataset = given if ":" in given else likely(given)
    _, opened = parse_dataset(located(store, dataset))
    opened.files()
    read = [record for _, record in islice(opened.records(), PEEKED) if isinstance(record, Question)]
    if not read:
        raise InputError(f"--questions {given}: no row is a question; a row is one with `question` and without `text`")
    first = read[0].text
    is_gapped = 2 * sum(GAP in question.text for question in read) > len(read)
    if any(question.answers for question in read) and not is_gapped:
        return Posed(dataset, first, ANSWERS, False)
    if any(question.supporting_facts or any(gold.quote for gold in question.gold_places) for question in read):
        return Posed(dataset, first, RETRIEVAL, False)
    if any(question.gold_passages or question.gold_places for question in read):
        return Posed(dataset, first, RETRIEVAL, False, ("primary=context_recall",))
    raise InputError(
        f"--questions {given}: no question has `answers`, a `source` (the file that answers it) or a `quote` from it, "
        "by which methods could be compared; add one of them"
    )
