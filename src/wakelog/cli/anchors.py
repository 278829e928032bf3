"""A digest of a log that was kept elsewhere (`verify --head`): whether it is one of this log's seals.

The digest of the last line covers all lines before it. So a log that holds a kept digest was not cut before it; a log
that does not was cut or rewritten, or never held it. From the log alone the two cannot be told apart. Another log of
the store that does hold the digest tells: it is that log's, or it is the same log and longer.
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
    """What became of a kept digest. `since` is how many entries were appended behind it; None if it is not there.

    `longer` is the name of a session that is the same log with more entries, where there is one.
    """

    since: int | None
    longer: str | None = None


def find_anchor(address: Address, kept: str, head: str) -> Anchor:
    """Looks for a kept digest in a log whose last seal is `head`. `UsageError` if it is none, or another log's."""
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
    """Another session of the same store that holds a seal. One that cannot be read is passed over."""
    for stat in address.store.sessions():
        try:
            if stat.name != address.name and kept in _seals(address.store, stat.name):
                return stat.name
        except WakelogError:
            continue
    return None


def _seals(store: Store, name: str) -> Iterator[str]:
    """The seals of a log, in order."""
    for line in store.load(name):
        seal = seal_of(line.raw) if line.whole else None
        if seal is not None:
            yield seal
