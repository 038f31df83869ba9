"""`vitalfew check`: a run against a baseline, its exit status, what it writes, and what it refuses."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock
from xml.etree import ElementTree

import pytest

from tests.flows.cli.test_main import run
from tests.support.evaluating import copied, searchable
from tests.support.evaluating import run as evaluate
from tests.support.indexing import index
from vitalfew.tasks.reports import baselines

RECALL = "passage_recall@10"
METRICS = {"metrics": ["passage_recall", "conditions"]}


def settings(top_k: int = 10, **given: Any) -> dict[str, Any]:
    method = {"retrieve": {"retriever": "bm25", "top_k": top_k}}
    return {"index": "test", "generate": None, "score": METRICS, "methods": {"keywords": method}, **given}


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with one run of the experiment `trial`, and `baseline.json` of it beside the store."""
    folder = tmp_path_factory.mktemp("check")
    store = copied(searchable(), folder / "store")
    evaluate(store, settings())
    written = run("check", "trial", "--write", folder / "baseline.json", "--store", store)
    assert written.exit_code == 0, written.output
    return folder


@pytest.fixture
def folder(evaluated: Path, tmp_path: Path) -> Path:
    copied(evaluated, tmp_path / "own")
    return tmp_path / "own"


def check(folder: Path, *arguments: str | Path, name: str = "trial") -> tuple[int, str]:
    """The exit status and all that is printed, in one line."""
    given = ["--against", folder / "baseline.json", *arguments]
    done = run("check", name, *given, "--store", folder / "store")
    assert "Traceback" not in done.output
    return done.exit_code, " ".join((done.output + done.stderr).replace("│", " ").split())


def margin(loss: float, metric: str = RECALL) -> tuple[str, str]:
    return "--margin", f"{metric}={loss}"


def test_the_verdict_in_files(folder: Path) -> None:
    markdown, junit = folder / "out" / "check.md", folder / "out" / "check.xml"
    files = ("--markdown", markdown, "--junit", junit)
    assert check(folder, *margin(0.02), *files)[0] == 2
    assert ElementTree.parse(junit).getroot()[0].attrib["errors"] == "1"
    evaluate(folder / "store", settings(top_k=1))
    assert check(folder, *margin(0.02), *margin(0.5, "passage_recall@1"), *files)[0] == 1
    text = markdown.read_text()
    assert text.startswith("### keywords is worse than the baseline, on 45 questions\n")
    assert ("| **worse** |" in text, "| **no worse** |" in text) == (True, True)
    (suite,) = ElementTree.parse(junit).getroot()
    assert {case.attrib["name"]: case.find("failure") is None for case in suite} == {
        RECALL: False, "passage_recall@1": True
    }  # fmt: skip


def test_a_bug_is_not_taken_for_worse(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(baselines, "check", mock.Mock(side_effect=ZeroDivisionError))
    broken = run("check", "trial", "--against", "x", *margin(0.3), "--store", folder / "store")
    assert (broken.exit_code, "ZeroDivisionError" in broken.stderr) == (3, True)


def test_other_questions_are_refused_unless_those_of_both_are_asked_for(folder: Path) -> None:
    evaluate(folder / "store", settings(questions={"sample": 20}))
    status, shown = check(folder, *margin(0.3))
    assert status == 3
    assert "it has 45, this run 20, and 20 are in both" in shown
    assert "--common" in shown
    status, shown = check(folder, *margin(0.5), "--common")
    assert status == 0, shown
    assert shown.startswith(
        "keywords is no worse than the baseline, on 20 questions; left out: 25 of the baseline alone"
    )


def test_another_corpus_is_refused_and_lost_gold_passages_are_left_out(folder: Path, tmp_path: Path) -> None:
    names = [f"town{number:02d}" for number in range(20)]
    notes = [{"text": f"The bridge of {name} was built long ago.", "id": name} for name in names]
    asked = [{"question": f"Which bridge is of {name}?", "answers": [name], "source": name} for name in names]
    corpora = {"all": notes, "most": notes[:-4]}
    store = tmp_path / "towns"
    (tmp_path / "asked.jsonl").write_text("".join(json.dumps(each) + "\n" for each in asked))
    for name, rows in corpora.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
        index(store, f"jsonl:{tmp_path / name}.jsonl?id=id", bm25={"enabled": True})
        evaluate(store, settings(questions={"dataset": f"jsonl:{tmp_path}/asked.jsonl"}))
        if name == "all":
            assert run("check", "trial", "--write", tmp_path / "baseline.json", "--store", store).exit_code == 0
    (tmp_path / "store").symlink_to(store)
    status, shown = check(tmp_path, *margin(0.5))
    assert status == 3
    assert "another corpus is searched" in shown
    assert f"it has {len(notes)} passages" in shown
    status, shown = check(tmp_path, *margin(0.5), "--common")
    assert status == 0, shown
    first = "on 16 questions; left out: 4 whose gold passages are in one of the two corpora alone metric"
    assert f"keywords is no worse than the baseline, {first}" in shown
    assert "different corpora" in shown


def flipped(path: Path) -> None:
    content = path.read_text().replace("1.0", "0.0", 1)
    path.unlink()
    path.write_text(content)


@pytest.mark.parametrize(
    ("damage", "words"), [(Path.unlink, "there is no baseline"), (flipped, "it differs from what was written (seal)")]
)
def test_a_baseline_that_cannot_be_used_says_how_to_write_it_anew(
    folder: Path, damage: Callable[[Path], None], words: str
) -> None:
    damage(folder / "baseline.json")
    status, shown = check(folder, *margin(0.3))
    assert status == 3
    assert words in shown, shown
    assert "vitalfew check RUN --write" in shown


def test_a_run_that_is_not_finished_is_not_checked_in_favour_of_an_older_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VITALFEW_TEST_HALT", str(folder))
    (folder / "damaged").touch()
    with pytest.raises(OSError, match="the model is damaged"):
        evaluate(folder / "store", settings(generate={"generator": "tests.support.fakes:HaltedWords"}))
    status, shown = check(folder, *margin(0.3))
    assert (status, "the latest run of trial" in shown, "failed" in shown) == (3, True, True), shown
    assert "the model is damaged" in shown
    finished = json.loads((folder / "baseline.json").read_text())["run_id"]
    assert check(folder, *margin(0.3), name=finished)[0] == 0
