"""Sections of the settings: what is shared, what is a method's own, what is part of a fingerprint."""

import pickle

import pytest

from vitalfew.configs.evaluation import RefineConfig, ScoreConfig, SelectConfig
from vitalfew.configs.schema import EncodeConfig, IndexConfig, RetrieveConfig, SplitConfig
from vitalfew.configs.section import NOT_IN_FINGERPRINT, Section
from vitalfew.tasks.registry import METHODS, settings_of, with_options

SECTIONS = (SplitConfig, EncodeConfig, IndexConfig, RetrieveConfig, RefineConfig, SelectConfig, ScoreConfig)


@pytest.mark.parametrize("section", SECTIONS, ids=[section.kind for section in SECTIONS])
def test_a_completed_section_survives_copies_and_its_identity_has_what_is_in_the_fingerprint(
    section: type[Section],
) -> None:
    for name in METHODS[section.kind]:
        named = (name,) if section.field() == "metrics" else name
        completed = with_options(section.model_validate({section.field(): named}), "here")
        assert with_options(completed, "here") == completed
        as_json = section.model_validate_json(completed.model_dump_json())
        assert with_options(as_json, "here").model_dump() == completed.model_dump()
        assert pickle.loads(pickle.dumps(completed)) == completed
        assert completed.methods == (name,)
        fields = settings_of(completed).items()
        left_out = {key for key, field in fields if NOT_IN_FINGERPRINT in field.metadata}
        assert completed.identity().keys() == completed.model_dump().keys() - left_out


def test_how_it_is_computed_is_no_part_of_an_identity() -> None:
    usual = with_options(EncodeConfig(), "encode")
    computed = {"device": "cpu", "precision": "bf16", "batch_tokens": 16, "reuse": False}
    assert with_options(EncodeConfig.model_validate(computed), "encode").identity() == usual.identity()
    assert with_options(EncodeConfig(context="pooled"), "encode").identity() != usual.identity()
