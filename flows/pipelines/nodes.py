"""What a node of a cluster is given by the command that runs, and what it must have itself.

A node shares nothing with that command but the store. Variables and secrets travel with the work; files of the user's
own do not: sources are read where the command runs (`Stage.at_home`), and of a model's directory or a file of rankings
a node that lacks it says so.
"""

import os
import pickle
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from vitalfew.configs.loading import ConfigError
from vitalfew.configs.section import Section
from vitalfew.flows.pipelines.secrets import secrets
from vitalfew.storage import files
from vitalfew.tasks.models.files import is_in_bucket
from vitalfew.tasks.stage import Stage

PASSED = (
    "DO_NOT_TRACK",
    "HF_HUB_DISABLE_PROGRESS_BARS",
    "HF_HUB_OFFLINE",
    "MKL_NUM_THREADS",
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "TOKENIZERS_PARALLELISM",
    "TRANSFORMERS_VERBOSITY",
)
"""Variables of this process that the workers of a named cluster get, with all VITALFEW_* that hold no secret: Ray shows
them in its dashboard and in its logs. A local Ray's workers inherit the whole environment."""
OWN = ("VITALFEW_CACHE", "VITALFEW_CACHE_GB")
"""Variables that every machine has for itself."""
SECRET = ("KEY", "PASSWORD", "SECRET", "TOKEN", "WEBHOOK")
SERVERS = ("OPENAI_", "VITALFEW_API_KEYS")


def passed(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of an environment that the workers of a named cluster get."""
    return {
        name: value
        for name, value in environment.items()
        if name in PASSED
        or (name.startswith("VITALFEW_") and name not in OWN and not any(word in name for word in SECRET))
    }


def secrets_of(stage: Stage) -> dict[str, str]:
    """The secrets that the stage needs, as they are set here: those that its method reads, with what says which server
    each of them is for, and what opens the bucket of its store or model. They travel with every call, which Ray neither
    shows nor logs."""
    names = secrets(stage.config, stage.section) if isinstance(stage.config, Section) else {}
    own = {name: os.environ[name] for name in os.environ if name in names or (names and name.startswith(SERVERS))}
    places = [str(value) for _, value in _settings(stage.config.model_dump())]
    return own | (_keys() if files.is_in_bucket(stage.store) or any(map(is_in_bucket, places)) else {})


def _keys() -> dict[str, str]:
    """Address, region and credentials of buckets, but for names of files, which are of this machine."""
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith(files.variables_of_buckets()) and not (value.startswith("/") and files.exists(Path(value)))
    }


def take_over(given: Mapping[str, str]) -> None:
    """Set them in this process. A key does not go with the token of another one that this node has."""
    if "AWS_ACCESS_KEY_ID" in given:
        os.environ.pop("AWS_SESSION_TOKEN", None)
    os.environ.update(given)


def own_places(stage: Stage) -> dict[str, Path]:
    """Files and directories of this machine that the work needs, by the settings that name them. A file of another
    kind, as a prompt is, was read here and travels with the stage."""
    named = {key: Path(value) for key, value in _settings(stage.config.model_dump()) if _is_place(value)}
    return {stage.setting(key): path for key, path in named.items() if files.exists(path)}


def _is_place(value: Any) -> bool:
    return (isinstance(value, Path) and value.is_absolute()) or (
        isinstance(value, str) and value.startswith("/") and files.is_folder(Path(value))
    )


def _settings(section: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every value, with its key as `--set` takes it below the section."""
    if isinstance(section, Mapping):
        for name, value in section.items():
            yield from _settings(value, f"{key}.{name}".lstrip("."))
    elif isinstance(section, list | tuple):
        for value in section:
            yield from _settings(value, key)
    else:
        yield key, section


def check_places(places: Mapping[str, Path], node: str) -> None:
    """Raises ConfigError for the first that this machine lacks."""
    for setting, path in places.items():
        if not files.exists(path):
            raise ConfigError(
                f"{setting}: the node {node} has no {path}. Put it there on every node. For a model, you can also give "
                "a name that every node knows (of a package, or of Hugging Face), or copy its directory into a "
                f"bucket and use {setting}=s3://BUCKET/PLACE. Finished work is kept"
            )


def missing_store(store: Path, node: str) -> ConfigError:
    """For a node that does not find what the command has begun there."""
    if files.is_in_bucket(store):
        return ConfigError(
            f"the node {node} does not see this run in {store}: it uses a different server or account than this "
            "command. Set AWS_ENDPOINT_URL and the credentials in the environment of the command (AWS_*, GOOGLE_*, "
            "AZURE_*): the nodes get them from there. Do not use 127.0.0.1: it is a different server on every node"
        )
    return ConfigError(
        f"the node {node} has no store at {store}, or a different one. Share the store's directory among all nodes "
        "under the same path, or use a store in a bucket (--store s3://BUCKET/PREFIX)"
    )


def on_node(node: str, error: Exception) -> Exception:
    """An error that a user has to correct, with the node on which it came up."""
    told = str(error) if node in str(error) else f"on the node {node}: {error}"
    try:
        same: Exception = pickle.loads(pickle.dumps(type(error)(told)))
    except Exception:  # its class wants more than a text: what it says is what counts
        return ConfigError(told)
    return same


def join(started: "Future[Any]", address: str | None) -> None:
    """Wait until Ray has started. Raises ConfigError where this machine cannot work with the cluster at an address: Ray
    lets its nodes alone do so."""
    try:
        started.result()
    except ConnectionError as error:
        if address is None:
            raise
        raise ConfigError(
            f"cannot join the Ray cluster at {address} ({' '.join(str(error).split())[:200]}). The machine where a "
            "command runs must be a node: run `ray start --address=HOST:PORT --num-cpus=0` here first"
        ) from None
