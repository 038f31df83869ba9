"""The Punkt splitter: the contract and the rules; `make bench-split` measures it on real text."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import nltk.data  # type: ignore[import-untyped, unused-ignore]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitalfew.tasks.splitters.punkt import Punkt

REPOSITORY = Path(__file__).parents[3]
SAMPLE = [
    "Dr. Ward met Prof. Heard at Acme Inc. in Boston. He was late. The fox, a ward of the state, had heard of it.",
    "In 1994. Dominik left. It was 1994. Dominik returned. The army won. This was the Army. He saw the army.",
]
WORDS = (
    "Dr. |U.S. |e.g.|J. |I. |No. 5|1994. |The |dog|.|. |?!|…|...| . . . |\"|''|”|)|(|«|[2]|[citation needed]|é|中文。"
)
FRAGMENTS = st.sampled_from([*WORDS.split("|"), "\n", "\n\n", " ", "\t", "\u00a0", "\u2003", "\x1c"])
TEXTS = st.one_of(st.text(), st.lists(FRAGMENTS | st.text(max_size=3), max_size=30).map("".join))


def trained(texts: list[str]) -> Punkt:
    splitter = Punkt(Punkt.Options())
    splitter.load(json.loads(json.dumps(splitter.train(texts))))
    return splitter


def sentences(splitter: Punkt, text: str) -> list[str]:
    return [text[start:end].strip() for start, end in splitter.split(text)]


@pytest.fixture(scope="module")
def small() -> Punkt:
    return trained(SAMPLE)


@settings(max_examples=50)
@given(text=TEXTS)
def test_split_partitions_any_text(small: Punkt, text: str) -> None:
    ranges = small.split(text)
    assert "".join(text[start:end] for start, end in ranges) == text
    assert [start for start, _ in ranges[1:]] == [end for _, end in ranges[:-1]]
    assert len(ranges) == 1 or all(text[start:end].strip() for start, end in ranges)
    assert not any(text[start].isspace() for start, _ in ranges[1:])
    assert bool(ranges) == bool(text)


def test_rules_and_seeds(small: Punkt) -> None:
    for marked in (
        "He met Dr. Robert Smith. | They left.",
        "It is on Main St. | The house is old.",
        "A film by Vivica A. Ward and J. R. R. Heard. | It failed.",
        "See p. 67 or Sonata No. 3 in A minor.",
        "It ended in 1994. | Dominik returned.",
        "He joined the U.S. Army. | He left the U.S. | The army won.",
        '"Who is he?" asked the dog. | "Why?" | He ran!! | It barked?! | Oh.',
        'It was "here. " | She went. | It is true.[2] | It helps.[citation needed] | The rest.',
        '"This is great." she said. | He was (an engineer.) at the time. | Rs. 20 was paid.',
        "He waited . . . and then . . . left.",
        "A heading\n\n| Some text\nwent on. | The end.\n \n| * item",
        "Do this:\n| 1. Remove the label. | Wait.\n| 2. Add\n| - a part of it. | Two.\n| 10) More\n| * star\n-5 none",
        "1. Begin. | It took\n1994. | Then 12. | It was",
    ):
        expected = [sentence.strip() for sentence in marked.split("|")]
        assert sentences(small, marked.replace("| ", "")) == expected
    texts = ["He lives in Xyzw. near the sea. No one saw no man, no dog. I said no."] + ["The abq. is old."] * 20
    assert sentences(trained(texts), "The abq. is here. The end.") == ["The abq. is here.", "The end."]
    assert sentences(trained([]), "Mr. Fox ran. He fell.") == ["Mr. Fox ran.", "He fell."]


@pytest.mark.parametrize("unit", ["?", ". . . .\n", "A. ", ".[x] "])
def test_a_long_text_takes_no_quadratic_time(small: Punkt, unit: str) -> None:
    text = unit * (500_000 // len(unit))
    started = time.process_time()
    assert small.split(text)[-1][1] == len(text)
    assert time.process_time() - started < 60  # it takes a second; where it is quadratic, many minutes


PROGRAM = """
import json, sys
from vitalfew.tasks.splitters.punkt import Punkt
print(json.dumps(Punkt(Punkt.Options()).train(json.load(sys.stdin))), end="")
"""


def test_parameters_are_the_same_in_any_process() -> None:
    texts = [*SAMPLE, "abc.. abc. d.e.. d.e. Abc.. x y. Z.. z. " * 20]
    seed = "1" if os.environ.get("PYTHONHASHSEED") == "0" else "0"  # of this process it is another
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", PROGRAM]
    there = subprocess.run(command, input=json.dumps(texts), env=environment, stdout=subprocess.PIPE, text=True)
    assert there.stdout == json.dumps(Punkt(Punkt.Options()).train(texts))


def test_installed_punkt_tab_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nltk.data, "path", [str(tmp_path)])
    assert Punkt(Punkt.Options()).train(SAMPLE)["source"] == "sample"
    english = tmp_path / "tokenizers" / "punkt_tab" / "english"
    english.mkdir(parents=True)
    (english / "abbrev_types.txt").write_text("zzz\ndr")
    (english / "sent_starters.txt").write_text("the")
    (english / "collocations.tab").write_text("j\tbach")
    (english / "ortho_context.tab").write_text("the\t50\nbach\t12")
    parameters = Punkt(Punkt.Options()).train(SAMPLE)
    assert parameters == {
        "source": "nltk punkt_tab",
        "abbreviations": ["dr", "zzz"],
        "collocations": [["j", "bach"]],
        "sentence_starters": ["the"],
        "orthography": {"the": 50},
    }
