"""The generated encyclopaedia: reproducible, and with questions that its gold sentences answer."""

import re

from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import Passage, Question, Record
from vitalfew.tasks.datasets.synthetic import Synthetic, article


def generate(**options: int) -> list[tuple[int, Record]]:
    return list(Synthetic(None, Synthetic.Options(**options)).records())


def passages_of(records: list[tuple[int, Record]]) -> list[Passage]:
    return [record for _, record in records if isinstance(record, Passage)]


def test_a_passage_depends_on_the_seed_and_its_number_alone() -> None:
    long, short = generate(passages=100, questions=0, seed=5), generate(passages=40, questions=3, seed=5)
    assert long[:40] == short[:40]
    made = article(5, 77)
    assert long[77][1] == Passage(made.title, made.text(), "p78")
    other = {passage.text for passage in passages_of(generate(passages=100, questions=0, seed=6))}
    assert not other & {passage.text for passage in passages_of(long)}


def test_questions_are_answered_by_their_gold_sentences() -> None:
    world = generate(passages=1_000, questions=500, seed=1)
    passages = passages_of(world)
    index_of = {passage_id(passage.text): index for index, passage in enumerate(passages)}
    for question in (record for _, record in world if isinstance(record, Question)):
        index = index_of[question.gold_passages[0]]
        sentences = article(1, index).spans()
        spans = [(span.start, span.end) for span in question.supporting_facts]
        assert spans[0] == sentences[0]
        assert set(spans) <= set(sentences)
        assert len(spans) == (1 if len(sentences) == 1 else 2)
        assert {span.passage_id for span in question.supporting_facts} == set(question.gold_passages)
        (answer,) = question.answers
        assert answer in passages[index].text[slice(*spans[-1])]
        assert not re.search(rf"\b{re.escape(answer)}\b", question.text)
        assert question.text.endswith("?")
