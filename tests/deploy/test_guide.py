"""The guide "From a laptop to a cluster": what it names is there, and its commands for a bucket run on one (slow).

Its blocks are of `console`, not `bash`: most of its commands need Docker, Kubernetes or several machines, so
`tests/test_guides.py` leaves them alone.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.deploy.test_object_store import BUCKET, object_server
from tests.support.own_files import write_own_files

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "guides" / "laptop_to_cluster.md").read_text(encoding="utf-8")
COMMANDS = [
    shlex.split(line, comments=True)
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for line in block.splitlines()
]


def test_what_the_page_names_is_there() -> None:
    paths = set(re.findall(r"(?:deploy|tests)/[\w./]*\w", PAGE)) - {"deploy/.env", "deploy/files"}
    assert paths
    assert all((ROOT / path).exists() for path in paths)
    targets = set(re.findall(r"make ([a-z-]+)", PAGE))
    assert targets <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    services = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
    assert {words[words.index("exec") + 1] for words in COMMANDS if "exec" in words} <= set(services)
    assert set(re.findall(r"--scale ([\w-]+)=", PAGE)) <= set(services)


@pytest.mark.slow
def test_a_store_goes_into_a_bucket_and_home_again(tmp_path: Path) -> None:
    write_own_files(tmp_path)
    with object_server("key", "secret") as port:
        environment = os.environ | {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
            "VITALFEW_CACHE": str(tmp_path / "copies"),
        }
        on_the_laptop = [words for words in COMMANDS if words[0] == "vitalfew"]
        assert [words[1] for words in on_the_laptop] == ["index", "store", "search"]
        home = ["vitalfew", "store", "copy", "s3://BUCKET/store", "home"]
        for words in [*on_the_laptop, home, ["vitalfew", "store", "verify", "--store", "home"]]:
            serially = ["--runner", "serial"] if words[1] == "index" else []
            given = [word.replace("BUCKET", BUCKET) for word in [*words[1:], *serially]]
            command = [sys.executable, "-m", "vitalfew.flows.cli", *given]
            done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
            assert done.returncode == 0, f"{given}\n{done.stdout}{done.stderr}"
            if words[1] == "search":
                assert "director" in done.stdout
