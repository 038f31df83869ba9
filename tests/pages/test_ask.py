"""The page Ask, and the process that answers for it."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import psutil
import pytest
from nicegui import ElementFilter, ui
from nicegui.testing import User

import vitalfew as vf
from tests.support.paging import see, until, visit
from vitalfew.flows.pipelines.answering import RagAnswer, RagContext, RagPassage, RagSource
from vitalfew.pages.answering import ENDED, STOPPED, Answered, Answers, Asked, Refused
from vitalfew.pages.ask import _curl, _python
from vitalfew.pages.site import Site

HOSTILE = "<script>alert(1)</script> \u202e <b>Velmar</b>?"


def answered(asked: Asked) -> Answered:
    """The answer of a method that kept the first word of one passage and dropped another."""
    context = RagContext("first", 1, (RagSource(1, "One", 0, 5, "a#1"),), 1, 0.5)
    text = f"{asked.method} {asked.alpha}"
    answer = RagAnswer(asked.question, text, (context,), 9, 1, 1, 3, {"read": 0.1}, 0.0, "f")
    passages = [
        RagPassage(1, "One", "a#1", "first second", 1, 0.5, ((0, 5),)),
        RagPassage(2, HOSTILE, "b#1", "other", 2, 0.25, ()),
    ]
    return Answered(answer, passages, 0.8, 40)


@pytest.fixture
def asked(site: Site, monkeypatch: pytest.MonkeyPatch) -> list[Asked]:
    """What pages ask; answers come at once, from no process."""
    found: list[Asked] = []

    async def answer(self: Answers, asked: Asked, is_wanted: Callable[[], bool]) -> Answered | Refused:
        found.append(asked)
        return answered(asked) if "paid" not in asked.question or asked.max_usd else Refused("it costs", costs=True)

    monkeypatch.setattr(Answers, "answer", answer)
    return found


def marks(user: User, tag: str) -> list[str]:
    with user:
        return [each.text for each in ElementFilter() if each.tag == tag and hasattr(each, "text")]


def page(question: str, *methods: str) -> str:
    return f"/ask?{urlencode([('question', question), *(('method', each) for each in methods)])}"


def test_an_address_asks_its_methods(site: Site, asked: list[Asked]) -> None:
    async def act(user: User) -> None:
        await user.should_see("shapes:naive None")
        await user.should_see("shapes:ParetoRAG None")
        assert marks(user, "mark") == ["first", "first"]
        assert " second" in marks(user, "span")
        user.find("Add a method").click()
        await until(lambda: len(asked) == 3)
        user.find("Show them").click()
        await user.should_see(HOSTILE)

    visit(site, page(HOSTILE, "shapes:naive", "shapes:ParetoRAG"), act)
    assert {each.question for each in asked} == {HOSTILE}
    assert {each.index for each in asked} == {"towns"}
    assert len({each.method for each in asked}) == 3


def test_only_the_last_place_of_a_slider_is_asked(site: Site, asked: list[Asked]) -> None:
    async def act(user: User) -> None:
        await user.should_see("shapes:ParetoRAG None")
        for value in (0.7, 0.6, 0.5):
            user.find("alpha").trigger("input", value)
        await user.should_see("alpha 0.50: weight of the sentence itself")
        await user.should_see("shapes:ParetoRAG 0.5")
        await user.should_see("core_context, top 8 at alpha 0.5; at most 40 tokens (words); answered by reader")

    visit(site, page("Where is Velmar?", "shapes:ParetoRAG"), act)
    assert [each.alpha for each in asked] == [None, 0.5]


def test_nothing_is_paid_before_a_cap_is_given(site: Site, asked: list[Asked]) -> None:
    async def act(user: User) -> None:
        await user.should_see("it costs")
        user.find(ui.number).type("0.25")
        user.find("Ask, and pay at most this").click()
        await user.should_see("shapes:ParetoRAG None")

    visit(site, page("paid?", "shapes:ParetoRAG"), act)
    assert [each.max_usd for each in asked] == [0.0, 0.25]


def test_an_empty_store_says_what_to_do(tmp_path: Path) -> None:
    see(Site(tmp_path / "store"), "/ask", "This store has no index yet")


@pytest.mark.slow
def test_the_process_answers_and_survives_its_end(store: vf.Store) -> None:
    question = "Where is Velmar?"

    async def act() -> None:
        answers = Answers(store.place)
        name = "shapes:ParetoRAG"
        try:
            found = await answers.answer(Asked(question, name, "towns", 0.5, 20))
            assert isinstance(found, Answered)
            assert 0 < found.answer.context_tokens <= 20
            assert (found.alpha, found.max_tokens) == (0.8, 40)
            assert any(passage.kept for passage in found.passages)
            refused = await answers.answer(Asked(question, "quickstart:nothing", "towns"))
            assert isinstance(refused, Refused)
            assert refused.reason.startswith("unknown method of quickstart 'nothing'")
            assert await answers.answer(Asked(question, name, "towns"), lambda: False) is None
            assert answers.pid is not None
            os.kill(answers.pid, signal.SIGKILL)
            assert await answers.answer(Asked(question, name, "towns")) == Refused(ENDED)
            assert answers.pid is None
        finally:
            answers.stop()

    asyncio.run(act())


def test_a_stop_by_another_page_is_said(tmp_path: Path) -> None:
    async def act() -> None:
        answers = Answers(tmp_path)
        both = [Asked("", "quickstart:ParetoRAG", "nothing") for _ in range(2)]
        first, second = (asyncio.create_task(answers.answer(asked)) for asked in both)
        await until(lambda: answers.asked is both[0])
        assert not answers.stop(both[1])  # which waits for its turn
        assert answers.stop(both[0])  # while the process begins
        assert await first == Refused(STOPPED)
        await until(lambda: answers.pid is not None)
        answers.stop()
        assert await second == Refused(STOPPED)

    asyncio.run(act())


_SERVER = """
import asyncio, sys
from pathlib import Path
from vitalfew.pages.answering import Answers, Asked

async def main():
    answers = Answers(Path(sys.argv[1]))
    await answers.answer(Asked("", "quickstart:ParetoRAG", "nothing"))
    print(answers.pid, flush=True)
    await asyncio.sleep(600)

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_no_process_outlives_a_server_that_was_killed(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text(_SERVER)
    with subprocess.Popen([sys.executable, str(script), str(tmp_path)], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        process = int(server.stdout.readline())
        server.kill()

    def has_ended() -> bool:
        try:
            return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    asyncio.run(until(has_ended))


def test_the_same_in_python_and_curl(store: vf.Store, capsys: pytest.CaptureFixture[str]) -> None:
    asked = Asked('It\'s "Velmar"?', "shapes:ParetoRAG", "towns", 0.5, 20)
    exec(compile(_python(str(store.place), asked), "python", "exec"), {})
    assert "Velmar" in capsys.readouterr().out
    served = _curl("store", asked)
    assert "--set retrieve.alpha=0.5 --set refine.max_tokens=20 --store store" in served
    assert '\'{"question": "It\'"\'"\'s \\"Velmar\\"?"}\'' in served
