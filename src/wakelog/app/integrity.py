"""Integrity of a session: explain each problem that its verification found, and write a salvaged copy.

Nothing is repaired, and no log is changed. `verification.py` checks lines, seals and blobs. A digest that was kept
elsewhere (`verify --head`) covers all lines before it: a log that contains it was not cut before it. A log
that does not was cut or rewritten, or never contained it; the log alone cannot tell which.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

from wakelog.app.addresses import Address
from wakelog.app.export import write_new_file
from wakelog.app.export_formats import copy_bytes, standalone_copy
from wakelog.errors import UsageError, WakelogError
from wakelog.log.integrity import SealReport
from wakelog.log.lines import Damage, DamageKind
from wakelog.log.seal import find_seal
from wakelog.ports.stores import Store
from wakelog.scanning import Scan, scan_log
from wakelog.verification import BlobLoss, LossKind, Verification

_DIGEST = re.compile(r"[0-9a-f]{64}")


class DigestMatch(msgspec.Struct, frozen=True):
    """The result of looking for a kept digest. `since`: number of entries appended after it; None if it was not found.

    `longer`: name of a session that is the same log with more entries, if there is one.
    """

    since: int | None
    longer: str | None = None


def find_digest(address: Address, kept: str, head: str) -> DigestMatch:
    """Look for a kept digest in a log with the last seal `head`.

    `UsageError` if `kept` is not a digest, or is the digest of another log.
    """
    if not _DIGEST.fullmatch(kept):
        hint = f"a digest is 64 hex digits; `wakelog verify {address.ref} --json` prints it as `head`"
        raise UsageError(f"{kept[:80]!r} is not the digest of a log", hint=hint)
    seals = list(_seals(address.store, address.name))
    if kept in seals:
        return DigestMatch(len(seals) - 1 - seals.index(kept))
    other = _other_log(address, kept)
    if other is None:
        return DigestMatch(None)
    if head and head in _seals(address.store, other):
        return DigestMatch(None, longer=other)
    raise UsageError(f"this digest belongs to {other}, not to {address.ref}", hint=f"wakelog verify {other} --head …")


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
        seal = find_seal(line.raw) if line.whole else None
        if seal is not None:
            yield seal


_MEANINGS: dict[DamageKind, str] = {
    "torn": """
        An append was interrupted, by a crash or a full disk. It was never acknowledged, so no acknowledged data is
        missing.
    """,
    "unreadable": """
        Not a readable entry; any data here is lost. The bytes stay where they are. Tool calls before this place count
        as started, because the log cannot prove that they were not.
    """,
    "changed": """
        This line was changed after it was written: its seal does not match its bytes. It is treated as unreadable; the
        bytes stay where they are.
    """,
    "missing": """
        Lines before this one were removed or changed after they were written: the seal of this line does not match.
        Tool calls before this place count as started.
    """,
    "glued": """
        One line contains several complete entries, as two writers without a lock leave them. All of them were read.
    """,
    "too long": "A line is longer than any entry may be. It was skipped.",
    "newer": """
        This line was written by a newer wakelog. Its place in the tree is known, but not its content. Nothing is
        damaged.
    """,
    "repeated": "An entry with this id was read before. The first one counts.",
    "bridged": """
        The entry before this one on its branch cannot be read, so it is attached to the nearest readable one before it.
    """,
    "orphan": "This entry annotates one that cannot be read. It is kept as an annotation of the session.",
    "origin": """
        This session was forked from another one that is missing or was changed. Its own entries are all readable.
    """,
}
_ADVICE: dict[DamageKind, str] = {
    "torn": "Nothing to do: the next append begins a new line and records this one.",
    "unreadable": "Examine the bytes if they matter. A copy made with --salvage leaves them out and marks the place.",
    "changed": "Compare with a copy you trust. A copy made with --salvage keeps the line as it is now, sealed again.",
    "missing": "Compare with a copy you trust. A copy made with --salvage marks that lines are missing here.",
    "glued": "Nothing is lost. A copy made with --salvage has each on its own line.",
    "too long": "A copy made with --salvage leaves it out and marks the place.",
    "newer": "Upgrade wakelog.",
    "repeated": "Nothing is lost if they are equal. A copy made with --salvage keeps the first.",
    "bridged": "Check that the conversation still makes sense here. A copy made with --salvage keeps it there.",
    "orphan": "Nothing to do.",
    "origin": "Restore the parent's log, or make a complete copy with --salvage.",
}
_BROKEN = """
    The seal of this line does not match: the line, or something between it and the seal before it, was changed, removed
    or inserted after it was written.
"""
_BROKEN_ADVICE = "Compare with a copy you trust. A copy made with --salvage keeps the readable entries, sealed again."
_BLOB_MEANINGS: dict[LossKind, str] = {
    "missing blob": "A blob that the log refers to does not exist.",
    "damaged blob": "A blob that the log refers to does not have the bytes that were stored.",
    "inaccessible blob": "This user may not read a blob that the log refers to, so its state is unknown.",
}
_ENTRIES_SHOWN = 5
_UNSEALED = "Lines at the end have no seal: a program other than wakelog wrote them."
_UNSEALED_ADVICE = "The next append seals them. If you did not add them by hand, find out which program did."


def damage_values(damage: Damage) -> dict[str, object]:
    """Return position, reason and kind of a damage; `session` is set if it is in the log of a parent of the fork."""
    inherited = {"session": damage.session} if damage.session else {}
    return {**inherited, "line": damage.line, "offset": damage.offset, "reason": damage.reason, "kind": damage.kind}


def noted_damage(scan: Scan) -> list[dict[str, object]]:
    """Return damage that the log itself records: torn appends, and places where a salvaged copy lacks lines."""
    torn = [
        {**damage_values(item), "reason": "an incomplete line, recorded by the next append", "kind": "torn"}
        for item in scan.noted
    ]
    lost = [
        {
            "line": entry.line,
            "offset": entry.offset,
            "reason": "lines were lost before this copy was made",
            "kind": "lost",
        }
        for entry in scan.lost
    ]
    return [*torn, *lost]


def loss_values(loss: BlobLoss) -> dict[str, object]:
    """Return a blob that cannot be read, and what each entry that names it loses."""
    return {
        "kind": loss.kind,
        "digest": loss.digest,
        "bytes": loss.bytes,
        "reason": loss.reason,
        "entries": _loss_entries(loss),
    }


def _loss_entries(loss: BlobLoss) -> list[dict[str, object]]:
    return [{"seq": named.seq, "type": named.type, "line": named.line, "what": named.what} for named in loss.references]


def find_problems(
    damage: Sequence[Damage], proof: SealReport, losses: Sequence[BlobLoss]
) -> Iterator[dict[str, object]]:
    """Yield each problem of a log once: position, reason, meaning and advice."""
    for item in damage:
        yield {**damage_values(item), "size": item.size, **_explanation(_MEANINGS[item.kind], _ADVICE[item.kind])}
    damaged_lines = {item.line for item in damage if not item.session}
    for line, offset in proof.broken:
        if line in damaged_lines:
            continue
        seal = {"line": line, "offset": offset, "reason": "the seal does not match", "kind": "broken", "size": 0}
        yield {**seal, **_explanation(_BROKEN, _BROKEN_ADVICE)}
    loose_lines = proof.unsealed - sum(item.kind == "torn" for item in damage)
    if loose_lines > 0:
        reason = f"{loose_lines} line{'' if loose_lines == 1 else 's'} without a seal"
        loose = {"line": 0, "offset": 0, "reason": reason, "kind": "unsealed", "size": 0}
        yield {**loose, **_explanation(_UNSEALED, _UNSEALED_ADVICE)}
    yield from map(_blob_finding, losses)


def _blob_finding(loss: BlobLoss) -> dict[str, object]:
    first = loss.references[0]
    where = {"line": first.line, "offset": first.offset, "reason": loss.reason, "kind": loss.kind, "size": loss.bytes}
    shown = loss.references[:_ENTRIES_SHOWN]
    lines = [f"Entry {named.seq} ({named.type}) loses {named.what}." for named in shown]
    if more := len(loss.references) - len(shown):
        lines.append(f"{more:,} more entries do too.")
    return {
        **where,
        **_explanation(" ".join((_BLOB_MEANINGS[loss.kind], *lines)), loss.hint),
        "entries": _loss_entries(loss),
    }


def _explanation(meaning: str, advice: str) -> dict[str, object]:
    return {"meaning": " ".join(meaning.split()), "advice": advice}


# ── verify ───────────────────────────────────────────────────────────────────────────────────────


class Verdict(msgspec.Struct, frozen=True):
    """The result of `verify`; its fields are the `--json` output."""

    ok: bool
    entries: int
    damage: list[dict[str, object]]
    broken: list[dict[str, object]]
    unsealed: int
    noted: list[dict[str, object]]
    blobs: int
    lost: list[dict[str, object]]
    head: str
    anchored: bool | None
    since: int | None

    @property
    def is_explained(self) -> bool:
        """Return whether `doctor` can explain it. A missing kept digest alone is not a finding in the log."""
        return bool(self.damage or self.broken or self.unsealed or self.lost)


def verdict_of(verified: Verification, anchor: DigestMatch | None) -> Verdict:
    """Return the verdict on a session from its verification and, if given, a digest that was kept elsewhere."""
    scan, proof, blobs = verified.scan, verified.seals, verified.blobs
    anchored = anchor.since is not None if anchor is not None else None
    return Verdict(
        ok=verified.ok and anchored is not False,
        entries=scan.entries,
        damage=[damage_values(item) for item in verified.damage],
        broken=[{"line": line, "offset": offset} for line, offset in proof.broken],
        unsealed=proof.unsealed,
        noted=noted_damage(scan),
        blobs=blobs.blobs,
        lost=[loss_values(loss) for loss in blobs.losses],
        head=proof.head,
        anchored=anchored,
        since=anchor.since if anchor is not None else None,
    )


def write_salvaged_copy(address: Address, path: str) -> dict[str, object]:
    """Write the readable entries of a session to a new file; return what it holds and what was left out."""
    copy = standalone_copy(address.store, scan_log(address.store, address.name, verify=False))
    if copy is None:
        raise UsageError(f"no entry of {address.name} can be read", hint="there is nothing to copy")
    write_new_file(path, copy_bytes(copy))
    return {
        "file": path,
        "entries": copy.kept,
        "mended": copy.changed,
        "lost": copy.lost,
        "leftOut": [damage_values(item) for item in copy.omitted],
    }
