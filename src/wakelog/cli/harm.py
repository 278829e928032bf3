"""Texts about damage: the meaning of each kind and what to do about it, for `verify` and `doctor`."""

from collections.abc import Iterator, Sequence

from wakelog.auditing import Loss, LossKind
from wakelog.cli.times import plural
from wakelog.log.lines import Damage, DamageKind
from wakelog.log.proof import Proof
from wakelog.scanning import Scan

_MEANINGS: dict[DamageKind, str] = {
    "torn": """
        An append was cut short, by a crash or a full disk. It was never acknowledged, so nothing that was said to
        be kept is missing.
    """,
    "unreadable": """
        These bytes are no entry, or none any more. If one stood here it is lost; the bytes stay where they are.
        Tool calls before this place count as begun, since nobody can tell.
    """,
    "changed": """
        This line was changed after it was written: its seal does not match its bytes. It is treated as unreadable; the
        bytes stay where they are.
    """,
    "missing": """
        Lines before this one were removed or changed after they were written: the seal of this line does not match.
        Tool calls before this place count as begun.
    """,
    "glued": """
        Several complete records stand on one line, as two writers without a lock leave them. All of them were read.
    """,
    "too long": "A line is longer than any entry may be. It was stepped over.",
    "newer": """
        This line was written by a newer wakelog. Its place in the tree is known, its content is not. Nothing is
        damaged.
    """,
    "repeated": "An entry with this id was read before. The first one counts.",
    "bridged": """
        The entry before this one on its branch cannot be read, so it hangs on the nearest readable one before it.
    """,
    "orphan": "This entry speaks about one that cannot be read. It is kept with the session itself.",
    "origin": """
        This session was forked from another one that is missing or was changed. Its own entries are all served.
    """,
}
_ADVICE: dict[DamageKind, str] = {
    "torn": "Nothing to do: the next append goes on a line of its own and notes this one.",
    "unreadable": "Look at the bytes if they matter. A copy made with --salvage leaves them out and says so.",
    "changed": "Compare with a copy you trust. A copy made with --salvage keeps what the line says now, sealed anew.",
    "missing": "Compare with a copy you trust. A copy made with --salvage says that lines are missing here.",
    "glued": "Nothing is lost. A copy made with --salvage has each on its own line.",
    "too long": "A copy made with --salvage leaves it out and says so.",
    "newer": "Upgrade wakelog.",
    "repeated": "Nothing is lost if they are equal. A copy made with --salvage keeps the first.",
    "bridged": "Check that the talk still makes sense here. A copy made with --salvage keeps it there.",
    "orphan": "Nothing to do.",
    "origin": "Bring the parent's log back, or make a copy with --salvage that stands alone.",
}
_BROKEN = """
    The seal of this line does not fit: the line, or something between it and the seal before it, was changed, removed
    or put in after it was written.
"""
_BROKEN_ADVICE = "Compare with a copy you trust. A copy made with --salvage keeps what can be read, sealed anew."
_BLOBS: dict[LossKind, str] = {
    "missing blob": "A blob that the log names is not there.",
    "damaged blob": "A blob that the log names does not hold the bytes that were put.",
    "inaccessible blob": "This user may not read a blob that the log names, so that nothing is known about it.",
}
_ENTRIES_SHOWN = 5
_LOOSE = "Lines at the end carry no seal: something other than wakelog wrote them."
_LOOSE_ADVICE = "The next append seals them. If you did not add them by hand, find out who did."


def place(hurt: Damage) -> dict[str, object]:
    """Return position, reason and kind of a damage; `session` is set if it is in the log of a parent of the fork."""
    inherited = {"session": hurt.session} if hurt.session else {}
    return {**inherited, "line": hurt.line, "offset": hurt.offset, "reason": hurt.reason, "kind": hurt.kind}


def noted(scan: Scan) -> list[dict[str, object]]:
    """Return damage that the log itself records: torn appends, and places where a salvaged copy lacks lines."""
    torn = [
        {**place(hurt), "reason": "a cut line, noted by the append after it", "kind": "torn"} for hurt in scan.noted
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


def losing(loss: Loss) -> dict[str, object]:
    """Return a blob that cannot be read, and what each entry that names it loses."""
    return {
        "kind": loss.kind,
        "digest": loss.digest,
        "bytes": loss.bytes,
        "reason": loss.reason,
        "entries": _entries(loss),
    }


def _entries(loss: Loss) -> list[dict[str, object]]:
    return [{"seq": named.seq, "type": named.type, "line": named.line, "what": named.what} for named in loss.references]


def find_harm(damage: Sequence[Damage], proof: Proof, losses: Sequence[Loss]) -> Iterator[dict[str, object]]:
    """Yield each problem of a log once: position, reason, meaning and advice."""
    for hurt in damage:
        yield {**place(hurt), "size": hurt.size, **_told(_MEANINGS[hurt.kind], _ADVICE[hurt.kind])}
    hurt_lines = {hurt.line for hurt in damage if not hurt.session}
    for line, offset in proof.broken:
        if line in hurt_lines:
            continue
        seal = {"line": line, "offset": offset, "reason": "the seal does not fit", "kind": "broken", "size": 0}
        yield {**seal, **_told(_BROKEN, _BROKEN_ADVICE)}
    loose_lines = proof.unsealed - sum(hurt.kind == "torn" for hurt in damage)
    if loose_lines > 0:
        reason = f"{plural(loose_lines, 'line')} without a seal"
        loose = {"line": 0, "offset": 0, "reason": reason, "kind": "unsealed", "size": 0}
        yield {**loose, **_told(_LOOSE, _LOOSE_ADVICE)}
    yield from map(_blob_finding, losses)


def _blob_finding(loss: Loss) -> dict[str, object]:
    first = loss.references[0]
    where = {"line": first.line, "offset": first.offset, "reason": loss.reason, "kind": loss.kind, "size": loss.bytes}
    shown = loss.references[:_ENTRIES_SHOWN]
    lines = [f"Entry {named.seq} ({named.type}) loses {named.what}." for named in shown]
    if more := len(loss.references) - len(shown):
        lines.append(f"So do {more:,} more.")
    return {**where, **_told(" ".join((_BLOBS[loss.kind], *lines)), loss.hint), "entries": _entries(loss)}


def _told(meaning: str, advice: str) -> dict[str, object]:
    return {"meaning": " ".join(meaning.split()), "advice": advice}
