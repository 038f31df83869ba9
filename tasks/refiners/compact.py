"""`compact`: a causal model reads the hits a few at a time, and keeps one summary until that answers the question.

CompAct (Yoon et al. 2024, arXiv 2407.09014): a round reads the question, the summary so far with its evaluation, and
the next five documents, and writes a new summary and what it still lacks, which ends in [COMPLETE] or [INCOMPLETE].
[COMPLETE] ends the rounds, as does the sixth (refine.rounds), or the last of the hits. The summary of the last round is
the context. Rounds, documents, 500 new tokens, greedy choice: the authors' README and `scripts/run_prompt.sh`
(github.com/dmis-lab/CompAct); their script itself allows 900 tokens.

Deviations:
- The instructions (FIRST, FURTHER, TASK) ask for what the authors' `create_prompt` asks for, in other words; the
  checkpoint was trained on the authors' words: compare before its figures are quoted.
- A document begins with its title and a colon where refine.text and refine.titles show titles; theirs always begin
  with the title, without a colon. The chat template's <s> stands once before the input, in their script twice.
- An output without its parts does not end in an error: what comes before "Evaluation:", or all of it, is the
  summary, and the last mark says whether it is complete; without a mark it is not. A round that writes no summary
  leaves the one before. Marks do not belong to a summary, and its lines become one.
- The documents of a round are cut at 4096 tokens of input (our choice; they were trained on 2500, mark and all).

The published checkpoint was not available during development: tests use a tiny Llama.
"""

import re
from collections.abc import Mapping, Sequence
from typing import ClassVar, NamedTuple

from pydantic import Field

from vitalfew.tasks.refiners.base import Hit
from vitalfew.tasks.refiners.rewriting import CausalRefiner, EvidenceDraft

FIRST = "1. From the source documents below, write a summary that helps to answer the question."
FURTHER = (
    "1. From the previous summary and the source documents below, write a new summary that helps to answer the "
    "question. The evaluation of the previous summary says what was still missing: look for it."
)
TASK = (
    "Use at most 200 words and names in the place of pronouns. Neither guess nor answer the question: the summary is "
    "all that is asked for.\n\n2. Then evaluate that summary by itself, as if nothing else were known. Say what an "
    "answer still lacks and end with [INCOMPLETE], or, where nothing is missing, say why and end with [COMPLETE]."
)
COMPLETE = "[COMPLETE]"
_MARK = re.compile(r"\[(?:IN)?COMPLETE\]")
_NAME = re.compile(r"(Summary|Evaluation):")


class Round(NamedTuple):
    """The output of a round."""

    summary: str
    evaluation: str
    complete: bool


def parse(output: str) -> Round:
    """Take the first text of every part that says something; without a named summary, the text before all names."""
    lead, *rest = _NAME.split(output)
    parts = [*zip(rest[::2], rest[1::2], strict=True), ("Summary", lead)]
    plain = [(name, " ".join(_MARK.sub(" ", text).split())) for name, text in parts]
    summary, evaluation = (
        next((text for name, text in plain if name == due and text), "") for due in ("Summary", "Evaluation")
    )
    return Round(summary, evaluation, _MARK.findall(output)[-1:] == [COMPLETE])


class Compact(CausalRefiner):
    """A causal model summarises the hits segment by segment, until its summary answers the question (CompAct)."""

    class Options(CausalRefiner.Options):
        segment: int = Field(5, ge=1, description="Hits that the model reads per round.")
        rounds: int = Field(6, ge=1, description="Maximum number of rounds per question; further hits are not read.")

    example: ClassVar[tuple[str, ...]] = ("refine.model=compact-7b",)
    name: ClassVar[str] = "compact"
    presets: ClassVar[Mapping[str, str]] = {"compact-7b": "cwyoon99/CompAct-7b"}
    max_new_tokens: ClassVar[int] = 500
    max_input_tokens: ClassVar[int] = 4096

    def draft(self, question: str, hits: Sequence[Hit]) -> EvidenceDraft:
        shown, size = self.shown(hits), self.options.segment
        segments = ["\n".join(shown[at : at + size]) for at in range(0, len(shown), size)]
        return EvidenceDraft(question, segments[: self.options.rounds])

    def asked(self, draft: EvidenceDraft, documents: str) -> str:
        first, before = FIRST, ""
        if draft.rounds:
            first = FURTHER
            before = f"Previous summary: {draft.text}\n\nEvaluation of previous summary: {draft.evaluation}\n\n"
        question = f"{first} {TASK}\n\nQuestion: {draft.question}\n\n"
        return f"{question}{before}Source documents: {documents}\n\nSummary:"

    def take(self, draft: EvidenceDraft, output: str) -> None:
        summary, draft.evaluation, draft.complete = parse(output)
        draft.text = summary or draft.text
        if draft.complete:
            draft.parts.clear()

    def notes(self, drafts: Sequence[EvidenceDraft]) -> dict[str, int]:
        return {"rounds": sum(draft.rounds for draft in drafts), "complete": sum(draft.complete for draft in drafts)}
