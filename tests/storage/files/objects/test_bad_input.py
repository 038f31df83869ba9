"""What is wrong with a bucket, its credentials or its address: said at once, with the remedy, and without the keys."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.storage.conftest import forget_clients
from tests.support.faulty import FaultyProxy
from tests.support.indexing import index, sql
from tests.support.object_store import ROOT, everything_in, refusal
from vitalfew.configs.paths import BucketPath
from vitalfew.storage import files
from vitalfew.storage.files import BucketError

INDEX = ("index", "synthetic:passages=20,questions=4,seed=3", "--runner", "serial")
INDEX += ("--set", "encode.encoder=tests.support.fakes:HashEncoder")
SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIARECOGNISABLE0001",
    "AWS_SECRET_ACCESS_KEY": "recognisable/secret/of/forty/characters/0",
    "AWS_SESSION_TOKEN": "recognisable-session-token",
}


def obey(*words: str, **settings: str | None) -> tuple[int, str]:
    from vitalfew.flows.cli.main import app

    done = CliRunner().invoke(app, [*words], env={"COLUMNS": "400", **settings})
    return done.exit_code, done.output + (done.stderr or "")


def test_a_bucket_that_is_not_there(store: Path) -> None:
    place = BucketPath("s3:", "no-such-bucket", "x")
    with pytest.raises(BucketError, match=r"there is no bucket no-such-bucket\. Make it, or give another --store"):
        files.exists(place / "manifest.json")
    for words in (["sql", "SELECT 1"], ["store", "ls"], [*INDEX, "--name", "n"]):
        code, output = obey(*words, "--store", str(place))
        assert (code, "there is no bucket no-such-bucket" in output) == (1, True), output
        assert "Traceback" not in output


def test_credentials_that_may_only_read(store: Path, proxy: FaultyProxy) -> None:
    index(store, "synthetic:passages=10,questions=2,seed=3")
    proxy.forbid_writes()
    assert sql(store, "SELECT count(*) FROM passages") == [(10,)]
    assert obey("store", "ls", "--store", str(store))[0] == 0
    code, output = obey("search", "Who?", "--index", "test", "--retriever", "core_context", "--store", str(store))
    assert code == 0, output
    code, output = obey(*INDEX, "--name", "n", "--store", str(store))
    assert code == 1
    assert "these credentials do not allow this (AccessDenied)" in output
    assert "PutObject" in output


def test_credentials_that_are_refused(store: Path, proxy: FaultyProxy) -> None:
    for code, words in (
        ("InvalidAccessKeyId", r"these credentials are not valid \(InvalidAccessKeyId\): set AWS_ACCESS_KEY_ID"),
        ("RequestTimeTooSkewed", "the clock of this machine is wrong"),
    ):
        proxy.fault(lambda asked, forward, code=code: refusal(403, code))
        with pytest.raises(BucketError, match=words):
            files.read_bytes(store / "runs" / "x.json")
        proxy.clear()


def test_without_credentials_it_is_said(proxy: FaultyProxy, store: Path) -> None:
    """In a process of its own: nothing there knows any."""
    environment = {name: value for name, value in os.environ.items() if name not in SECRETS}
    command = [sys.executable, "-m", "vitalfew.flows.cli", "store", "ls", "--store", str(store)]
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=900)
    said = " ".join((found.stdout + found.stderr).split())
    assert "there are no credentials for it: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in said


@pytest.mark.parametrize(
    ("endpoint", "words"),
    [
        ("http://127.0.0.1:9", "cannot be reached: HTTP error: error sending request"),
        ("storage.example.org", "AWS_ENDPOINT_URL must be the address of a server: https://HOST"),
        ("http://storage.example.org", "AWS_ENDPOINT_URL uses http://, which others can read: use https://"),
    ],
)
def test_a_server_that_cannot_be_used(store: Path, monkeypatch: pytest.MonkeyPatch, endpoint: str, words: str) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    forget_clients()
    code, output = obey("store", "ls", "--store", str(store))
    assert (code, words in output) == (1, True), output


@pytest.mark.slow
def test_keys_are_in_nothing_that_is_written_or_said(
    proxy: FaultyProxy, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    cache = tmp_path / "cache"
    for name, value in {**SECRETS, "VITALFEW_CACHE": str(cache)}.items():
        monkeypatch.setenv(name, value)
    forget_clients()
    commands = ([*INDEX, "--name", "test"], ["sql", "SELECT * FROM runs"], ["sql", "SELECT nonsense"])
    commands += (
        ["search", "Who?", "--index", "test"],
        ["store", "ls", "--format", "json"],
        ["store", "verify"],
        ["doctor"],
    )
    said = [obey(*words, "--store", str(store))[1] for words in commands]
    said += [obey("sql", "SELECT 1", "--store", "s3://no-such-bucket/x")[1]]
    for fault in (proxy.forbid_all, proxy.refuse_conditions, proxy.skew, lambda: proxy.fail(400)):
        with fault():
            forget_clients()
            said.append(obey(*INDEX, "--name", "other", "--store", str(store))[1])
    keys = [entry.key for entry in everything_in(proxy.server)]
    written = [*map(files.read_bytes, (BucketPath("s3:", store.parts[1], *key.split("/")) for key in keys))]
    written += [key.encode() for key in keys]
    written += [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    for secret in SECRETS.values():
        assert all(secret not in output for output in [*said, caplog.text])
        assert all(secret.encode() not in content for content in written)
        assert all(secret not in str(path) for path in tmp_path.rglob("*"))
    assert len(written) > 50
