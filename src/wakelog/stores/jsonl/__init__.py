"""The default store: files. `store.py` is the port; the rest is what it keeps beside the logs."""

from wakelog.stores.jsonl.store import JsonlStore

__all__ = ["JsonlStore"]
