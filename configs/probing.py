"""What can be set of the stages that probe a refiner: what it is given, and how its contexts are rated."""

from typing import ClassVar, Literal

from pydantic import Field

from vitalfew.configs.section import Config, Section


class PerturbConfig(Config):
    """How much noise and disorder the hits get before they are refined; by default none."""

    noise: int | None = Field(
        None,
        ge=0,
        description="The best hit with an accepted answer stays, and so many irrelevant ones, which were retrieved for "
        "other questions, stand behind it; a question without such a hit counts in no metric of contexts or answers. "
        "Default: the hits.",
    )
    order: Literal["retrieved", "shuffled", "reversed"] = Field("retrieved", description="The order of the hits.")
    seed: int = Field(100, ge=0, description="Seed of noise and order, each question's own.")

    @property
    def changes(self) -> bool:
        return self.noise is not None or self.order != "retrieved"


class AppraiseConfig(Section):
    """How a refined context is rated, from 0 to 10: how faithful is it to its hits, and how complete?"""

    kind: ClassVar[str] = "appraiser"

    appraiser: str = Field("judge", description="An appraiser of `vitalfew methods`, or module:Class.")
