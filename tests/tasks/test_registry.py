"""Where a name is resolved: what its method has is completed, what it does not have is told."""

import pytest
from pydantic import ConfigDict, Field

from vitalfew.configs.evaluation import RefineConfig, SelectConfig
from vitalfew.configs.loading import ConfigError
from vitalfew.configs.schema import EncodeConfig, IndexCorpus, RetrieveConfig
from vitalfew.tasks.registry import UnknownName, as_recorded, completed, make, with_options
from vitalfew.tasks.retrievers.dense import CoreContext


class Mine:
    """A selector of one's own."""

    class Options(SelectConfig):
        model_config = ConfigDict(extra="forbid")

        sharpness: float = Field(1.0, ge=0)

    def __init__(self, options: Options) -> None:
        self.options = options


MINE = "tests.tasks.test_registry:Mine"


def test_a_method_is_made_of_its_options() -> None:
    retriever = make(RetrieveConfig(alpha=0.5), "retrieve")
    assert isinstance(retriever, CoreContext)
    assert retriever.options == CoreContext.Options(alpha=0.5)
    assert make(SelectConfig(selector=MINE, sharpness=2), "select").options.sharpness == 2


def test_an_unknown_option_is_told_with_the_nearest_and_its_owner() -> None:
    with pytest.raises(ConfigError, match=r"unknown setting 'retrieve\.alhpa' \(did you mean 'retrieve\.alpha'"):
        with_options(RetrieveConfig(alhpa=0.5), "retrieve")
    with pytest.raises(ConfigError, match=r"retrieve\.alpha is a setting of retriever core_context, hybrid"):
        with_options(RetrieveConfig(retriever="passage", alpha=0.5), "retrieve")
    with pytest.raises(ConfigError, match=r"setting 'refine\.mmr_lambda'.*less than or equal to 1 \(got 3\)"):
        with_options(RefineConfig(refiner="mmr", mmr_lambda=3), "refine")
    with pytest.raises(UnknownName, match="did you mean 'passage'"):
        with_options(RetrieveConfig(retriever="pasage"), "retrieve")


def test_what_a_run_recorded_of_a_method_that_went_stays_as_it_is() -> None:
    recorded = EncodeConfig(encoder="gone.module:Class"), SelectConfig(selector=MINE, width=2)
    for section, path in zip(recorded, ("encode", "select"), strict=True):
        assert as_recorded(section, path) is section
    assert as_recorded(SelectConfig(selector=MINE), "select").model_dump() == {"selector": MINE, "sharpness": 1.0}


def test_parameters_are_completed_with_every_option_in_force() -> None:
    corpus = IndexCorpus.model_validate({"datasets": ["synthetic:"], "name": "a", "index": {"type": "ivf_pq"}})
    whole = completed(corpus).model_dump(mode="json")
    assert whole["index"]["recall"] == 0.95
    assert whole["split"]["sample_chars"] == 2_000_000
    assert whole["encode"]["pooling"] == "auto"
    with pytest.raises(ConfigError, match=r"split\.file is a setting of splitter ready_propositions"):
        completed(IndexCorpus.model_validate({"datasets": ["x:"], "name": "a", "split": {"file": "mine.jsonl"}}))
