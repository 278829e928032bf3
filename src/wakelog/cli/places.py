"""Where sessions are: the store that was asked for, and the index over it.

`--store`, else `WAKELOG_STORE`, else `wakelog/sessions` in the XDG data folder. The index is opened when
a question needs it and brought up to date then; it lives in the cache and may be deleted at any time.
"""

import os
from typing import TYPE_CHECKING

from wakelog.cli import load
from wakelog.cli.progress import watched
from wakelog.errors import WakelogError
from wakelog.ports import Store
from wakelog.stores import open_store

if TYPE_CHECKING:
    from wakelog.stores.index import Index

_NAMES_COMPLETED = 200


def store_url(given: str | None) -> str:
    """The store a command is about."""
    return given or os.environ.get("WAKELOG_STORE") or default_store()


def default_store() -> str:
    """The folder that is used when nothing else is said."""
    home = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    return os.path.join(home, "wakelog", "sessions")


class Place:
    """One store and, when it is asked for, the index over it."""

    def __init__(self, url: str | None) -> None:
        self.url = store_url(url)
        self.store: Store = open_store(self.url)
        self._index: Index | None = None

    @property
    def index_path(self) -> str:
        """Where the index is."""
        path: str = load("wakelog.stores.index").index_path(self.url)
        return path

    @property
    def index(self) -> "Index":
        """The index, up to date. Most commands name a session outright and never need it."""
        if self._index is None:
            index: Index = load("wakelog.stores.index").Index(self.store, self.index_path)
            with watched("Reading sessions") as progress:
                index.refresh(progress=progress)
            self._index = index
        return self._index


def session_names(url: str | None, beginning: str) -> list[str]:
    """Names of sessions for a shell to complete. A completion never complains."""
    try:
        rows = Place(url).index.rows(archived=None)
    except (WakelogError, OSError):
        return []
    names = [row.name for row in rows if row.name.startswith(beginning)]
    return [*(["@latest"] if "@latest".startswith(beginning) else []), *names[:_NAMES_COMPLETED]]
