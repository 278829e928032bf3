"""JSONL store, the default. `store.py` implements the port; the other modules handle the files beside the logs."""

from wakelog.stores.jsonl.store import JsonlStore

__all__ = ["JsonlStore"]
