"""What pyproject.toml says that vitalfew needs, a line each, with what the named extras add.

    python requirements.py [EXTRA]... > requirements.txt

For the Dockerfile, whose layer of dependencies is to stay as it is while the sources change.
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
