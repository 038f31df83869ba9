"""Refiners with a language model that writes one context from a question's hits: their base, `recomp`, `refiner_7b`.

New lines join the hits, best first, with their titles where refine.text and refine.titles say so; hits without text
are left out. If the input is too long for the model, the end of the joined hits is cut at the end of a word, and the
rest of the input stays whole. max_words and max_tokens limit what the model wrote. If that is nothing, or there was
nothing to read, the question is answered without contexts. A causal model gets the input as one message of a user, in
its chat template if it has one, and a LoRA adapter is merged into it (tasks/models/causal/adapters.py).

`recomp`: an abstractive compressor writes a summary of the hits for the question, or nothing where they do not help
(RECOMP, Xu et al. 2023, arXiv 2310.04408, section 3.2): T5-large, trained on summaries by GPT-3.5 that raise a language
model's score. Input, limits (1024 tokens read, 512 written) and the presets' names are those of the authors' script
`train_hf_summarization_model.py` and README (github.com/carriex/recomp); they compress the best 5 passages
(refine.top_k=5), ParetoRAG's table 1 ten. Their code does not show how they join passages and titles, and cuts a long
input at its end, including the word "Summary:", which stays here.

`refiner_7b`: a causal model copies what answers the question out of the hits (Refiner, Li et al. 2024, arXiv
2406.11357): Llama-2-7b-chat with an adapter that was trained on what larger models agree to extract. It reads all
documents at once and writes, word for word, what has to do with the question, in sections of related content: a section
has a number and a title ("1."), under it its documents ("1.1.") with the text copied from them. That text is the
context, in one piece, numbers and titles included.

The authors' repository was not at hand. Input (documents after [MONITOR] in Llama 2's system part, then the question;
the chat template adds the instruction's marks, with blanks) and the form of the output are written from memory; compare
them with the card of al1231/Refiner-7B before figures of that checkpoint are believed. How documents are joined, the
limit of input, which is Llama 2's, and 512 new tokens are not the authors'.

The output is read line by line. A line is a heading if its number follows the one before it, so that "3.5 million …" is
content. Empty lines, headings with nothing after or under their number, and what a model says again are dropped, and
the numbers counted again. Whether what was "copied" is in the hits is not checked, and a context has no origin.

The published checkpoints (for `refiner_7b` refine.model=llama-2-7b-chat, refine.adapter=refiner-7b) were not available
during development: tests use tiny models of their architectures.
"""

import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar

from pydantic import Field

from vitalfew.configs.options import Rewriting
from vitalfew.configs.section import NOT_IN_FINGERPRINT, ModelName
from vitalfew.tasks.models.causal.rewriter import Rewriter
from vitalfew.tasks.models.ticks import Tick, no_tick, tokens_of
from vitalfew.tasks.refiners.base import Context, Hit, ModelRefiner, Refined, Refiner, Retrieved, Vectors, Writing
from vitalfew.tasks.splitters.tokens import count_tokens, first

Number = tuple[int, ...]
Entry = tuple[Number, str, tuple[str, ...]]
"""The number of a heading (none: empty), its text without the number, and the lines under it."""

_HEADING = re.compile(r"#*\s*(\d{1,2}(?:\.\d{1,2})+|\d{1,2}(?:\.\d{1,2})*(?=\.))\.?(?:\s+(.*))?")


@dataclass(slots=True)
class EvidenceDraft:
    """A question's text on the way. `parts`: the documents of the rounds to come; `rounds`: done so far; `cut`: in any
    round; `finish_reason`: of the last round; `evaluation`, `complete`: what the model says of the text, if asked."""

    question: str
    parts: list[str]
    text: str = ""
    rounds: int = 0
    cut: bool = False
    finish_reason: str = ""
    evaluation: str = ""
    complete: bool = False


class RewritingRefiner(ModelRefiner):
    """Base of refiners that rewrite: one context, or none, for every question. A subclass has its model's presets, its
    limits and `asked`; its model is an encoder-decoder unless it is `causal`. All questions of a round go to the engine
    together; most methods have one round."""

    class Options(Rewriting, Refiner.Options):
        pass

    name: ClassVar[str]
    causal: ClassVar[bool] = False
    presets: ClassVar[Mapping[str, str]]
    """Hugging Face names of the published models, by the short names that refine.model takes."""
    max_new_tokens: ClassVar[int]
    max_input_tokens: ClassVar[int]

    def __init__(self, options: Options) -> None:
        """Raises ConfigError, EngineUnavailable."""
        limits = {"max_new_tokens": self.max_new_tokens, "max_input_tokens": self.max_input_tokens}
        rewriter = Rewriter(options, "refine", method=self.name, presets=self.presets, causal=self.causal, **limits)
        super().__init__(options, rewriter)

    def draft(self, question: str, hits: Sequence[Hit]) -> EvidenceDraft:
        """Begin a question's text, with the documents that the model is to read."""
        documents = "\n".join(self.shown(hits))
        return EvidenceDraft(question, [documents] if documents else [])

    @abstractmethod
    def asked(self, draft: EvidenceDraft, documents: str) -> str:
        """The model's input in a draft's next round."""

    def take(self, draft: EvidenceDraft, output: str) -> None:
        """Put a round's output into a draft."""
        draft.text = output

    def notes(self, drafts: Sequence[EvidenceDraft]) -> dict[str, int]:
        """Further counts for the manifest."""
        return {}

    def refine(
        self, questions: Sequence[str], hits: Retrieved, vectors: Vectors | None = None, tick: Tick = no_tick
    ) -> Refined:
        drafts = [self.draft(question, own) for question, own in zip(questions, hits, strict=True)]
        due = [draft for draft in drafts if draft.parts]
        tick(len(drafts) - len(due), 0)
        tokens = 0
        while due:
            inputs = [self._fitted(draft, draft.parts.pop(0)) for draft in due]
            is_last = not any(draft.parts for draft in due)
            completions = self.model.rewrite(inputs, tick if is_last else tokens_of(tick))
            for draft, completion in zip(due, completions, strict=True):
                self.take(draft, completion.text)
                draft.rounds += 1
                draft.finish_reason = completion.finish_reason
                tokens += completion.computed
            further = [draft for draft in due if draft.parts]
            if not is_last:
                tick(len(due) - len(further), 0)
            due = further
        kept = [first(draft.text, self.options.max_words, self.options.max_tokens).strip() for draft in drafts]
        contexts = [[Context(text, count_tokens(text))] if text else [] for text in kept]
        counts = {"cut_inputs": sum(draft.cut for draft in drafts), "empty": sum(not text for text in kept)}
        writings = [Writing(draft.cut, draft.finish_reason) for draft in drafts]
        return Refined(contexts, tokens, counts | self.notes(drafts), writings)

    def shown(self, hits: Sequence[Hit]) -> list[str]:
        """The hits as the model reads them."""
        return [hit.shown(self.options) for hit in hits[: self.options.top_k] if hit.text.strip()]

    def _fitted(self, draft: EvidenceDraft, documents: str) -> str:
        """The model's input in a draft's next round, with as much of the documents as the model takes."""
        frame = partial(self.asked, draft)
        made = self.model.fitted(documents, frame)
        draft.cut |= made != frame(documents)
        return made


class CausalRefiner(RewritingRefiner):
    """Base of refiners that rewrite by a causal model, perhaps with an adapter."""

    class Options(RewritingRefiner.Options):
        adapter: Annotated[ModelName | None, NOT_IN_FINGERPRINT] = Field(
            None, description="LoRA adapter for the model: a preset, a Hugging Face name, or a directory."
        )

    causal: ClassVar[bool] = True


class Recomp(RewritingRefiner):
    """A sequence-to-sequence compressor in refine.model writes a summary of the hits, or nothing (RECOMP)."""

    example: ClassVar[tuple[str, ...]] = ("refine.model=recomp-nq",)

    name: ClassVar[str] = "recomp"
    version: ClassVar[str] = "2"
    presets: ClassVar[Mapping[str, str]] = {
        "recomp-nq": "fangyuan/nq_abstractive_compressor",
        "recomp-tqa": "fangyuan/tqa_abstractive_compressor",
        "recomp-hotpotqa": "fangyuan/hotpotqa_abstractive",
    }
    max_new_tokens: ClassVar[int] = 512
    max_input_tokens: ClassVar[int] = 1024

    def asked(self, draft: EvidenceDraft, documents: str) -> str:
        return f"Question: {draft.question}\n Document: {documents}\n Summary: "


class Refiner7B(CausalRefiner):
    """A causal model extracts what answers the question from the hits, in numbered sections (Refiner)."""

    example: ClassVar[tuple[str, ...]] = ("refine.model=llama-2-7b-chat", "refine.adapter=refiner-7b")
    name: ClassVar[str] = "refiner_7b"
    version: ClassVar[str] = "2"
    presets: ClassVar[Mapping[str, str]] = {"llama-2-7b-chat": "meta-llama/Llama-2-7b-chat-hf"}
    max_new_tokens: ClassVar[int] = 512
    max_input_tokens: ClassVar[int] = 3584

    def asked(self, draft: EvidenceDraft, documents: str) -> str:
        return f"<<SYS>>[MONITOR]{documents}<</SYS>>{draft.question}"

    def take(self, draft: EvidenceDraft, output: str) -> None:
        draft.text = restructured(output)


def restructured(output: str) -> str:
    """The sections of an output, without empty and repeated ones, numbered from 1.

    Repeated until nothing changes: a line that looks like a heading may be in order once its section is renumbered.
    """
    while (again := _renumbered(output)) != output:
        output = again
    return output


def _renumbered(output: str) -> str:
    lines: list[str] = []
    seen = set[tuple[str, tuple[str, ...]]]()
    anew: dict[Number, Number] = {(): ()}
    below = Counter[Number]()
    for number, title, body in _entries(output):
        if not (title or body) or (title, body) in seen:
            continue
        seen.add((title, body))
        for part in (number[: level + 1] for level in range(len(number))):
            if part not in anew:
                above = anew[part[:-1]]
                below[above] += 1
                anew[part] = (*above, below[above])
        if number:
            lines.append(f"{'.'.join(map(str, anew[number]))}. {title}".rstrip())
        lines += body
    return "\n".join(lines)


def _entries(output: str) -> Iterator[Entry]:
    """Read the output, heading by heading."""
    number: Number = ()
    title = ""
    body: list[str] = []
    for line in filter(None, map(str.strip, output.splitlines())):
        found = _HEADING.fullmatch(line)
        of_line = tuple(map(int, found[1].split("."))) if found else ()
        if found and _follows(of_line, number):
            yield number, title, tuple(body)
            number, title, body = of_line, found[2] or "", []
        else:
            body.append(line)
    yield number, title, tuple(body)


def _follows(number: Number, last: Number) -> bool:
    """Whether a heading of this number can come next: one more on some level, and the first on those below it."""
    same = next((level for level, (a, b) in enumerate(zip(number, last, strict=False)) if a != b), len(last))
    first_here = last[same] + 1 if same < len(last) else 1
    return number[same:] == (first_here, *[1] * (len(number) - same - 1))
