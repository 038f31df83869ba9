"""Prompts: what is a template, and what is not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from vitalfew.configs.loading import ConfigError
from vitalfew.tasks.generators import prompts


@pytest.fixture
def source(tmp_path: Path) -> Callable[[str], str]:
    """A user's file, as the text that it is read as."""

    def read(text: str) -> str:
        (tmp_path / "mine.jinja").write_text(text)
        return prompts.source(str(tmp_path / "mine.jinja"))

    return read


def test_a_file_that_asks_no_question_is_refused(source: Callable[[str], str]) -> None:
    """Else an experiment that somebody shares could have any file sent to a server of theirs."""
    for text in ("-----BEGIN PRIVATE KEY-----", "{% for question in contexts %}.{% endfor %}"):
        with pytest.raises(ConfigError, match=r"mine.jinja does not use the question; write \{\{ question \}\}"):
            source(text)
    with pytest.raises(ConfigError, match=r"^prompt /dev/zero: not a file"):
        prompts.source("/dev/zero")


@pytest.mark.parametrize("name", prompts.names())
def test_every_prompt_that_is_shipped_asks_its_question(name: str) -> None:
    assert "Who is it?" in prompts.render(prompts.source(name), "Who is it?", ("A context.",))


EVIDENCE = "[Retrieval]<paragraph>Sails: Wind fills them.</paragraph>"
CLAIM = "Is the following statement correct or not? Say true if it's correct; otherwise say false.\n\n## Input:\n\n"
CANDIDATES = "Given four answer candidates, A, B, C and D, choose the best answer choice.\n\n### Input:\n"
LETTERS = "What fills sails?\nA: wind\nB: water\nC: sand\nD: oil"
LEARNT = [
    ("self_rag", "Who?", "Who?"),
    ("self_rag_claim", "Salt heals.", f"{CLAIM}Salt heals."),
    ("self_rag_multiple_choice", LETTERS, CANDIDATES + LETTERS),
    ("self_rag_multiple_choice", "What?\n1: a\n2: 1: 2\n3: c\n4: d", f"{CANDIDATES}What?\nA: a\nB: 1: 2\nC: c\nD: d"),
    ("self_rag_multiple_choice", "What?\nA: wind\nB: oil\nC: ice", f"{CANDIDATES}What?\nA: wind\nB: oil\nC: ice\nD: "),
]  # fmt: skip


@pytest.mark.parametrize(("name", "question", "instruction"), LEARNT)
def test_self_rag_is_asked_as_its_checkpoint_was_trained(name: str, question: str, instruction: str) -> None:
    before = f"### Instruction:\n{instruction}\n\n### Response:\n"
    template = prompts.source(name)
    assert prompts.render(template, question, ("Sails: Wind fills them.",)) == before + EVIDENCE
    assert prompts.render(template, question, ()) == f"{before}[No Retrieval]"


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("{% include 'other.jinja' %}", "line 2: a template cannot have include"),
        ("{% for a in contexts %}{% for b in a %}{{ b }}{% endfor %}{% endfor %}", "line 2: .* a loop within a loop"),
        ("{% for a in range(99999) %}{{ a }}{% endfor %}", "line 2: a template cannot have this call"),
        ("{{ 'a' * 10 ** 10 }}", "line 2: a template cannot have mul"),
        ("{{ contexts | join(contexts | join(question)) }}", "line 2: a template cannot have a join within a join"),
        ("{{ question | replace('', 'aaa') }}", "line 2: a template cannot have a replacement that is longer"),
        ("{{ question.__class__.__mro__ }}", "line 2: access to attribute '__class__' .* is unsafe"),
        ("{{ contexts[1] }}", "line 2: .* has no element 1; rendered for the question 'Who.' and 0 contexts"),
        ("{{ question", "line 2: unexpected end of template"),
        ("a" * 100_000, "it has more than 100,000 characters"),
    ],
)
def test_a_template_that_fails_or_may_never_end_is_refused_with_its_name_and_line(
    source: Callable[[str], str], text: str, fault: str
) -> None:
    with pytest.raises(ConfigError, match=rf"^prompt .*mine\.jinja: {fault}"):
        source("{{ question }}\n" + text)


def test_what_templates_are_for_is_accepted(source: Callable[[str], str]) -> None:
    text = source(
        "{% for context in contexts if context %}{{ loop.index }}/{{ loop.length }} {{ context | replace('\n', ' ') }}"
        "{{ ', ' if not loop.last }}{% else %}nothing{% endfor %}: {{ question.strip() | trim | upper }}"
    )
    assert prompts.render(text, " who? ", ("A\nb.", "C.")) == "1/2 A b., 2/2 C.: WHO?"
    assert prompts.render(text, "who?", ()) == "nothing: WHO?"


def test_a_prompt_has_a_length_and_a_failure_names_line_and_question() -> None:
    with pytest.raises(ConfigError, match="its text has more than 10,000,000 characters"):
        prompts.render("{% for a in question %}{{ question }}{% endfor %}", "a" * 10_000, ())
    with pytest.raises(ConfigError, match=r"line 2: .* has no element 3; rendered for the question 'Who\?'"):
        prompts.render("{{ question }}\n{% if contexts | length > 2 %}{{ contexts[3] }}{% endif %}", "Who?", ("a",) * 3)
