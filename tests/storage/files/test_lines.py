"""Files that grow by a line: whatever tears or changes one line, the others are read as they were written."""

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vitalfew.storage import files

values = st.lists(st.dictionaries(st.text(), st.integers() | st.text() | st.floats(allow_nan=False)), max_size=6)
quickly = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


def fresh(path: Path, lines: list[dict[str, object]]) -> Path:
    files.remove(path)
    for line in lines:
        files.append_lines(path, [line])
    return path


@quickly
@given(values, values, st.data())
def test_a_torn_line_is_no_line_and_spoils_no_other(
    tmp_path: Path, before: list[dict[str, object]], after: list[dict[str, object]], data: st.DataObject
) -> None:
    path = fresh(tmp_path / "lines", [*before, {"torn": "for certain\n"}])
    size = len(path.read_bytes())
    whole = len(fresh(tmp_path / "whole", before).read_bytes()) if before else 0
    with path.open("r+b") as file:
        file.truncate(data.draw(st.integers(whole, size - 1)))
    for line in after:
        files.append_lines(path, [line])
    assert files.read_lines(path) == ([*before, *after], 0)


@quickly
@given(values.filter(bool), st.data())
def test_a_changed_byte_is_seen_and_costs_its_own_line_alone(
    tmp_path: Path, lines: list[dict[str, object]], data: st.DataObject
) -> None:
    path = fresh(tmp_path / "lines", lines)
    content = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    read = files.read_lines(path).values
    assert len(lines) - 2 <= len(read) < len(lines) or (place == 0 and read == lines)
    assert all(value in lines for value in read)
