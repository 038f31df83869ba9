"""What a user can set of the flow `evaluate`: which questions, and which ways to answer them are set side by side."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from vitalfew.configs.chosen import Chosen
from vitalfew.configs.probing import AppraiseConfig, PerturbConfig
from vitalfew.configs.schema import Execution, RetrieveConfig
from vitalfew.configs.section import NOT_IN_FINGERPRINT, Config, Section

Half = Literal["development", "test"]
"""Of the questions: those to choose settings with, and those to report figures on."""

CHOOSES_PROMPTS = "chooses prompts"
"""Marks a setting of a generator that decides which prompts there are, and changes no answer to one of them."""


class Questions(Config):
    """Which questions are asked."""

    dataset: str | None = Field(
        None, description="FORMAT:PATH?option=value of the questions; default: those of the index's own datasets."
    )
    where: str | None = Field(
        None,
        description="SQL condition on the columns of `questions` and `titles` (of the gold passages), for example "
        "`source LIKE 'squad:%' AND len(answers) > 0`.",
    )
    half: Half | None = Field(
        None,
        description="Ask one half alone. A data set whose source ids begin with `development/` and `test/` has its own "
        "halves; any other is halved by a hash of the question's id. Default: both.",
    )
    sample: int | None = Field(None, ge=1, description="Questions to ask, chosen at random; default: all.")
    seed: int = Field(100, description="Seed of the random choice: the same seed, the same questions.")
    batch: int = Field(256, ge=1, description="Questions in a shard; memory follows it.")


class RefineConfig(Section):
    """How hits become the contexts of a prompt."""

    kind: ClassVar[str] = "refiner"

    refiner: str = Field("cut", description="A refiner of `vitalfew methods`, or module:Class.")
    top_k: int | None = Field(
        None, ge=1, description="Hits passed on, or read by a refiner that rewrites, at most; default: every hit."
    )
    max_words: int | None = Field(None, ge=1, description="Words of all contexts together, at most.")
    max_tokens: int | None = Field(
        None, ge=1, description="Words and punctuation marks of all contexts together, at most, whatever the model."
    )
    text: Literal["unit", "titled", "window", "passage"] | None = Field(
        None,
        description="unit: the hit's own text; titled: with its passage's title; window: with the sentences around it "
        "(refine.window); passage: its whole passage. Default: unit or titled, as the index was encoded (encode.text).",
    )
    window: Annotated[int | None, NOT_IN_FINGERPRINT] = Field(
        None, ge=0, description="text=window: sentences on either side of a retrieved one, 1 by default."
    )
    titles: Annotated[bool | None, NOT_IN_FINGERPRINT] = Field(
        None,
        description="text=window or passage: whether the passage's title is shown. Default: as the index was encoded.",
    )

    @property
    def has_budget(self) -> bool:
        """Whether the contexts' length is limited: a refiner whose own ratio or threshold is not set fills that."""
        return self.max_words is not None or self.max_tokens is not None

    @property
    def shows_titles(self) -> bool:
        """Whether a prompt shows the title of a context's passage."""
        return self.text == "titled" or (self.is_wider and bool(self.titles))

    @property
    def is_wider(self) -> bool:
        """Whether contexts reach beyond the units that were retrieved."""
        return self.text in ("window", "passage")

    def identity(self) -> dict[str, Any]:
        """Settings that have no part are left out: what was refined before there were any stays as it is."""
        window = {"window": self.window} if self.text == "window" else {}
        return {**super().identity(), **window, **({"titles": True} if self.is_wider and self.titles else {})}

    def idle(self) -> dict[str, str]:
        wider = "a unit shows its title with refine.text=titled; refine.titles is for window and passage"
        reach = "it is for refine.text=window"
        return ({} if self.is_wider else {"titles": wider}) | ({} if self.text == "window" else {"window": reach})

    @model_validator(mode="before")
    @classmethod
    def _of_one_sentence(cls, given: Any) -> Any:
        windows = isinstance(given, dict) and given.get("text") == "window" and given.get("window") is None
        return {**given, "window": 1} if windows else given


class GenerateConfig(Section):
    """How a prompt becomes an answer."""

    kind: ClassVar[str] = "generator"
    moved: ClassVar[dict[str, str]] = {
        "reflection": "generator self_rag has generate.retrieval and generate.threshold, and generate.engine (what was "
        "generate.generator)"
    }

    generator: str = Field("reader", description="A generator of `vitalfew methods`, or module:Class.")
    prompt: Annotated[str | None, NOT_IN_FINGERPRINT] = Field(
        None, description="A prompt of configs/prompts, or a file; default: the generator's own."
    )
    per_context: Annotated[bool, CHOOSES_PROMPTS] = Field(
        False, description="One answer for each context, from it alone; `select` then takes one or several of them."
    )


class LabelConfig(Section):
    """How a retrieved passage is labelled: is it relevant to its question?"""

    kind: ClassVar[str] = "labeller"

    labeller: str = Field("gold", description="A labeller of `vitalfew methods`, or module:Class.")


class CritiqueConfig(Section):
    """How each candidate answer is judged: is its context relevant, does that support the answer, is it useful?"""

    kind: ClassVar[str] = "critic"
    moved: ClassVar[dict[str, str]] = {"generator": "critic judge has critique.engine"}

    critic: str = Field("embedded", description="A critic of `vitalfew methods`, or module:Class.")


class SelectConfig(Section):
    """Which of a question's candidates become its answer, or its set of answers."""

    kind: ClassVar[str] = "selector"

    selector: str = Field("pareto_ideal", description="A selector of `vitalfew methods`, or module:Class.")


class ScoreConfig(Section):
    """How answers, contexts and hits are judged: by several metrics, whose options stand side by side."""

    kind: ClassVar[str] = "metric"
    named_by: ClassVar[str] = "metrics"

    metrics: tuple[str, ...] = Field(
        ("accuracy", "exact_match", "f1", "passage_recall", "answer_recall", "tokens"),
        min_length=1,
        description="Metrics of `vitalfew methods`, or module:Class.",
    )


class Method(Config):
    """One way to answer: a row of the table."""

    name: str = Field(min_length=1, description="Its name in the table.")
    index: str | None = Field(None, description="A named index; not needed without retrieval.")
    variant: dict[str, Any] = Field(
        {},
        description="Settings of `vitalfew index` that its index has to have, {encode: {context: exact}}: the "
        "named one if it has them, else another of the same corpus.",
    )
    retrieve: SerializeAsAny[RetrieveConfig | None] = Field(RetrieveConfig(), description="null: no retrieval.")
    label: SerializeAsAny[LabelConfig | None] = Field(None, description="null: the hits' passages are not labelled.")
    perturb: PerturbConfig = PerturbConfig()
    refine: SerializeAsAny[RefineConfig] = RefineConfig()
    appraise: SerializeAsAny[AppraiseConfig | None] = Field(None, description="null: the contexts are not appraised.")
    generate: SerializeAsAny[GenerateConfig | None] = Field(
        GenerateConfig(), description="null: retrieval alone is judged."
    )
    critique: SerializeAsAny[CritiqueConfig | None] = Field(None, description="null: the candidates are not judged.")
    select: SerializeAsAny[SelectConfig | None] = Field(
        None, description="null: there is one candidate, and it is the answer."
    )
    stages: dict[str, dict[str, Any] | None] = Field(
        {}, description="Further stages, by name (kind `stage` of the registry, or module:Class), with their settings."
    )

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.critique and not self.generate:
            raise ValueError("critique judges what generate gives, which is null")
        if (
            self.critique
            and self.critique.critic == "reflection"
            and self.generate
            and self.generate.generator != "self_rag"
        ):
            raise ValueError("critic 'reflection' reads what generator 'self_rag' keeps: generate.generator=self_rag")
        if self.select and not self.critique:
            raise ValueError("select chooses by a critique, which is null; add critique: {}")
        if self.generate and self.generate.per_context and not self.select:
            raise ValueError("generate.per_context gives several candidates; add critique: {} and select: {}")
        return self


class Option(Config):
    """A way to set a method, which is tried on development questions."""

    of: str = Field(description="The method of the table that it is a way to set.")
    values: dict[str, Any] = Field(description="By setting (retrieve.alpha), the value that is tried.")
    method: Method


class Choose(Config):
    """Settings that are chosen on development questions, before the test questions are asked."""

    by: str = Field("accuracy", description="The metric that decides, by its name in `scores`.")
    options: tuple[Option, ...] = Field(description="What is tried; of equal ones the first is taken.")


PRIMARY = Field(
    None,
    description="The metric, by its name in `scores`, that the experiment is about: of the headline, and of the tests "
    "that are corrected over the methods alone. Default: accuracy, else the first metric of answers, of contexts, "
    "of hits.",
)


PAIRWISE: Any = Field(
    None,
    description="Settings whose methods are compared pair by pair, each with each: {refine.max_tokens: 120}. Holm's "
    "correction is over all pairs.",
)


class Experiment(Execution):
    """An experiment as its YAML file has it: defaults, and what each method has otherwise.

    A list in the place of a single value is a grid: one method for each value.
    `flows/pipelines/experiments.py` makes an `Evaluate` of it.
    """

    about: str = Field("", description="What it is for, in a sentence.")
    repeats: str = Field("", description="The table or figure of a paper that it repeats.")
    index: str | None = Field(None, description="The named index of every method that has no other.")
    variant: dict[str, Any] = Field({}, description="Settings that the index of every method has to have.")
    questions: Questions = Questions()
    choose: dict[str, Any] | None = Field(
        None,
        description="Settings with the values to choose from on development questions; `by`: the metric that decides. "
        "For example `{retrieve.alpha: [0.3, 0.5, 0.8], on: development, by: accuracy}`.",
    )
    retrieve: dict[str, Any] | None = Field({}, description="Settings of `retrieve` for all methods.")
    label: dict[str, Any] | None = Field(None, description="Settings of `label` for all methods.")
    perturb: dict[str, Any] = Field({}, description="Settings of `perturb` for all methods.")
    refine: dict[str, Any] = Field({}, description="Settings of `refine` for all methods.")
    appraise: dict[str, Any] | None = Field(None, description="Settings of `appraise` for all methods.")
    generate: dict[str, Any] | None = Field({}, description="Settings of `generate` for all methods.")
    critique: dict[str, Any] | None = Field(None, description="Settings of `critique` for all methods.")
    select: dict[str, Any] | None = Field(None, description="Settings of `select` for all methods.")
    stages: dict[str, dict[str, Any] | None] = Field({}, description="Further stages of all methods.")
    methods: dict[str, dict[str, Any] | None] = Field(
        min_length=1,
        description="By name: index, variant, retrieve, label, perturb, refine, appraise, generate, critique, "
        "select, stages, choose, where they differ.",
    )
    baseline: str | None = Field(None, description="The method that the others are compared with; default: the first.")
    primary: str | None = PRIMARY
    pairwise: dict[str, Any] | None = PAIRWISE
    score: SerializeAsAny[ScoreConfig] = ScoreConfig()


class Evaluate(Execution):
    """Parameters of the flow `evaluate`."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", description="The experiment's name.")
    questions: Questions = Questions()
    methods: tuple[Method, ...] = Field(min_length=1, description="What is set side by side.")
    baseline: str | None = Field(
        None,
        description="The method that the others are compared with; of a grid the most like each; default: the first.",
    )
    primary: str | None = PRIMARY
    pairwise: dict[str, Any] | None = PAIRWISE
    score: SerializeAsAny[ScoreConfig] = ScoreConfig()
    choose: Choose | None = Field(None, description="What is chosen on development questions; test questions follow.")
    chosen: Chosen | None = Field(None, description="What was chosen, in the record of a run; nobody sets it.")

    @field_validator("methods")
    @classmethod
    def _distinct(cls, methods: tuple[Method, ...]) -> tuple[Method, ...]:
        names = [method.name for method in methods]
        if len(set(names)) < len(names):
            raise ValueError("two methods have one name")
        return methods

    @model_validator(mode="after")
    def _known_baseline(self) -> Self:
        if not any(map(self.is_baseline, self.methods)):
            raise ValueError(f"no method is called {self.baseline!r}, which is to be the baseline")
        return self

    def is_baseline(self, method: Method) -> bool:
        """Whether it is the baseline, or one of those that a grid made of it."""
        name = self.baseline or self.methods[0].name
        return method.name == name or (bool(self.baseline) and method.name.startswith(f"{name} "))
