"""Arguments and options that several commands have, and the settings that options make."""

import json
import os
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.markup import escape
from typer import Argument, BadParameter, Option

from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.loading import parse_assignments, read_yaml
from vitalfew.configs.parsing import parse
from vitalfew.configs.paths import store_place
from vitalfew.configs.schema import RunnerName
from vitalfew.flows.cli import completion
from vitalfew.flows.cli.terminal import err
from vitalfew.storage import files
from vitalfew.storage.runs import only_index

ENGINES = ("openai", "transformers", "vllm")
STORE = Path("store")
"""The default of `--store`, where this variable names none."""
VARIABLE = "VITALFEW_STORE"


def store_argument(given: str | Path) -> Path:
    """A store's place as a parameter of a command."""
    try:
        return store_place(given)
    except ValueError as error:
        raise BadParameter(str(error)) from None


Store = Annotated[
    Path,
    Option(
        "--store",
        envvar=VARIABLE,
        metavar="DIR",
        parser=store_argument,
        help="Place of all artifacts: a directory, or s3://BUCKET/PREFIX.",
    ),
]
Config = Annotated[Path | None, Option("--config", metavar="FILE.yaml", help="Read settings from a YAML file.")]


def _settings(example: str, command: str) -> Any:
    """`--set` of a command, with one of its settings as an example."""
    about = f"Set one of the settings that `vitalfew settings {command}` lists, such as {example}. Repeatable."
    return Option("--set", metavar="KEY=VALUE", help=about)


IndexSettings = Annotated[list[str] | None, _settings("encode.context=late", "index")]
SearchSettings = Annotated[list[str] | None, _settings("retrieve.top_k=20", "search")]
EvaluationSettings = Annotated[list[str] | None, _settings("questions.sample=100", "evaluate")]
MethodSettings = Annotated[list[str] | None, _settings("refine.max_tokens=200", "answer")]
WriterSettings = Annotated[list[str] | None, _settings("write.n=50", "questions")]
TrainingSettings = Annotated[list[str] | None, _settings("epochs=3", "train")]
StepSettings = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY=VALUE", help="Set a setting of a step, such as encode.context=late. Repeatable."),
]
Workers = Annotated[
    int | None, Option("--workers", metavar="N", min=1, help="Number of parallel workers; default: one per core.")
]
Runner = Annotated[
    RunnerName | None,
    Option(
        "--runner",
        help="ray: Prefect and Ray; serial: this process only; auto (default): ray if that ends sooner, or if "
        "PREFECT_API_URL or RAY_ADDRESS names a server.",
    ),
]
MaxUsd = Annotated[
    float | None,
    Option(
        "--max-usd",
        metavar="USD",
        min=0,
        help="Stop before a request to a server (openai) could make this command pay more.",
    ),
]
MODEL_PLACES = (
    "openai:NAME, vllm:NAME, a directory, or a name of `vitalfew models`. openai: asks the server at OPENAI_BASE_URL "
    "(default: OpenAI), with the key in OPENAI_API_KEY."
)
Model = Annotated[str | None, Option("--model", metavar="MODEL", help=f"Language model that answers: {MODEL_PLACES}")]
JudgeModel = Annotated[
    str | None, Option("--judge", metavar="MODEL", help="Language model that judges the answers, named as for --model.")
]
WriterModel = Annotated[
    str | None, Option("--model", metavar="MODEL", help=f"Language model that writes (--writer llm): {MODEL_PLACES}")
]
Yes = Annotated[bool, Option("--yes", help="Skip the confirmation; stop at the cap.")]
Verbose = Annotated[bool, Option("-v", "--verbose", help="Print progress messages.")]
Form = Literal["table", "json"]
Format = Annotated[Form, Option("--format", help="Output format.")]
A_RUN = "A run's id or a prefix of it, or an experiment's name for its latest run"
Run = Annotated[str, Argument(metavar="RUN", autocompletion=completion.runs, help=f"{A_RUN}.")]


def method_argument(metavar: str, about: str) -> Any:
    """An argument that names a run, and perhaps a method of it."""
    return Argument(metavar=metavar, autocompletion=completion.methods, help=about)


RunMethod = Annotated[str, method_argument("RUN[:METHOD]", f"{A_RUN}; with the method, if several.")]
Method = Annotated[
    str,
    method_argument("RUN:METHOD", "A method, behind the id of a run, or the name of an experiment for its latest run."),
]
Experiment = Annotated[
    str,
    Argument(
        metavar="EXPERIMENT",
        autocompletion=completion.experiments,
        help="A name that `vitalfew experiments` lists, or FILE.yaml.",
    ),
]
IndexName = Annotated[str, Argument(metavar="NAME", autocompletion=completion.indexes, help="Name of the index.")]


def index_option(about: str) -> Any:
    """The option that names an index, or several."""
    return Option("--index", "-i", metavar="NAME", autocompletion=completion.indexes, help=about)


Index = Annotated[str | None, index_option("Name of the index; default: the only one of the store.")]
IndexOfOthers = Annotated[
    str | None, index_option("Index of the methods that do not name one; default: the only one of the store.")
]
OfIndexes = Annotated[list[str] | None, index_option("Only artifacts of this index. Repeatable.")]
N = Annotated[int | None, Option("--n", metavar="N", min=1, help="Number of questions to write; default: 200.")]
Corpora = Annotated[
    Path | None,
    Option("--corpora", metavar="DIR", help="Directory of your corpora; default: `corpora` next to the store."),
]
Out = Annotated[Path, Option("--out", metavar="FILE", help="File to write.")]


def layers(config: Path | None, assignments: list[str] | None, **given: Any) -> list[dict[str, Any]]:
    """Settings from least to most specific: file, --set, options. The first two decide the store if --store is not
    given."""
    options = {key: value for key, value in given.items() if value is not None and (key, value) != ("store", STORE)}
    return [read_yaml(config) if config else {}, parse_assignments(assignments or []), options]


def engine_and_name(model: str) -> tuple[str, str]:
    """The engine and the model that `--model` names. Raises BadParameter."""
    engine, colon, name = model.partition(":")
    if not colon or files.is_folder(Path(model)):
        engine, name = "transformers", model
    if engine not in ENGINES or not name:
        raise BadParameter(f"{model!r}: write openai:NAME, a DIRECTORY or vllm:NAME", param_hint="--model")
    return engine, name


def of_model(model: str | None, section: str) -> list[str]:
    """The settings of a section that `--model` stands for, as `--set` takes them. Raises BadParameter."""
    if model is None:
        return []
    engine, name = engine_and_name(model)
    key = "generator" if section == "generate" else "engine"
    return [f"{section}.{key}={engine}", f"{section}.model={name if parse(name) == name else json.dumps(name)}"]


def answering(model: str | None, assignments: Iterable[str] | None) -> dict[str, Any]:
    """The settings of a method that was perhaps evaluated with another model, at another address. Raises BadParameter,
    ConfigError."""
    own = of_model(model, "generate")
    if own and engine_and_name(str(model))[0] == "openai":
        own.append("generate.base_url=null")  # that of OPENAI_BASE_URL
    return parse_assignments([*own, *(assignments or [])])


def index_of(store: Path, given: str | None) -> str:
    """The index that is meant: the one that is given, or else the store's only one, which it names. Raises
    IndexNotFound."""
    if given is None:
        given = only_index(store)
        err.print(f"Index {given}, the only one of the store.")
    return given


def with_index(settings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Settings with the only index of their store, where they name none. Raises IndexNotFound."""
    if any(layer.get("index") for layer in settings):
        return settings
    store = next((layer["store"] for layer in reversed(settings) if "store" in layer), STORE)
    return [*settings, {"index": index_of(store_argument(store), None)}]


def tell_index(parameters: Evaluate) -> None:
    """Say which index is searched by the methods that name none. Raises IndexNotFound."""
    if any(method.retrieve and not method.index for method in parameters.methods):
        index_of(parameters.store, None)


def split(given: str) -> tuple[str, str | None]:
    """The run and the method of RUN[:METHOD]."""
    run, _, method = given.partition(":")
    return run, method or None


def at(store: Path) -> list[str]:
    """The option that names a store, where it is not the default one."""
    return [] if store == Path(os.environ.get(VARIABLE) or STORE) else ["--store", str(store)]


def at_end(store: Path) -> str:
    """That option at the end of a command which is shown to a user, as markup: with a space before it, or ''."""
    return escape("".join(f" {shlex.quote(word)}" for word in at(store)))


def sets(assignments: Iterable[str]) -> list[str]:
    """The options that make settings."""
    return [word for assignment in assignments for word in ("--set", assignment)]
