"""The frame of a stage: fingerprint, preparation, shards, done-markers, manifest.

A stage object is a description (store, inputs, configuration) that travels to workers; the model it needs is loaded
there by `open`. A verb file subclasses `Stage` and says what a shard of its work is; a runner (flows/execute.py, or a
plain loop) decides where a shard is done.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from vitalfew.configs.section import Config
from vitalfew.storage import files, journals
from vitalfew.storage.artifacts import (
    PREPARATION,
    Artifact,
    File,
    Held,
    Manifest,
    ShardRecord,
    fingerprint,
    whole_bases,
)
from vitalfew.storage.costs import LOADING, Cost, Meter, Reused
from vitalfew.storage.journals import Journal
from vitalfew.storage.manifests import PREPARED
from vitalfew.storage.names import attempt
from vitalfew.tasks.models.causal.engines.budget import charging
from vitalfew.tasks.models.causal.engines.memory import remembering
from vitalfew.tasks.models.causal.engines.remote import Unanswered
from vitalfew.tasks.models.loading import loaded
from vitalfew.tasks.models.readings import READINGS, Memory, Reading
from vitalfew.tasks.models.readings import remembering as remembering_readings
from vitalfew.tasks.models.ticks import Counted, Tick, no_tick
from vitalfew.tasks.registry import construct, kept

Progress = Tick


@cache
def _code_version() -> str:
    """Looked up once: it parses the package's metadata, and every record of an artifact names it."""
    return version("vitalfew")


@dataclass
class ShardResult:
    """The result of a shard: rows per table, other files, tokens computed, counts for the manifest, those of the tokens
    that a server had cached, and what the rows took that were taken over from earlier work."""

    rows_in: int
    tables: Mapping[str, pa.Table] = field(default_factory=dict)
    files: list[File] = field(default_factory=list)
    tokens: int = 0
    notes: dict[str, int] = field(default_factory=dict)
    cached: int = 0
    reused: Reused = field(default_factory=Reused)


class RowsLost(RuntimeError):
    """Rows in ≠ rows out + rejects: a fault of the program, never of the input."""


class MethodChanged(ValueError):
    """A method, its model or the device changed after its stage was planned: the message names the difference."""


def compare(who: str, planned: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises MethodChanged where two identities differ."""
    if now == planned:
        return
    what = ", ".join([*_differences(planned, now)][:3])
    raise MethodChanged(
        f"{who}: {what} changed since this run was planned, or differs on this machine. Run the same command again to "
        "plan with what is there now; if the machines differ, set device and precision in the settings"
    )


def _differences(planned: Any, now: Any, path: str = "") -> Iterator[str]:
    """Where they differ: files/model.safetensors."""
    if isinstance(planned, Mapping) and isinstance(now, Mapping):
        for key in sorted({*planned, *now}):
            yield from _differences(planned.get(key), now.get(key), f"{path}/{key}".lstrip("/"))
    elif planned != now:
        yield path


_working: list[Callable[[], None]] = []
"""Called where this process is ended: for every shard that it works on, they enter in the ledger what was spent."""


def give_up_work() -> None:
    """Enter in the ledger what the shards took that this process works on, before it ends without unwinding."""
    for give_up in [*_working]:
        give_up()


class Stage(ABC):
    """One box of the dataflow. Its `inputs` give its place in the order; static facts about it are declared only
    here."""

    name: ClassVar[str]
    table: ClassVar[str]
    """Its first output, whose directory holds the markers and the manifest."""
    section: ClassVar[str]
    """The section of its settings; "": they are at the top, as those of a recipe."""
    role: ClassVar[str | None] = None
    """The setting that names the method whose tokens are paid for: encoder, generator. None: it has no model."""
    priced: ClassVar[str] = ""
    """The setting by which the model is priced, where it is not `role`: the engine of one that a server may answer."""
    version: ClassVar[str] = "1"
    over: ClassVar[str] = ""
    """The input whose shards are this stage's shards, one for one; "": the first."""
    counts: ClassVar[str] = ""
    """The input whose rows are reported to `Progress`; "": `over`."""
    at_home: ClassVar[bool] = False
    """Its preparation reads local files: it is done where the command runs, even if a cluster does the work."""
    num_gpus: float = 0.0
    """GPUs of a worker, which the ledger counts and Ray reserves."""
    workers: int | None = None
    """Workers at most; None: as many as there is room for."""

    def __init__(self, store: Path, inputs: Mapping[str, Artifact], config: Config) -> None:
        self.store = store
        self.inputs = dict(inputs)
        self.config = config
        self.planned = self.method_identity()
        identity = fingerprint(
            stage=self.name,
            version=self.version,
            inputs={role: artifact.name for role, artifact in self.inputs.items()},
            config=self.config_identity(),
            method=self.planned,
        )
        in_memory = any(isinstance(artifact, Held) for artifact in self.inputs.values())
        self.artifact = (Held if in_memory else Artifact)(store, self.table, identity)

    def setting(self, key: str) -> str:
        """One of its settings, as `--set` takes it."""
        return f"{self.section}.{key}" if self.section else key

    @property
    def model_name(self) -> str | None:
        """The model as the settings name it and the prices list it: minilm, openai:NAME. None: no model."""
        if self.role is None:
            return None
        method, model = getattr(self.config, self.role), getattr(self.config, "model", None)
        return f"{getattr(self.config, self.priced, None) or method}:{model}" if model else str(method)

    def config_identity(self) -> dict[str, Any]:
        """The settings that change the result."""
        return self.config.identity()

    @abstractmethod
    def method_identity(self) -> dict[str, Any]:
        """Name, version and weights of the method that does the work."""

    def shards(self) -> list[int]:
        """The shard numbers, known once the stage is prepared: those of the input `over`."""
        return [record.shard for record in self._followed(self.over).completed().shards]

    def total_rows(self) -> int:
        """Rows that all shards together will report to `Progress`, for the estimate of the time left: those of the
        input `counts`."""
        artifact = self._followed(self.counts or self.over)
        return artifact.completed().rows[artifact.table]

    def contexts(self, shard: int, whose: str = "") -> dict[int, list[str]]:
        """The contexts of every question of a shard, best first; none where its method has none. `whose`: BASELINE for
        those of the baseline."""
        found = defaultdict[int, list[str]](list)
        if evidence := self.inputs.get(f"{whose}evidence"):
            for row in evidence.read(shard, columns=["question_id", "text"]).to_pylist():
                found[row["question_id"]].append(row["text"])
        return found

    def question_vectors(self, shard: int) -> np.ndarray:
        """The vectors of a shard's questions, float32 (n, d)."""
        column = self.inputs["question_vectors"].read(shard)["vector"].combine_chunks()
        return column.flatten().to_numpy().reshape(len(column), -1)

    def _followed(self, role: str) -> Artifact:
        return self.inputs[role or next(iter(self.inputs))]

    @abstractmethod
    def work(self, shard: int, progress: Progress) -> ShardResult:
        """Read one shard, call the method, return the rows."""

    def work_in_memory(self) -> ShardResult:
        """Work on inputs in memory, and leave the rows there for the next stages."""
        result = self.work(0, no_tick)
        if isinstance(self.artifact, Held):
            self.artifact.tables.clear()
            self.artifact.tables.update(result.tables)
        return result

    def open(self) -> None:
        """Load what every shard needs. Called once in a worker."""

    def prepare(self, progress: Progress) -> None:
        """Do what has to be done once, before any shard. Called again after a kill; goes on where it was."""

    def conclude(self, records: Sequence[ShardRecord]) -> Mapping[str, pa.Table]:
        """Tables about the whole, made of what its shards left behind. None by default."""
        return {}

    def check(self, manifest: Manifest) -> None:
        """Raise where the finished whole cannot be right or is of no use."""

    @property
    def staging(self) -> Path:
        """The folder of files that are removed when the artifact is complete."""
        return self.artifact.file("staging")

    def manifest(self) -> Manifest | None:
        """The manifest if there is nothing to do."""
        manifest = self.artifact.manifest()
        if manifest and not files.exists(self.artifact.ledger):
            self._write_costs(manifest)
        if manifest and files.exists(self.staging):
            # A run was killed between its manifest and this. Where a process holds the lock, it may be that one's own.
            with files.locked(self.artifact.lock, wait=False) as held:
                if held and self.artifact.manifest():
                    files.remove_tree(self.staging)
        return manifest

    def pending(self) -> list[int]:
        return self.artifact.pending(self.shards())

    def prepared(self) -> list[Path]:
        """The files that `prepare` leaves for the shards (a template, parameters). They are part of the artifact."""
        return []

    def is_prepared(self) -> bool:
        """Return whether its files are there, as they were written."""
        return self.artifact.record(PREPARATION) is not None

    def description(self) -> dict[str, Any]:
        """The part of the manifest that is known beforehand: inputs, settings, method and model."""
        return {
            "stage": self.name,
            "version": self.version,
            "artifact": self.artifact.name,
            "inputs": {role: artifact.name for role, artifact in self.inputs.items()},
            "config": self.config.model_dump(mode="json"),
            "method": self.planned,
            "model": self.model_name,
            "code_version": _code_version(),
        }

    def confirm(self) -> None:
        """Compare what the method works with (files of its model, the device) with what the fingerprint was taken of.
        Called before and after every piece of work, as a model is loaded in between. Raises MethodChanged."""
        compare(f"stage {self.name}", self.planned, self.method_identity())

    def run_preparation(self, run_id: str, progress: Progress) -> None:
        self.confirm()
        self.artifact.begin(self.description())
        if type(self).prepare is not Stage.prepare and not self.is_prepared():
            if earlier := self.artifact.record(PREPARATION):  # it is whole, but not of use any more; its cost stays
                self.artifact.add_costs(self.name, self.model_name, [earlier])
                files.remove(self.artifact.marker(PREPARATION))
            self._recorded(PREPARATION, run_id, progress)
        self.artifact.begin({**self.description(), "shards": len(self.shards())})

    def run_shard(self, shard: int, run_id: str, progress: Progress) -> ShardRecord:
        """Do one shard and mark it done. Raises MethodChanged, Unanswered where requests have no answer, and CapReached
        where they would cost too much; what came for the others is in the journal."""
        self.confirm()
        return self._recorded(shard, run_id, progress)

    def _recorded(self, shard: int, run_id: str, progress: Progress) -> ShardRecord:
        """Do a shard, or the preparation, and mark it done."""
        num_gpus = 0.0 if shard == PREPARATION else self.num_gpus
        journal = Journal(self.artifact, shard, run_id, num_gpus)
        meter = Meter(num_gpus, self.model_name, loaded)
        with attempt(run_id), meter, remembering(journal), self._at_work(shard, meter, journal, progress) as counted:
            if shard == PREPARATION:
                self.prepare(counted)
                result = ShardResult(0, files=[self.artifact.describe(path, PREPARED, 0) for path in self.prepared()])
            else:
                result = self.work(shard, counted)
            written = [self.artifact.write(shard, table, rows) for table, rows in result.tables.items()]
            meter.cost.tokens, meter.cost.cached_tokens = journal.tokens(result.tokens), result.cached
            result.reused.enter(meter.cost, num_gpus, self.model_name)
        self.confirm()
        record = ShardRecord(shard, run_id, written + result.files, result.rows_in, meter.cost, result.notes)
        return self._mark_done(record, journal, meter)

    @contextmanager
    def _at_work(self, shard: int, meter: Meter, journal: Journal, progress: Progress) -> Iterator[Counted]:
        """Within the block a shard is worked on, and its tokens are counted. If that is cancelled (not an
        Exception), the ledger gets what was spent: nothing else knows of it if nobody goes on with the work."""
        counted = Counted(progress)

        def give_up() -> None:
            meter.cost.tokens = journal.tokens(counted.tokens)
            meter.measure()
            spent = replace(meter.cost, started=journal.started)
            attempt = ShardRecord(shard, journal.run_id, [], 0, spent)
            with suppress(OSError):  # the disk may be full, and it is the cancellation that tells
                self._enter_loading(shard, journal.run_id, meter)
                self.artifact.add_costs(self.name, self.model_name, [attempt], finished=False)
                self.artifact.add_costs(self.name, self.model_name, [*self.artifact.records()])

        _working.append(give_up)
        try:
            with charging(self.model_name):
                yield counted
        except Exception:
            raise
        except BaseException:
            give_up()
            raise
        finally:
            _working.remove(give_up)

    def _enter_loading(self, shard: int, run_id: str, meter: Meter) -> None:
        """Enter in the ledger what a shard's worker took to load models."""
        if meter.apart.wall_seconds:
            self.artifact.add_costs(LOADING, self.model_name, [ShardRecord(shard, run_id, [], 0, meter.apart)])

    def _mark_done(self, record: ShardRecord, journal: Journal, meter: Meter) -> ShardRecord:
        """From now on the marker holds the cost, or the ledger if another attempt was first."""
        self._enter_loading(record.shard, record.run_id, meter)
        counted = journal.counted(record, self.model_name)
        marker = self.artifact.mark_done(counted)
        if marker is not counted:
            self.artifact.add_costs(self.name, self.model_name, [journal.uncounted(record, marker)])
        journal.remove()
        return marker

    def run(
        self, run_id: str, progress: Progress = lambda rows, tokens: None, expect: Callable[[int], Any] = int
    ) -> Manifest:
        """Do the missing shards in this process. `expect` gets the number of rows that `progress` will count. Raises
        Unanswered at the end, once all other shards are done."""
        if manifest := self.manifest():
            return manifest
        self.run_preparation(run_id, progress)
        expect(self.total_rows())
        if pending := self.pending():
            self.open()
            unanswered = []
            for shard in pending:
                try:
                    self.run_shard(shard, run_id, progress)
                except Unanswered as error:
                    unanswered.append(error)
            if unanswered:
                raise Unanswered.together(unanswered, self.name)
        return self.finish()

    def finish(self) -> Manifest:
        """Write the ledger of the artifact and its manifest, under its lock. Every shard must be done."""
        shards = self.shards()
        records = [record for record in self.artifact.records_of(shards) if record]
        if len(records) != len(shards):
            raise RuntimeError(f"{self.artifact.name}: {len(shards) - len(records)} shards are not done")
        with attempt("whole"):
            whole = [self.artifact.write(0, table, content) for table, content in self.conclude(records).items()]
        self.confirm()
        rows: dict[str, int] = {}
        for record in records:
            for file in record.files:
                rows[file.table] = rows.get(file.table, 0) + file.rows
        manifest = Manifest(
            **self.description(),
            completed=datetime.now(UTC).isoformat(),
            rows_in=sum(record.rows_in for record in records),
            rows=rows,
            shards=records,
            preparation=self.artifact.record(PREPARATION),
            whole=whole,
        )
        self.check(manifest)
        journals.remove_all(self.artifact)
        self._write_costs(manifest)
        self.artifact.complete(manifest)
        files.remove_tree(self.staging)
        return manifest

    def _write_costs(self, manifest: Manifest) -> None:
        preparation = [manifest.preparation] if manifest.preparation else []
        self.artifact.add_costs(self.name, self.model_name, [*preparation, *manifest.shards])


class MethodStage(Stage):
    """A stage whose work is done by one method of a kind. A model is not pickled: a worker constructs the method."""

    shared: ClassVar[bool] = True
    """Stages with the same settings share the method, with the model that it has loaded."""
    method: Any
    config: Config

    def __init__(self, store: Path, inputs: Mapping[str, Artifact], config: Config) -> None:
        """`config`: complete, as `with_options` makes it. Raises what the method's constructor raises."""
        self.method = self._constructed(config)
        super().__init__(store, inputs, config)
        self.num_gpus = 1.0 if getattr(self.method, "uses_gpu", False) else 0.0
        self.workers = getattr(self.method, "workers", self.workers)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "method"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.method = self._constructed(self.config)

    def _constructed(self, options: Any) -> Any:
        return kept(options, self.section) if self.shared else construct(options)

    def method_identity(self) -> dict[str, Any]:
        return self.method.identity()


class Earlier(NamedTuple):
    """A file of a finished artifact whose rows may be taken over, and what the shard that wrote it cost."""

    store: Path
    file: File
    cost: Cost

    @property
    def took(self) -> Reused:
        """The work of the shard, with what that took over itself."""
        cost = self.cost
        wall, cpu = cost.wall_seconds + cost.reused_wall_seconds, cost.cpu_seconds + cost.reused_cpu_seconds
        return Reused(cost.tokens + cost.reused_tokens, wall, cpu)

    def read(self, columns: Sequence[str]) -> pa.Table:
        return files.read_table(self.store / self.file.path, [*columns])


class ReusingStage(MethodStage):
    """A stage that takes over rows of finished artifacts of the store, so that nothing is computed, or paid, twice.

    Its rows have a key: a hash of everything that the rest of the row depends on."""

    trial_of: Path | None = None
    """A further store whose artifacts are reused, where a trial writes to another."""

    def bases(self, table: str) -> list[Earlier]:
        """The files with a table in finished artifacts of this stage, in a fixed order; none for work in memory. They
        are chosen once in a process."""
        if isinstance(self.artifact, Held):
            return []
        chosen: dict[str, list[Earlier]] = vars(self).setdefault("_bases", {})
        if table not in chosen:
            chosen[table] = [*self._finished(table)]
        return chosen[table]

    def _finished(self, table: str) -> Iterator[Earlier]:
        for store in filter(None, (self.store, self.trial_of)):
            for directory in files.folders(store / table):
                manifest = Artifact(store, self.table, directory.name).recorded_manifest()
                if manifest and manifest.version == self.version:  # another version's rows have other columns
                    yield from (
                        Earlier(store, file, record.cost)
                        for record in manifest.shards
                        for file in record.files
                        if file.table == table
                    )

    def known(
        self, table: str, key: str, ids: Sequence[int], where: str = "true", order: str = "place", rows: str = "earlier"
    ) -> dict[int, dict[str, Any]]:
        """The rows of finished artifacts by their keys, those of `ids`. `place`: of a row's file in `bases`; `where`,
        `order`: SQL, by which the first row of a key is taken; `rows`: SQL for the rows, of the whole table `earlier`.
        A damaged file is warned of, and gives none."""
        bases = self.bases(table)
        paths = [(path, place) for place, base in enumerate(bases) for path in whole_bases(base.store, [base.file])]
        if not paths or not ids:
            return {}
        import duckdb  # most stages do without

        names = [str(files.local(path)) for path, _ in paths]
        due = f"{rows} SEMI JOIN due ON {key} = id"
        query = f"SELECT DISTINCT ON ({key}) * FROM {due} WHERE {where} ORDER BY {key}, {order}"
        with duckdb.connect() as connection:
            connection.register("due", pa.table({"id": pa.array(ids, pa.int64())}))
            connection.register("placed", pa.table({"filename": names, "place": [place for _, place in paths]}))
            connection.from_parquet(names, filename=True).create_view("found")
            connection.sql("SELECT * EXCLUDE (filename) FROM found JOIN placed USING (filename)").create_view("earlier")
            return {row[key]: row for row in connection.sql(query).to_arrow_table().to_pylist()}

    def remembering(self) -> AbstractContextManager[Memory]:
        """Within the block, readings of texts by models are taken over, or kept for `Memory.table`."""
        return remembering_readings(Memory(self._readings))

    def _readings(self, keys: Sequence[int]) -> dict[int, Reading]:
        return {
            key: Reading(np.array(row["reading"], np.float32), *(row[name] for name in Reading._fields[1:]))
            for key, row in self.known(READINGS, "reading_id", keys).items()
        }


ANSWERED = "generate or select"
"""Where a further stage follows the last stage that decides the answer."""
BASELINE = "baseline_"
"""Begins the name of a table of the method that a method is compared with: `baseline_candidates`."""


class FurtherStage(Stage):
    """A stage that an evaluation has where its settings name it: `stages: {NAME: {…}}`. Its file says all of it.

    It reads tables of its method's earlier stages. A new table is a view of the catalog once it is written;
    where it writes one that an earlier stage has written (`evidence`), or `replaces` one, the later stages read its
    rows.
    """

    after: ClassVar[str]
    """The stage that it follows: retrieve, refine, generate, critique, select; or ANSWERED."""
    reads: ClassVar[tuple[str, ...]]
    """Tables, its `inputs`: those of earlier stages, `asked` (the questions), and `passages`, `sentences` and `vectors`
    of the index."""
    also_reads: ClassVar[tuple[str, ...]] = ()
    """Such tables that it reads where its method has them, and does without elsewhere; also those of the method's
    baseline (BASELINE): a baseline is compared with itself."""
    replaces: ClassVar[str] = ""
    """The table in whose place the later stages read this stage's. Metrics read both."""
    Options: ClassVar[type[Config]] = Config
    """Its settings."""

    @classmethod
    def is_due(cls, options: Any) -> bool:
        """Return whether the stage changes anything by these settings; else it is left out."""
        return True

    def method_identity(self) -> dict[str, Any]:
        return {"class": type(self).__qualname__}
