"""What an installation brings: no package under the GPL, and one version everywhere."""

import re
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
GPL = re.compile(r"GPL|GNU .*General Public", re.IGNORECASE)
CHOICE = {"text-unidecode": "Artistic License"}
"""Packages under the GPL or another licence, as one likes, and that other licence."""

NVIDIAS = {"cuda-toolkit"}
"""Come with a PyTorch for NVIDIA's devices, and name no licence in their metadata."""


def test_no_package_under_the_gpl_is_installed() -> None:
    """Neither by `make demo` nor by `make test`."""
    required = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["dev"]]
    packages = _installed([Requirement(text) for text in required])
    assert len(packages) > 150
    licences = {name: _licence(package) for name, package in packages.items() if name not in NVIDIAS}
    assert [name for name, text in licences.items() if not text] == [], "packages that name no licence"
    under = {name: text for name, text in licences.items() if GPL.search(text) and CHOICE.get(name, "GPL") not in text}
    assert not under


def test_the_citation_has_the_version_and_licence_of_the_project() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert (citation["version"], " AND ".join(citation["license"])) == (PROJECT["version"], PROJECT["license"])


def _installed(required: list[Requirement]) -> dict[str, Distribution]:
    """Return what the requirements bring into this environment, by name; vitalfew's own extras are looked up here."""
    packages: dict[str, Distribution] = {}
    todo = [(requirement, extra) for requirement in required for extra in ("", *requirement.extras)]
    seen = set()
    for requirement, extra in todo:
        name = canonicalize_name(requirement.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        if name == PROJECT["name"]:
            further = PROJECT["optional-dependencies"].get(extra, [])
        else:
            try:
                packages[name] = distribution(name)
            except PackageNotFoundError:  # another machine's, such as CUDA's
                continue
            further = packages[name].requires or []
        wanted = [
            item for item in map(Requirement, further) if not item.marker or item.marker.evaluate({"extra": extra})
        ]
        todo += [(item, choice) for item in wanted for choice in ("", *item.extras)]
    return packages


def _licence(package: Distribution) -> str:
    """Return what its metadata say: the expression, the classifiers, and the first line of the field of old."""
    fields = package.metadata
    texts = [fields.get("License-Expression", ""), *fields.get_all("Classifier", []), fields.get("License", "")]
    return "; ".join(text.partition("\n")[0] for text in texts if text and not re.match(r"(?!License)\w.* :: ", text))


def test_the_folders_have_no_import_name_but_vitalfews(tmp_path: Path) -> None:
    """Outside the checkout `import tasks` finds a user's own package, or none."""
    script = "from importlib.util import find_spec\n"
    for name in ("configs", "flows", "storage", "tasks"):
        script += f"assert find_spec('vitalfew.{name}') and not find_spec('{name}')\n"
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
