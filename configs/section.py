"""A section of the settings: what every method of a kind has, open for what one of them has of its own.

`retrieve: {retriever: core_context, top_k: 10, alpha: 0.5}` is a `RetrieveConfig` (retriever, top_k); alpha belongs to
core_context, whose `Options` extend the section. Which options a method has is known where its name is resolved
(tasks/registry.py): until then they are kept as they were given.
"""

from functools import cache
from typing import Annotated, Any, ClassVar, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict

from configs.paths import absolute_if_directory

NOT_IN_FINGERPRINT = "not in the fingerprint"
"""Marks a setting that changes no result, or whose effect is in the method's identity:
`device: Annotated[Device, NOT_IN_FINGERPRINT]`."""

Device = Literal["auto", "cpu", "cuda"]
Precision = Literal["auto", "bf16", "fp16", "fp32"]
ModelName = Annotated[str, AfterValidator(absolute_if_directory)]
"""A Hugging Face name, a preset or a directory, which a worker may look for from another working directory."""

SectionT = TypeVar("SectionT", bound="Section")


class Section(BaseModel):
    """Base of a stage's settings that name a method. `kind`: of the registry, and the field that names the method."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: ClassVar[str]
    moved: ClassVar[dict[str, str]] = {}
    """Settings of older versions, each with where it is now, in words."""

    @property
    def method(self) -> str:
        """The name of the method."""
        name: str = getattr(self, self.kind)
        return name

    def identity(self) -> dict[str, Any]:
        """The settings that change the result, as JSON has them."""
        fields = type(self).model_fields.items()
        left_out = {name for name, field in fields if NOT_IN_FINGERPRINT in field.metadata}
        return self.model_dump(mode="json", exclude=left_out)


@cache
def closed(section: type[SectionT]) -> type[SectionT]:
    """The options of a method that has none of its own."""
    return type(f"{section.__name__}Alone", (section,), {"model_config": ConfigDict(extra="forbid")})
