"""A section of the settings: the options of every method of a kind, open for the further options of one.

`retrieve: {retriever: core_context, top_k: 10, alpha: 0.5}` is a `RetrieveConfig` (retriever, top_k); alpha belongs to
core_context, whose `Options` extend the section. Which options a method has is known where its name is resolved
(tasks/registry.py): until then they are kept as they were given.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel

from vitalfew.configs.paths import absolute, absolute_if_directory

NOT_IN_FINGERPRINT = "not in the fingerprint"
"""Marks a setting that changes no result, or whose effect is in the method's identity:
`device: Annotated[Device, NOT_IN_FINGERPRINT]`."""

Device = Literal["auto", "cpu", "cuda"]
DtypeName = Literal["bf16", "fp16", "fp32"]
Precision = Literal["auto", DtypeName]
NumberName = Literal["bf16", "fp16", "fp32", "int8"]
"""The numbers in which an encoder computes."""
ModelName = Annotated[str, AfterValidator(absolute_if_directory)]
"""A Hugging Face name, a preset or a directory, which a worker may look for from another working directory."""
AbsolutePath = Annotated[Path, AfterValidator(absolute)]

SectionT = TypeVar("SectionT", bound="Section")


class Config(BaseModel, extra="forbid", frozen=True):
    """Base of every section: an unknown key is an error, and a loaded configuration does not change."""

    also: ClassVar[tuple[str, ...]] = ()
    """Further keys that settings may be written with: parts of a field."""

    def identity(self) -> dict[str, Any]:
        """The settings that change the result, as JSON has them."""
        fields = type(self).model_fields.items()
        left_out = {name for name, field in fields if NOT_IN_FINGERPRINT in field.metadata}
        return self.model_dump(mode="json", exclude=left_out)


class Section(Config, extra="allow", frozen=True):
    """Base of a stage's settings that name a method, or several."""

    kind: ClassVar[str]
    """The kind of the methods in the registry."""
    named_by: ClassVar[str] = ""
    """The field that names the method, where it is not called as the kind."""

    @classmethod
    def field(cls) -> str:
        """The field that names the method."""
        return cls.named_by or cls.kind

    @classmethod
    def shared(cls: type[SectionT]) -> type[SectionT]:
        """The section itself, of the options of any of its methods."""
        return next(base for base in reversed(cls.__mro__) if "kind" in vars(base))

    @property
    def methods(self) -> tuple[str, ...]:
        """The names of the methods; mostly there is one."""
        named = getattr(self, self.field())
        return (named,) if isinstance(named, str) else tuple(dict.fromkeys(named))

    def idle(self) -> dict[str, str]:
        """Settings without effect beside the others, by name, with the remedy."""
        return {}

    def given(self) -> dict[str, Any]:
        """The settings that are not left to their defaults, including the method's further options."""
        return self.model_dump(exclude_unset=True)

    def without(self, settings: Collection[str]) -> Self:
        """With these settings left to their defaults."""
        return type(self).model_validate({key: value for key, value in self.given().items() if key not in settings})
