"""The forms that start a run of a deployment, in the product's pages, in Prefect's UI or over REST: few fields, checked
by name.

A form is a deployment's JSON schema in Prefect's database, and the server refuses a run whose parameters do not follow
it. The names of indexes, experiments and corpora change while the server works, so that they are texts in the schema; a
run refuses a wrong one when it begins, with the names that there are. A user's own method ("module:Class") goes into
`more`, in the syntax of `--set`.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import BeforeValidator, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema, core_schema

from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.loading import build, merged, parse_assignments
from vitalfew.configs.paths import store_place, store_setting
from vitalfew.configs.schema import ContextMode, IndexCorpus, IndexType, Layout, Place
from vitalfew.configs.section import Config
from vitalfew.configs.training import TrainModel, TrainOreo
from vitalfew.configs.writing import WriteQuestions
from vitalfew.flows.pipelines import named
from vitalfew.flows.pipelines.experiments import evaluation, find
from vitalfew.tasks.registry import METHODS, UnknownName, resolve


@dataclass(frozen=True)
class OneOf:
    """Marks a text field as the name of a method of one kind, or of a recipe (or its file). A form shows a drop-down
    for it."""

    kind: str

    def known(self) -> list[str]:
        return named.recipe_names() if self.kind == "recipe" else sorted(METHODS[self.kind])

    def check(self, value: str | None) -> str | None:
        is_file = self.kind == "recipe" and Path(value or "").suffix in (".yaml", ".yml")
        if value is not None and not is_file and value not in self.known():
            raise UnknownName(self.kind, value, self.known())
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "enum": self.known()}


STORE = "VITALFEW_STORE"
"""The environment variable by which a deployment names its store."""


def deployed_store() -> Path:
    """The store of a deployment's run that names none. Raises ValueError."""
    return store_place(os.environ.get(STORE) or Path("store"))


@dataclass(frozen=True)
class OrWhole:
    """Marks parameters that are a form, or those that the form stands for, as a script gives them. Prefect shows and
    checks the form alone."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        form, whole = get_args(source)
        due = {name for name, field in whole.model_fields.items() if field.is_required()} - form.model_fields.keys()

        def read(given: Any, as_form: Callable[[Any], Any]) -> Any:
            if isinstance(given, whole):
                return whole.model_validate(given)
            is_whole = isinstance(given, Mapping) and due & given.keys()
            return whole.model_validate({"store": deployed_store(), **given}) if is_whole else as_form(given)

        return core_schema.no_info_wrap_validator_function(read, handler(form))


_OPTION = re.compile(r"(`?)--set ([^\s`]*[^\s`,;:.])\1")


_FIELDS = {"--max-usd": "max_usd", "--yes": "until_cap"}
"""The fields of every form that stand for an option."""


class Form(Place):
    """Parameters of a flow as a form has them: its own fields before those of the machine, and a field that may be left
    empty shown as an empty field."""

    SETTINGS: ClassVar[Mapping[str, str]] = {}
    """The fields that stand for a setting, by the setting."""

    store: Annotated[Path, BeforeValidator(store_setting)] = Field(
        default_factory=deployed_store,
        description="Place of all artifacts: a directory, or a prefix of a bucket (s3://BUCKET/PREFIX). Empty: the "
        "store of the deployment.",
    )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        form = handler.resolve_ref_schema(handler(schema))
        fields = sorted(form["properties"].items(), key=lambda field: field[0] in Place.model_fields)
        form["properties"] = {name: _plain(field) for name, field in fields}
        return form

    def in_words(self, message: str) -> str:
        """An error's message in the words of this form: the titles of its fields instead of settings and options, or
        before it the title of the field whose value it quotes."""
        for setting, field in self.SETTINGS.items():
            message = re.sub(rf"--set {re.escape(setting)}=([^\s`,;)]+)", rf"\1 in {self._title(field)}", message)
        more = self._title("more")
        whole = "; ".join(message.splitlines())
        told = _OPTION.sub(rf"\1\2\1 in {more}", whole.removeprefix("--set "))
        for option, field in _FIELDS.items():
            told = told.replace(option, self._title(field))
        if whole.startswith("--set ") or _quotes(told, getattr(self, "more", ())):
            return f"{more}: {told}"
        for setting, field in self.SETTINGS.items():
            told = re.sub(rf"(?<![\w.]){re.escape(setting)}(?!=|\.?\w)", self._title(field), told)
        quoted = next((field for field, value in self if told == whole and _quotes(told, value)), None)
        return f"{self._title(quoted)}: {told}" if quoted else told

    @classmethod
    def _title(cls, field: str) -> str:
        """As the form shows it."""
        given = cls.model_fields[field].title if field in cls.model_fields else None
        return given or field.replace("_", " ").title()


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    """A field's schema without "or null", for which Prefect's form would show a separate switch, and without a null
    default, which the form would send."""
    kinds = [kind for kind in field.get("anyOf", []) if kind != {"type": "null"}]
    rest = {key: value for key, value in field.items() if key != "anyOf" and (key, value) != ("default", None)}
    return {**rest, **kinds[0]} if len(kinds) == 1 else rest


QUOTE = Field(False, description="Estimate the costs before the run. The run then shows estimated and actual costs.")
MORE = Field((), description='Other settings, one "key.path=value" per line, as for `--set`.')


class Source(Config):
    """A data set."""

    format: Annotated[str, OneOf("dataset")] = Field(
        description="Format of the data set; `vitalfew datasets` describes the formats."
    )
    path: str = Field(
        "",
        description="PATH?option=value, for example /home/me/notes.jsonl?text=body; for `synthetic` and "
        "`python_manual`, only options, or nothing.",
    )

    @model_validator(mode="after")
    def _names_what_it_reads(self) -> Self:
        method = resolve("dataset", self.format)
        if method.reads_path and not self.path.strip():
            example = method.example.partition(":")[2]
            raise ValueError(f"format {self.format!r} needs a path, for example {example}")
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """With the condition on `path`, so that Prefect's server refuses a form without one."""
        source = handler.resolve_ref_schema(handler(schema))
        source["properties"]["path"].pop("default")  # the form would send it
        pathless = [name for name in METHODS["dataset"] if not resolve("dataset", name).reads_path]
        due = {"required": ["path"], "properties": {"path": {"minLength": 1}}}
        return source | {"if": {"properties": {"format": {"not": {"enum": pathless}}}}, "then": due}

    def specification(self) -> str:
        """As the command line takes it: FORMAT:PATH?option=value."""
        return f"{self.format}:{self.path}" if self.path else self.format


class EvaluateForm(Form):
    """Compare methods on an index: their quality, tokens, time and costs. Only an index is needed: empty fields keep
    the experiment's values. 100 questions take minutes with the reader, and hours with a language model on a CPU. The
    run leads to its report, with the table and the plots."""

    SETTINGS: ClassVar[Mapping[str, str]] = {
        "questions.dataset": "questions",
        "questions.sample": "sample",
        "encode.encoder": "encoder",
        "encode.context": "context",
        "retrieve.retriever": "retriever",
        "retrieve.alpha": "alpha",
        "retrieve.top_k": "top_k",
        "generate.generator": "generator",
        "critique.critic": "critic",
        "select.selector": "selector",
    }

    experiment: str = Field(
        "quickstart",
        description="Methods to compare; `vitalfew experiments` lists the names. To add an experiment, write "
        "experiments/NAME.yaml next to the store.",
    )
    index: str | None = Field(
        None,
        description="Index for methods that name none. The page Corpora and indexes and `vitalfew doctor` list the "
        "names.",
    )
    questions: str | None = Field(
        None,
        description="Data set with the questions, as FORMAT:PATH?option=value, for example "
        "jsonl:/home/me/questions.jsonl. Empty: the questions of the index's data sets.",
    )
    sample: int | None = Field(None, ge=1, description="Number of questions, chosen at random.")
    encoder: Annotated[str | None, OneOf("encoder")] = Field(
        None, description="Search the index of the same corpus with this encoder."
    )
    context: ContextMode | None = Field(
        None, description="Search the index of the same corpus with context vectors from this source."
    )
    retriever: Annotated[str | None, OneOf("retriever")] = Field(
        None, description="Retriever of all methods that retrieve."
    )
    alpha: float | None = Field(None, ge=0, le=1, description="Weight of a sentence against its context, from 0 to 1.")
    top_k: int | None = Field(None, ge=1, le=1000, description="Units to retrieve per question, from 1 to 1000.")
    generator: Annotated[str | None, OneOf("generator")] = Field(None, description="Generator of the answers.")
    critic: Annotated[str | None, OneOf("critic")] = Field(
        None, description="Critic of the candidates, if the experiment has several per question."
    )
    selector: Annotated[str | None, OneOf("selector")] = Field(
        None, description="Selector that chooses among the candidates."
    )
    more: tuple[str, ...] = MORE

    @property
    def name(self) -> str:
        """The name of a run."""
        return self.experiment

    def evaluation(self) -> Evaluate:
        """The parameters of `evaluate`. Raises ConfigError, which names the field, and UnknownName."""
        encode = {"encoder": self.encoder, "context": self.context}
        given = {
            "index": self.index,
            "questions": {"dataset": self.questions or None, "sample": self.sample},
            "variant": {"encode": encode},
            "retrieve": {"retriever": self.retriever, "alpha": self.alpha, "top_k": self.top_k},
            "generate": {"generator": self.generator},
            "critique": {"critic": self.critic},
            "select": {"selector": self.selector},
            **self.model_dump(include={*Place.model_fields}),
        }
        name, settings = find(self.experiment, self.store)
        layer = merged(_filled(given), parse_assignments(self.more))
        return evaluation(name, settings, layer)


_NAME = IndexCorpus.model_json_schema()["properties"]["name"]


class IndexForm(Form):
    """Make an index of a corpus, for searches and evaluations. Only a name and data sets are needed, with paths on the
    machine that runs `vitalfew ui`. 2,000 passages take a few minutes on two cores. Work of earlier runs
    is reused. The run shows its progress."""

    SETTINGS: ClassVar[Mapping[str, str]] = {
        "datasets": "sources",
        "encode.encoder": "encoder",
        "encode.context": "context",
        "split.splitter": "splitter",
        "index.type": "type",
        "index.layout": "layout",
        "index.alpha": "alpha",
        "bm25.enabled": "bm25",
    }

    name: str = Field(
        pattern=_NAME["pattern"],
        max_length=_NAME["maxLength"],
        description="Name of the index, for searches and evaluations.",
    )
    sources: tuple[Source, ...] = Field(min_length=1, description="Data sets of the corpus.")
    encoder: Annotated[str, OneOf("encoder")] = Field("minilm", description="Encoder that turns texts into vectors.")
    context: ContextMode | None = Field(
        None,
        description="How a sentence's context vector is made; empty: late if the encoder supports it, else passage.",
    )
    splitter: Annotated[str, OneOf("splitter")] = Field("punkt", description="Splitter of passages into sentences.")
    type: IndexType = Field("flat", description="Index type: flat is exact; the others are smaller or faster.")
    layout: Layout = Field("dual", description="dual: any alpha; fused: one alpha, half the size.")
    alpha: float | None = Field(
        None, ge=0, le=1, description="Weight of the sentence against its context in a fused index: 0 to 1."
    )
    bm25: bool = Field(True, title="BM25", description="Also build keyword search, for the retrievers bm25 and hybrid.")
    quote: bool = QUOTE
    more: tuple[str, ...] = MORE

    def corpus(self) -> IndexCorpus:
        """The parameters of `index_corpus`. Raises ConfigError, which names the setting."""
        given = {
            "name": self.name,
            "datasets": _specifications(self.sources),
            "encode": {"encoder": self.encoder, "context": self.context},
            "split": {"splitter": self.splitter},
            "index": {"type": self.type, "layout": self.layout, "alpha": self.alpha},
            "bm25": {"enabled": self.bm25},
            **self.model_dump(include={*Place.model_fields}),
        }
        return build(IndexCorpus, _filled(given), parse_assignments(self.more))


class TrainForm(Form):
    """Train a model with a recipe, and measure it on held-out data. Needs a recipe and data sets with questions; the
    recipe oreo needs an index instead. Takes minutes to hours; a run that was stopped continues where it was. The run
    shows the figures on the held-out data."""

    recipe: Annotated[str, OneOf("recipe")] = Field(description="Recipe: the trainer and its settings.")
    datasets: tuple[Source, ...] = Field((), description="Data sets with the questions to learn from.")
    index: str | None = Field(
        None,
        description="For the recipe oreo: index to search; the questions of its data sets are learned from. "
        "`vitalfew doctor` lists the indexes.",
    )
    passages: tuple[Source, ...] = Field((), description="Further passages to learn from, as distractors.")
    out: Path | None = Field(None, description="Directory to copy the finished model to, with its card.")
    more: tuple[str, ...] = MORE

    def training(self) -> TrainModel | TrainOreo:
        """The parameters of `train`. Raises ConfigError, which names the setting, and UnknownName."""
        given = {
            "datasets": _specifications(self.datasets),
            "passages": _specifications(self.passages),
            **({"index": self.index} if self.index else {}),
            **self.model_dump(include={*Place.model_fields, "out"}),
        }
        return named.training(self.recipe, parse_assignments(self.more), given)


class WriteForm(Form):
    """Write questions from the passages of an index, with their answers. Only an index is needed. The writer cloze
    takes seconds and measures retrieval, not answers; llm asks a language model, which `more` names
    (write.model=NAME, write.engine=openai). The run shows how many questions there are, and its costs."""

    SETTINGS: ClassVar[Mapping[str, str]] = {"write.writer": "writer", "write.n": "n"}

    index: str = Field(
        description="Index whose passages the questions are written from; `vitalfew doctor` lists the indexes."
    )
    writer: Annotated[str, OneOf("writer")] = Field("cloze", description="Writer of the questions.")
    n: int = Field(200, ge=1, description="Number of questions to write.")
    name: str | None = Field(
        None,
        pattern=_NAME["pattern"],
        max_length=_NAME["maxLength"],
        description="Name of the set of questions; empty: that of the index.",
    )
    more: tuple[str, ...] = MORE

    def writing(self) -> WriteQuestions:
        """The parameters of `write_questions`. Raises ConfigError, which names the setting."""
        given = {"write": {"writer": self.writer, "n": self.n}, **self.model_dump(exclude={"writer", "n", "more"})}
        return build(WriteQuestions, _filled(given), parse_assignments(self.more))


def _quotes(message: str, value: object) -> bool:
    """Return whether a message has a field's value, or a part of it: a path, a name, the key of a further setting."""
    match value:
        case tuple():
            return any(_quotes(message, each) for each in value)
        case Source():
            return _quotes(message, value.specification())
        case str() | Path():
            text = str(value)
            parts = (text, text.partition("=")[0], text.partition(":")[2].partition("?")[0])
            return any(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", message) for part in parts if len(part) > 1)
    return False


def _specifications(sources: tuple[Source, ...]) -> list[str]:
    return [source.specification() for source in sources]


class ReEncode(Form):
    """Bring the index of a corpus up to date. Needs a file corpora/NAME.yaml next to the store; its `cron` is the
    schedule. Only new and changed passages are encoded: without any this takes seconds. While one run re-encodes a
    corpus, another one does nothing and says so."""

    corpus: str = Field(
        description="Name of a file corpora/NAME.yaml next to the store, or `demo`; the page Corpora and indexes and "
        "`vitalfew doctor` list the names."
    )
    corpora: Path | None = Field(None, description="Directory of your corpora; default: `corpora` next to the store.")
    quote: bool = QUOTE


def _filled(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings without empty fields, and without sections in which all fields are empty."""
    filled = {key: _filled(value) if isinstance(value, dict) else value for key, value in settings.items()}
    return {key: value for key, value in filled.items() if value is not None and value != {}}
