"""Folders of text files: which are read, what they are called, where they are cut."""

import gzip
import os
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from tests.support.samples import Sample
from tests.tasks.datasets.test_datasets import check, dataset, only, read
from vitalfew.configs.schema import LoadConfig
from vitalfew.tasks.datasets.base import InputError, Passage, Reject


def files(root: Path, **content: str | bytes) -> Path:
    """Files by their names, in which __ stands for a slash and _ for a dot."""
    named = {name.replace("__", "/").replace("_", "."): text for name, text in content.items()}
    return Sample({name: text if isinstance(text, bytes) else text.encode() for name, text in named.items()}).write(
        root
    )


def names(root: Path, **options: Any) -> list[str]:
    return [path.relative_to(root.resolve()).as_posix() for path in dataset("folder", root, **options).files()]


def test_titles_and_sources_in_the_order_of_paths(tmp_path: Path) -> None:
    root = files(
        tmp_path,
        b_md="Intro.\n\n```\n# no heading\n```\n## The *Lamp* ##\n\nText.",
        a__c_txt="# A comment\n",
        a_md="#no heading\n\n# \n",
        b__d_md_gz=gzip.compress(b"\xef\xbb\xbf# Packed\n\nText."),
        c_md="# Headings\n\n## alone\n",
    )
    records = read("folder", root)
    check(records)
    assert [(number, record.title, record.source_id) for number, record in records if isinstance(record, Passage)] == [
        (1, "a.md", "a.md"),
        (2, "c.txt", "a/c.txt"),
        (3, "The Lamp", "b.md"),
        (3, "The Lamp", "b.md#the-lamp"),
        (4, "Packed", "b/d.md.gz#packed"),
    ]
    assert [(reject.reason, reject.detail) for reject in only(Reject, records)] == [
        ("empty_text", "c.md: the file has no text, or none below its headings")
    ]
    assert only(Passage, records)[1].text == "# A comment"


def test_glob_says_which_files_are_read(tmp_path: Path) -> None:
    paths = ["a.md", "b.txt", "s/c.md", "s/t/d.md", "s/t/e.txt", ".h", ".git/f"]
    Sample(dict.fromkeys(paths, b"x")).write(tmp_path)
    for glob, expected in {
        "**/*": paths[:5],
        "*": ["a.md", "b.txt"],
        "**/*.md": ["a.md", "s/c.md", "s/t/d.md"],
        "s/**/[de].*": ["s/t/d.md", "s/t/e.txt"],
        "**/.git/**": [".git/f"],
    }.items():
        assert names(tmp_path, glob=glob) == expected
    with pytest.raises(InputError, match=r"has no files that match '\*\.rst': see glob="):
        read("folder", tmp_path, glob="*.rst")
    with pytest.raises(InputError, match=r"a\.md is a file, and this format reads a folder"):
        read("folder", tmp_path / "a.md")


def test_what_a_site_is_made_with_is_left_out_and_counted(tmp_path: Path) -> None:
    kept = ["a.md", "drafts/b.md", "notes.tmp"]
    made = ["_templates/page.html", "docs/_static/site.css", "img/map.png", "requirements-dev.txt", "uv.lock"]
    made += ["SUMMARY.md"]
    Sample(dict.fromkeys(kept + made, b"Text.")).write(tmp_path)

    def left_out(**options: Any) -> tuple[list[str], int]:
        found = dataset("folder", tmp_path, **options)
        list(found.records())
        files = [path.relative_to(tmp_path.resolve()).as_posix() for path in found.files()]
        return files, found.notes()["excluded_files"]

    assert left_out() == (kept, 6)
    assert left_out(exclude="drafts/,*.tmp") == (["a.md"], 8)
    assert left_out(exclude="!SUMMARY.md") == (["SUMMARY.md", *kept], 5)
    (tmp_path / ".vitalfewignore").write_text("# ours\n/*.tmp\ndrafts/*\n!drafts/b.md\n")
    assert left_out() == (kept[:2], 7)
    with pytest.raises(InputError, match="but for 1 that are left out: see exclude="):
        left_out(glob="*.txt")
    with pytest.raises(ValidationError, match="Python knows no encoding 'utf-9'"):
        dataset("folder", tmp_path, encoding="utf-9")


def test_what_cannot_be_read_is_a_reject_and_no_file_of_the_corpus(tmp_path: Path) -> None:
    root = files(
        tmp_path / "root",
        a_bin=b"\x89PNG\r\n\x1a\n\0\0",
        b_txt="é".encode("latin-1"),
        c_txt=b"",
        d_txt=" \n",
        e_zip=b"PK\x03\x04",
        f_txt="x" * ((1 << 20) + 1),
        z_txt="Text.",
    )
    (tmp_path / "secret.txt").write_text("secret")
    (tmp_path / "secrets").mkdir()
    (root / "g.txt").symlink_to(tmp_path / "secret.txt")
    (root / "h").symlink_to(tmp_path / "secrets")
    (root / "i.txt").symlink_to("z.txt")
    (root / "j.txt").symlink_to("nowhere")
    (root / "k").symlink_to(".")
    os.mkfifo(root / "l")
    (root / os.fsdecode(b"m\xff.txt")).write_text("x")
    bounded = dataset("folder", root)
    bounded.limit(LoadConfig(document_text_mb=1))
    records = list(bounded.records())
    check(records)
    assert [(reject.reason, reject.detail.partition(":")[0].split()[0]) for reject in only(Reject, records)] == [
        ("binary_file", "a.bin"),
        ("invalid_unicode", "b.txt"),
        ("unreadable_file", "c.txt"),
        ("empty_text", "d.txt"),
        ("unreadable_file", "e.zip"),
        ("over_long", "f.txt"),
        ("outside_folder", "g.txt"),
        ("outside_folder", "h"),
        ("unreadable_file", "j.txt"),
        ("unreadable_file", "k"),
        ("unreadable_file", "l"),
        ("invalid_unicode", "m\\udcff.txt"),
    ]
    assert [passage.source_id for passage in only(Passage, records)] == ["i.txt", "z.txt"]
    assert names(root) == ["a.bin", "b.txt", "c.txt", "d.txt", "e.zip", "f.txt", "i.txt", "z.txt"]


def test_the_names_of_files_are_part_of_what_a_folder_is(tmp_path: Path) -> None:
    root = files(tmp_path, a_txt="Text.")
    before = dataset("folder", root).identity()
    assert dataset("folder", root).identity() == before
    (root / "a.txt").rename(root / "b.txt")
    assert dataset("folder", root).identity() != before


def test_a_file_that_is_gone_when_it_is_due_is_a_reject(tmp_path: Path) -> None:
    records = dataset("folder", files(tmp_path, a_txt="A.", b_txt="B.")).records()
    assert next(records) == (1, Passage("a.txt", "A.", "a.txt"))
    (tmp_path / "b.txt").unlink()
    assert [(number, reject.reason) for number, reject in records if isinstance(reject, Reject)] == [
        (2, "unreadable_file")
    ]
