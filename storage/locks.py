"""Moved to `storage.files`; this name stays until the last import of it is gone."""

from storage.files import is_locked, locked

__all__ = ["is_locked", "locked"]
