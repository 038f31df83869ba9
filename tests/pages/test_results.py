"""The page Results: its list, an evaluation, its questions, one question, two methods side by side."""

from pathlib import Path

from nicegui.testing import User

from tests.support.paging import rows_of, see, visit
from vitalfew.pages.addresses import ROOT, results
from vitalfew.pages.site import Site


def path(**given: object) -> str:
    """A view of the page, below that of all pages."""
    return results(**given).removeprefix(ROOT)


def test_which_questions_does_a_method_lose_and_why(site: Site) -> None:
    """In three clicks: the evaluation, the number of questions, the question."""

    async def on_list(user: User) -> None:
        (row,) = await rows_of(user, "Evaluations")
        assert (row["name"], row["said"], row["questions"]) == ("shapes", "completed", "12")
        links.append(row["_name"])

    async def on_run(user: User) -> None:
        await user.should_see("Accuracy: 1 if an output contains a gold answer, else 0.")
        rows = await rows_of(user, "Methods by accuracy")
        assert [row["method"] for row in rows] == ["naive", "cut", "ParetoRAG", "PFE", "Oreo", "model alone"]
        assert " to " in rows[1]["ends"]
        links.append(rows[-1]["_lost"])
        counts.append(int(rows[-1]["lost"]))

    async def on_questions(user: User) -> None:
        rows = await rows_of(user, "Questions")
        assert len(rows) == counts[0] > 0
        assert {(row["value"], row["other_value"]) for row in rows} == {("1.000", "0.000")}
        links.append(rows[0]["_question"])

    async def on_question(user: User) -> None:
        await user.should_see("naive: right")
        await user.should_see("model alone: wrong")
        await user.should_see("The gold passage was retrieved at rank")
        await user.should_see("It did not search: the model answered alone.")

    links, counts = ["/vitalfew/results"], list[int]()
    for act in (on_list, on_run, on_questions, on_question):
        visit(site, links[-1].removeprefix("/vitalfew"), act)


def test_what_is_not_there_says_what_to_do(site: Site, tmp_path: Path) -> None:
    see(Site(tmp_path / "empty"), "/results", "There is no evaluation yet. Start one on the page")
    see(site, path(run="gone"), "no evaluation 'gone' in")
    see(site, path(run="shapes", question=7), "did not ask question 7")
    see(site, path(run="shapes", view="questions", method="<b>"), "has no method '<b>'")
