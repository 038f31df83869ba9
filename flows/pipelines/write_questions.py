"""Write questions from the passages of an index, as plain Python, and read sets of them back."""

import pyarrow as pa
import pyarrow.compute as pc

from vitalfew.configs.writing import WriteQuestions
from vitalfew.flows.pipelines.run import Plan
from vitalfew.storage import generations
from vitalfew.storage.artifacts import Artifact, Manifest
from vitalfew.storage.runs import WRITING
from vitalfew.tasks.datasets.base import InputError
from vitalfew.tasks.registry import completed
from vitalfew.tasks.stage import Stage
from vitalfew.tasks.write import Write, reasons_of
from vitalfew.tasks.writers.base import REASONS


class WritingPlan(Plan):
    """The stage that writes the set `parameters.name`, by default called as its index. The constructor raises
    IndexNotFound, UnknownName, ConfigError, and the errors of the writer."""

    flow = WRITING
    parameters: WriteQuestions

    def __init__(self, parameters: WriteQuestions) -> None:
        parameters = completed(parameters)
        store = parameters.store.absolute()  # a worker may have another working directory
        index = generations.named(parameters.store, parameters.index)
        name = parameters.name or index.name
        self.writing = Write(store, index.located(store)["passages"], parameters.write)
        super().__init__(parameters, name, [self.writing])

    @property
    def passages(self) -> int:
        """The passages of the index."""
        return self.writing.inputs["passages"].completed().rows["passages"]

    def tokens_of_a_question(self) -> float:
        """Tokens of the requests for a question of a passage of the mean length, if the replies are as long as they may
        be; 0 without a model."""
        return self.writing.method.tokens(_mean_length(self.writing.inputs["passages"]))

    def check(self, stage: Stage, manifest: Manifest) -> None:
        """Raises InputError where no question was written."""
        if not manifest.note("written"):
            rejects = stage.artifact.read(0, "rejects") if manifest.shards else None
            listed = [
                f"{count:,} × {reason} ({REASONS.get(reason, 'see rejects')})"
                for reason, count in (reasons_of(rejects) if rejects else [])
            ]
            more = "" if tried_all(stage.artifact) else "Try more passages (--set write.spare=20), or another writer"
            raise InputError(
                f"index {self.parameters.index}: no question could be written from any of {manifest.rows_in:,} "
                f"passages: {'; '.join(listed) or 'the index has none'}. "
                f"{more or 'These are all of the index: use another writer'} (`vitalfew methods`)"
            )


def _mean_length(passages: Artifact) -> float:
    """The mean length of the passages of the first shard that has any, in characters."""
    shard = next((record.shard for record in passages.completed().shards if record.rows("passages")), None)
    if shard is None:
        return 0.0
    return float(pc.mean(pc.utf8_length(passages.read(shard, columns=["text"])["text"])).as_py())


def tried_all(artifact: Artifact) -> bool:
    """Return whether every passage of the corpus was given to the writer of a finished set."""
    manifest = artifact.completed()
    corpus = Artifact(artifact.store, *manifest.inputs["passages"].split("/"))
    return manifest.rows_in == corpus.completed().rows["passages"]


def questions_of(artifact: Artifact) -> pa.Table:
    """The rows of `written_questions` of a set. Raises FileNotFoundError, Damaged."""
    return artifact.read(0, "written_questions")
