"""A manifest and the table of its shards: what is written is read back, and any damage is seen."""

from pathlib import Path

import pytest

from vitalfew.storage import files, manifests
from vitalfew.storage.artifacts import Artifact, File, Manifest, ShardRecord
from vitalfew.storage.costs import Cost
from vitalfew.storage.files import DamagedRecord

NAME = "vectors/0000000000000000"


def manifest_of(shards: int) -> Manifest:
    def file(name: str) -> File:
        return File("vectors", f"{NAME}/{name}.parquet", 7, 1_000, "0" * 32, 1_700_000_000_000_000_000)

    records = [
        ShardRecord(
            number,
            "run",
            [file(f"{number:05d}")] * (number % 3),
            7,
            Cost("2026-11-22T00:00:00+00:00", 5, 0.1, 0.2, gpu_joules=0.5 if number % 2 else None),
            {"reused": number} if number else {},
        )
        for number in range(shards)
    ]
    preparation = ShardRecord(-1, "run", [file("template")], 0, Cost("2026-11-22T00:00:00+00:00"))
    made = (
        "encode",
        "2",
        NAME,
        {"sentences": "sentences/0123456789abcdef"},
        {"a": [1]},
        {"b": None},
        "1.0",
        "2026-11-22T00:00:00+00:00",
    )
    return Manifest(*made, 7, {"vectors": 7}, records, preparation, "minilm", [file("whole")])


@pytest.mark.parametrize("shards", [0, 1, 3])
def test_a_manifest_is_read_back(tmp_path: Path, shards: int) -> None:
    written = manifest_of(shards)
    manifests.write_manifest(tmp_path / NAME, written)
    assert manifests.read_manifest(tmp_path / NAME) == written
    assert written.note("reused") == sum(range(shards))
    assert written.note("other") == 0
    assert "00000.parquet" not in (tmp_path / NAME / "manifest.json").read_text()  # shards are elsewhere


def test_damage_of_the_table_of_shards_is_seen(tmp_path: Path) -> None:
    artifact = Artifact(tmp_path, *NAME.split("/"))
    artifact.complete(manifest_of(3))
    table = artifact.directory / manifests.SHARDS
    content = table.read_bytes()
    for place in range(0, len(content), 97):
        table.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(DamagedRecord, match=r"done/shards\.parquet differs from what was written"):
            manifests.read_manifest(artifact.directory)
        assert artifact.recorded_manifest() is None
    table.unlink()
    with pytest.raises(DamagedRecord, match=r"done/shards\.parquet is missing"):
        manifests.read_manifest(artifact.directory)
    table.write_bytes(content)
    assert artifact.recorded_manifest() == manifest_of(3)


def test_a_manifest_is_parsed_once_while_it_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[Path] = []
    read = manifests.read_manifest
    monkeypatch.setattr(manifests, "read_manifest", lambda directory: parsed.append(directory) or read(directory))
    artifact = Artifact(tmp_path, *NAME.split("/"))
    assert artifact.recorded_manifest() is None
    for shards in (2, 3):
        artifact.complete(manifest_of(shards))
        assert [len(artifact.completed().shards) for _ in range(5)] == [shards] * 5
    assert len(parsed) == 2
    files.remove(artifact.file("manifest.json"))
    assert artifact.recorded_manifest() is None
