"""The page Review: every key, what it keeps, a press on what is no longer shown, and what a reader may not learn."""

import re
from collections.abc import Sequence

import pytest
from nicegui import ElementFilter, ui
from nicegui.elements.upload_files import SmallFileUpload
from nicegui.testing import User

import vitalfew as vf
from tests.support.paging import rows_of, until, visit
from vitalfew.pages.site import Site

METHODS = ["ParetoRAG", "model alone"]
"""They differ on several questions."""
ADA = f"/review?run=shapes&reviewer=Ada&method={METHODS[0]}&method={METHODS[1].replace(' ', '+')}"


@pytest.fixture
def site(own: vf.Store) -> Site:
    return Site(own.place)


async def shown(user: User, before: str = "") -> str:
    """The drawing that the page shows, when there is one, and another one than before."""

    def find() -> list[str]:
        with user:
            found = [each.props.get("data-shown") for each in ElementFilter(kind=ui.element)]
        return [str(number) for number in found if number not in (None, before)]

    return (await until(find, lambda: user.current_layout))[0]


KEY = {"action": "keydown", "repeat": False, "code": "", "location": 0}
KEY |= dict.fromkeys(("altKey", "ctrlKey", "metaKey", "shiftKey"), False)


def strike(user: User, key: str, number: str) -> None:
    """Strike a key, as a browser sends it that shows the drawing of this number."""
    user.find("keyboard").trigger("key", {**KEY, "key": key, "shown": number})


async def press(user: User, *keys: str) -> None:
    """Press keys, each when the page shows what the one before led to."""
    for key in keys:
        number = await shown(user)
        strike(user, key, number)
        await shown(user, before=number)


def verdicts(site: Site) -> list[str]:
    return site.store.reviews("shapes")["verdict"].to_list()


def layout(user: User) -> str:
    """All that is on the page, with the properties of its elements."""
    with user:
        every = ElementFilter(kind=ui.element)
        return "\n".join(f"{vars(each).get('_text', '')} {dict(each.props)}" for each in every)


def names_in(text: str, methods: Sequence[str]) -> list[str]:
    return [name for name in methods if re.search(rf"\b{re.escape(name)}\b", text)]


def test_keys_keep_verdicts_and_go_on(site: Site) -> None:
    session = site.store.review("shapes", reviewer="Ada", methods=METHODS)
    assert len(session.items) > 1

    async def act(user: User) -> None:
        strike(user, "g", await shown(user))
        await user.should_see("Gold answers: ")
        strike(user, "c", await shown(user))
        await user.should_see("Contexts: ")
        await press(user, "U")
        await user.should_see("Kept: unsure.")
        await user.should_see("Reviewed: 1 of")
        assert names_in(layout(user), session.methods) == []  # blinded
        await user.should_not_see("Contexts: ")
        await press(user, "b")
        await user.should_see("Your verdict so far: unsure")
        await press(user, "=", "b", "b")
        await user.should_see("This is the first one.")

    visit(site, ADA, act)
    assert verdicts(site) == ["equal"]
    assert site.store.review("shapes", reviewer="Ada", methods=METHODS).place > 1  # a reload goes on


def test_reviews_come_in_as_csv(site: Site, own: vf.Store) -> None:
    session = own.review("shapes", reviewer="Ada", one=True)
    item = session.current
    assert item
    method = item.answers[0].methods[0]
    line = f"Bob,{session.run.run_id},{item.question_id},{method}"

    async def act(user: User) -> None:
        with user:
            (upload,) = ElementFilter(kind=ui.upload)
        for verdict in ("perhaps", "right"):
            content = f"reviewer,run_id,question_id,method,verdict\n{line},{verdict}\n".encode()
            await upload.handle_uploads([SmallFileUpload("<b>.csv", "text/csv", content)])
            said = "<b>.csv, line 2: a verdict on one answer" if verdict == "perhaps" else "New reviews: 1"
            await user.should_see(said)
        assert any(row["1"] == "labels" for row in await rows_of(user, "Right, by judge and people"))

    visit(site, "/review?run=shapes&labels=1", act)
    assert verdicts(site) == ["right"]
