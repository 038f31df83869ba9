"""Experiments: what concerns several methods, what one alone, grids, and what is recorded."""

from typing import Any

import pytest

from vitalfew.configs.evaluation import Evaluate
from vitalfew.configs.loading import ConfigError
from vitalfew.flows.pipelines.experiments import complete, evaluation, find, names

BOTH: dict[str, Any] = {
    "index": "test",
    "generate": None,
    "methods": {"naive": {"retrieve": {"retriever": "passage"}}, "pareto": {"retrieve": {"retriever": "core_context"}}},
}


def recorded(evaluate: Evaluate) -> dict[str, Any]:
    """By method, its sections as a run records them."""
    return {method["name"]: method for method in evaluate.model_dump(mode="json")["methods"]}


def test_methods_override_the_defaults_and_what_is_given_overrides_both() -> None:
    settings = {
        "retrieve": {"top_k": 5},
        "generate": None,
        "methods": {
            "a": {"index": "one", "retrieve": {"top_k": 7}},
            "b": {"index": "two", "generate": {"max_tokens": 9}},
            "c": {"retrieve": None},
        },
    }
    others = {"retrieve": {"top_k": 3}, "generate": {"max_tokens": 4}}
    for given, expected in (({"index": "shared"}, (7, 9, None, None)), (others, (3, 4, None, None))):
        a, b, c = evaluation("trial", settings, given).methods
        assert (a.index, b.index, c.index) == ("one", "two", given.get("index"))
        assert a.retrieve is not None
        assert b.generate is not None
        assert (a.retrieve.top_k, b.generate.max_tokens, a.generate, c.retrieve) == expected


def test_only_some_methods_of_an_experiment() -> None:
    some = evaluation("trial", {**BOTH, "baseline": "naive", "optional": ["pareto"]}, {"only": ["pareto"]})
    assert ([method.name for method in some.methods], some.baseline, some.optional) == (["pareto"], None, ())
    with pytest.raises(ConfigError, match="only: the experiment has no method 'parto'; it has naive, pareto"):
        evaluation("trial", BOTH, {"only": ["parto"]})


def test_a_given_setting_of_other_methods_is_told_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """So that several experiments can be given the same settings."""
    given = {"retrieve": {"unit": "passage"}}
    assert evaluation("trial", BOTH, given) == evaluation("trial", BOTH)
    (told,) = [record.message for record in caplog.records]
    assert "retrieve.unit is a setting of retriever bm25, hybrid" in told
    with pytest.raises(ConfigError, match="of retriever bm25, hybrid"):  # in the experiment's own file it is a mistake
        evaluation("trial", {**BOTH, **given})


def test_a_grid_is_of_what_each_of_its_methods_has() -> None:
    swept = evaluation("trial", {**BOTH, "retrieve": {"alpha": [0.5, 1.0]}}).methods
    assert [method.name for method in swept] == ["naive", "pareto alpha=0.5", "pareto alpha=1.0"]
    refined = {"refiner": ["cut", "mmr"], "mmr_lambda": [0.5, 0.9]}
    one = {**BOTH, "methods": {"naive": {"retrieve": {"retriever": "passage"}}}, "refine": refined}
    assert [method.name for method in evaluation("trial", one).methods] == [
        "naive refiner=cut",
        "naive refiner=mmr mmr_lambda=0.5",
        "naive refiner=mmr mmr_lambda=0.9",
    ]
    same = {"a": {"retrieve": {"alpha": [0.5, 0.8]}}, "a alpha=0.5": {"retrieve": {"alpha": 0.5}}}
    with pytest.raises(ConfigError, match="two methods are named"):
        evaluation("trial", {**BOTH, "methods": same})
    contexts = evaluation("trial", BOTH, {"variant": {"encode": {"context": ["late", "exact"]}}}).methods
    assert [method.name for method in contexts] == ["naive", "pareto context=late", "pareto context=exact"]


def test_a_stage_of_the_tree_may_be_a_section() -> None:
    direct = {"label": {"labeller": "gold"}, "methods": {"a": {"perturb": {"noise": [1, 3]}}, "b": {"label": None}}}
    nested = {
        "stages": {"label": {"labeller": "gold"}},
        "methods": {"a": {"stages": {"perturb": {"noise": [1, 3]}}}, "b": {"stages": {"label": None}}},
    }
    section = evaluation("trial", {"index": "test", **direct}, {"perturb": {"seed": 7}})
    stage = evaluation("trial", {"index": "test", **nested}, {"stages": {"perturb": {"seed": 7}}})
    assert section == stage
    assert [method.name for method in section.methods] == ["a noise=1", "a noise=3", "b"]
    first, _, last = recorded(section).values()
    assert first["stages"]["perturb"] == {"noise": 1, "order": "retrieved", "seed": 7}
    assert ("label" in first["stages"], "label" in last["stages"]) == (True, False)


@pytest.mark.parametrize("name", names())
def test_completing_is_idempotent_and_survives_json(name: str) -> None:
    evaluate = evaluation(*find(name), {"index": "any"})
    assert evaluate.methods
    assert complete(evaluate) == evaluate
    again = complete(Evaluate.model_validate_json(evaluate.model_dump_json()))
    assert again.model_dump() == evaluate.model_dump()
