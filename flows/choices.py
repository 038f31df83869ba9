"""The drop-downs of forms: names that the code knows, and names of what lies in or beside a store, which change while
Prefect's server works (flows/server/fresh.py).

A form is a deployment's JSON schema in Prefect's database, and the server refuses a run whose parameters do not follow
it. A field whose names change is therefore marked in the schema, and its names are written anew when they have changed.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from vitalfew.flows.pipelines import corpora, experiments, recipes
from vitalfew.storage.runs import index_names
from vitalfew.tasks.registry import METHODS, UnknownName

Kind = Literal["index", "experiment", "corpus"]
Names = Mapping[str, Sequence[str]]
"""By `Kind`."""
MARK = "x-vitalfew-names"
"""The key of a field's schema that says which names the field takes."""
NONE_YET = " **This store has none yet: run index-datasets first,** or `vitalfew index`."
"""Ends the description of a field for which there is no name."""


@dataclass(frozen=True)
class OneOf:
    """Marks a text field as the name of a method of one kind, or of a recipe (or its file). A form shows a drop-down
    for it."""

    kind: str

    def known(self) -> list[str]:
        return recipes.names() if self.kind == "recipe" else sorted(METHODS[self.kind])

    def check(self, value: str | None) -> str | None:
        is_file = self.kind == "recipe" and Path(value or "").suffix in (".yaml", ".yml")
        if value is not None and not is_file and value not in self.known():
            raise UnknownName(self.kind, value, self.known())
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "enum": self.known()}


@dataclass(frozen=True)
class NameOf:
    """Marks a text field as the name of an index, an experiment or a corpus: of what there is when a run begins. A form
    of `vitalfew ui` shows a drop-down of what there is when it is opened."""

    kind: Kind

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        shipped = {"enum": experiments.names()} if self.kind == "experiment" else {}
        return {"type": "string", MARK: self.kind, **shipped}


def names(store: Path, own: Path | None = None) -> Names:
    """What there is in a store and beside it now; `own`: the user's directory of corpora. Raises ConfigError."""
    return {
        "index": index_names(store),
        "experiment": experiments.names(store),
        "corpus": sorted(corpora.corpora(store, own)),
    }


def with_names(schema: Mapping[str, Any], names: Names) -> dict[str, Any]:
    """A deployment's schema whose marked fields take these names, whichever they took before. Where there is none, a
    field takes any text and says what to do; an index that is the only one is filled in."""
    fresh = deepcopy(dict(schema))
    for definition in fresh.get("definitions", {}).values():
        for field in definition.get("properties", {}).values():
            if MARK in field:
                _fill(field, field[MARK], names[field[MARK]])
    return fresh


def _fill(field: dict[str, Any], kind: Kind, known: Sequence[str]) -> None:
    field.pop("enum", None)
    field["description"] = field["description"].removesuffix(NONE_YET)
    if known:
        field["enum"] = [*known]
    else:
        field["description"] += NONE_YET
    if kind == "index":
        field.pop("default", None)
        field |= {"default": known[0]} if len(known) == 1 else {}
