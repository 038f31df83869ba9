"""PFE-Self-RAG's experiments: the four tasks by their own way of being right, and who reads how many passages."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.evaluating import evaluated, values
from tests.support.indexing import index
from tests.support.samples import SAMPLES
from vitalfew.configs.evaluation import Evaluate
from vitalfew.flows.pipelines.experiments import evaluation, find

TASKS = {"popqa": "popqa", "triviaqa": "triviaqa", "arc_challenge": "arc", "pubhealth": "pubhealth"}
CLOSED = ("arc_challenge", "pubhealth")
TABLE_2 = ("table2", "table2_selfrag", *TASKS)
FAKES = {
    "generate": {"generator": "tests.support.fakes:FirstWords"},
    "critique": {"critic": "tests.support.fakes:WordCritic"},
}


def experiment(name: str, **given: Any) -> Evaluate:
    return evaluation(*find(f"pfe_self_rag/{name}"), {"index": "test", **given})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("store")
    index(store, "synthetic:passages=60,questions=10,seed=3")
    return store


@pytest.mark.parametrize("name", TASKS)
def test_a_task_is_scored_in_its_own_way_whatever_answers(store: Path, name: str, tmp_path: Path) -> None:
    path = SAMPLES[TASKS[name]].write(tmp_path)
    minilm = {"refine": {"vectors": "index"}}  # the index has hashes for vectors
    asked = {"questions": {"dataset": f"{TASKS[name]}:{path}"}, "store": store, "runner": "serial"}
    parameters = experiment(name, **asked, **FAKES, **minilm)
    outcome = evaluated(parameters)
    right = "choice" if name in CLOSED else "accuracy"
    for method in parameters.methods:
        assert values(store, outcome, method.name)[right] is not None
    contexts = {method: each["generate"].rows["candidates"] for method, each in outcome.methods.items()}
    questions = outcome.methods["Self-RAG"]["score"].rows_in
    assert contexts["no retrieval"] == contexts["naive RAG"] == questions
    assert contexts["Self-RAG"] == 10 * questions
    assert contexts["PFE, full Pareto set"] == contexts["PFE, geometric mean"] == 5 * questions


@pytest.mark.parametrize("name", TABLE_2)
def test_self_rag_reads_all_ten_and_votes_in_closed_tasks_alone(name: str) -> None:
    methods = {method.name: method.model_dump() for method in experiment(name).methods}
    for label, method in methods.items():
        assert method["retrieve"] is None or method["retrieve"]["top_k"] == 10
        if label.startswith("PFE") or label.endswith(", five contexts"):
            refine = method["refine"]
            assert (refine["refiner"], refine["top_k"], refine["mmr_lambda"]) == ("mmr", 5, 0.9)
        elif method["retrieve"]:
            assert (method["refine"]["refiner"], method["refine"]["top_k"]) == ("cut", 10)
    assert methods["Self-RAG"]["select"]["add_equal"] == (name in CLOSED)


ONE_BY_ONE = {"Self-RAG": 10, "ISREL alone": 10, "ISREL alone, five contexts": 5, "PFE, nearest to the ideal": 5}
TUNED = ("Self-RAG, tuned weights", "Self-RAG, tuned weights, five contexts")


def test_the_rivals_of_table_2_share_their_answers_and_tune_their_weights_on_other_questions(tmp_path: Path) -> None:
    index(tmp_path, "synthetic:passages=60,questions=60,seed=3")
    parameters = experiment("table2", store=tmp_path, runner="serial", score={"metrics": ["accuracy"]}, **FAKES)
    assert parameters.choose is not None
    few = [each for each in parameters.choose.options if each.values["select.weight_isuse"] == 0.25][::4]
    choose = parameters.choose.model_copy(update={"options": tuple(few)})
    outcome = evaluated(parameters.model_copy(update={"choose": choose}))
    asked = outcome.methods["Self-RAG"]["score"].rows_in
    for method, contexts in ONE_BY_ONE.items():
        assert outcome.methods[method]["generate"].rows["candidates"] == contexts * asked
    for method in ("naive RAG", "naive RAG, five contexts"):
        assert outcome.methods[method]["generate"].rows["candidates"] == asked
    answered = {name: stages["generate"].artifact for name, stages in outcome.methods.items()}
    judged = {name: stages["critique"].artifact for name, stages in outcome.methods.items() if "critique" in stages}
    assert len({*answered.values()}) == 5  # no retrieval, two prompts of several contexts, ten and five by themselves
    assert len({*judged.values()}) == 2
    chosen = outcome.run.config["chosen"]
    assert {each["method"] for each in chosen["tried"] if each["taken"]} == {*TUNED}
    assert chosen["questions"] + asked == 60
    development = outcome.development
    assert development is not None
    assert len({stages["generate"].artifact for stages in development.methods.values()}) == 2
