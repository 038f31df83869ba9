"""The command line as a user meets it."""

import io
import json
import re
import shlex
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner, Result

from tests.support.indexing import SYNTHETIC, index
from vitalfew.flows.cli.main import app
from vitalfew.flows.forms import IndexForm

FAKE = ["--set", "encode.encoder=tests.support.fakes:HashEncoder", "--runner", "serial"]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli") / "store"
    index(folder, name="bare")
    index(folder, bm25={"enabled": True})
    return folder


def test_sql_formats(store: Path) -> None:
    formula = run("sql", "SELECT '=1+1' AS a, -2 AS b", "--store", store, "--format", "csv").stdout
    assert formula == "a,b\n'=1+1,-2\n"
    query = "SELECT stage, count(*) AS shards FROM costs WHERE stage IN ('encode', 'index') AND shard >= 0 GROUP BY 1"

    def printed(form: str) -> bytes:
        return run("sql", f"{query} ORDER BY 1", "--store", store, "--format", form).stdout_bytes

    assert printed("csv") == b"stage,shards\nencode,4\nindex,1\n"  # "$(… | tail -1)" would keep a carriage return
    assert json.loads(printed("json"))[0] == {"stage": "encode", "shards": 4}
    assert pl.read_parquet(io.BytesIO(printed("parquet"))).rows() == [("encode", 4), ("index", 1)]


def test_search_marks_what_matched_and_names_its_place(store: Path) -> None:
    search = ("search", "Who built the mill?", "--index", "test", "--store", store, "--top-k", 2)
    short, full = run(*search).output, run(*search, "--full").output
    (first, _) = json.loads(run(*search, "--format", "json").stdout)
    assert first["passage"][first["start"] : first["end"]] == first["text"]
    for shown in (short, full):
        assert f"»{first['text'].split()[0]}" in shown
        assert shown.count("«") == 2
    assert "core " in full
    assert " ".join(first["passage"].split()[-3:]) in " ".join(full.split())
    for nothing, said in (("to be of the", True), ("?!", True), ("Is it the mill?", False)):
        shown = run("search", nothing, "--index", "test", "--store", store).output
        assert ("Nothing of the question is a keyword" in " ".join(shown.split())) is said


def test_settings_from_file_and_command_line(tmp_path: Path) -> None:
    file = tmp_path / "settings.yaml"
    file.write_text("encode: {encoder: 'tests.support.fakes:HashEncoder', context: exact}\nrunner: serial\n")
    store = tmp_path / "store"
    done = run("index", SYNTHETIC, "--name", "d", "--store", store, "--config", file, "--set", "encode.context=late")
    assert done.exit_code == 0, done.output
    saved = json.loads((store / "indexes" / "d.json").read_text())
    assert saved["config"]["encode"]["context"] == "late"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["index", "hotpotqq:x.json", "--name", "n"], ["unknown dataset format 'hotpotqq'", "did you mean 'hotpotqa'"]),
        (["index", "../handbook"], ["vitalfew index folder:../handbook --name handbook"]),
        (["search", "Who?", "--index", "tets"], ["no index 'tets'", "test"]),
        (["search", "Who?"], ["has several indexes; name one by --index: bare, test"]),
        (["search", "Who?", "--index", "bare", "--retriever", "hybrid"], ["no BM25", "--set bm25.enabled=true"]),
    ],
)
def test_mistakes_get_one_clear_message(store: Path, arguments: list[str], words: list[str]) -> None:
    done = run(*arguments, "--store", store)
    assert done.exit_code == 1, done.output
    for word in words:
        assert word in done.output.replace("\n", " "), done.output
    assert "Traceback" not in done.output


def test_a_store_may_have_any_name_but_that_of_something_else(tmp_path: Path) -> None:
    store = tmp_path / "s? [1] #%20*"
    index(store)
    shown = run("sql", "SELECT count(*) AS rows FROM passages", "--store", store, "--format", "csv")
    assert (shown.exit_code, shown.stdout.split()) == (0, ["rows", "60"])
    assert (store / "catalog.duckdb").exists()
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    for name, words in {"link": "which is not there", "link/store": "which is not there", "file": "is a file"}.items():
        refused = run("doctor", "--store", tmp_path / name)
        assert refused.exit_code == 2
        assert words in " ".join(re.sub("[│╭╮╰╯─]", " ", refused.output).split())


def test_what_a_folder_gave_and_why_files_were_not_used(tmp_path: Path) -> None:
    folder, store = tmp_path / "handbook", tmp_path / "a store"
    folder.mkdir()
    (folder / "mill.md").write_text("# Mill\n\nAda built it.\n\n## Wheel\n\nBob built it.\n")
    (folder / "well.md").write_text("# Well\n\nIt is deep.\n")
    (folder / "mill.bin").write_bytes(b"\x89PNG\0\0")
    done = run("index", f"folder:{folder}", "--name", "h", "--store", store, *FAKE)
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    assert lines[0].startswith("3 sentences, 3 passages from 2 files, ")
    assert lines[0].endswith(", exact search")
    place = lines.index("Skipped: 1 binary_file") + 2
    program, command, query, *rest = shlex.split(lines[place])
    assert (program, command, rest) == ("vitalfew", "sql", ["--store", str(store)])
    assert "mill.bin" in run(command, query, *rest, "--format", "csv").output
    assert shlex.split(lines[-1])[:2] == ["vitalfew", "search"]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("http://bucket/x", "a store must be a directory, or a prefix of a bucket: s3://BUCKET/PREFIX"),
        ("s3://key:secret@bucket/x", "the address must not contain credentials; set them in the environment"),
    ],
)
def test_an_address_that_is_no_stores_is_refused_and_no_folder_made(
    place: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "settings.yaml"
    file.write_text(f"store: {place}\n")
    make = ["index", SYNTHETIC, "--name", "n", *FAKE]
    for arguments in ([*make, "--set", f"store={place}"], [*make, "--config", file], ["store", "ls", "--store", place]):
        done = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "400"})
        assert done.exit_code in (1, 2), done.output
        assert words in " ".join(done.output.split()), done.output
        assert "secret" not in done.output
    with pytest.raises(ValueError, match=re.escape(words)):
        IndexForm.model_validate({"name": "n", "sources": [{"format": "synthetic", "path": "x"}], "store": place})
    assert [path.name for path in tmp_path.iterdir()] == ["settings.yaml"]
