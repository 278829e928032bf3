"""Titles that Codex keeps beside its rollouts: in `session_index.jsonl`, and in the newest `state_N.sqlite`.

They are looked up when a rollout is imported. A thread that is renamed later gets its new title when its rollout grows:
otherwise every rollout would have to be read again whenever one thread is renamed.
"""

import glob
import os
import re

from wakelog.errors import WakelogError
from wakelog.exchange.codex.reader import titles_from_index, titles_from_state
from wakelog.exchange.files import DiskDatabase, DiskFile
from wakelog.exchange.records import Record, json_records
from wakelog.exchange.sync_index import signature_of

_FOLDERS = ("sessions", "archived_sessions")
_LEVELS_MAX = 6


class CodexTitles:
    """The titles of threads by id, read once for each folder of Codex."""

    def __init__(self) -> None:
        self._titles: dict[tuple[str, tuple[int, int]], dict[str, str]] = {}

    def find(self, rollout: str, thread: str) -> str | None:
        """Return the title of a thread, by the path of its rollout; None if it has none."""
        home = _home_of(rollout)
        if home is None:
            return None
        key = home, signature_of(os.path.join(home, "session_index.jsonl"))
        if key not in self._titles:
            self._titles[key] = {**_from_state(home), **_from_index(home)}
        return self._titles[key].get(thread)


def _home_of(rollout: str) -> str | None:
    """Return the folder that has the folder of rollouts in it."""
    folder = os.path.dirname(os.path.abspath(rollout))
    for _ in range(_LEVELS_MAX):
        folder, name = os.path.split(folder)
        if name in _FOLDERS:
            return folder
    return None


def _from_index(home: str) -> dict[str, str]:
    try:
        lines = DiskFile(os.path.join(home, "session_index.jsonl"), follow_link=False).lines()
        return titles_from_index(found.value for found in json_records(lines) if isinstance(found, Record))
    except WakelogError:
        return {}


def _from_state(home: str) -> dict[str, str]:
    numbered = {
        int(found[1]): path
        for path in glob.glob(os.path.join(glob.escape(home), "state_*.sqlite"))
        if (found := re.search(r"state_(\d{1,9})\.sqlite$", path))
    }
    if not numbered:
        return {}
    try:
        with DiskDatabase(numbered[max(numbered)]) as database:
            return titles_from_state(database)
    except WakelogError:
        return {}
