"""Settings of the flow `evaluate`: the questions, and the methods that are compared."""

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from vitalfew.configs.options import CausalModel
from vitalfew.configs.schema import Execution, RetrieveConfig
from vitalfew.configs.section import NOT_IN_FINGERPRINT, Config, Section

Half = Literal["development", "test"]
"""Half of the questions: to choose settings with, or to report figures on."""

CHOOSES_PROMPTS = "chooses prompts"
"""Marks a setting of a generator that decides which prompts there are, and changes no answer to one of them."""


class Questions(Config):
    """Questions to ask."""

    dataset: str | None = Field(
        None, description="FORMAT:PATH?option=value of the questions; default: those of the index's datasets."
    )
    where: str | None = Field(
        None,
        description="SQL condition on the columns of `questions` and `titles` (of the gold passages), for example "
        "`source LIKE 'squad:%' AND len(answers) > 0`.",
    )
    half: Half | None = Field(
        None,
        description="Half of the questions to ask. Source ids that begin with `development/` or `test/` assign a "
        "question to a half. In other data sets a hash of the question's id does. Default: both halves.",
    )
    sample: int | None = Field(None, ge=1, description="Questions to ask, chosen at random; default: all.")
    seed: int = Field(100, description="Seed of the random choice; the same seed gives the same questions.")
    batch: int = Field(256, ge=1, description="Questions per shard; memory use grows with it.")


class RefineConfig(Section):
    """How hits become the contexts of a prompt."""

    kind: ClassVar[str] = "refiner"

    refiner: str = Field("cut", description="A refiner of `vitalfew methods`, or module:Class.")
    top_k: int | None = Field(
        None, ge=1, description="Maximum hits to pass on, or to read by a refiner that rewrites; default: all hits."
    )
    max_words: int | None = Field(
        None, ge=1, description="Maximum words of all contexts together. A refiner may use fewer."
    )
    max_tokens: int | None = Field(
        None,
        ge=1,
        description="Maximum words and punctuation marks of all contexts together, whatever the model. A refiner may "
        "use fewer.",
    )
    text: Literal["unit", "titled", "window", "passage"] | None = Field(
        None,
        description="Text of a context. unit: the hit alone; titled: the hit with its passage's title; window: the hit "
        "with the sentences around it (refine.window); passage: its whole passage. Default: unit or titled, like the "
        "index (encode.text).",
    )
    window: Annotated[int | None, NOT_IN_FINGERPRINT] = Field(
        None, ge=0, description="text=window: sentences on either side of a hit; default: 1."
    )
    titles: Annotated[bool | None, NOT_IN_FINGERPRINT] = Field(
        None, description="text=window or passage: show the passage's title. Default: as in the index (encode.text)."
    )
    group: Literal["passage", "apart"] = Field(
        "passage",
        description="passage: all kept parts of a passage are one context, in reading order, with the title once. "
        "apart: one context per hit, as in the papers. For refiners that keep hits or sentences.",
    )
    first: Annotated[SerializeAsAny[Section | None], NOT_IN_FINGERPRINT] = Field(
        None,
        description="Settings of a refiner that works before this one, such as `{refiner: spans, max_tokens: 300}`. "
        "This one then reads its contexts instead of the hits. Default: none.",
    )

    @property
    def has_budget(self) -> bool:
        """Return whether the contexts' length is limited: a refiner without a ratio or threshold fills that."""
        return self.max_words is not None or self.max_tokens is not None

    @property
    def shows_titles(self) -> bool:
        """Return whether a prompt shows the title of a context's passage."""
        return self.text == "titled" or (self.is_wider and bool(self.titles))

    @property
    def is_wider(self) -> bool:
        """Return whether contexts reach beyond the units that were retrieved."""
        return self.text in ("window", "passage")

    def identity(self) -> dict[str, Any]:
        """Settings that have no part are left out."""
        window = {"window": self.window} if self.text == "window" else {}
        titles = {"titles": True} if self.is_wider and self.titles else {}
        first = {"first": self.first.identity()} if self.first else {}
        return {**super().identity(), **window, **titles, **first}

    def idle(self) -> dict[str, str]:
        wider = "applies to refine.text=window and refine.text=passage; to show titles of units, set refine.text=titled"
        reach = "applies to refine.text=window only"
        return ({} if self.is_wider else {"titles": wider}) | ({} if self.text == "window" else {"window": reach})

    @property
    def reading(self) -> "RefineConfig":
        """Return the settings of the refiner that reads the hits."""
        return self.first if isinstance(self.first, RefineConfig) else self

    @field_validator("first")
    @classmethod
    def _is_a_refiner(cls, first: Section | None) -> Section | None:
        if first is None or isinstance(first, RefineConfig):
            return first
        return RefineConfig.model_validate(first.given())

    @model_validator(mode="after")
    def _one_behind_the_other(self) -> Self:
        if self.reading.first:
            raise ValueError("refine.first.first: only one refiner can work before another; leave it out")
        if self.first and self.is_wider:
            raise ValueError(
                f"refine.text={self.text} shows more of a passage than was retrieved, but this refiner reads contexts; "
                "set refine.first.text"
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _of_one_sentence(cls, given: Any) -> Any:
        windows = isinstance(given, dict) and given.get("text") == "window" and given.get("window") is None
        return {**given, "window": 1} if windows else given


class GenerateConfig(Section):
    """How a prompt becomes an answer."""

    kind: ClassVar[str] = "generator"

    generator: str = Field("reader", description="A generator of `vitalfew methods`, or module:Class.")
    prompt: Annotated[str | None, NOT_IN_FINGERPRINT] = Field(
        None,
        description="A prompt of configs/prompts, or a file; default: the generator's, which is sentence_answer for a "
        "language model.",
    )
    per_context: Annotated[bool, CHOOSES_PROMPTS] = Field(
        False, description="Answer from every context separately; `select` then chooses one or several answers."
    )


class LabelConfig(Section):
    """How retrieved passages are labelled as relevant to their question or not."""

    kind: ClassVar[str] = "labeller"

    labeller: str = Field("gold", description="A labeller of `vitalfew methods`, or module:Class.")


class CritiqueConfig(Section):
    """How candidate answers are judged: relevance of the context, its support for the answer, and usefulness."""

    kind: ClassVar[str] = "critic"

    critic: str = Field("embedded", description="A critic of `vitalfew methods`, or module:Class.")


class SelectConfig(Section):
    """How the answer, or the set of answers, is chosen from a question's candidates."""

    kind: ClassVar[str] = "selector"

    selector: str = Field("pareto_ideal", description="A selector of `vitalfew methods`, or module:Class.")


class ScoreConfig(Section):
    """Metrics of answers, contexts and hits, with the options of all of them."""

    kind: ClassVar[str] = "metric"
    named_by: ClassVar[str] = "metrics"

    metrics: tuple[str, ...] = Field(
        ("accuracy", "exact_match", "f1", "passage_recall", "answer_recall", "answer_words", "tokens"),
        min_length=1,
        description="Metrics of `vitalfew methods`, or module:Class.",
    )


class PerturbConfig(Config):
    """Noise and disorder to add to the hits before they are refined; default: none."""

    noise: int | None = Field(
        None,
        ge=0,
        description="Number of irrelevant hits, retrieved for other questions, to put after the best hit that contains "
        "an accepted answer; other hits are dropped. Questions without such a hit are excluded from the metrics of "
        "contexts and answers. Default: the hits as retrieved.",
    )
    order: Literal["retrieved", "shuffled", "reversed"] = Field("retrieved", description="Order of the hits.")
    seed: int = Field(100, ge=0, description="Seed of noise and order, combined with the id of the question.")


class AppraiseConfig(Section):
    """How refined contexts are rated from 0 to 10: faithfulness to their hits, and completeness."""

    kind: ClassVar[str] = "appraiser"

    appraiser: str = Field("judge", description="An appraiser of `vitalfew methods`, or module:Class.")


class JudgeConfig(Section):
    """How a language model judges answers: correct by the gold answers, supported by the contexts that were shown, and
    better than those of the baseline."""

    kind: ClassVar[str] = "judge"

    judge: str = Field("verdicts", description="A judge of `vitalfew methods`, or module:Class.")
    preferred: bool = Field(
        False,
        description="Ask also which answer is better, the method's or the baseline's: two requests per question, which "
        "show the contexts of both methods.",
    )


class LikelihoodConfig(Config, CausalModel):
    """How probable a causal language model finds the gold answer after a method's prompt."""

    prompt: Annotated[str | None, NOT_IN_FINGERPRINT] = Field(
        None, description="A prompt of configs/prompts, or a file; default: short_answer."
    )


STAGES: dict[str, type[Config]] = {
    "label": LabelConfig, "perturb": PerturbConfig, "appraise": AppraiseConfig, "likelihood": LikelihoodConfig,
    "judge": JudgeConfig,
}  # fmt: skip
"""The further stages of this tree. Their settings may be sections: `label: {…}` is `stages: {label: {…}}`."""
SECTIONS = (
    *("index", "variant", "retrieve", "label", "perturb", "refine", "appraise", "generate", "likelihood", "critique"),
    *("select", "judge", "stages"),
)
"""The settings of a method in their order."""


class WithStages(Config):
    """Base of settings whose `stages` may be written as sections."""

    also: ClassVar[tuple[str, ...]] = (*STAGES,)

    @model_validator(mode="before")
    @classmethod
    def _gathered(cls, given: Any) -> Any:
        """Move the sections of `STAGES` into `stages`, last; omit null sections."""
        if not isinstance(given, dict):
            return given
        sections = {name: given[name] for name in STAGES if given.get(name) is not None}
        rest = {key: value for key, value in given.items() if key not in STAGES}
        return {**rest, "stages": {**(rest.get("stages") or {}), **sections}} if sections else rest


class Method(WithStages):
    """One way to answer: a row of the table."""

    name: str = Field(min_length=1, description="Name in the table.")
    index: str | None = Field(None, description="Name of the index; not needed without retrieval.")
    variant: dict[str, Any] = Field(
        {},
        description="Settings of `vitalfew index` that the method's index must have, such as {encode: {context: "
        "exact}}. The named index is used if it has them, else another index of the same corpus.",
    )
    retrieve: SerializeAsAny[RetrieveConfig | None] = Field(RetrieveConfig(), description="null: no retrieval.")
    refine: SerializeAsAny[RefineConfig] = RefineConfig()
    generate: SerializeAsAny[GenerateConfig | None] = Field(
        GenerateConfig(), description="null: evaluate retrieval only."
    )
    critique: SerializeAsAny[CritiqueConfig | None] = Field(None, description="null: answers are not judged.")
    select: SerializeAsAny[SelectConfig | None] = Field(None, description="null: the only candidate is the answer.")
    stages: dict[str, Any] = Field(
        {}, description="Settings of further stages by name (kind `stage` of the registry, or module:Class)."
    )

    def sections(self) -> dict[str, Any]:
        """All settings but the name, as JSON; those of `STAGES` are sections, null for a stage that it lacks."""
        whole = self.model_dump(mode="json", exclude={"name"})
        whole |= {name: whole["stages"].pop(name, None) for name in STAGES}
        return {section: whole[section] for section in SECTIONS}

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.critique and not self.generate:
            raise ValueError("critique needs answers, but generate is null; set generate, or critique=null")
        generator = self.generate and self.generate.generator
        if self.critique and self.critique.critic == "reflection" and generator != "self_rag":
            raise ValueError("critic 'reflection' needs generator 'self_rag': set generate.generator=self_rag")
        if self.select and not self.critique:
            raise ValueError("select needs a critique, but critique is null; add critique: {}")
        if self.generate and self.generate.per_context and not self.select:
            raise ValueError(
                "generate.per_context gives several candidates per question; add critique: {} and select: {}"
            )
        return self


class Option(Config):
    """A way to set a method, which is tried on development questions."""

    of: str = Field(description="Name of the method in the table.")
    values: dict[str, Any] = Field(description="Value to try, by setting (retrieve.alpha).")
    method: Method


class Choose(Config):
    """Settings that are chosen on development questions, before the test questions are asked."""

    by: str = Field("accuracy", description="Metric that chooses the best option (table `scores`).")
    options: tuple[Option, ...] = Field(description="Options to try; on a tie the first wins.")


class Tried(Config):
    """Result of an option."""

    method: str
    values: dict[str, Any]
    figure: float | None = Field(description="Mean of the metric; null: no question has a value.")
    questions: int = Field(description="Development questions with a value.")
    taken: bool


class Chosen(Config):
    """A choice that was made, in the record of the evaluation of the test questions."""

    run: str = Field(description="Id of the run that evaluated the development questions.")
    by: str = Field(description="Metric that decided.")
    heading: str = Field(description="Name of the metric in reports.")
    unit: str = Field(description="Unit of the metric.")
    questions: int = Field(description="Development questions that were asked.")
    hashed: int = Field(description="Development questions assigned by a hash; the data set assigns the rest.")
    tried: tuple[Tried, ...] = Field(description="All options with their figures.")


class Comparison(Execution):
    """The parameters that an experiment and its evaluation have in common."""

    questions: Questions = Questions()
    baseline: str | None = Field(
        None, description="Method to compare the others with; of a grid, the most similar method; default: the first."
    )
    optional: tuple[str, ...] = Field(
        (),
        description="Methods to leave out, with a notice in the report, if no index can serve them. Not the baseline. "
        "Example: a method that needs keywords (`bm25.enabled`).",
    )
    primary: str | None = Field(
        None,
        description="Main metric of the experiment, by its name in `scores`. It is in the headline, and its tests are "
        "corrected over the methods only. Default: accuracy, else the first metric of answers, contexts or hits.",
    )
    pairwise: dict[str, Any] | None = Field(
        None,
        description="Compare every pair of methods that have these settings: {refine.max_tokens: 120}. Holm's "
        "correction covers all pairs.",
    )
    score: SerializeAsAny[ScoreConfig] = ScoreConfig()


class Experiment(Comparison, WithStages):
    """An experiment as written in its YAML file: defaults, and where the methods differ.

    A list in place of a single value is a grid: one method per value.
    `flows/pipelines/experiments.py` makes an `Evaluate` of it.
    """

    about: str = Field("", description="Purpose of the experiment, in a sentence.")
    repeats: str = Field("", description="Table or figure of a paper that the experiment repeats.")
    index: str | None = Field(None, description="Name of the index, for methods that do not name one.")
    variant: dict[str, Any] = Field({}, description="Settings that the index of every method must have.")
    choose: dict[str, Any] | None = Field(
        None,
        description="Settings to choose on development questions, with their possible values; `by`: the metric that "
        "decides. For example `{retrieve.alpha: [0.3, 0.5, 0.8], on: development, by: accuracy}`.",
    )
    retrieve: dict[str, Any] | None = Field({}, description="Settings of `retrieve` for all methods.")
    refine: dict[str, Any] = Field({}, description="Settings of `refine` for all methods.")
    generate: dict[str, Any] | None = Field({}, description="Settings of `generate` for all methods.")
    critique: dict[str, Any] | None = Field(None, description="Settings of `critique` for all methods.")
    select: dict[str, Any] | None = Field(None, description="Settings of `select` for all methods.")
    stages: dict[str, dict[str, Any] | None] = Field(
        {},
        description="Further stages of all methods; label, perturb, appraise, likelihood and judge may also be "
        "sections.",
    )
    methods: dict[str, dict[str, Any] | None] = Field(
        min_length=1,
        description="Methods by name, with the settings that differ: index, variant, retrieve, label, perturb, refine, "
        "appraise, generate, likelihood, critique, select, judge, stages, choose.",
    )
    only: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="Methods to evaluate, by name; default: all. For example [naive RAG, ParetoRAG].",
    )

    @model_validator(mode="after")
    def _known_optional(self) -> Self:
        baseline = self.baseline or next(iter(self.methods))
        able = [name for name in self.methods if name != baseline]
        if wrong := [name for name in self.optional if name not in able]:
            raise ValueError(f"optional: {wrong[0]!r} must be a method other than the baseline: {', '.join(able)}")
        if unknown := [name for name in self.only or () if name not in self.methods]:
            raise ValueError(f"only: the experiment has no method {unknown[0]!r}; it has {', '.join(self.methods)}")
        return self

    def of_only(self) -> Self:
        """Return the experiment with the methods of `only`; without its baseline the first of them is the baseline."""
        if self.only is None:
            return self
        methods = {name: own for name, own in self.methods.items() if name in self.only}
        baseline = self.baseline if self.baseline in methods else None
        optional = tuple(
            name for name in self.optional if name in methods and name != (baseline or next(iter(methods)))
        )
        return self.model_copy(update={"methods": methods, "baseline": baseline, "optional": optional})


class Evaluate(Comparison):
    """Parameters of the flow `evaluate`."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/-]*$", description="The experiment's name.")
    methods: tuple[Method, ...] = Field(min_length=1, description="Methods to compare.")
    choose: Choose | None = Field(
        None, description="Settings to choose on development questions, before the test questions."
    )
    chosen: Chosen | None = Field(None, description="Settings that were chosen; set by the run, not by the user.")
    left_out: dict[str, str] = Field(
        {},
        description="Optional methods left out because the index cannot serve them, with the reason; set by the run.",
    )

    @field_validator("methods")
    @classmethod
    def _distinct(cls, methods: tuple[Method, ...]) -> tuple[Method, ...]:
        names = [method.name for method in methods]
        if len(set(names)) < len(names):
            raise ValueError(f"two methods are named {max(names, key=names.count)!r}; give each its own name")
        return methods

    @model_validator(mode="after")
    def _known_baseline(self) -> Self:
        if not any(map(self.is_baseline, self.methods)):
            raise ValueError(f"baseline {self.baseline!r} is not the name of a method")
        return self

    def is_optional(self, method: Method) -> bool:
        """Return whether it is one of `optional`, or one of those that a grid made of it."""
        return any(method.name == name or method.name.startswith(f"{name} ") for name in self.optional)

    def is_baseline(self, method: Method) -> bool:
        """Return whether it is the baseline, or one of those that a grid made of it."""
        name = self.baseline or self.methods[0].name
        return method.name == name or (bool(self.baseline) and method.name.startswith(f"{name} "))
