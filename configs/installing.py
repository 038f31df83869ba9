"""The command that adds what an optional feature needs.

No package index has Vital Few, so the command names the place from which this installation came.
"""

import json
import os
import sys
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit


def install_command(extra: str) -> str:
    """The shell command that adds an extra of pyproject.toml to this environment. uv's where the environment has no
    pip."""
    python = _short(Path(sys.executable))
    pip = f"{python} -m pip install" if find_spec("pip") else f"uv pip install --python {python}"
    return f"{pip} {_requirement(extra)}"


def _requirement(extra: str) -> str:
    """Vital Few with an extra, quoted for a shell. `direct_url.json` says where it came from (PEP 610)."""
    # A checkout on the path has metadata of its own, which do not say.
    records = (each.read_text("direct_url.json") for each in distributions(name="vitalfew"))
    source = json.loads(next(filter(None, records), "{}"))
    if source.get("dir_info", {}).get("editable"):
        folder = _short(Path(unquote(urlsplit(source["url"]).path)))
        return f"-e '{folder}[{extra}]'"
    if not source:
        return f"'vitalfew[{extra}]'"
    version = source.get("vcs_info")
    url = f"{version['vcs']}+{source['url']}@{version['commit_id']}" if version else source["url"]
    return f"'vitalfew[{extra}] @ {url}'"


def _short(path: Path) -> str:
    """A path from the working directory where it lies below it, else the whole."""
    here = Path(os.getcwd())
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
