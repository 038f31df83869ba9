"""The seam to where a store lies: the only code that opens, lists, writes, renames or removes anything in one.

A *place* in a store is a path without the file system: `/`, `.name`, `.parent` and `.relative_to` are for anybody. What
is at a place is asked here, by `from storage import files`: `files.exists(place)`, `files.read_table(place)`. What a
library has to open or map by itself (FAISS, DuckDB, bm25s) gets its path from `files.local(place)`.

A store is a directory of this machine. Another kind of store changes modules of this package and nothing else.
"""

from storage.files.arrays import map_array, read_array, read_arrays, write_array, write_arrays, write_rows
from storage.files.checksums import Damaged, checked, checksum, checksum_now, has_checksum, seen_otherwise
from storage.files.leftovers import left_behind, remove_leftovers
from storage.files.lines import Lines, append_line, read_lines
from storage.files.local import (
    Status,
    absolute,
    exists,
    find,
    folders,
    free_bytes,
    is_folder,
    is_inside,
    is_link,
    is_writable,
    local,
    make_folder,
    read_bytes,
    read_text,
    remove,
    remove_tree,
    status,
    tree_bytes,
    user_cache,
)
from storage.files.locks import is_locked, locked
from storage.files.private import make_private_folder, move_private, open_private, write_private
from storage.files.processes import is_alive, this_process
from storage.files.records import DamagedRecord, Record, read_json, read_record, write_json
from storage.files.tables import (
    OpenTable,
    open_table,
    read_arrow,
    read_schema,
    read_table,
    read_tables,
    write_arrow,
    write_table,
)
from storage.files.tensors import read_notes, read_tensors, write_tensors
from storage.files.writing import NotWritten, flush, write_atomically, write_bytes, write_text

__all__ = [
    "Damaged",
    "DamagedRecord",
    "Lines",
    "NotWritten",
    "OpenTable",
    "Record",
    "Status",
    "absolute",
    "append_line",
    "checked",
    "checksum",
    "checksum_now",
    "exists",
    "find",
    "flush",
    "folders",
    "free_bytes",
    "has_checksum",
    "is_alive",
    "is_folder",
    "is_inside",
    "is_link",
    "is_locked",
    "is_writable",
    "left_behind",
    "local",
    "locked",
    "make_folder",
    "make_private_folder",
    "map_array",
    "move_private",
    "open_private",
    "open_table",
    "read_array",
    "read_arrays",
    "read_arrow",
    "read_bytes",
    "read_json",
    "read_lines",
    "read_notes",
    "read_record",
    "read_schema",
    "read_table",
    "read_tables",
    "read_tensors",
    "read_text",
    "remove",
    "remove_leftovers",
    "remove_tree",
    "seen_otherwise",
    "status",
    "this_process",
    "tree_bytes",
    "user_cache",
    "write_array",
    "write_arrays",
    "write_arrow",
    "write_atomically",
    "write_bytes",
    "write_json",
    "write_private",
    "write_rows",
    "write_table",
    "write_tensors",
    "write_text",
]
