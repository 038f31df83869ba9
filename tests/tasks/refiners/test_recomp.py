"""The refiner `recomp` on tiny sequence-to-sequence models: input, cutting, empty summaries, costs, and a whole run."""

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.support import tiny_models
from tests.support.evaluating import copied
from tests.support.indexing import sql
from tests.support.shared import indexed
from tests.support.stages import staged
from vitalfew.configs.evaluation import RefineConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.cli.main import app
from vitalfew.tasks.models.causal.engines.base import Completion, EngineUnavailable, failed
from vitalfew.tasks.models.causal.rewriter import RewritingFailed
from vitalfew.tasks.refine import Refine
from vitalfew.tasks.refiners.base import Hit
from vitalfew.tasks.refiners.rewriting import Recomp
from vitalfew.tasks.refiners.whole_hits import Cut

HITS = [
    Hit("Mill", "The mill still stands. ", 7, 0, 23),
    Hit("", "Who founded it?", 8, 10, 25),
    Hit("River", "The river rises in the hills.", 9, 0, 29),
]


@pytest.fixture(scope="module")
def t5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.t5_generator(tmp_path_factory.mktemp("t5"))


@pytest.fixture(scope="module")
def bart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_models.bart(tmp_path_factory.mktemp("bart"))


def make(model: Path | str | None, **chosen: Any) -> Recomp:
    given = {"precision": "fp32", "device": "cpu", "max_new_tokens": 20, **chosen}
    return Recomp(Recomp.Options(refiner="recomp", model=model and str(model), **given))


def watched(refiner: Recomp, monkeypatch: pytest.MonkeyPatch, answers: Sequence[str] | None = None) -> list[str]:
    """The inputs that the model gets; it says `answers` where there are any."""
    seen: list[str] = []
    whole = refiner.model.engine.complete

    def watch(prompts: Any, probe: Any = None, tick: Any = None) -> list[Completion]:
        seen.extend(prompts)
        if answers is None:
            return whole(prompts, tick=tick)
        return [Completion(text, 10, 2, 0.1) for text in answers[: len(prompts)]]

    monkeypatch.setattr(refiner.model.engine, "complete", watch)
    return seen


def test_the_input_is_the_published_one(t5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text, documents in (
        ("unit", "The mill still stands.\nWho founded it?"),
        ("titled", "Mill: The mill still stands.\nWho founded it?"),
    ):
        refiner = make(t5, text=text, top_k=2)
        seen = watched(refiner, monkeypatch, answers=["It is there."])
        [[context]] = refiner.refine(["Where is it?"], [HITS]).contexts
        assert seen == [f"Question: Where is it?\n Document: {documents}\n Summary: "]
        assert (context.text, context.tokens, context.origin) == ("It is there.", 4, ())


def test_summaries_are_the_models_own_and_are_paid_for(t5: Path) -> None:
    refiner = make(t5)
    ticks: list[tuple[int, int]] = []
    refined = refiner.refine(["Where?", "Who?", "None?"], [HITS, HITS[:1], []], tick=lambda *done: ticks.append(done))
    inputs = [
        refiner.frame("Where?", "\n".join(hit.text.strip() for hit in HITS)),
        refiner.frame("Who?", HITS[0].text.strip()),
    ]
    expected = refiner.model.rewrite(inputs)
    texts = [[each.text for each in contexts] for contexts in refined.contexts]
    assert texts == [[each.text] if each.text else [] for each in expected] + [[]]
    assert any(texts)
    assert refined.tokens == sum(each.prompt_tokens + each.completion_tokens for each in expected) > 0
    assert (sum(count for count, _ in ticks), sum(tokens for _, tokens in ticks)) == (3, refined.tokens)
    assert make(t5).refine(["Where?"], [HITS]).contexts == refined.contexts[:1]


def test_an_empty_summary_passes_nothing_on(t5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refiner = make(t5, max_words=2)
    watched(refiner, monkeypatch, answers=["  ", "one two three"])
    refined = refiner.refine(["a", "b", "c"], [HITS, HITS, []])
    assert [[each.text for each in contexts] for contexts in refined.contexts] == [[], ["one two"], []]
    assert refined.contexts[1][0].tokens == 2
    assert refined.notes == {"cut_inputs": 0, "empty": 2}
    assert [writing.finish_reason for writing in refined.writings] == ["stop", "stop", ""]
    assert refined.tokens == 24


def test_documents_are_cut_at_their_end(bart: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """BART has 64 positions, and the default of 1024 tokens gives way to them."""
    refiner = make(bart)
    assert refiner.model.limit == 64
    seen = watched(refiner, monkeypatch)
    long = [Hit("", f"mill {number} stands by the sea.", number, 0, 20) for number in range(30)]
    refined = refiner.refine(["Who?", "Where?"], [long, HITS[:1]])
    assert refined.notes["cut_inputs"] == 1
    assert [writing.cut for writing in refined.writings] == [True, False]
    start, end = "Question: Who?\n Document: mill 0 stands", "\n Summary: "
    assert seen[0].startswith(start)
    assert seen[0].endswith(end)
    kept = seen[0].removeprefix("Question: Who?\n Document: ").removesuffix(end)
    whole = "\n".join(hit.text for hit in long)
    assert whole.startswith(kept)
    more = whole[: len(kept) + 1 + len(whole[len(kept) :].split()[0])]
    assert refiner.model.fits(refiner.frame("Who?", kept))
    assert not refiner.model.fits(refiner.frame("Who?", more))


@settings(max_examples=25, deadline=None)
@given(text=st.text(max_size=300), question=st.text(max_size=20))
def test_what_is_fitted_fits_and_begins_as_the_text_does(t5: Path, text: str, question: str) -> None:
    rewriter = make(t5, max_input_tokens=120).model
    inside: list[str] = []

    def frame(part: str) -> str:
        inside.append(part)
        return f"{question}|{part}|"

    made = rewriter.fitted(text, frame)
    kept = made.removeprefix(f"{question}|").removesuffix("|")
    assert text.startswith(kept)
    if not rewriter.fits(f"{question}|{text}|"):
        assert len(kept) < len(text)
    if rewriter.fits(f"{question}||"):
        assert rewriter.fits(made)


def test_a_text_that_cannot_be_rewritten_is_named(t5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        RewritingFailed, match=r"refine: the model could not rewrite.*at most 40.*refine\.max_input_tokens=N"
    ):
        make(t5, max_input_tokens=40).refine(["mill " * 100], [HITS])
    refiner = make(t5)
    monkeypatch.setattr(refiner.model.engine, "complete", lambda *_, **__: [failed("out of memory")])
    with pytest.raises(RewritingFailed, match="out of memory"):
        refiner.refine(["Who?"], [HITS])


def test_what_is_missing_is_named(tmp_path: Path, t5: Path) -> None:
    with pytest.raises(ConfigError, match=r"refine\.model=NAME, one of recomp-nq, recomp-tqa, recomp-hotpotqa"):
        make(None)
    with pytest.raises(EngineUnavailable, match=r"fangyuan/nq_abstractive_compressor is not on this.*refine\.model"):
        make("recomp-nq")
    with pytest.raises(EngineUnavailable, match=r"not an encoder-decoder.*refine\.model"):
        make(tiny_models.llama(tmp_path / "llama"))
    with pytest.raises(EngineUnavailable, match=r"pickle.*refine\.model"):
        make(tiny_models.pickled(tiny_models.t5_generator(tmp_path / "t5")))
    with pytest.raises(ConfigError, match=r"refine\.max_input_tokens=100.*takes prompts of 64"):
        make(tiny_models.bart(tmp_path / "bart"), max_input_tokens=100).refine(["a"], [HITS])
    with pytest.raises(ConfigError, match=r"refine\.max_new_tokens=100 is too large: .* room for 64"):
        make(tmp_path / "bart", max_new_tokens=100).refine(["a"], [HITS])


def test_identity_follows_weights_and_limits_and_loads_nothing(t5: Path, tmp_path: Path) -> None:
    refiner = make(t5)
    assert "model.safetensors" in refiner.identity()["model"]["files"]
    assert "model" not in vars(refiner.model.engine)
    assert make(t5).identity() == refiner.identity()
    assert make(t5, max_new_tokens=9).identity() != refiner.identity()
    assert make(t5, max_input_tokens=90).identity() != refiner.identity()
    other = tiny_models.t5_generator(tmp_path / "other")
    (other / "config.json").write_text((other / "config.json").read_text() + " ")
    assert make(other).identity() != refiner.identity()


def test_a_proposition_has_no_origin() -> None:
    [[rewritten, cut]] = Cut(Cut.Options()).refine(["q"], [[Hit("", "A fact.", 3, 0, 0), HITS[2]]]).contexts
    assert (rewritten.text, rewritten.origin) == ("A fact.", ())
    assert cut.origin == ((9, 0, 29),)


# --- The stage and the command


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(indexed(), tmp_path_factory.mktemp("recomp") / "store")


def experiment(folder: Path, model: Path, **refine: Any) -> Path:
    file = folder / "baselines.yaml"
    recomp = {"refiner": "recomp", "model": str(model), "precision": "fp32", "max_new_tokens": 20, **refine}
    methods = {
        "none": {"retrieve": None},
        "naive": {"retrieve": {"retriever": "passage"}},
        "recomp": {"retrieve": {"retriever": "passage"}, "refine": recomp},
    }
    retrieve = {"top_k": 3}
    generate = {"generator": "tests.support.fakes:FirstWords"}
    score = {"metrics": ["f1", "tokens", "useful_information"]}
    settings = {"index": "test", "retrieve": retrieve, "generate": generate, "score": score, "methods": methods}
    file.write_text(json.dumps(settings))
    return file


def test_recomp_from_the_command_line(store: Path, t5: Path, tmp_path: Path) -> None:
    command = ["evaluate", str(experiment(tmp_path, t5)), "--store", str(store), "--runner", "serial"]
    done = CliRunner().invoke(app, command, env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.output
    contexts = sql(store, of_recomp("SELECT question_id, text, origin", "evidence"))
    assert contexts
    assert len({question for question, _, _ in contexts}) == len(contexts)
    assert all(text and origin == [] for _, text, origin in contexts)
    answers = dict(sql(store, of_recomp("SELECT question_id, text", "candidates")))
    first_words = {question: " ".join(text.split()[:3]) for question, text, _ in contexts}
    assert answers == dict.fromkeys(answers, "") | first_words
    [(tokens, gpu)] = sql(store, of_recomp("SELECT sum(tokens), sum(gpu_seconds)", "costs", "evidence"))
    assert (tokens > 0, gpu) == (True, 0)
    metrics = dict(sql(store, of_recomp("SELECT metric, value", "summaries", "scores")))
    assert metrics["useful_information"] is None  # nobody knows which sentences a summary is of


def of_recomp(select: str, table: str, artifact: str | None = None) -> str:
    """Of a table's rows, those of the method; they lie with `artifact`."""
    return (
        f"{select} FROM {table} SEMI JOIN (FROM methods WHERE method = 'recomp' AND "
        f"table_name = '{artifact or table}') USING (fingerprint)"
    )


def test_without_contexts_the_question_is_asked_as_without_retrieval(
    store: Path, t5: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitalfew.tasks.models.causal.language_model.LocalModel.decode", lambda self, ids: "")
    file = experiment(tmp_path, t5, max_new_tokens=21)
    done = CliRunner().invoke(app, ["evaluate", str(file), "--store", str(store), "--runner", "serial"])
    assert done.exit_code == 0, done.output
    rows = sql(
        store,
        "SELECT method, question_id, prompt_id FROM methods JOIN candidates USING (fingerprint) "
        "WHERE methods.run_id = (SELECT max_by(run_id, started) FROM runs) AND table_name = 'candidates'",
    )
    prompts = {(method, question): prompt for method, question, prompt in rows}
    questions = {question for _, question, _ in rows}
    assert len(questions) == 10
    assert all(prompts["recomp", question] == prompts["none", question] for question in questions)
    assert not any(prompts["naive", question] == prompts["none", question] for question in questions)


def test_the_stage_travels_without_its_model(store: Path, t5: Path) -> None:
    from vitalfew.storage.artifacts import Artifact
    from vitalfew.storage.runs import find_index

    names = find_index(store, "test").artifacts
    passages = Artifact(store, *names["passages"].split("/"))
    chosen = RefineConfig(refiner="recomp", model=str(t5))
    stage = staged(Refine, store, passages, passages, passages, chosen)
    assert "method" not in stage.__getstate__()
    again = pickle.loads(pickle.dumps(stage))
    assert again.artifact == stage.artifact
    assert again.method is stage.method  # kept in this process
    assert (stage.workers, stage.num_gpus) == (1, 0.0)
    with pytest.raises(ConfigError, match=r"refine\.model is a setting of refiner .*recomp"):  # and not of `cut`
        staged(Refine, store, passages, passages, passages, chosen.model_copy(update={"refiner": "cut"}))
    plain = staged(Refine, store, passages, passages, passages, RefineConfig())
    assert plain.artifact != stage.artifact
