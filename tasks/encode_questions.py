"""encode_questions: questions → vectors, by the encoder that an index was made with."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from configs.schema import EncodeConfig
from storage import schemas
from storage.artifacts import Artifact
from tasks.encode import BadVectors, make_encoder
from tasks.stage import Progress, ShardResult, Stage


class EncodeQuestions(Stage):
    """Stage `encode_questions`. Indexes of one encoder share its rows, whatever their units and context modes."""

    name: ClassVar[str] = "encode_questions"
    table: ClassVar[str] = "question_vectors"

    def __init__(self, store: Path, asked: Artifact, config: EncodeConfig) -> None:
        self.encoder = make_encoder(config)
        super().__init__(store, {"asked": asked}, config)
        self.num_gpus = 1.0 if self.encoder.uses_gpu else 0.0

    config: EncodeConfig

    def config_identity(self) -> dict[str, Any]:
        return {}  # what concerns questions is in the encoder's identity

    def method_identity(self) -> dict[str, Any]:
        return {"encoder": self.config.encoder, **self.encoder.identity()}

    def shards(self) -> list[int]:
        return [record.shard for record in self.inputs["asked"].completed().shards]

    def total_rows(self) -> int:
        return self.inputs["asked"].completed().rows["asked"]

    def work(self, shard: int, progress: Progress) -> ShardResult:
        questions = pq.read_table(self.inputs["asked"].path(shard), columns=["question_id", "text"])
        encoded = self.encoder.encode_questions(questions["text"].to_pylist())
        if not np.isfinite(encoded.vectors).all():
            raise BadVectors(f"encoder {self.config.encoder!r}, questions of shard {shard}: not finite numbers")
        progress(len(questions), encoded.tokens)
        schema = schemas.question_vectors(self.encoder.dimension)
        flat = pa.array(np.asarray(encoded.vectors, np.float32).reshape(-1))
        vectors = pa.FixedSizeListArray.from_arrays(flat, type=schema.field("vector").type)
        table = pa.table([questions["question_id"], vectors], schema=schema)
        return ShardResult(len(questions), {self.table: table}, tokens=encoded.tokens)
