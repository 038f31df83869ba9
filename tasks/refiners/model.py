"""A refiner that one model serves: what such refiners have in common besides `refine`."""

from typing import Any, ClassVar, Generic, Protocol, TypeVar

from vitalfew.tasks.refiners.cut import Cut


class Model(Protocol):
    """What is asked of the model; its constructor loads no weights."""

    uses_gpu: bool
    workers: int | None

    def identity(self) -> dict[str, Any]: ...


ModelT = TypeVar("ModelT", bound=Model)


class ModelRefiner(Generic[ModelT]):
    """Base of refiners that one model serves. A subclass makes the model, and says in `refine` what it is asked."""

    version: ClassVar[str]
    role: ClassVar[str] = "model"
    """What the identity calls the model."""
    needs_vectors = False
    needs_sentences = False
    cut: Cut | None = None
    """What limits the hits that the refiner passes on, if it does not do that itself."""

    def __init__(self, options: Any, model: ModelT) -> None:
        self.options, self.model = options, model
        self.uses_gpu = model.uses_gpu
        self.workers = model.workers

    def identity(self) -> dict[str, Any]:
        cut = {"cut": self.cut.identity()} if self.cut else {}
        return {"class": type(self).__name__, "version": self.version, **cut, self.role: self.model.identity()}
