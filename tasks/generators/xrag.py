"""`xrag`: every context is one token of the prompt, projected from its vector, and a frozen model answers (xRAG: Cheng
et al. 2024, arXiv 2405.13792, section 3).

A retrieval encoder makes a vector of a context, a projector a token of the vector (causal/vectors.py), and that
is in the prompt where the placeholder `<xRAG>` stood. The vector is as in the authors' program (github.com/
Hannibal046/xRAG): the state of the last token, which ends the text (causal/vectors.py), not scaled to length
1, of the context's first 180 tokens, without an instruction.

Deviations. The paper passes one context on (refine.top_k=1); several are several placeholders, as in the program. The
paper takes vectors from its index; here contexts are what a refiner made of hits, so that they are encoded again:
`init_seconds` has the time, which `seconds` has too, `prefill_tokens` the tokens, and `prompt_tokens` one for every
context (and for the space between two). The prompt has the program's frame (Background, Question, and an answer begun
by "The answer is:") without its sentence of instruction. No comma, full stop or new line ends an answer, as they do in
the program. The encoder's weights stay beside the model's: 14 GB more in bf16.

`generate.prompt` may be any prompt that shows the contexts in their order; a file has to lie where the workers find it.
A placeholder in a question is left out. In bf16 the last bits depend on what is read together, of contexts too:
`precision=fp32` makes a difference rare, `batch_tokens=16` (everything alone) rules it out.

The published model (xrag-7b) and encoder were not at hand: this was run with tiny models of their architecture alone.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import Field
from torch import nn

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.section import NOT_IN_FINGERPRINT, ModelName
from vitalfew.tasks.generators import prompts as templates
from vitalfew.tasks.generators.base import Generator, Prompt, Stepwise, WithEngine
from vitalfew.tasks.models.causal.engines.base import Completion, EngineUnavailable, sampling_seed
from vitalfew.tasks.models.causal.engines.memory import keys_to_keep
from vitalfew.tasks.models.causal.engines.transformers import Transformers, shared
from vitalfew.tasks.models.causal.halving import in_halves
from vitalfew.tasks.models.causal.vectors import LastToken, placed, read_projector, require_projector
from vitalfew.tasks.models.files import UnsupportedModel
from vitalfew.tasks.models.loading import clock, loading
from vitalfew.tasks.models.presets import source_of
from vitalfew.tasks.models.ticks import Tick, no_tick

PLACEHOLDER = "<xRAG>"


class XRag(WithEngine):
    """xRAG: every context is one token of the prompt, projected from its vector; needs a model with a projector."""

    example: ClassVar[tuple[str, ...]] = ("generate.model=xrag-7b", "refine.top_k=1")

    class Options(Generator.Options, Transformers.Options):
        encoder_model: Annotated[ModelName, NOT_IN_FINGERPRINT] = Field(
            "sfr-embedding-mistral",
            description="Encoder of the contexts, the one that the projector was trained with: "
            "sfr-embedding-mistral, a Hugging Face name or a directory.",
        )
        encoder_tokens: int = Field(
            180, ge=8, description="Maximum number of tokens of a context that the encoder reads."
        )
        answer_begins: str = Field("The answer is:", description="Beginning of the answer, given to the model.")

    prompt: ClassVar[str] = "xrag"

    def __init__(self, options: Options) -> None:
        """Raises also EngineUnavailable for a model without projector or placeholder, or with another encoder's, and
        ConfigError for a prompt that does not show the contexts."""
        self.template = _template(options.prompt or self.prompt)
        super().__init__(options, shared(options, "generate"))
        self.local = self.engine.local
        name = source_of("context encoder", options.encoder_model)
        try:
            self.encoder = LastToken(name, options, options.encoder_tokens, "generate.encoder_model")
            hidden = self.local.config.get_text_config().hidden_size
            require_projector(self.local.directory, self.encoder.dimension, hidden, "generate.model")
        except (FileNotFoundError, UnsupportedModel) as error:
            raise EngineUnavailable(str(error)) from None
        vocabulary = self.local.tokenizer.get_vocab()
        if PLACEHOLDER not in vocabulary:
            raise EngineUnavailable(
                f"{self.local.directory}: the vocabulary lacks {PLACEHOLDER}, the token that stands for a "
                "context; use the tokenizer that the model was trained with, --set generate.model=xrag-7b"
            )
        self.placeholder = vocabulary[PLACEHOLDER]

    def identity(self) -> dict[str, Any]:
        """The projector is among the engine's files."""
        return {**super().identity(), "encoder": self.encoder.identity()}

    @cached_property
    @loading()
    def projector(self) -> nn.Module:
        return read_projector(self.local.directory).to(self.engine.device)

    def generate(self, prompts: Sequence[Prompt], tick: Tick = no_tick) -> list[Completion]:
        if not prompts:
            return []
        _ = self.engine.model  # loading it is in no answer's seconds, and a failure no fault of a prompt
        texts = [self._text(prompt) for prompt in prompts]
        ids = self._encoded(texts)
        seeds = [
            sampling_seed(self.options.seed, "\n".join((text, *prompt.contexts)))
            for text, prompt in zip(texts, prompts, strict=True)
        ]

        def run(rows: Sequence[int]) -> list[Completion]:
            some = [prompts[row] for row in rows]
            return self._answered(some, [ids[row] for row in rows], [seeds[row] for row in rows], tick)

        answers = in_halves(run, range(len(prompts)), [len(row) for row in ids])
        # The engine ticks for what it was given: a prompt whose contexts could not be encoded never came so far.
        tick(sum(not isinstance(answer, Stepwise) for answer in answers), 0)
        return answers

    def _text(self, prompt: Prompt) -> str:
        """Return a prompt with a placeholder for every context, and no other placeholder."""
        if not prompt.contexts:
            return prompt.text.replace(PLACEHOLDER, "")
        question = prompt.question.replace(PLACEHOLDER, "")
        return templates.render(self.template, question, (PLACEHOLDER,) * len(prompt.contexts))

    def _encoded(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the token ids of the prompts and of the beginning of their answers."""
        begins = self.options.answer_begins.strip()
        ids = self.local.encode(texts, f" {begins}" if begins else "")
        end = self.local.tokenizer.eos_token_id  # which the published tokenizer may put after every text
        return [row[:-1] if row[-1:] == [end] else row for row in ids]

    def _answered(
        self, prompts: Sequence[Prompt], ids: Sequence[list[int]], seeds: Sequence[int], tick: Tick
    ) -> list[Completion]:
        contexts = list(dict.fromkeys(context for prompt in prompts for context in prompt.contexts))
        keys = keys_to_keep(self.engine, [repr(prompt) for prompt in prompts])
        if not contexts:
            answers = self.engine.complete_ids(ids, seeds, tick=tick, keys=keys)
            return [_stepwise(answer, 0, 0.0) for answer in answers]
        began = clock()  # which stands still while the encoder is loaded
        tokens = self.encoder.encode(contexts)
        vectors = self.encoder.vectors(tokens)
        place = {context: number for number, context in enumerate(contexts)}
        read = [sum(len(tokens[place[context]]) for context in prompt.contexts) for prompt in prompts]
        share = (clock() - began) / sum(read)
        tick(0, sum(map(len, tokens)))
        rows = []
        for row, prompt in zip(ids, prompts, strict=True):
            numbers = iter([-1 - place[context] for context in prompt.contexts])  # as `placed` reads them
            rows.append([next(numbers) if token == self.placeholder else token for token in row])
        with placed(self.engine.model, self.projector, vectors):
            answers = self.engine.complete_ids(rows, seeds, tick=tick, keys=keys)
        return [_stepwise(answer, count, share * count) for answer, count in zip(answers, read, strict=True)]


def _template(name: str) -> str:
    """Raises ConfigError for a prompt in which placeholders would not stand for the contexts one by one."""
    template = templates.source(name)
    marks = ("1: first context", "2: second context")
    rendered = templates.render(template, "question", marks)
    if [rendered.count(mark) for mark in marks] != [1, 1] or rendered.find(marks[0]) > rendered.find(marks[1]):
        raise ConfigError(f"generate.prompt={name}: xrag needs a prompt that shows every context once, in order")
    return template


def _stepwise(answer: Completion, read: int, seconds: float) -> Stepwise:
    """Add the tokens and seconds that the contexts' vectors took."""
    return Stepwise.of(
        answer,
        seconds=answer.seconds + seconds,
        prefill_tokens=answer.prompt_tokens + read,
        kv_tokens=answer.prompt_tokens,
        init_seconds=seconds,
    )
