"""Prompts: what is a template, and what is not."""

from pathlib import Path

import pytest

from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.generators import prompts


@pytest.mark.parametrize("text", ["-----BEGIN OPENSSH PRIVATE KEY-----", "", "{% set question = 1 %}{{ contexts }}"])
def test_a_file_that_asks_no_question_is_refused(tmp_path: Path, text: str) -> None:
    """Else an experiment that somebody shares could have any file sent to a server of theirs."""
    file = tmp_path / "id_rsa"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"id_rsa does not use the question; write \{\{ question \}\}"):
        prompts.source(str(file))


@pytest.mark.parametrize("name", prompts.names())
def test_every_prompt_that_is_shipped_asks_its_question(name: str) -> None:
    assert "Who is it?" in prompts.render(prompts.source(name), "Who is it?", ("A context.",))
