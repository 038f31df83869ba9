"""The forms that start a run in Prefect's UI: few fields, with drop-downs of the known names.

flows/choices.py says where their names come from. A user's own method ("module:Class") goes into `more`, in the syntax
of `--set`.
"""

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic_core import CoreSchema

from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.loading import build, merged, parse_assignments
from vitalfew.configs.schema import ContextMode, IndexCorpus, IndexType, Layout, Place
from vitalfew.configs.section import Config
from vitalfew.configs.training import TrainModel, TrainOreo
from vitalfew.flows.choices import NameOf, OneOf
from vitalfew.flows.pipelines import recipes
from vitalfew.flows.pipelines.experiments import evaluation, find
from vitalfew.tasks.registry import METHODS, resolve


class Form(Place):
    """Parameters of a flow as a form has them: its own fields before those of the machine, and a field that may be left
    empty shown as an empty field."""

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        form = handler.resolve_ref_schema(handler(schema))
        fields = sorted(form["properties"].items(), key=lambda field: field[0] in Place.model_fields)
        form["properties"] = {name: _plain(field) for name, field in fields}
        return form


def _plain(field: dict[str, Any]) -> dict[str, Any]:
    """A field's schema without "or null", for which Prefect's form would show a separate switch, and without a null
    default, which the form would send."""
    kinds = [kind for kind in field.get("anyOf", []) if kind != {"type": "null"}]
    rest = {key: value for key, value in field.items() if key != "anyOf" and (key, value) != ("default", None)}
    return {**rest, **kinds[0]} if len(kinds) == 1 else rest


MORE = Field((), description='Any other settings, one "key.path=value" a line, as `--set` takes them.')


class Source(Config):
    """A data set."""

    format: Annotated[str, OneOf("dataset")] = Field(description="Its format; `vitalfew datasets` explains each.")
    path: str = Field(
        "",
        description="PATH?option=value, /home/me/notes.jsonl?text=body for example; of `synthetic` and `python_manual` "
        "their options alone, or nothing.",
    )

    @model_validator(mode="after")
    def _names_what_it_reads(self) -> Self:
        method = resolve("dataset", self.format)
        if method.reads_path and not self.path.strip():
            example = method.example.partition(":")[2]
            raise ValueError(f"format {self.format!r} reads a path, which is missing; for example {example}")
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
    """Methods are compared on an index. Experiment and index are enough: an empty field is as the experiment has it."""

    experiment: Annotated[str, NameOf("experiment")] = Field(
        "quickstart", description="What is set side by side; one of your own is experiments/NAME.yaml beside the store."
    )
    index: Annotated[str | None, NameOf("index")] = Field(
        None, description="What is searched by methods that name no index. A new one is listed when its run has ended."
    )
    questions: str | None = Field(
        None,
        description="FORMAT:PATH?option=value of a data set whose questions are asked, jsonl:/home/me/questions.jsonl "
        "for example; empty: the questions of the index's own data sets.",
    )
    sample: int | None = Field(None, ge=1, description="So many of the questions, a random choice.")
    encoder: Annotated[str | None, OneOf("encoder")] = Field(
        None, description="Search the index of the same corpus by this."
    )
    context: ContextMode | None = Field(
        None, description="Search the index of the same corpus whose sentences have their context vectors from there."
    )
    retriever: Annotated[str | None, OneOf("retriever")] = Field(None, description="Of every method that retrieves.")
    alpha: float | None = Field(None, ge=0, le=1, description="Weight of the core vector, 0 to 1.")
    top_k: int | None = Field(None, ge=1, le=1000, description="Units retrieved for each question, 1 to 1000.")
    generator: Annotated[str | None, OneOf("generator")] = Field(None, description="What writes the answers.")
    critic: Annotated[str | None, OneOf("critic")] = Field(
        None, description="What judges the candidates, where an experiment has several for a question."
    )
    selector: Annotated[str | None, OneOf("selector")] = Field(None, description="What chooses among those.")
    more: tuple[str, ...] = MORE

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


class IndexForm(Form):
    """A corpus is made searchable. Name and sources are enough."""

    name: str = Field(
        pattern=IndexCorpus.model_json_schema()["properties"]["name"]["pattern"],
        description="The index's name, by which it is searched and evaluated.",
    )
    sources: tuple[Source, ...] = Field(min_length=1, description="Its data sets, together one corpus.")
    encoder: Annotated[str, OneOf("encoder")] = Field("minilm", description="What makes vectors of texts.")
    context: ContextMode | None = Field(
        None,
        description="Where a sentence's context vector comes from; empty: late where the encoder can, else passage.",
    )
    splitter: Annotated[str, OneOf("splitter")] = Field("punkt", description="What makes sentences of passages.")
    type: IndexType = Field("flat", description="flat is exact; the others are smaller or faster.")
    layout: Layout = Field("dual", description="dual: any alpha; fused: one alpha, half the size.")
    alpha: float | None = Field(None, ge=0, le=1, description="Weight of the core vector in a fused index, 0 to 1.")
    bm25: bool = Field(False, title="BM25", description="Keyword search too, for the retrievers bm25 and hybrid.")
    quote: bool = Field(False, description="Quote what it will take before it runs: the run then shows both.")
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
    """A model is trained by a recipe. Recipe and data sets are enough; for oreo, recipe and index."""

    recipe: Annotated[str, OneOf("recipe")] = Field(description="The trainer and its settings.")
    datasets: tuple[Source, ...] = Field((), description="Data sets with the questions to learn from.")
    index: Annotated[str | None, NameOf("index")] = Field(
        None, description="For the recipe oreo: what is searched; the questions of its data sets are learnt from."
    )
    passages: tuple[Source, ...] = Field((), description="More passages to learn from: distractors.")
    out: Path | None = Field(None, description="Directory that the finished model is copied to, with its card.")
    more: tuple[str, ...] = MORE

    def training(self) -> TrainModel | TrainOreo:
        """The parameters of `train`. Raises ConfigError, which names the setting, and UnknownName."""
        given = {
            "datasets": _specifications(self.datasets),
            "passages": _specifications(self.passages),
            **({"index": self.index} if self.index else {}),
            **self.model_dump(include={*Place.model_fields, "out"}),
        }
        return recipes.training(self.recipe, parse_assignments(self.more), given)


def _specifications(sources: tuple[Source, ...]) -> list[str]:
    return [source.specification() for source in sources]


class ReEncode(Form):
    """A corpus is encoded again where it has changed."""

    corpus: Annotated[str, NameOf("corpus")] = Field(
        description="A file corpora/NAME.yaml beside the store, or `demo`."
    )
    corpora: Path | None = Field(
        None, description="Directory of corpora of your own; default: `corpora` beside the store."
    )
    quote: bool = Field(False, description="Quote what it will take before it runs: the run then shows both.")


def _filled(settings: dict[str, Any]) -> dict[str, Any]:
    """The settings without empty fields, and without sections in which all fields are empty."""
    filled = {key: _filled(value) if isinstance(value, dict) else value for key, value in settings.items()}
    return {key: value for key, value in filled.items() if value is not None and value != {}}
