"""Celery's documentation, a corpus on which nothing was set: docs/ of the source distribution of celery 5.7.0.

The distribution (2 MB, BSD licence) is fetched once from the Python package index, or from the one that PIP_INDEX_URL
names, by its simple API in JSON, and checked; nothing in it is run. celery_questions.jsonl has the questions, written
for this benchmark from the documentation, each with accepted answers and the file that it is about.
"""

import hashlib
import json
import os
import tarfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urljoin
from urllib.request import Request, urlopen

QUESTIONS = Path(__file__).with_name("celery_questions.jsonl")
FOLDER, ARCHIVE = "celery-5.7.0", "celery-5.7.0.tar.gz"
SHA256 = "6a5dfcf6662287204f009a02002b9e66c83d4105e47ebabdc7079108772fc6f0"
JSON = "application/vnd.pypi.simple.v1+json"
SECONDS = 60
"""Until a server that says nothing is given up."""


def documentation(build: Path) -> Path:
    """Return the folder of the documentation, unpacked into `build` if it is not there. Raises OSError where the index
    cannot be reached, ValueError for another archive than was measured on."""
    docs = build / FOLDER / "docs"
    if not docs.is_dir():
        build.mkdir(parents=True, exist_ok=True)
        with tarfile.open(fileobj=BytesIO(_archive())) as archive, TemporaryDirectory(dir=build) as partial:
            inside = [member for member in archive.getmembers() if member.name.startswith(f"{FOLDER}/docs/")]
            archive.extractall(partial, inside, filter="data")
            Path(partial, FOLDER).rename(build / FOLDER)
    return docs


def specification(docs: Path) -> str:
    """Return the data set of the documentation's pages."""
    return f"folder:{docs}?glob=**/*.rst"


def _archive() -> bytes:
    page = f"{os.environ.get('PIP_INDEX_URL', 'https://pypi.org/simple').rstrip('/')}/celery/"
    with urlopen(Request(page, headers={"Accept": JSON}), timeout=SECONDS) as answer:
        files = json.load(answer)["files"]
    address = next((file["url"] for file in files if file["filename"] == ARCHIVE), None)
    if address is None:
        raise ValueError(f"{page} has no {ARCHIVE}; give its folder docs: --celery DIR")
    with urlopen(urljoin(page, address), timeout=SECONDS) as answer:
        content: bytes = answer.read()
    if (found := hashlib.sha256(content).hexdigest()) != SHA256:
        raise ValueError(f"{address} has the checksum {found}, and figures are of {SHA256}")
    return content
