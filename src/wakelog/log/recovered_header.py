"""What is known of a session header that cannot be read: from the name of the session and its other entries.

Pure. The name has the agent, the sender and the number. The entry after the header names it as its parent, and so has
the id of the session; the first `context` entry has the working folder. A model that only the header named is lost, and
so is the parent of a fork.
"""

from collections.abc import Iterable

from wakelog.log.entry import ContextEntry, Entry, SessionHeader
from wakelog.log.ids import is_id
from wakelog.log.lines import EntryReader, Line
from wakelog.log.session_names import identity_in_name


class HeaderRecovery:
    """Takes the readable entries of a log in order, then makes the header."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._first: Entry | None = None
        self._settings: ContextEntry | None = None
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        """Take the next entry."""
        self._first = self._first or entry
        if self._settings is None and isinstance(entry.value, ContextEntry):
            self._settings = entry.value

    def header(self, name: str) -> SessionHeader:
        """Return the header of the session with this name; its id is the name if no entry has it."""
        agent, sender, number = identity_in_name(name)
        cwd = self._settings.environment.get("cwd") if self._settings is not None else None
        return SessionHeader(
            id=_session_id(self._first) or name,
            timestamp=self._first.value.timestamp if self._first is not None else "",
            agent=agent,
            sender=sender,
            number=number,
            cwd=cwd if isinstance(cwd, str) else "",
        )


def session_id_in(lines: Iterable[Line]) -> str | None:
    """Return the id of a session from the first lines of its log: that of the header, or what the next entry names."""
    reader = EntryReader()
    first = next((entry for line in lines for entry in reader.feed(line)), None)
    return _session_id(first)


def _session_id(first: Entry | None) -> str | None:
    """Return the id of the session whose first readable entry this is: its header, or a child of the header."""
    named = None if first is None else first.id if first.type == "session" else first.value.parent_id
    return named if named is not None and is_id(named) else None
