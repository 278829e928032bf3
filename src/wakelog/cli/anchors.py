"""Check a digest that was kept elsewhere (`verify --head`) against the seals of a log.

The digest of the last line covers all lines before it. A log that contains a kept digest was therefore not cut before
it. A log that does not was cut or rewritten, or never contained it; the log alone cannot tell which. If another log of
the store contains the digest, then the digest belongs to that log, or that log is a longer copy of this one.
"""

import re
from collections.abc import Iterator

import msgspec

from wakelog.cli.addresses import Address
from wakelog.errors import UsageError, WakelogError
from wakelog.log.seal import seal_of
from wakelog.ports import Store

_DIGEST = re.compile(r"[0-9a-f]{64}")


class Anchor(msgspec.Struct, frozen=True):
    """The result of looking for a kept digest. `since`: number of entries appended after it; None if it was not found.

    `longer`: name of a session that is the same log with more entries, if there is one.
    """

    since: int | None
    longer: str | None = None


def find_anchor(address: Address, kept: str, head: str) -> Anchor:
    """Look for a kept digest in a log with the last seal `head`.

    `UsageError` if `kept` is not a digest, or is the digest of another log.
    """
    if not _DIGEST.fullmatch(kept):
        hint = f"a digest is 64 hex digits; `wakelog verify {address.ref} --json` prints it as `head`"
        raise UsageError(f"{kept[:80]!r} is no digest of a log", hint=hint)
    seals = list(_seals(address.store, address.name))
    if kept in seals:
        return Anchor(len(seals) - 1 - seals.index(kept))
    other = _other_log(address, kept)
    if other is None:
        return Anchor(None)
    if head and head in _seals(address.store, other):
        return Anchor(None, longer=other)
    raise UsageError(f"this digest is one of {other}, not of {address.ref}", hint=f"wakelog verify {other} --head …")


def _other_log(address: Address, kept: str) -> str | None:
    """Return the name of another session of the store that contains the seal. Unreadable sessions are skipped."""
    for stat in address.store.sessions():
        try:
            if stat.name != address.name and kept in _seals(address.store, stat.name):
                return stat.name
        except WakelogError:
            continue
    return None


def _seals(store: Store, name: str) -> Iterator[str]:
    """Yield the seals of a log, in order."""
    for line in store.load(name):
        seal = seal_of(line.raw) if line.whole else None
        if seal is not None:
            yield seal
