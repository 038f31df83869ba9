"""Exported vectors in other vector stores, as docs/how_to/vectors.md loads them: each finds what the index finds."""

from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest

import vitalfew as vf
from tests.support.evaluating import searchable
from tests.support.fakes import DIMENSION, HashEncoder

QUESTION = "Which city lies on a river?"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exported") / "mine.parquet"
    vf.Store(searchable(), progress=False).export_vectors("test", path)
    return path


@pytest.fixture(scope="module")
def question() -> np.ndarray:
    return HashEncoder().encode_questions([QUESTION]).vectors[0]


@pytest.fixture(scope="module")
def expected() -> list[int]:
    hits = vf.Store(searchable(), progress=False).index("test").search(QUESTION, retriever="passage", top_k=5)
    return [hit.passage_id for hit in hits]


def test_duckdb(exported: Path, question: np.ndarray, expected: list[int]) -> None:
    with duckdb.connect() as connection:
        vector = f"FLOAT[{DIMENSION}]"
        connection.execute(f"CREATE TABLE mine AS SELECT * REPLACE (vector::{vector} AS vector) FROM '{exported}'")
        query = f"SELECT id FROM mine ORDER BY array_negative_inner_product(vector, ?::{vector}) LIMIT 5"
        assert [row[0] for row in connection.execute(query, [question.tolist()]).fetchall()] == expected


@pytest.mark.integrations
def test_lancedb(exported: Path, question: np.ndarray, expected: list[int], tmp_path: Path) -> None:
    lancedb = pytest.importorskip("lancedb", reason="lancedb is in .venv-integrations: make test-integrations")
    batches, schema = pq.ParquetFile(exported).iter_batches(), pq.read_schema(exported)
    table = lancedb.connect(str(tmp_path / "lance")).create_table("mine", batches, schema=schema)
    assert table.search(question).distance_type("dot").limit(5).to_arrow()["id"].to_pylist() == expected
