"""What can be set of the stages that probe a refiner: what it is given, and how its contexts are rated."""

from typing import ClassVar, Literal

from pydantic import Field

from vitalfew.configs.section import Config, Section


class PerturbConfig(Config):
    """Noise and disorder to add to the hits before they are refined; default: none."""

    noise: int | None = Field(
        None,
        ge=0,
        description="Number of irrelevant hits, retrieved for other questions, to put after the best hit that contains "
        "an accepted answer; other hits are dropped. Questions without such a hit are excluded from the metrics of "
        "contexts and answers. Default: the hits as retrieved.",
    )
    order: Literal["retrieved", "shuffled", "reversed"] = Field("retrieved", description="Order of the hits.")
    seed: int = Field(100, ge=0, description="Seed of noise and order, combined with the id of the question.")

    @property
    def changes(self) -> bool:
        return self.noise is not None or self.order != "retrieved"


class AppraiseConfig(Section):
    """How refined contexts are rated from 0 to 10: faithfulness to their hits, and completeness."""

    kind: ClassVar[str] = "appraiser"

    appraiser: str = Field("judge", description="An appraiser of `vitalfew methods`, or module:Class.")
