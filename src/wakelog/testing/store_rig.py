"""The test environment of the store suites: a store, and what the suites may do to its environment.

It also has the few entries that the suites write, as plain JSON: a suite must not depend on the code under test.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec

from wakelog.errors import Conflict
from wakelog.log.seal import find_seq
from wakelog.ports.stores import Lease, Store


class Rig(Protocol):
    """A store under test, and what the suite may do to its environment."""

    store: Store

    def again(self) -> Store:
        """Return another store object on the same storage, as in another process."""
        ...

    def advance(self, seconds: float) -> None:
        """Advance the clock that leases expire by."""
        ...

    def plant(self, session: str, raw: bytes) -> None:
        """Add raw bytes to the end of a log, as a crash or another program would."""
        ...

    def corrupt(self, session: str, old: bytes, new: bytes) -> None:
        """Replace bytes of a log with others of the same length, as a failing disk would."""
        ...

    def files(self, session: str) -> Iterable[str]:
        """Return the paths of the files and folders of a session; empty for a store without files."""
        ...


def first_line(session: str) -> Callable[[int], bytes]:
    """Return the function that encodes the first entry of a session, given its number."""
    return lambda number: msgspec.json.encode({"type": "session", "id": session, "version": 1, "number": number})


def body(entry: str, text: str = "hi", parent: str = "s") -> bytes:
    """Return an encoded message."""
    message = {"role": "user", "content": [{"type": "text", "text": text}]}
    return msgspec.json.encode({"type": "message", "id": entry, "parentId": parent, "message": message})


def make(store: Store, session: str = "s", agent: str = "crab", sender: str = "user") -> str:
    """Create a session with its first line; return its name."""
    return store.create(session, agent, sender, first_line(session))


def log_bytes(store: Store, session: str = "s") -> bytes:
    """Return the bytes of a whole log."""
    return b"".join(line.bytes for line in store.load(session))


def journals_of(store: Store, session: str = "s") -> dict[str, tuple[bytes, ...]]:
    """Return the pieces of all journals of a session."""
    return {reply_id: tuple(pieces) for reply_id, pieces in store.journals(session).items()}


def activity_body(entry: str, holder: str) -> bytes:
    """Return an encoded entry that takes a lease."""
    return msgspec.json.encode({"type": "activity", "id": entry, "parentId": "s", "holder": holder})


def take_lease(store: Store, entry: str, holder: str, *, after: int, ttl_s: float = 10.0) -> Lease:
    """Take the lease of session `s`."""
    return store.acquire("s", activity_body(entry, holder), after=after, holder=holder, ttl_s=ttl_s)


def append_at_end(store: Store, entry: bytes, *, session: str = "s", tries: int = 10_000) -> int:
    """Append after the current last entry, retrying on `Conflict`; return the seq."""
    for _ in range(tries):
        after = max((find_seq(line.raw) or 0 for line in store.load(session)), default=-1)
        try:
            return store.append(session, entry, after=after).seq
        except Conflict:
            continue
    raise AssertionError("no append got through")
