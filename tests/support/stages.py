"""Stages as a plan constructs them: with complete options."""

from typing import Any, TypeVar

from vitalfew.configs.section import Section
from vitalfew.tasks.registry import with_options
from vitalfew.tasks.stage import FurtherStage, Stage

StageT = TypeVar("StageT", bound=Stage)


def staged(kind: type[StageT], *given: Any) -> StageT:
    """`kind(*given)`, of which the last is the section: completed first. Inputs of a further stage come one by one."""
    store, *others, section = given
    assert isinstance(section, Section)
    inputs = [dict(zip(kind.reads, others, strict=True))] if issubclass(kind, FurtherStage) else others
    return kind(store, *inputs, with_options(section, kind.section))
