"""Moved to `storage.files`; this name stays until the last import of it is gone."""

from storage.files import (
    ROW_GROUP,
    DamagedRecord,
    NotWritten,
    checksum,
    flush,
    is_leftover,
    process_exists,
    read_json,
    remove_leftovers,
    write_atomically,
    write_json,
    write_table,
)

__all__ = [
    "ROW_GROUP",
    "DamagedRecord",
    "NotWritten",
    "checksum",
    "flush",
    "is_leftover",
    "process_exists",
    "read_json",
    "remove_leftovers",
    "write_atomically",
    "write_json",
    "write_table",
]
