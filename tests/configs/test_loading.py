"""What people write as YAML, in a file or after --set: read as they meant it, or refused with its place."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitalfew.configs.loading import ConfigError, parse_assignments, read_yaml


def read(folder: Path, text: str) -> dict[str, Any]:
    file = folder / "mine.yaml"
    file.write_text(text)
    return read_yaml(file)


BOMB = "a0: &a0 [1, 1]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 10))


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("name: x\nsample: 20\nretrieve: {k: 3}\nsample: 30", "line 4: the name 'sample' is already in line 2"),
        ("name: x\nretrieve:\n  k: 3\n  'k': 4", "line 4: the name 'k' is already in line 3"),
        ("a: &a\n  b: *a", "line 1: this value contains itself by an alias"),
        (BOMB, r"line \d+: more than 100,000 values, counting those that aliases repeat"),
        ("a: " + "[" * 40_000, "line 1: the values nest too deeply"),
        ("when: 2024-13-45", "month must be in 1..12"),
        ("a: !!python/object:os.system {}", "(.|\n)*could not determine a constructor"),
    ],
)
def test_a_file_that_is_not_what_it_looks_like_is_refused_with_its_line(tmp_path: Path, text: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=rf"mine\.yaml: not readable as YAML: {fault}"):
        read(tmp_path, text)


def test_names_and_aliases_mean_what_they_do_in_yaml(tmp_path: Path) -> None:
    text = "on: yes\nbase: &base {k: 3, alpha: 1}\nmine: {<<: *base, alpha: 2}\nnested: {deep: {<<: *base}}\n"
    base = {"k": 3, "alpha": 1}
    expected = {"on": True, "base": base, "mine": {"k": 3, "alpha": 2}, "nested": {"deep": base}, "again": base}
    assert read(tmp_path, f"{text}again: *base") == expected
    assert read(tmp_path, "at: 12:30\nsince: 1:30.5\nmost: 1_000\nshare: .5") == {
        "at": "12:30", "since": "1:30.5", "most": 1000, "share": 0.5,
    }  # fmt: skip


def test_a_value_on_the_command_line_is_read_in_the_same_way() -> None:
    for value in ("{a: 1, a: 2}", "&a [*a]", "2024-13-45"):
        with pytest.raises(ConfigError, match=r"^--set grid=.*: the value is not valid YAML: "):
            parse_assignments([f"grid={value}"])
    assert parse_assignments(["questions.dataset=requests:"]) == {"questions": {"dataset": "requests:"}}


@settings(max_examples=50)
@given(st.lists(st.sampled_from([*"{}[]:,&*a\n -?!|'#", "<<", ": ", "&a ", "*a", "0"]), max_size=20).map("".join))
def test_any_text_is_a_value_or_an_error(text: str) -> None:
    with suppress(ConfigError):
        parse_assignments([f"key={text}"])
