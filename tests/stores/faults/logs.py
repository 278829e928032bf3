"""Sessions to be disturbed, and checks of what is left of them, by a new store object from the log alone.

Children and tests share this file, so it imports little: hundreds of processes are started by these tests.
"""

import itertools
import time
from collections.abc import Callable

from wakelog.errors import Conflict
from wakelog.log.codec import id_of
from wakelog.log.integrity import verify_seals
from wakelog.log.seal import find_seq, unseal
from wakelog.ports.stores import Lease, SealedLine, Store
from wakelog.stores import open_store

PATIENCE_S = 600
# The id of an entry, and its place in the log.
Kept = tuple[str, int]


# ── making ───────────────────────────────────────────────────────────────────────────────────────


def make(store: Store, session: str) -> str:
    """Create a session with its first line, if there is none yet."""
    line = b'{"type":"session","id":"%s","version":1}' % session.encode()
    return store.create(session, "crab", "user", lambda _: line)


def made(url: str, *sessions: str) -> str:
    """Create these sessions in a store; return its URL."""
    store = open_store(url)
    for session in sessions:
        make(store, session)
    store.close()
    return url


def body(entry: str) -> bytes:
    """An encoded message, the same bytes for the same id, so that retries are equal."""
    said = b'{"role":"user","content":[{"type":"text","text":"said by %s"}]}' % entry.encode()
    return b'{"type":"message","id":"%s","parentId":"s","message":%s}' % (entry.encode(), said)


def numbered(number: int) -> str:
    """The id of an entry in a numbered series."""
    return f"n{number}"


def until(is_so: Callable[[], bool]) -> None:
    """Call a function until it returns true; fail the test after the time limit."""
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, "it never came to pass"


# ── leases ───────────────────────────────────────────────────────────────────────────────────────


def take(store: Store, session: str, holder: str, ttl_s: float) -> Lease:
    """Take a free lease, at the end of the log."""
    while True:
        after = last_seq(store, session)
        said = b'{"type":"activity","id":"%s-%d","parentId":"s"}' % (holder.encode(), after)
        try:
            return store.acquire(session, said, after=after, holder=holder, ttl_s=ttl_s)
        except Conflict:
            if (lease := store.held(session)) is not None:
                raise AssertionError(f"{lease.holder} holds it") from None


def append_under(store: Store, lease: Lease, fence: int | None) -> SealedLine:
    """Append an entry that names the lease it was written under, at the end of the log.

    The end is read each time: so it is the fence, and not an old end, that stops a worker that was overtaken.
    """
    after = last_seq(store, lease.session)
    return store.append(lease.session, body(f"under-{lease.fence}-{after}"), after=after, fence=fence)


def stale(places: list[Kept]) -> list[Kept]:
    """Entries that were written under a lease after the entry that took the next one, from the log alone."""
    found, fence = [], -1
    for entry, seq in places:
        if not entry.startswith("under-"):
            fence = seq
        elif entry.split("-")[1] != str(fence):
            found.append((entry, seq))
    return found


# ── looking ──────────────────────────────────────────────────────────────────────────────────────


def last_seq(store: Store, session: str) -> int:
    """The last seq of a log."""
    return next(seq for line in store.tail(session) if (seq := find_seq(line.raw)) is not None)


def stands(store: Store, session: str, entry: str) -> bool:
    """Whether an entry is among the last of a log."""
    return any(id_of(line.raw) == entry for line in itertools.islice(store.tail(session), 3))


def standing(url: str, session: str, body: Callable[[str], bytes] = body) -> list[Kept]:
    """The entries after the first with their seqs, as a new store object reads them.

    Law 4, LOG-10: every seal is right, seqs have no gap, no id stands twice, and every body is the one that was sent.
    """
    store = open_store(url)
    lines = list(store.load(session))
    store.close()
    proof = verify_seals(lines)
    assert (proof.broken, proof.unsealed) == ((), 0)
    assert [find_seq(line.raw) for line in lines] == list(range(len(lines)))
    bodies = [unseal(line.raw) for line in lines]
    ids = [id_of(each) or "" for each in bodies]
    assert len(set(ids)) == len(ids), "an entry stands twice"
    for entry, each in zip(ids, bodies, strict=True):
        assert each == body(entry) or b'"message"' not in each, f"{entry} is not what was sent"
    return list(zip(ids, range(len(ids)), strict=True))[1:]


def check_kept(url: str, session: str, acknowledged: list[Kept]) -> None:
    """Law 4, LOG-10: the log holds exactly the acknowledged entries, each once at its acknowledged position."""
    assert standing(url, session) == sorted(acknowledged, key=lambda place: place[1])
