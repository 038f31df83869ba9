"""The log of requests: batches, files, a disk that is full, a server that is killed."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.support.serving import row, until
from vitalfew.storage import files, requests
from vitalfew.storage.catalog.database import query
from vitalfew.storage.requests import RequestLog


def written(store: Path) -> list[str]:
    return [identity for path in requests.paths(store) for identity in files.read_table(path)["request_id"].to_pylist()]


def test_rows_are_written_while_the_server_works(tmp_path: Path) -> None:
    log = RequestLog(tmp_path, every=0.01)
    log.add(row(0))
    until(lambda: written(tmp_path) == ["00000000"])
    log.add(row(1))
    until(lambda: written(tmp_path) == ["00000000", "00000001"])
    log.close()
    assert len(requests.paths(tmp_path)) == 1
    steps = "SELECT request_id, steps['retrieve'], question FROM requests ORDER BY 1"
    assert query(tmp_path, steps).fetchall() == [("00000000", 0.25, None), ("00000001", 0.25, None)]


def test_rows_wait_while_the_disk_refuses_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    full, tried, write = Event(), Event(), os.replace

    def replace(source: Any, target: Any) -> None:
        if full.is_set():
            tried.set()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(source, target)

    monkeypatch.setattr(os, "replace", replace)
    full.set()
    log = RequestLog(tmp_path, every=0.01, kept=20)
    for number in range(15):
        log.add(row(number))
    assert tried.wait(300)
    full.clear()
    until(lambda: written(tmp_path) == [f"{number:08}" for number in range(15)])
    full.set()
    for number in range(100, 130):
        log.add(row(number))
    until(lambda: log.lost == 10)
    tried.clear()
    assert tried.wait(300)
    full.clear()
    until(lambda: written(tmp_path) == [f"{number:08}" for number in [*range(15), *range(110, 130)]])
    full.set()
    log.add(row(200))
    log.close()
    assert log.lost == 11
    assert sum(os.strerror(errno.ENOSPC) in record.message for record in caplog.records) == 3


def test_a_row_that_no_table_can_hold_is_counted_as_lost(tmp_path: Path) -> None:
    log = RequestLog(tmp_path, every=0.01)
    log.add(row(0, question="half of a pair: \ud800"))
    log.add(row(1))
    until(lambda: log.lost == 1)
    log.add(row(2))
    log.close()
    assert written(tmp_path) == ["00000001", "00000002"]


ENDLESS = """
import sys, time
from itertools import count
from pathlib import Path
from tests.support.serving import row
from vitalfew.storage.requests import RequestLog
log = RequestLog(Path(sys.argv[1]), every=0.01)
for number in count():
    log.add(row(number))
    time.sleep(0.001)
"""


def test_a_kill_loses_what_was_not_written_and_nothing_else(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(tmp_path)])
    until(lambda: len(written(tmp_path)) > 100)
    process.send_signal(signal.SIGKILL)
    process.wait()
    kept = written(tmp_path)
    assert kept == sorted(kept)
    assert query(tmp_path, "SELECT count(*) FROM requests").fetchall() == [(len(kept),)]


def test_a_damaged_file_is_left_out_of_the_table(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    for number in range(2):
        log = RequestLog(tmp_path)
        log.add(row(number))
        log.close()
    path = requests.paths(tmp_path)[0]
    path.write_bytes(path.read_bytes()[:-20])
    assert query(tmp_path, "SELECT count(*) FROM requests").fetchall() == [(1,)]
    assert f"{path} is left out of the tables" in caplog.text
