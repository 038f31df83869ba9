"""Gates: a new generation of an index is promoted when it is no worse, on the same questions."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from tests.support.indexing import sql, without_catalog
from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import IndexCorpus
from vitalfew.flows.cli.main import app
from vitalfew.flows.pipelines.evaluate import Evaluated
from vitalfew.flows.pipelines.graph import graph
from vitalfew.flows.pipelines.named import find_corpus, read_corpora
from vitalfew.flows.pipelines.re_encode import ReEncoded, alone_with, index_parameters, re_encode_corpus
from vitalfew.flows.pipelines.run import Outcome, run_serially
from vitalfew.storage import generations
from vitalfew.storage.generations import CannotPromote, IndexMoved
from vitalfew.storage.runs import find_index
from vitalfew.tasks.reports.shown.gated import markdown_gate
from vitalfew.tasks.retrieve import Searcher

NAME = "towns"
FAKE, DISTURBED = "tests.support.fakes:HashEncoder", "tests.support.fakes:DisturbedEncoder"
MANY = 150
"""Towns, each with a question that its passage answers."""


def town(number: int) -> str:
    return f"town{number:03d}"


def write(folder: Path, numbers: range = range(MANY), **settings: Any) -> Path:
    """A corpus of towns, its questions and its file; return its store."""
    passages = [
        {"id": town(n), "title": "", "text": f"{town(n)} has a mill. It was built by guild{n}."} for n in numbers
    ]
    questions = [
        {"question": f"Who built the mill of {town(n)}?", "answers": [f"guild{n}"], "gold": [town(n)]}
        for n in range(MANY)
    ]
    (folder / "passages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in passages))
    (folder / "golden.jsonl").write_text("".join(json.dumps(row) + "\n" for row in questions))
    whole = {
        "datasets": [f"jsonl:{folder / 'passages.jsonl'}"],
        "encode": {"encoder": FAKE},
        "runner": "serial",
        "gate": {"questions": f"jsonl:{folder / 'golden.jsonl'}", "margins": {"passage_recall@10": 0.05}},
    }
    for key, value in settings.items():
        whole[key] = {**whole[key], **value} if isinstance(whole.get(key), dict) and isinstance(value, dict) else value
    (folder / "corpora").mkdir(exist_ok=True)
    (folder / "corpora" / f"{NAME}.yaml").write_text(yaml.safe_dump(whole))
    return folder / "store"


class Asked:
    """Counts the evaluations and the stages that they did."""

    def __init__(self) -> None:
        self.evaluations: list[Evaluate] = []
        self.stages: list[str] = []

    def __call__(self, parameters: Evaluate) -> Evaluated:
        self.evaluations.append(parameters)
        plan = graph(parameters)

        def execute(stages: Any, run_id: str) -> Any:
            self.stages += [stage.name for stage in stages]
            return run_serially(stages, run_id)

        return plan.run(execute)  # type: ignore[return-value]


def index(parameters: IndexCorpus) -> Outcome:
    return graph(parameters).run(run_serially)


def re_encode(store: Path, asked: Asked | None = None) -> ReEncoded:
    corpus = find_corpus(NAME, store)
    with without_catalog():
        return re_encode_corpus(corpus, index_parameters(corpus, {"store": store}), index, asked or Asked())


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
    from tests.support.evaluating import copied

    copied(first / "store", tmp_path / "store")
    write(tmp_path)
    return tmp_path


def test_a_worse_generation_is_rejected_and_never_searched(folder: Path) -> None:
    store = write(folder, encode={"encoder": DISTURBED})
    asked = Asked()
    done = re_encode(store, asked)
    assert done.gated
    assert (done.generation.number, done.generation.verdict, current(store)) == (2, "rejected", 1)
    assert "rejected, on 150 questions: passage_recall@10 of passages" in done.gated.record.said
    assert "vitalfew index promote towns 2" in done.gated.record.said
    (hit, *_) = Searcher.named(store, NAME).hits("Who built the mill of town007?", find_corpus_request())
    assert "guild7" in hit.passage
    # the worst questions, with what was found before and is now
    assert len(done.gated.lost) == 20
    worst = done.gated.lost[0]
    assert (worst.before, worst.after) == (1.0, 0.0)
    assert worst.found_before[0].startswith("✓ ")
    assert not any(found.startswith("✓ ") for found in worst.found_now)
    page = markdown_gate(done.generation, done.gated.lost, done.gated.cost)
    for part in (
        "| passages | passage_recall@10 |",
        "Questions that became worse",
        "Asking took",
        done.gated.record.run_id,
    ):
        assert part in page
    rows = sql(
        store,
        "SELECT generation, against, verdict, method, metric, margin, questions, metric_verdict, left_out, "
        "current - candidate > 0.5, low < difference AND difference < high FROM gates ORDER BY method",
    )
    assert rows == [
        (2, 1, "rejected", method, "passage_recall@10", 0.05, 150, "worse", 0, True, True)
        for method in ("passages", "sentences")
    ]
    told = run("index", "history", NAME, "--store", store, "--json")
    assert json.loads(told.stdout)[1]["verdict"] == "rejected"
    # the same again: nothing is asked, and the verdict stays
    again = re_encode(store, asked)
    assert again.gated
    assert (again.gated.is_new, again.is_new, len(asked.evaluations)) == (False, False, 1)
    assert generations.promote(store, NAME, 2).number == 2  # by hand, all the same
    assert re_encode(store).gated is None


def find_corpus_request() -> Any:
    from vitalfew.configs.schema import RetrieveConfig
    from vitalfew.tasks.registry import with_options

    return with_options(RetrieveConfig(retriever="passage"), "retrieve")


def test_a_harmless_generation_is_promoted_and_either_can_be_asked_for(folder: Path) -> None:
    store = write(folder, index={"type": "sq8"})
    asked = Asked()
    done = re_encode(store, asked)
    assert done.gated
    assert (done.is_new, done.generation.verdict, current(store)) == (True, "promoted", 2)
    assert done.gated.record.said == "Generation 2 of towns is promoted: no worse than generation 1, on 150 questions."
    assert "generate" not in asked.stages
    assert [method.index for method in asked.evaluations[0].methods] == ["towns@1"] * 2 + ["towns@2"] * 2
    assert re_encode(store, asked).gated is None  # an unchanged corpus asks nothing
    assert len(asked.evaluations) == 1
    types = [generations.named(store, f"{NAME}{end}").config["index"]["type"] for end in ("", "@1", "@2")]
    assert types == ["sq8", "flat", "sq8"]
    found = run("search", "Who built the mill of town007?", "--index", f"{NAME}@1", "--store", store, "--json")
    assert "guild7" in json.loads(found.stdout)[0]["passage"]
    missing = run("search", "Who?", "--index", f"{NAME}@7", "--store", store)
    assert "has no generation 7; there are: 1, 2" in missing.output


def test_questions_whose_passages_left_the_corpus_are_left_out(folder: Path) -> None:
    store = write(folder, range(30, MANY))
    done = re_encode(store)
    assert done.gated
    assert (done.gated.record.left_out, {each.questions for each in done.gated.record.figures}) == (30, {120})
    assert done.generation.verdict == "promoted"
    gone = re_encode(write(folder, range(MANY, 2 * MANY)))
    assert gone.gated
    assert (gone.generation.verdict, gone.gated.record.left_out, current(store)) == ("held", 150, 2)
    assert "none of the 150 questions has its gold passages in both corpora" in gone.gated.record.said
    held = sql(store, "SELECT generation, verdict, metric, left_out FROM gates WHERE verdict = 'held'")
    assert held == [(3, "held", None, 150)]


def test_too_few_questions_leave_a_doubt_that_more_questions_settle(folder: Path) -> None:
    golden = (folder / "golden.jsonl").read_text().splitlines(keepends=True)
    (folder / "few.jsonl").write_text("".join(golden[:25]))
    store = write(folder, index={"type": "sq8"}, gate={"questions": f"jsonl:{folder / 'few.jsonl'}"})
    done = re_encode(store)
    assert done.gated
    assert (done.generation.verdict, current(store)) == ("in doubt", 1)
    needed = max(each.settled_by or 0 for each in done.gated.record.figures)
    assert 25 < needed < 150
    assert f"About {needed} questions would settle it." in done.gated.record.said
    settled = re_encode(write(folder, index={"type": "sq8"}))
    assert (settled.generation.number, settled.generation.verdict, current(store)) == (2, "promoted", 2)


def test_a_gate_without_questions_holds_and_says_what_to_do(folder: Path) -> None:
    store = write(folder, index={"type": "sq8"}, gate={"questions": None})
    asked = Asked()
    done = re_encode(store, asked)
    assert done.gated
    assert (done.generation.verdict, current(store), asked.evaluations) == ("held", 1, [])
    assert "have no questions; set gate.questions" in done.gated.record.said
    again = re_encode(store, asked)
    assert again.gated
    assert not again.gated.is_new
    nothing = folder / "none.jsonl"
    nothing.write_text(json.dumps({"text": "A passage."}) + "\n")
    told = re_encode(write(folder, index={"type": "sq8"}, gate={"questions": f"jsonl:{nothing}"}), asked)
    assert told.gated
    assert (told.gated.is_new, told.generation.verdict, current(store)) == (True, "held", 1)
    write(folder, index={"type": "sq8"}, gate=None)
    assert re_encode(store).is_new  # without a gate it is promoted
    assert current(store) == 2


@pytest.mark.parametrize("step", ["record", "judge", "promote", "score"])
def test_a_kill_at_any_moment_loses_nothing(folder: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = write(folder, index={"type": "sq8"})
    asked = Asked()

    def killed(*given: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        if step == "score":
            patch.setattr("vitalfew.tasks.score.Score.work", killed)
        else:
            patch.setattr(generations, step, killed)
        with pytest.raises(KeyboardInterrupt):
            re_encode(store, asked)
    assert current(store) == 1
    done = re_encode(store, asked)
    assert (done.generation.number, done.generation.verdict, current(store)) == (2, "promoted", 2)
    twice = {name for name in asked.stages if asked.stages.count(name) > 1}
    assert twice <= ({"score"} if step == "score" else set())
    assert len(generations.history(store, NAME)) == 2


def test_a_name_that_moves_meanwhile_is_compared_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = write(folder, encode={"context": "passage"})
    assert re_encode(store).generation.verdict == "promoted"
    store = write(folder, index={"type": "sq8"})
    asked = Asked()

    def meanwhile(parameters: Evaluate) -> Evaluated:
        outcome = asked(parameters)
        generations.rollback(store, NAME)
        return outcome

    with pytest.raises(IndexMoved, match="was not compared with that one"):
        re_encode(store, meanwhile)  # type: ignore[arg-type]
    assert current(store) == 1
    done = re_encode(store, asked)
    assert done.gated
    assert (done.gated.record.against, done.generation.verdict, current(store)) == (1, "promoted", 3)


def test_a_generation_that_gc_removed_meanwhile_is_not_promoted(folder: Path) -> None:
    store = write(folder, index={"type": "sq8"})

    def meanwhile(parameters: Evaluate) -> Evaluated:
        outcome = Asked()(parameters)
        candidate = generations.find(store, NAME, 2)
        (store / candidate.artifacts["faiss"] / "manifest.json").unlink()
        return outcome

    with pytest.raises(CannotPromote, match="generation 2 of towns was removed"):
        re_encode(store, meanwhile)  # type: ignore[arg-type]
    assert current(store) == 1
    assert re_encode(store).is_new  # the same command makes it again
    assert current(store) == 2


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        ({"margins": {"passage_recall@10": -0.1}}, "gate.margins.passage_recall@10"),
        ({"margins": {"passage_recall@11": 0.1}}, "has no metric 'passage_recall@11'; it has: passage_recall@1"),
        ({"margins": {"passage_recall@10": 2}}, "accepts any loss (2 % are 0.02)"),
        ({"margins": {}}, "gate.margins"),
        ({"experiment": "retrieval_onyl"}, "did you mean 'retrieval_only'?"),
        ({"experiment": "quickstart", "margins": {"accuracy": 0.1}}, "chooses settings"),
        ({"questions": "golden.jsonl"}, "gate.questions"),
        ({"margin": {}}, "did you mean 'gate.margins'?"),
    ],
)
def test_a_wrong_gate_is_refused_when_its_file_is_read(tmp_path: Path, gate: dict[str, Any], said: str) -> None:
    store = write(tmp_path)
    write(tmp_path, gate={**yaml.safe_load((tmp_path / "corpora" / f"{NAME}.yaml").read_text())["gate"], **gate})
    file = tmp_path / "corpora" / f"{NAME}.yaml"
    if "margins" in gate:  # they are laid over those of the file
        whole = yaml.safe_load(file.read_text())
        whole["gate"]["margins"] = gate["margins"]
        file.write_text(yaml.safe_dump(whole))
    with pytest.raises(ConfigError) as refused:
        find_corpus(NAME, store)
    assert said in str(refused.value)
    assert str(file) in str(refused.value)
    assert NAME in read_corpora(store)[1]


def test_the_command_line_re_encodes_a_corpus_with_its_gate(folder: Path) -> None:
    store = write(folder, encode={"encoder": DISTURBED})
    told = run("index", "--corpus", NAME, "--store", store)
    assert told.exit_code == 0, told.output
    for part in ("passage_recall@10", "worse", "Generation 2 of towns is rejected", "Asking took"):
        assert part in told.output
    assert current(store) == 1
    with alone_with(store, NAME) as free:
        assert free
        busy = run("index", "--corpus", NAME, "--store", store)
    assert (busy.exit_code, "another run is re-encoding towns" in busy.output) == (1, True)
    both = run("index", "jsonl:x.jsonl", "--corpus", NAME, "--store", store)
    assert "give no others" in both.output
    assert "give a data set" in run("index", "--store", store).output
    unknown = run("index", "--corpus", "twons", "--store", store)
    assert "'towns'" in unknown.output


def test_a_gate_that_generates_is_quoted_first(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    (folder / "experiments").mkdir()
    experiment = {
        "methods": {"naive": {"retrieve": {"retriever": "passage", "top_k": 2}}},
        "generate": {"generator": "tests.support.fakes:FirstWords"},
        "score": {"metrics": ["accuracy", "passage_recall"]},
    }
    (folder / "experiments" / "answers.yaml").write_text(yaml.safe_dump(experiment))
    store = write(folder, index={"type": "sq8"}, gate={"experiment": "answers", "margins": {"accuracy": 0.05}})
    with caplog.at_level("INFO", logger="vitalfew"):
        done = re_encode(store)
    assert "The gate of towns asks 150 questions twice" in caplog.text
    assert {each.metric for each in done.gated.record.figures} == {"accuracy", "passage_recall@10"}  # type: ignore[union-attr]
