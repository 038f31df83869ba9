"""Gates: a new generation of an index is promoted when it is no worse, on the same questions."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from tests.support.evaluating import copied
from tests.support.indexing import sql, without_catalog
from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.loading import ConfigError, merged
from vitalfew.configs.schema import GateConfig, IndexCorpus, RetrieveConfig
from vitalfew.flows.cli.main import app
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.flows.pipelines.gate import await_person, decide, wants_person
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.named import find_corpus
from vitalfew.flows.pipelines.re_encode import ReEncoded, index_parameters, re_encode_corpus
from vitalfew.flows.pipelines.run import Outcome, run_serially
from vitalfew.storage import generations
from vitalfew.storage.generations import IndexMoved
from vitalfew.storage.runs import find_index
from vitalfew.tasks.registry import with_options
from vitalfew.tasks.retrieve import Searcher

NAME = "towns"
DISTURBED = "tests.support.fakes:DisturbedEncoder"
MANY = 80
"""Towns, each with a question that its passage answers."""
PASSAGES = RetrieveConfig(retriever="passage")
RECALL = {"passage_recall@10": 0.1}
NOTHING: Mapping[str, Any] = {}
EXPERIMENT = {
    "generate": None,
    "score": {"metrics": ["passage_recall"], "k": [10]},
    "methods": {"passages": {"retrieve": {"retriever": "passage", "top_k": 10}}},
}


def town(number: int) -> str:
    return f"town{number:03d}"


def write(
    folder: Path, numbers: range = range(MANY), gate: Mapping[str, Any] | None = NOTHING, **settings: Any
) -> Path:
    """A corpus of towns, its questions and its file; return its store. `gate`: settings in place of the usual."""
    passages = [{"id": town(n), "text": f"{town(n)} {town(n)} has a mill by guild{n}"} for n in numbers]
    golden = lines(folder / "golden.jsonl", [question(n) for n in range(MANY)])
    for name in ("corpora", "experiments"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "experiments" / "recall.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    usual = {"questions": f"jsonl:{golden}", "margins": RECALL, "experiment": "recall"}
    whole = {
        "datasets": [f"jsonl:{lines(folder / 'passages.jsonl', passages)}"],
        "encode": {"encoder": "tests.support.fakes:HashEncoder", "units": ["passage"]},
        "runner": "serial",
        "gate": None if gate is None else {**usual, **gate},
    }
    (folder / "corpora" / f"{NAME}.yaml").write_text(yaml.safe_dump(merged(whole, settings)))
    return folder / "store"


def question(number: int) -> dict[str, Any]:
    name = town(number)
    return {"question": f"mill {name}", "answers": [f"guild{number}"], "source": name}


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


class Asked(list[Evaluate]):
    """Evaluates, and keeps what it was asked."""

    def __call__(self, parameters: Evaluate) -> Evaluated:
        self.append(parameters)
        return graph(parameters).run(run_serially)


def index(parameters: IndexCorpus) -> Outcome:
    return graph(parameters).run(run_serially)


def re_encode(store: Path, asked: Asked | None = None) -> ReEncoded:
    corpus = find_corpus(NAME, store)
    with without_catalog():
        return re_encode_corpus(
            corpus, index_parameters(corpus, {"store": store}), index, Asked() if asked is None else asked
        )


def current(store: Path) -> int:
    return find_index(store, NAME).generation


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a corpus with one generation. Copy it."""
    folder = tmp_path_factory.mktemp("gate")
    done = re_encode(write(folder))
    assert (done.is_new, done.gated, done.generation.number) == (True, None, 1)
    return folder


@pytest.fixture
def folder(first: Path, tmp_path: Path) -> Path:
    copied(first / "store", tmp_path / "store")
    write(tmp_path)
    return tmp_path


def test_a_worse_generation_is_rejected_and_never_searched(folder: Path) -> None:
    """By the usual experiment, whose sentences this index lacks."""
    store = write(folder, gate={"experiment": "retrieval_only"}, encode={"encoder": DISTURBED})
    assert re_encode(store).generation.verdict == "rejected"
    assert current(store) == 1
    (hit, *_) = Searcher.named(store, NAME).hits("mill town007", with_options(PASSAGES, "retrieve"))
    assert "guild7" in hit.passage
    columns = "generation, against, verdict, method, metric, margin, questions, metric_verdict, left_out"
    compared = "current - candidate > 0.5, low < difference AND difference < high"
    assert sql(store, f"SELECT {columns}, {compared} FROM gates ORDER BY method") == [
        (2, 1, "rejected", "passages", "passage_recall@10", 0.1, 80, "worse", 0, True, True)
    ]
    asked = Asked()
    again = re_encode(store, asked)  # nothing is asked, and the verdict stays
    assert again.gated
    assert (again.gated.is_new, again.is_new, asked) == (False, False, [])
    assert generations.promote(store, NAME, 2).number == 2  # by hand, all the same
    assert re_encode(store).gated is None


def test_questions_whose_passages_left_the_corpus_are_left_out(folder: Path) -> None:
    store = write(folder, range(10, MANY))
    done = re_encode(store)
    assert done.gated
    assert (done.gated.record.left_out, {each.questions for each in done.gated.record.figures}) == (10, {70})
    assert done.generation.verdict == "promoted"
    gone = re_encode(write(folder, range(MANY, 2 * MANY)))
    assert gone.gated
    assert (gone.generation.verdict, gone.gated.record.left_out, current(store)) == ("held", 80, 2)


def test_a_gate_without_questions_holds_and_says_what_to_do(folder: Path) -> None:
    store = write(folder, index={"type": "sq8"}, gate={"questions": None})
    asked = Asked()
    done = re_encode(store, asked)
    assert done.gated
    assert (done.generation.verdict, current(store), asked) == ("held", 1, [])
    assert "have no questions; set gate.questions" in done.gated.record.said


def test_a_wrong_gate_is_refused_when_its_file_is_read(tmp_path: Path) -> None:
    for gate, said in (
        ({"margins": {"passage_recall@11": 0.1}}, "has no metric 'passage_recall@11'; it has: passage_recall@1"),
        ({"experiment": "quickstart", "margins": {"accuracy": 0.1}}, "chooses settings"),
    ):
        store = write(tmp_path, gate=gate)
        with pytest.raises(ConfigError) as refused:
            find_corpus(NAME, store)
        assert said in str(refused.value)
        assert str(tmp_path / "corpora" / f"{NAME}.yaml") in str(refused.value)


def doubtful(folder: Path, **gate: Any) -> Path:
    """A new generation of which too few questions are asked to tell."""
    few = lines(folder / "few.jsonl", [question(n) for n in range(25)])
    return write(folder, index={"type": "sq8"}, gate={"questions": f"jsonl:{few}", **gate})


@pytest.mark.parametrize("approve", ["never", "on_doubt", "always"])
def test_whom_a_gate_asks(folder: Path, approve: str) -> None:
    doubt = re_encode(doubtful(folder, approve=approve))
    assert doubt.gated
    assert wants_person(gate_of(folder), doubt.gated) == (approve != "never")
    harmless = re_encode(write(folder, index={"type": "sq8"}, gate={"approve": approve}))
    assert harmless.gated
    assert wants_person(gate_of(folder), harmless.gated) == (approve == "always")
    verdicts = {"always": ("held", 1)}
    assert (harmless.generation.verdict, current(folder / "store")) == verdicts.get(approve, ("promoted", 2))


def gate_of(folder: Path) -> GateConfig:
    gate = find_corpus(NAME, folder / "store").gate
    assert gate
    return gate


@pytest.mark.parametrize(("is_approved", "verdict", "number"), [(True, "promoted", 2), (False, "rejected", 1)])
def test_a_person_decides_once(folder: Path, is_approved: bool, verdict: str, number: int) -> None:
    store = doubtful(folder, approve="on_doubt")
    done, gate = re_encode(store), gate_of(folder)
    assert done.gated
    asked = await_person(store, gate, await_person(store, gate, done.gated, "a lost run"), "a-run")
    assert (asked.record.said.count("A person is asked until"), current(store)) == (1, 1)
    assert not wants_person(gate, asked)  # another run does not ask again
    assert sql(store, "SELECT DISTINCT verdict, approval FROM gates") == [("in doubt", "waiting")]
    decided = decide(store, generations.find(store, NAME, 2), is_approved, "seen by hand.")
    assert (decided.generation.verdict, current(store)) == (verdict, number)
    assert f"is {verdict}: a person" in decided.record.said
    assert decided.record.figures == done.gated.record.figures
    again = re_encode(store)
    assert again.gated is None or not (again.gated.is_new or wants_person(gate, again.gated))
    assert current(store) == number


def test_what_a_person_approved_is_not_promoted_over_another_generation(folder: Path) -> None:
    store = doubtful(folder, approve="on_doubt")
    re_encode(store)
    candidate = generations.find(store, NAME, 2)
    write(folder, index={"type": "sqfp16"})
    assert re_encode(store).generation.number == 3
    with pytest.raises(IndexMoved, match="generation 2 was not compared with that one"):
        decide(store, candidate, True)
    assert current(store) == 3
