"""Stages as a plan constructs them: with complete options."""

from typing import Any, TypeVar

from vitalfew.configs.section import Section
from vitalfew.tasks.registry import with_options
from vitalfew.tasks.stage import Stage

StageT = TypeVar("StageT", bound=Stage)


def staged(kind: type[StageT], *given: Any) -> StageT:
    """`kind(*given)`, of which the last is the section: completed first."""
    *others, section = given
    assert isinstance(section, Section)
    return kind(*others, with_options(section, kind.section))
