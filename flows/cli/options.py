"""Arguments and options that several commands have, and the settings that options make."""

import json
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from rich.markup import escape
from typer import Argument, BadParameter, Option

from vitalfew.configs.loading import parse_assignments, read_yaml
from vitalfew.configs.parsing import parse
from vitalfew.configs.paths import store_place
from vitalfew.storage import files

ENGINES = ("openai", "transformers", "vllm")
STORE = Path("store")
"""The default of `--store`."""


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
        metavar="DIR",
        parser=store_argument,
        help="Place of all artifacts: a directory, or s3://BUCKET/PREFIX.",
    ),
]
Config = Annotated[Path | None, Option("--config", metavar="FILE.yaml", help="Read settings from a YAML file.")]
Assignments = Annotated[
    list[str] | None,
    Option("--set", metavar="KEY.PATH=VALUE", help="Set one setting, e.g. encode.context=late. Repeatable."),
]
Workers = Annotated[
    int | None, Option("--workers", metavar="N", min=1, help="Number of parallel workers; default: one per core.")
]
RunnerName = Literal["auto", "ray", "serial"]
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
    "openai:NAME on the server at OPENAI_BASE_URL (default: OpenAI), with the key in OPENAI_API_KEY; a DIRECTORY, or a "
    "name of `vitalfew models`, on this machine (transformers); or vllm:NAME."
)
Model = Annotated[
    str | None,
    Option("--model", metavar="openai:NAME|DIRECTORY|vllm:NAME", help=f"Language model that answers: {MODEL_PLACES}"),
]
JudgeModel = Annotated[
    str | None,
    Option("--judge", metavar="openai:NAME|DIRECTORY|vllm:NAME", help="Language model that judges the answers too."),
]
WriterModel = Annotated[
    str | None,
    Option(
        "--model",
        metavar="openai:NAME|DIRECTORY|vllm:NAME",
        help=f"Language model that writes (--writer llm): {MODEL_PLACES}",
    ),
]
Yes = Annotated[bool, Option("--yes", help="Begin although the quote is above --max-usd, and stop there.")]
Verbose = Annotated[bool, Option("-v", "--verbose", help="Print progress messages.")]
Json = Annotated[bool, Option("--json", help="Print JSON.")]
Run = Annotated[str, Argument(metavar="RUN", help="A run's id or a prefix of it, or an experiment's name.")]
IndexName = Annotated[str, Argument(metavar="NAME", help="Name of the index.")]
Index = Annotated[str | None, Option("--index", metavar="NAME", help="Name of the index.")]
IndexOfOthers = Annotated[
    str | None, Option("--index", metavar="NAME", help="Index of the methods that do not name one.")
]
OfIndexes = Annotated[
    list[str] | None, Option("--index", metavar="NAME", help="Only artifacts of this index. Repeatable.")
]
Questions = Annotated[int | None, Option("--n", metavar="N", min=1, help="Number of questions to write; default: 200.")]
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


def at(store: Path) -> list[str]:
    """The option that names a store, where it is not the default one."""
    return [] if store == STORE else ["--store", str(store)]


def at_end(store: Path) -> str:
    """That option at the end of a command which is shown to a user, as markup: with a space before it, or ''."""
    return escape("".join(f" {shlex.quote(word)}" for word in at(store)))


def sets(assignments: Iterable[str]) -> list[str]:
    """The options that make settings."""
    return [word for assignment in assignments for word in ("--set", assignment)]
