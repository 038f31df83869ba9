"""The split of questions: by article, by question and by file."""

from typing import Any

import pytest

from vitalfew.configs.training import SplitOptions
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.trainers.splits import Apart, SplitRule, TrainingSplit

NAMES = [f"article {number}" for number in range(20)]


def split(names: list[str], seed: int = 100, apart: Apart | None = None, **options: Any) -> TrainingSplit:
    return SplitRule(SplitOptions(**options), seed, apart).split(names)


@pytest.mark.parametrize("by", ["article", "question"])
def test_groups_are_split_by_their_name_and_the_seed_alone(by: str) -> None:
    given: dict[str, Any] = {"split": by, "held_out": 5, "choosing": 3}
    held_out, choosing, found = split(NAMES, **given)
    assert found == by
    assert (held_out, choosing, found) == split(NAMES[::-1], **given)
    assert (held_out, choosing, found) != split(NAMES, 101, **given)
    assert (len(held_out), len(choosing)) == (5, 3)
    assert not set(held_out) & set(choosing)
    with pytest.raises(InputError, match=f"no {found} is left"):
        split(NAMES, split=by, held_out=15, choosing=5)


def test_what_was_held_out_before_is_held_out_first() -> None:
    rule = SplitRule(SplitOptions(held_out=5, choosing=3), 100, unseen=["article 3", "article 8", "another"])
    found = rule.split(NAMES)
    assert len(found.held_out) == 5
    assert {"article 3", "article 8"} < set(found.held_out)
    many = SplitRule(SplitOptions(held_out=1, choosing=3), 100, unseen=NAMES[:6]).split(NAMES)
    assert set(many.held_out) == set(NAMES[:6])
    assert not set(many.choosing) & set(many.held_out)


def test_by_file_what_is_in_another_data_set_is_held_out() -> None:
    apart = Apart({"article 1": "held_out", "article 2": "choosing", "elsewhere": "held_out"}, {7: "held_out"})
    files = {"split": "file", "held_out": "squad:dev.json", "choosing": "squad:test.json"}
    found = split(NAMES, apart=apart, **files)
    assert found == (("article 1",), ("article 2",), "file")
    rule = SplitRule(SplitOptions.model_validate(files), 100, apart)
    assert rule.is_apart(7, "", found)
    assert not rule.is_apart(8, "article 1", found)
    with pytest.raises(InputError, match=r"held_out=squad:dev\.json has no question"):
        split(NAMES[3:], apart=apart, **files)
