"""Print the dependencies in pyproject.toml, one per line, with those of the named extras.

    python requirements.py [EXTRA]... > requirements.txt

For the Dockerfile, whose layer of dependencies must not change with the sources.
"""

import sys
import tomllib
from pathlib import Path

if __name__ == "__main__":
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"]]
    for extra in sys.argv[1:]:
        needed += project["optional-dependencies"][extra]
    print(*needed, sep="\n")
