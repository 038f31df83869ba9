"""Long units are cut, and none is longer than the encoder reads."""

import json
from pathlib import Path

from tests.support.indexing import index, table
from vitalfew.tasks.splitters.partition import token_ends


def test_no_unit_of_an_index_is_longer_than_the_encoder_reads(tmp_path: Path) -> None:
    long = ["a shelf and a box, " * 300, "没有标点的文字" * 200, "ประโยคยาว" * 200]
    texts = tmp_path / "long.jsonl"
    texts.write_text("\n".join(json.dumps({"text": text.strip()}) for text in long))
    index(tmp_path / "store", f"jsonl:{texts}", split={"max_tokens": 50})
    rows = table(tmp_path / "store", "sentences").to_pylist()
    units: dict[int, list[str]] = {}
    for row in sorted(rows, key=lambda row: row["position"]):
        units.setdefault(row["passage_id"], []).append(row["text"])
    assert sorted("".join(own) for own in units.values()) == sorted(text.strip() for text in long)
    assert max(len(token_ends(row["text"])) for row in rows) <= 50
    assert sorted(map(len, units.values())) == [9, 28, 38]
