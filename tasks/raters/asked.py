"""Raters that ask a language model: one request for every score, a prompt and a rule by which its reply is read.

`two_round` (a labeller): a model rates a passage, and another sees that rating and confirms or corrects it. These are
Sparse RAG's labels (arXiv 2405.16178, section 3.1, tables 2 and 13): both rounds are given the question, its accepted
answers, the passage and its title. Both are kept, and the second counts. Any two generators will do, also twice the
same one; without a critic there is one round.

`judge` (an appraiser): a model grades a refined context from 0 to 10, once for faithfulness and once for completeness.
It is Oreo's evaluation of what it writes (arXiv 2502.13019, section 4.5, tables 7 and 8), there by Qwen2.5-Instruct.
The prompts ask for the same two grades on the same scale, with a reason, given the question, the hits and the context.
Any generator will do. A reply has to begin with its grade, with or without words such as "Score:" before it; any other
is an error, and so is a grade beyond 10 or on another scale.

`judge` (a critic): any instruct model is asked three questions, and the probabilities of its answer tokens are the
scores. Is the context of use, and does it support the answer: yes or no, the score is p(yes) / (p(yes) + p(no)). How
useful is the answer: a grade from 1 to 5, the score is the expected grade, (grade − 1) / 4. All are read at the first
position of the model's answer, so one token is generated for a question, and nothing is drawn. The three scores are
those of Self-RAG (Asai et al., 2023, arXiv 2310.11511, table 1); a model that was not trained for it gives them, which
is this project's variant, for comparison with `reflection`. A candidate without a context is asked about its usefulness
alone: nothing is relevant or supports it (0).

All prompts are ours.
"""

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar

from pydantic import Field, SerializeAsAny

from vitalfew.configs.evaluation import AppraiseConfig, CritiqueConfig, GenerateConfig, LabelConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.section import NOT_IN_FINGERPRINT, Section
from vitalfew.tasks.generators.base import Generator, Prompt
from vitalfew.tasks.models.causal.engines.base import Completion, Engine, EngineChoice, Probe
from vitalfew.tasks.models.ticks import Tick, no_tick, tokens_of
from vitalfew.tasks.raters.base import Judgement, RatedContext, Rater, expected
from vitalfew.tasks.registry import make, make_engine, settings_of, with_options


def brief(section: GenerateConfig, path: str, max_tokens: int) -> GenerateConfig:
    """A generator's settings, completed. One that has these settings and was not given others replies with the most
    probable tokens, `max_tokens` at most."""
    known = settings_of(section)
    usual = {"temperature": 0.0, "max_tokens": max_tokens}
    added = {name: value for name, value in usual.items() if name in known and name not in section.model_fields_set}
    return with_options(GenerateConfig.model_validate({**section.given(), **added}), path)


class AskingRater(Rater):
    """A rater that asks for its scores one after the other, of a case until there is an error."""

    asking: Mapping[str, str]
    """The prompt of every score, in the order in which they are asked for."""
    explains: ClassVar[bool] = False
    """Replies give reasons, which are kept."""

    def known(self, case: RatedContext) -> dict[str, float]:
        """The scores for which no model is needed."""
        return {}

    @abstractmethod
    def ask(self, score: str, prompts: Sequence[Prompt], tick: Tick) -> list[Completion]:
        """The replies, in the order of the prompts."""

    @abstractmethod
    def read(self, score: str, reply: Completion) -> tuple[float | None, str]:
        """The score that a reply without an error gives, and its reason; or None, and why there is no score."""

    def rate(self, batch: Sequence[RatedContext], tick: Tick = no_tick) -> list[Judgement]:
        scores = [self.known(case) for case in batch]
        reasons: list[list[str]] = [[] for _ in batch]
        errors = [""] * len(batch)
        *_, last = self.asking
        for name, prompt in self.asking.items():
            due = [row for row, known in enumerate(scores) if name not in known and not errors[row]]
            prompts = [_filled(prompt, batch[row], scores[row]) for row in due]
            # A case counts as judged with the last score.
            replies = self.ask(name, prompts, tick if name == last else tokens_of(tick))
            for row, reply in zip(due, replies, strict=True):
                score, reason = (None, reply.error) if reply.error else self.read(name, reply)
                if score is None:
                    errors[row] = f"{name}: {reason}"
                else:
                    scores[row][name] = score
                    reasons[row].append(f"{name}: {reason}")
        tick(len(batch) - len(due), 0)
        return [
            Judgement(known, "\n".join(said) if self.explains and not error else "", error)
            for known, said, error in zip(scores, reasons, errors, strict=True)
        ]


def _filled(prompt: str, case: RatedContext, known: Mapping[str, float]) -> Prompt:
    hits = "\n".join(f"[{number}] {hit}" for number, hit in enumerate(case.hits, 1))
    text = prompt.format(
        question=case.question,
        context=case.context,
        text=case.context,
        answer=case.answer,
        answers="; ".join(case.answers),
        title=case.title,
        hits=hits,
        **known,
    )
    return Prompt(text, case.question, (case.context,))


_LABELLED = "Question: {question}\nAccepted answers: {answers}\nTitle: {title}\nPassage: {text}\n\n"
ROUNDS = {
    "rater": (
        "Below are a question, answers to it that count as right, and a passage with its title. Decide whether the "
        "passage, read together with its title, tells a reader one of these answers. It may well not.\n\n"
        + _LABELLED
        + "Reply with 1 if it does and with 0 if it does not, and with nothing else.\nReply:"
    ),
    "critic": (
        "Below are a question, answers to it that count as right, and a passage with its title. Somebody had to decide "
        "whether the passage, read together with its title, tells a reader one of these answers (1) or not (0), and "
        "may have been mistaken.\n\n"
        + _LABELLED
        + "Their decision: {rater:.0f}\n\nCheck the passage yourself. Reply with their decision if it is right and "
        "with the other one if it is not: 1 or 0, and nothing else.\nReply:"
    ),
}
_VERDICT = re.compile(r"\b(?:(1(?:\.0+)?|yes)|(0(?:\.0+)?|no))\b(?!\.\d)", re.IGNORECASE)


class GeneratorOptions(Section):
    """Settings of a rater that asks generators: every field that is a GenerateConfig names one."""

    path: ClassVar[str]
    """The section's place in the settings, for messages."""
    reply_tokens: ClassVar[int]
    """The usual length of a reply, at most."""

    def asked(self) -> dict[str, GenerateConfig]:
        """The generators with all their settings, by field."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        sections = {name: value for name, value in given.items() if isinstance(value, GenerateConfig)}
        return {name: brief(value, f"{self.path}.{name}", self.reply_tokens) for name, value in sections.items()}

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), **{name: section.identity() for name, section in self.asked().items()}}


class GeneratorRater(AskingRater):
    """A rater that asks generators, which its options name."""

    def __init__(self, options: GeneratorOptions) -> None:
        """Raises what the generators' constructors raise."""
        super().__init__(options)
        self.generators: dict[str, Generator] = {
            name: make(section, f"{options.path}.{name}") for name, section in options.asked().items()
        }
        self.uses_gpu = any(generator.uses_gpu for generator in self.generators.values())
        self.workers = min((own.workers for own in self.generators.values() if own.workers is not None), default=None)


class TwoRound(GeneratorRater):
    """One model labels every passage, and another confirms or corrects the label; both labels are kept."""

    example: ClassVar[tuple[str, ...]] = (
        "label.rater={generator: transformers, model: smollm2}",
        "label.critic={generator: openai, model: gpt-4o-mini}",
    )

    class Options(GeneratorOptions, LabelConfig, extra="forbid"):
        path: ClassVar[str] = "label"
        reply_tokens: ClassVar[int] = 8

        rater: SerializeAsAny[GenerateConfig] = Field(
            GenerateConfig(generator="transformers"), description="Generator of the first round, with its settings."
        )
        critic: SerializeAsAny[GenerateConfig | None] = Field(
            None, description="Generator that confirms or corrects the first round; null: there is one round only."
        )

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.asking = {name: ROUNDS[name] for name in self.generators}

    def identity(self) -> dict[str, Any]:
        asked = {name: generator.identity() for name, generator in self.generators.items()}
        return {**super().identity(), "prompts": [*ROUNDS.values()], **asked}

    def ask(self, score: str, prompts: Sequence[Prompt], tick: Tick) -> list[Completion]:
        return self.generators[score].generate(prompts, tick)

    def read(self, score: str, reply: Completion) -> tuple[float | None, str]:
        found = _VERDICT.search(reply.text)
        if not found:
            return None, f"the reply must be 1 or 0, got {reply.text[:80]!r}"
        return float(bool(found.group(1))), ""


_APPRAISED = "Question: {question}\n\nRetrieved passages:\n{hits}\n\nEvidence text:\n{context}\n\n"
_REPLY = (
    "Begin your reply with the grade, a number from 0 to 10 that may have decimals. Give your reason in one or two "
    "sentences behind it.\nGrade:"
)
APPRAISING = {
    "faithfulness": (
        "An evidence text was made from passages that were retrieved for a question. Grade how true it is to them: "
        "does everything that it says on the question stand in the passages, with the same meaning? What it adds, "
        "distorts or leaves out of what the question needs lowers the grade.\n\n"
        + _APPRAISED
        + "10 means that all of it stands in "
        "the passages and nothing is distorted, 0 that it has nothing to do with them. " + _REPLY
    ),
    "completeness": (
        "An evidence text was made from passages that were retrieved for a question, to answer it from. Grade how "
        "much of what the passages say towards the answer is in it. What it leaves out of that lowers the grade, and "
        "so does anything that comes from elsewhere.\n\n"
        + _APPRAISED
        + "10 means that it has all that a full and right answer "
        "takes, 0 that nothing in it helps. " + _REPLY
    ),
}
_GRADE = re.compile(
    r"\A[^\w-]*(?:(?:(?:the|my)\W+)?(?:(?:grade|score|rating|faithfulness|completeness|is|of)\b[^\w-]*)+)?"
    r"(\d+(?:\.\d+)?)(?![\d%])(?:\s*(?:/|out of)\s*(\d+))?",
    re.IGNORECASE,
)


class GradeJudge(GeneratorRater):
    """Any generator (appraise.judge) grades faithfulness and completeness from 0 to 10 and gives its reasons."""

    example: ClassVar[tuple[str, ...]] = ("appraise.judge={generator: transformers, model: smollm2}",)

    class Options(GeneratorOptions, AppraiseConfig, extra="forbid"):
        path: ClassVar[str] = "appraise"
        reply_tokens: ClassVar[int] = 120

        judge: SerializeAsAny[GenerateConfig] = Field(
            GenerateConfig(generator="transformers"), description="Generator that grades, with its settings."
        )

    asking = APPRAISING
    explains: ClassVar[bool] = True

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "asking": APPRAISING, "generator": self.generators["judge"].identity()}

    def ask(self, score: str, prompts: Sequence[Prompt], tick: Tick) -> list[Completion]:
        return self.generators["judge"].generate(prompts, tick)

    def read(self, score: str, reply: Completion) -> tuple[float | None, str]:
        return graded(reply.text)


def graded(reply: str) -> tuple[float | None, str]:
    """The grade and its reason, or None and why there is no grade."""
    found = _GRADE.match(reply)
    if not found or float(found[1]) > 10 or (found[2] or "10") != "10":
        return None, f"the reply must begin with a grade from 0 to 10, got {reply[:80]!r}"
    return float(found[1]), reply[found.end() :].lstrip(" \t\r\n.,;:*–—-").rstrip()


_YES_NO = {"Yes": 1.0, "No": 0.0}
_GRADES = {str(grade): (grade - 1) / 4 for grade in range(1, 6)}
VALUES: dict[str, Mapping[str, float]] = {"isrel": _YES_NO, "issup": _YES_NO, "isuse": _GRADES}
"""The worth of every answer, by score."""
CRITIQUING = {
    "isrel": (
        "Here are a question and a text.\n\nQuestion: {question}\n\nText: {context}\n\n"
        "Does the text contain information that helps to answer the question? Reply with one word, Yes or No.\nReply:"
    ),
    "issup": (
        "Here are a text, a question and an answer to it.\n\nText: {context}\n\nQuestion: {question}\n\n"
        "Answer: {answer}\n\nDoes the text state or imply that this answer is right? Reply with one word, Yes or No."
        "\nReply:"
    ),
    "isuse": (
        "Here are a question and an answer to it.\n\nQuestion: {question}\n\nAnswer: {answer}\n\n"
        "How well does the answer serve whoever asked, from 1 (not at all) to 5 (completely)? Reply with one digit."
        "\nReply:"
    ),
}


class ProbabilityJudge(AskingRater):
    """Answer probabilities of an instruct model (critique.model, critique.engine) that is asked three questions."""

    example: ClassVar[tuple[str, ...]] = ("critique.model=HuggingFaceTB/SmolLM2-1.7B-Instruct",)

    class Options(CritiqueConfig, EngineChoice, extra="forbid"):
        engine: Annotated[str, NOT_IN_FINGERPRINT] = Field(
            "transformers",
            description="Engine that runs the model: transformers, vllm or openai (with log probabilities).",
        )

    asking = CRITIQUING

    def __init__(self, options: Options) -> None:
        """Raises ConfigError, EngineUnavailable where there is no such model, or one that lacks an answer's token."""
        if options.model is None:
            raise ConfigError("critic 'judge' needs a model: --set critique.model=NAME (Hugging Face) or a directory")
        self.engine: Engine = make_engine(options.engine, options, "critique", temperature=0.0, max_tokens=1)
        self.uses_gpu, self.workers = self.engine.uses_gpu, self.engine.workers
        self.tokens = self._tokens(options.model)

    def identity(self) -> dict[str, Any]:
        return {**super().identity(), "asking": CRITIQUING, "engine": self.engine.identity()}

    def _tokens(self, model: str) -> dict[str, tuple[str, ...]]:
        """The tokens as which an answer can be given. A model writes a word with a blank before it, or without."""
        answers = (*_YES_NO, *_GRADES)
        vocabulary = self.engine.vocabulary
        if vocabulary is None:
            return {answer: (answer,) for answer in answers}
        forms = {
            answer: tuple(form for form in (answer, f"▁{answer}", f"Ġ{answer}") if form in vocabulary)
            for answer in answers
        }
        if missing := [answer for answer in answers if not forms[answer]]:
            raise ConfigError(
                f"critic 'judge': the vocabulary of {model} lacks the token {missing[0]!r}; use another model"
            )
        return forms

    def known(self, case: RatedContext) -> dict[str, float]:
        return {} if case.context else {"isrel": 0.0, "issup": 0.0}

    def ask(self, score: str, prompts: Sequence[Prompt], tick: Tick) -> list[Completion]:
        probe = Probe(tuple(form for answer in VALUES[score] for form in self.tokens[answer]))
        return self.engine.complete([prompt.text for prompt in prompts], probe, tick)

    def read(self, score: str, reply: Completion) -> tuple[float | None, str]:
        given = {
            answer: sum(reply.probabilities.get(form, 0.0) for form in self.tokens[answer]) for answer in VALUES[score]
        }
        value = expected(given, VALUES[score])
        return value, "" if value is not None else f"the model gives no probability to any of {', '.join(given)}"
