"""ROUGE-L and ROUGE-LSum of an answer, by Google's `rouge-score`; F-measures, the best over the gold answers.

Lin, "ROUGE: A Package for Automatic Evaluation of Summaries", 2004, section 3. Words are the package's: lower-case runs
of a–z and 0–9, not stemmed (the default of the package and of Hugging Face's `evaluate`). A gold answer in another
script has no such word and no answer could match it, so it is passed over, and a question with no other is left out.

ROUGE-LSum compares sentence with sentence and wants every one on its own line. They are split with Punkt's rules and
this project's English abbreviations alone: nothing is trained, so a text has the same score in every corpus.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from vitalfew.tasks.metrics.answers import JUDGED
from vitalfew.tasks.metrics.base import Case, Column, MetricOptions, PerQuestion, Values, judged
from vitalfew.tasks.splitters.nltk_punkt import untrained

_COLUMNS = {
    "rougeL": Column("rouge_l", "ROUGE-L", needs=JUDGED),
    "rougeLsum": Column("rouge_lsum", "ROUGE-LSum", needs=JUDGED),
}
"""By what `rouge-score` calls it."""


class Rouge(PerQuestion):
    """ROUGE-L and ROUGE-LSum (F-measure, 0 to 1; the best over the gold answers)."""

    def __init__(self, options: MetricOptions) -> None:
        super().__init__(options)
        self.splitter = untrained()

    @cached_property
    def _tokenizer(self) -> Any:
        from rouge_score.tokenizers import DefaultTokenizer

        return DefaultTokenizer(use_stemmer=False)

    @cached_property
    def _scorer(self) -> Any:
        from rouge_score.rouge_scorer import RougeScorer

        return RougeScorer(list(_COLUMNS), tokenizer=self._tokenizer)

    def columns(self) -> list[Column]:
        return [*_COLUMNS.values()]

    def score(self, cases: Sequence[Case]) -> Values:
        scores = [self._scores(case) for case in cases]
        return {column.name: [values.get(kind) for values in scores] for kind, column in _COLUMNS.items()}

    def _scores(self, case: Case) -> dict[str, float]:
        """By kind; empty without ground."""
        output = judged(case)
        gold = [self._lines(answer) for answer in case.answers if self._tokenizer.tokenize(answer)]
        if output is None or not gold:
            return {}
        best = self._scorer.score_multi(gold, self._lines(output))
        return {kind: float(best[kind].fmeasure) for kind in _COLUMNS}

    def _lines(self, text: str) -> str:
        """Every sentence on its own line."""
        return "\n".join(text[start:end].strip() for start, end in self.splitter.split(text))
