"""Sections of the settings: what is shared, what is a method's own, what is part of a fingerprint."""

import pickle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vitalfew.configs.evaluation import RefineConfig, ScoreConfig, SelectConfig
from vitalfew.configs.schema import EncodeConfig, IndexConfig, IndexCorpus, RetrieveConfig, SplitConfig
from vitalfew.configs.section import NOT_IN_FINGERPRINT, Section, joined
from vitalfew.tasks.registry import METHODS, options_type, with_options

SECTIONS = (SplitConfig, EncodeConfig, IndexConfig, RetrieveConfig, RefineConfig, SelectConfig, ScoreConfig)
EVERY = [(section, name) for section in SECTIONS for name in METHODS[section.kind]]


def naming(section: type[Section], name: str, **options: Any) -> Section:
    named = (name,) if section.field() == "metrics" else name
    return section.model_validate({section.field(): named, **options})


every = pytest.mark.parametrize(("section", "name"), EVERY, ids=[f"{s.kind}-{name}" for s, name in EVERY])


@every
def test_completing_is_idempotent_and_survives_json_and_pickle(section: type[Section], name: str) -> None:
    completed = with_options(naming(section, name), "here")
    assert with_options(completed, "here") == completed
    as_json = section.model_validate_json(completed.model_dump_json())
    assert with_options(as_json, "here").model_dump() == completed.model_dump()
    assert pickle.loads(pickle.dumps(completed)) == completed
    assert completed.methods == (name,)


@every
def test_the_identity_leaves_out_what_is_not_in_the_fingerprint(section: type[Section], name: str) -> None:
    completed = with_options(naming(section, name), "here")
    fields = options_type(completed).model_fields.items()
    left_out = {key for key, field in fields if NOT_IN_FINGERPRINT in field.metadata}
    assert completed.identity().keys() == completed.model_dump().keys() - left_out


@settings(max_examples=50, deadline=None)
@given(
    st.sampled_from(["auto", "cpu", "cuda"]),
    st.sampled_from(["auto", "bf16", "fp32"]),
    st.none() | st.integers(16, 9999),
    st.booleans(),
)
def test_how_it_is_computed_is_no_part_of_an_identity(
    device: str, precision: str, tokens: int | None, reuse: bool
) -> None:
    given_options = {"device": device, "precision": precision, "batch_tokens": tokens, "reuse": reuse}
    usual = with_options(EncodeConfig(), "encode")
    assert with_options(EncodeConfig.model_validate(given_options), "encode").identity() == usual.identity()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(set(METHODS["metric"]) - {"mauve"})), min_size=1),
    st.lists(st.integers(1, 99), min_size=1),
    st.none() | st.integers(1, 99),
)
def test_the_options_of_several_methods_stand_side_by_side(metrics: list[str], k: list[int], words: int | None) -> None:
    fields = options_type(ScoreConfig(metrics=tuple(metrics))).model_fields
    possible = {"k": tuple(k), "max_words": words, "right_by": "choice"}
    options = {key: value for key, value in possible.items() if key in fields}
    completed = with_options(ScoreConfig.model_validate({"metrics": metrics, **options}), "score")
    assert completed.model_dump() == {"metrics": tuple(metrics), **options}
    assert ("k" in fields) == bool({"passage_recall", "answer_recall", "ndcg"} & {*metrics})
    assert ("max_words" in fields) == bool({"accuracy", "answer_set", "set_size"} & {*metrics})
    assert pickle.loads(pickle.dumps(completed)) == completed


def test_a_class_of_joined_options_is_one() -> None:
    assert joined((ScoreConfig,)) is joined((ScoreConfig,))
    assert joined((ScoreConfig,)).shared() is ScoreConfig


def test_a_fused_index_has_an_alpha_and_a_dual_one_none() -> None:
    assert IndexConfig(layout="fused").alpha == 0.8
    assert IndexConfig(layout="fused", alpha=0.3).alpha == 0.3
    assert IndexConfig().alpha is None


def test_units_are_kept_in_one_order() -> None:
    assert EncodeConfig(units=("passage", "sentence", "passage")).units == ("sentence", "passage")


def test_a_corpus_keeps_what_is_a_methods_own() -> None:
    given_settings = {
        "datasets": ["synthetic:"],
        "name": "a",
        "encode": {"max_tokens": 64},
        "index": {"layout": "fused"},
    }
    corpus = IndexCorpus.model_validate(given_settings)
    assert corpus.model_dump()["encode"]["max_tokens"] == 64
    assert IndexCorpus.model_validate_json(corpus.model_dump_json()).model_dump() == corpus.model_dump()
