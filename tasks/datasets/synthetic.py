"""A generated encyclopaedia of an invented world, with questions: any size, offline, the same everywhere.

It exists to try a pipeline at a size for which no annotated corpus is available. Passage i is a function of the seed
and i; question j is a function of the seed, j and the number of passages, over which the questions are spread. So
memory does not grow with the corpus. It is a good test of context: every later sentence of a passage refers back ("It",
"The club", "She"), so a sentence must be understood in its context; and the passages of a cluster share their names but
state different facts. It is a bad model of language: a few hundred templates generate it, so figures on it say nothing
about text that people wrote.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Self

from pydantic import Field, model_validator

from vitalfew.storage.ids import passage_id
from vitalfew.tasks.datasets.base import Dataset, DatasetOptions, Passage, Question, Record, Span
from vitalfew.tasks.datasets.synthetic_articles import Article, Encyclopaedia
from vitalfew.tasks.datasets.synthetic_world import Draw, coprime_step

_GOLDEN = 0.6180339887498949
"""Steps of this share of a range spread evenly over the range, after any number of steps (the golden section)."""


class SyntheticOptions(DatasetOptions):
    """How much of the world to generate."""

    passages: int = Field(default=2000, ge=0, le=10**12, description="number of passages")
    questions: int = Field(default=200, ge=0, le=10**12, description="number of questions, one passage per question")
    seed: int = Field(default=0, ge=0, description="seed of the world; another seed gives other names and facts")

    @model_validator(mode="after")
    def _questions_need_passages(self) -> Self:
        if self.questions and not self.passages:
            raise ValueError(f"questions={self.questions} need passages to ask about: set passages=, or questions=0")
        return self


class Synthetic(Dataset):
    """A generated encyclopaedia of an invented world, with questions that have one answer; reads no file.

    Passages have four to seven sentences (about 3 % have one) and come in clusters that share their names. A question
    asks for a fact from a sentence that does not name its subject. Passages are records 1 to P; questions come after
    them. With more than about three questions per passage, questions repeat.
    """

    example: ClassVar[str] = "synthetic:passages=2000,questions=200,seed=0"
    reads_path: ClassVar[bool] = False
    Options: ClassVar[type[DatasetOptions]] = SyntheticOptions
    options: SyntheticOptions

    def __init__(self, path: Path | None, options: SyntheticOptions) -> None:
        super().__init__(path, options)

    def files(self) -> list[Path]:
        return []

    def total_records(self) -> int:
        return self.options.passages + self.options.questions

    def records(self) -> Iterator[tuple[int, Record]]:
        passages, seed = self.options.passages, self.options.seed
        world = Encyclopaedia(seed)
        for index in range(passages):
            article = world.article(index)
            yield index + 1, Passage(article.title, article.text(), f"p{index + 1}")
        for number in range(self.options.questions):
            yield passages + number + 1, _question(world, number, passages)


def gold_sentences(seed: int, index: int) -> list[tuple[int, int]]:
    """Return the half-open character ranges of the sentences of passage `index` (from 0), without the spaces between.

    They serve to judge a sentence splitter: the texts have abbreviations and decimals.
    """
    return Encyclopaedia(seed).article(index).spans()


def _question(world: Encyclopaedia, number: int, passages: int) -> Question:
    """Return question `number`. Every passage gets one question before any passage gets a second."""
    start = Draw(world.seed, "questions", passages)(passages)
    step = coprime_step(int(passages * _GOLDEN), passages)
    turn, position = divmod(number, passages)
    index = (position * step + start) % passages
    article = world.article(index)
    askable = _askable(article, Draw(world.seed, "question", index))
    sentence, field, template = askable[turn % len(askable)]
    text, spans = article.text(), article.spans()
    passage = passage_id(text)
    return Question(
        text=template.format_map(article.names),
        answers=(article.sentences[sentence].values.get(field) or article.names[field],),
        gold_passages=(passage,),
        supporting_facts=tuple(Span(passage, *spans[place]) for place in sorted({0, sentence})),
        source_id=f"q{number + 1}",
    )


def _askable(article: Article, draw: Draw) -> list[tuple[int, str, str]]:
    """Return (sentence, field of the answer, question template): every fact once, in a drawn order, then all again.

    Facts of the first sentence are asked about only if it is the only sentence.
    """
    by_sentence = []
    for number, sentence in enumerate(article.sentences):
        questions = [(number, *question) for question in sentence.fact.questions]
        if questions and (number or len(article.sentences) == 1):
            turn = draw(len(questions))
            by_sentence.append(questions[turn:] + questions[:turn])
    turn = draw(len(by_sentence))
    ordered = by_sentence[turn:] + by_sentence[:turn]
    most = max(len(questions) for questions in ordered)
    return [questions[rank] for rank in range(most) for questions in ordered if rank < len(questions)]
