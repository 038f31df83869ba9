"""What work is charged at: dated prices, prices by model, the energy of a GPU, and the model in the ledger."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import date
from pathlib import Path
from types import SimpleNamespace

import pyarrow.parquet as pq
import pytest
from pydantic import BaseModel
from typer.testing import CliRunner

from tests.support.indexing import index, sql
from vitalfew.configs.evaluation import GenerateConfig
from vitalfew.configs.schema import LoadConfig
from vitalfew.flows.cli.main import app
from vitalfew.storage import costs, files, schemas, usage
from vitalfew.storage.costs import Cost, Meter, charge, read_prices, working_alone, working_on
from vitalfew.storage.files import write_table
from vitalfew.storage.manifests import read_marker
from vitalfew.tasks.stage import Stage

LISTS = """
- {dated: 2027-03-01, cpu_core_hour: 0.10, gpu_hour: 3.0, million_tokens: {"openai:large": 2.0}}
- {dated: 2026-11-21, cpu_core_hour: 0.05, gpu_hour: 2.5, million_tokens: 1.0}
"""


@pytest.fixture
def prices(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Where to write a list of prices; what was read before is forgotten."""
    path = tmp_path / "prices.yaml"
    path.write_text(LISTS)
    monkeypatch.setattr(costs, "PRICES", path)
    costs._price_lists.cache_clear()
    yield path
    costs._price_lists.cache_clear()


@pytest.mark.parametrize(
    ("day", "dated"),
    [
        ("2026-01-01", "2026-11-21"),
        ("2026-11-21", "2026-11-21"),
        ("2027-02-28", "2026-11-21"),
        ("2027-03-01", "2027-03-01"),
    ],
)
def test_the_list_that_holds_on_a_day(prices: Path, day: str, dated: str) -> None:
    assert read_prices(date.fromisoformat(day)).dated == date.fromisoformat(dated)


def test_charges_by_day_and_model(prices: Path) -> None:
    old, new = date(2026, 12, 1), date(2027, 4, 1)
    assert charge(3600, 0, 0, on=old) == pytest.approx(0.05)
    assert charge(3600, 7200, 0, on=new) == pytest.approx(0.10 + 6.0)
    assert charge(0, 0, 1e6, "minilm", old) == pytest.approx(1.0)  # one number: every model
    assert charge(0, 0, 1e6, "minilm", new) == 0
    assert charge(0, 0, 5e5, "openai:large", new) == pytest.approx(1.0)


def test_a_single_list_and_what_is_refused(prices: Path) -> None:
    prices.write_text("dated: 2026-11-21\ncpu_core_hour: 1\ngpu_hour: 2\nmillion_tokens: 3\n")
    costs._price_lists.cache_clear()
    assert charge(3600, 0, 0) == pytest.approx(1)
    for wrong, said in [("[]", "needs `dated"), ("- {dated: soon}", "prices.yaml"), (LISTS + "- {cpu: 1}", "'cpu'")]:
        prices.write_text(wrong)
        costs._price_lists.cache_clear()
        with pytest.raises(ValueError, match=said):
            charge(1, 1, 1)


def test_names_of_models() -> None:
    class Made(Stage):
        role = "generator"

        def __init__(self, config: BaseModel) -> None:
            """Without a store."""
            self.config = config

    Made.__abstractmethods__ = frozenset()
    assert Made(GenerateConfig(generator="reader")).model_name == "reader"
    assert Made(GenerateConfig(generator="openai", model="large")).model_name == "openai:large"
    Made.role = None
    assert Made(LoadConfig(max_chars=5)).model_name is None


def test_the_ledger_names_the_model(tmp_path: Path) -> None:
    index(tmp_path)
    named = dict(sql(tmp_path, "SELECT DISTINCT stage, model FROM costs"))
    assert named == {"load": None, "split": "punkt", "encode": "tests.support.fakes:HashEncoder", "index": None}


def test_a_ledger_of_an_older_version(tmp_path: Path) -> None:
    """It has no columns for the model, the energy and the node: none is told, and the rest can be read."""
    index(tmp_path)
    for path in tmp_path.glob("costs/*/*.parquet"):
        columns = [name for name in schemas.COSTS.names if name not in ("model", "gpu_joules", "node")]
        write_table(path, pq.read_table(path).select(columns))
    (tmp_path / "catalog.duckdb").unlink(missing_ok=True)
    assert sql(tmp_path, "SELECT DISTINCT model, gpu_joules, node FROM costs") == [(None, None, None)]
    assert len(sql(tmp_path, "FROM spending()")) == 4
    (tmp_path / "runs").mkdir(exist_ok=True)
    index(tmp_path, encode={"context": "passage"})  # another artifact: old and new ledgers side by side
    assert ("tests.support.fakes:HashEncoder",) in sql(tmp_path, "SELECT model FROM spending()")
    assert "not recorded" in _shown(tmp_path)


def test_the_ledger_names_the_node(tmp_path: Path) -> None:
    index(tmp_path)
    assert sql(tmp_path, "SELECT DISTINCT node FROM costs") == [(socket.gethostname(),)]
    assert "node" not in _shown(tmp_path)  # the only one
    with working_on("ann/1f09ac"):
        index(tmp_path, encode={"context": "passage"})
    own = socket.gethostname()
    named = sql(tmp_path, "SELECT node, list(DISTINCT stage ORDER BY stage) FROM spending() GROUP BY 1")
    assert dict(named) == {own: ["encode", "index", "load", "split"], "ann/1f09ac": ["encode", "index"]}
    assert all(re.search(rf"^{name} +[\d,]+", _shown(tmp_path), re.MULTILINE) for name in (own, "ann/1f09ac"))


def _shown(store: Path) -> str:
    result = CliRunner().invoke(app, ["costs", "--store", str(store)], env={"COLUMNS": "200"})
    assert result.exit_code == 0, result.output
    return result.output


def test_a_record_of_an_older_version_has_no_node(tmp_path: Path) -> None:
    cost = {"started": "2026-11-22T00:00:00+00:00", "tokens": 3, "wall_seconds": 0.5}
    marker = tmp_path / "scores" / "0123456789abcdef" / "done" / "00000.json"
    files.write_json(marker, {"shard": 0, "run_id": "r", "files": [], "rows_in": 1, "cost": cost})
    record = read_marker(marker)
    assert (record.cost.tokens, record.cost.node) == (3, "")


SPIN = """
import time
while time.process_time() < 0.5:
    pass
print(flush=True)
input()
"""


def test_what_is_done_where_a_command_runs_is_measured_without_its_server() -> None:
    command = [sys.executable, "-c", SPIN]
    taken: list[Cost] = []
    for place in (nullcontext(), working_alone()):
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
            assert server.stdout
            with place, Meter() as meter:
                server.stdout.readline()
            taken.append(meter.cost)
            server.communicate(b"end")
    together, alone = taken
    assert alone.cpu_seconds < together.cpu_seconds
    assert alone.peak_memory_bytes < together.peak_memory_bytes


class Gpu:
    """What stands in for NVML: a GPU that takes 500 J between two looks."""

    NVMLError = RuntimeError

    def __init__(self) -> None:
        self.millijoules = 0

    def nvmlInit(self) -> None:
        """Always there."""

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:
        raise self.NVMLError(f"no GPU {uuid!r}")

    def nvmlDeviceGetTotalEnergyConsumption(self, device: int) -> int:
        self.millijoules += 500_000
        return self.millijoules


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "pynvml", Gpu())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    usage._gpu.cache_clear()
    yield
    usage._gpu.cache_clear()


@pytest.mark.usefixtures("gpu")
def test_energy_is_charged_by_share() -> None:
    with Meter(0.5) as half:
        sum(range(1000))
    assert half.cost.gpu_joules == 250
    with Meter() as none:
        sum(range(1000))
    assert none.cost.gpu_joules is None


@pytest.mark.usefixtures("gpu")
def test_no_gpu_no_energy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert usage.gpu_joules() is None


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)  # type: ignore[arg-type]  # as if it were not installed
    usage._gpu.cache_clear()
    assert usage.gpu_joules() is None
    usage._gpu.cache_clear()


def test_what_the_stand_in_has_the_library_has() -> None:
    library: SimpleNamespace = pytest.importorskip("pynvml")
    assert all(hasattr(library, name) for name in vars(Gpu) if name.startswith(("nvml", "NVML")))
