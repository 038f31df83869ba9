"""MAUVE: of a corpus and itself, of a corpus and noise, and as the authors' own package computes it from texts."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.tiny_models import gpt2
from tests.tasks.metrics.test_metrics import answered
from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.metrics.mauve import Mauve

SENTENCES = [
    f"{who} {verb} the {thing} {when}."
    for who in ("Ada", "Bob Dylan", "The mayor")
    for verb in ("lit", "sold")
    for thing in ("lamp", "ship", "old mill")
    for when in ("in 1990", "on Monday", "at night")
]


def mauve(outputs: list[str], **score: Any) -> tuple[str, float | None, int]:
    metric = Mauve(Mauve.Options(**score))
    cases = [answered(output, gold) for output, gold in zip(outputs, SENTENCES, strict=True)]
    ((column, (value, left_out)),) = metric.summary(cases).items()
    assert metric.score(cases) == {column: [None] * len(cases)}
    return column, value, left_out


def test_mauve_with_gpt2_is_the_authors(tmp_path: Path) -> None:
    library = pytest.importorskip("mauve")
    model = gpt2(tmp_path / "tiny-gpt2")
    column, value, _ = mauve([f"{text} Indeed." for text in SENTENCES], mauve_model=str(model))
    assert column == "mauve_tiny-gpt2"
    gold, outputs = sorted(SENTENCES), sorted(f"{text} Indeed." for text in SENTENCES)
    expected = library.compute_mauve(p_text=gold, q_text=outputs, featurize_model_name=str(model))
    assert value == pytest.approx(expected.mauve, rel=1e-4)


def test_mauve_needs_its_package_and_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitalfew.tasks.metrics.mauve.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install .*\[mauve\]"):
        Mauve(Mauve.Options())
    monkeypatch.setattr("vitalfew.tasks.metrics.mauve.find_spec", lambda name: object())
    with pytest.raises(FileNotFoundError, match=r"score\.mauve_model"):
        Mauve(Mauve.Options(mauve_model="nobody/gpt2-none"))
