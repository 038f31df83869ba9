"""Gates: a new generation of an index is promoted when it is no worse, on the same questions."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from tests.support.evaluating import copied
from tests.support.indexing import sql, without_catalog
from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.loading import ConfigError, merged
from vitalfew.configs.schema import GateConfig, RetrieveConfig
from vitalfew.flows.cli.main import app
from vitalfew.flows.pipelines.evaluate import Evaluated, EvaluationPlan
from vitalfew.flows.pipelines.gate import await_person, decide, wants_person
from vitalfew.flows.pipelines.named import find_corpus
from vitalfew.flows.pipelines.re_encode import (
    ReEncoded,
    index_parameters,
    re_encode_corpus,
    skip,
    until_nobody_asks,
)
from vitalfew.flows.pipelines.run import Outcome, Plan, run_serially
from vitalfew.library.store import Store
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
    folder: Path,
    numbers: range = range(MANY),
    gate: Mapping[str, Any] | None = NOTHING,
    spoiled: Collection[int] = (),
    **settings: Any,
) -> Path:
    """A corpus of towns, its questions and its file; return its store. `gate`: settings in place of the usual;
    `spoiled`: towns whose passages say nothing any more."""
    texts = {n: "nothing" if n in spoiled else f"{town(n)} {town(n)} has a mill by guild{n}" for n in numbers}
    passages = [{"id": town(n), "text": text} for n, text in texts.items()]
    golden = lines(folder / "golden.jsonl", [question(n) for n in range(MANY)])
    for name in ("corpora", "experiments"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "experiments" / "recall.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    usual = {"questions": f"jsonl:{golden}", "margins": RECALL, "experiment": "recall"}
    whole = {
        "datasets": [f"jsonl:{lines(folder / 'passages.jsonl', passages)}"],
        "encode": {"encoder": "tests.support.fakes:HashEncoder", "units": ["passage"]},
        "runner": "serial",
    } | ({} if gate is None else {"gate": {**usual, **gate}})
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

    def __call__(self, plan: EvaluationPlan) -> Evaluated:
        self.append(plan.parameters)
        return plan.run(run_serially)


def index(plan: Plan) -> Outcome:
    return plan.run(run_serially)


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


def test_questions_whose_passages_left_the_corpus_count_as_lost_in_a_second_figure(folder: Path) -> None:
    done = re_encode(write(folder, range(1, MANY)))
    assert done.gated
    (figure,) = done.gated.record.figures
    assert (done.generation.verdict, done.gated.record.left_out, figure.questions) == ("promoted", 1, 79)
    assert (figure.candidate, figure.vanished, figure.current_counted) == (1.0, 1, 1.0)
    assert figure.candidate_counted == pytest.approx(79 / 80)
    assert "79 questions of 80 (1 lost their gold passages)" in done.gated.record.said
    some = re_encode(write(folder, range(6, MANY)))  # fewer than a tenth, but too many to be sure of it
    assert some.gated
    assert (some.generation.verdict, some.gated.record.losses, current(folder / "store")) == ("held", (), 2)
    assert "with the 5 questions that lost their gold passages counted as lost" in some.gated.record.said


def test_a_run_that_was_skipped_is_made_up_for(folder: Path) -> None:
    store, done = folder / "store", list[ReEncoded]()

    def work() -> ReEncoded:
        done.append(re_encode(store))
        if len(done) == 1:  # the corpus changes after it was read, and the next night finds this run at work
            write(folder, range(1, MANY))
            skip(store, NAME)
        return done[-1]

    last = until_nobody_asks(store, NAME, work)
    assert ([each.is_new for each in done], last.is_new, last.before, current(store)) == ([False, True], True, 1, 2)


def test_a_corpus_that_lost_too_much_is_held_whatever_its_answers_are(folder: Path) -> None:
    lost = MANY // 10
    done = re_encode(write(folder, range(lost, MANY)))
    assert done.gated
    assert (done.generation.verdict, current(folder / "store")) == ("held", 1)
    gone = "it lost 8 of 80 documents (10%), lost 8 of 80 passages"
    assert done.gated.record.said.startswith(f"Generation 2 of {NAME} is held: {gone}")
    assert done.gated.record.figures[0].difference == 0
    assert re_encode(
        write(folder, range(lost, MANY), gate={"max_removed": 0.7, "margins": {"passage_recall@10": 0.2}})
    ).is_new


def test_documents_of_another_name_are_not_lost_and_rejected_rows_are_counted(folder: Path) -> None:
    passages = folder / "passages.jsonl"
    store = write(folder)
    rows = [json.loads(line) for line in passages.read_text().splitlines()]
    lines(passages, [row | {"id": f"moved-{row['id']}"} for row in rows])
    done = re_encode(store)
    assert done.gated
    assert not [loss for loss in done.gated.record.losses if "documents" in loss]
    write(folder, index={"type": "sq8"})
    with passages.open("a") as file:
        file.write("not JSON\n" * 5)
    broken = re_encode(store)
    assert broken.gated
    assert broken.gated.record.losses == ("rejected 5 rows, 5 more than before",)


@pytest.mark.parametrize("build", ["library", "bundled"])
def test_whoever_builds_a_gated_name_passes_its_gate(folder: Path, build: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store, dataset = folder / "store", f"jsonl:{folder / 'passages.jsonl'}"
    re_encode(write(folder))
    write(folder, range(40, MANY))
    settings = {"encode": {"encoder": "tests.support.fakes:HashEncoder", "units": ["passage"]}, "runner": "serial"}
    file = folder / "corpora" / f"{NAME}.yaml"
    if build == "bundled":  # a corpus that came with the product, by its name
        monkeypatch.setattr("vitalfew.flows.pipelines.named.CORPORA", file.parent)
        assert run("index", "--corpus", NAME, "--store", store).exit_code == 4
    else:
        file.unlink()  # the index remembers its gate
        Store(store, progress=False).index(NAME, dataset, settings=settings)
    assert (current(store), generations.find(store, NAME).verdict) == (1, "held")


def test_a_gate_that_can_never_pass_is_refused_before_the_work(folder: Path) -> None:
    for gate, said in (
        ({"questions": None}, "asks 0 questions. It can never pass: set gate.questions"),
        ({"questions": "written:nobody"}, "no questions were written in this store"),
        ({"questions": f"jsonl:{folder / 'missing.jsonl'}"}, "missing.jsonl"),
        ({"margins": {"passage_recall@10": 0.05}}, "cannot exclude a loss of 0.057, even if no answer changes"),
    ):
        with pytest.raises(ConfigError) as refused:
            re_encode(write(folder, range(7, MANY), gate=gate))
        assert said in str(refused.value)
    assert len(generations.history(folder / "store", NAME)) == 1
    asked = Asked()
    done = re_encode(write(folder, index={"type": "sq8"}, gate={"questions": None, "approve": "on_doubt"}), asked)
    assert (done.generation.verdict, current(folder / "store"), asked) == ("held", 1, [])
    (folder / "corpora" / f"{NAME}.yaml").write_text("datasets: ['jsonl:x']\ngate:\n")
    with pytest.raises(ConfigError, match=r"`gate: \{\}`"):
        find_corpus(NAME, folder / "store")


def doubtful(folder: Path, **gate: Any) -> Path:
    """A new generation that fails on one of too few questions to tell."""
    few = lines(folder / "few.jsonl", [question(n) for n in range(50)])
    return write(folder, gate={"questions": f"jsonl:{few}", **gate}, spoiled=[7])


@pytest.mark.parametrize("approve", ["never", "on_doubt", "always"])
def test_whom_a_gate_asks(folder: Path, approve: str) -> None:
    doubt = re_encode(doubtful(folder, approve=approve))
    assert doubt.gated
    assert wants_person(gate_of(folder), doubt.gated) == (approve != "never")
    harmless = re_encode(write(folder, index={"type": "sq8"}, gate={"approve": approve}))
    assert harmless.gated
    assert wants_person(gate_of(folder), harmless.gated) == (approve == "always")
    verdicts = {"always": ("held", 1)}
    assert (harmless.generation.verdict, current(folder / "store")) == verdicts.get(approve, ("promoted", 3))


def gate_of(folder: Path) -> GateConfig:
    gate = find_corpus(NAME, folder / "store").gate
    assert gate
    return gate


@pytest.mark.parametrize(("is_approved", "verdict", "number"), [(True, "promoted", 2), (False, "declined", 1)])
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
    of_two = "FROM decisions WHERE generation = 2 ORDER BY decided_at"
    decision = ("promoted" if is_approved else "declined", "run", "seen by hand.")
    assert sql(store, f"SELECT decision, decided_by, note {of_two}")[1:] == [decision]


def test_no_gate_promotes_what_a_person_declined(folder: Path) -> None:
    store = write(folder, range(40, MANY))
    assert re_encode(store).generation.verdict == "held"
    assert run("index", "decline", NAME, "2", "--note", "half is missing", "--store", store).exit_code == 0
    again = re_encode(write(folder, range(40, MANY), gate={"max_removed": 1.0}))  # now it would pass
    assert again.gated
    assert (again.gated.is_new, again.generation.number, current(store)) == (False, 2, 1)
    assert re_encode(write(folder, range(1, MANY), gate={"max_removed": 1.0})).is_new
    back = re_encode(write(folder, range(40, MANY), gate={"max_removed": 1.0}))  # another build of the same
    assert (back.generation.number, back.generation.verdict, current(store)) == (4, "declined", 3)
    assert back.gated
    assert "declined generation 2, which is the same" in back.gated.record.said
    assert "half is missing" in run("index", "history", NAME, "--store", store).output
    assert generations.promote(store, NAME, 4).number == 4  # a person may


def test_what_a_person_approved_is_not_promoted_over_another_generation(folder: Path) -> None:
    store = doubtful(folder, approve="on_doubt")
    re_encode(store)
    candidate = generations.find(store, NAME, 2)
    write(folder, index={"type": "sqfp16"})
    assert re_encode(store).generation.number == 3
    with pytest.raises(IndexMoved, match="generation 2 was not compared with that one"):
        decide(store, candidate, True)
    assert current(store) == 3
