"""Clean copies and JSON documents of logs, held in memory."""

import msgspec

from wakelog.app.export_formats import json_document, standalone_copy
from wakelog.log.lines import Damage
from wakelog.overviews import scan_with_overview
from wakelog.scanning import scan_log


class Copied(msgspec.Struct, frozen=True):
    """A clean copy: its lines without LF, and what was changed to make it."""

    lines: tuple[bytes, ...] = ()
    kept: int = 0
    mended: int = 0
    lost: int = 0
    left_out: tuple[Damage, ...] = ()

    @property
    def content(self) -> bytes:
        return b"".join(line + b"\n" for line in self.lines)


def copy_of(store, session="s", *, verify=False):
    """The clean copy of a session; without lines if nothing of it can be read."""
    made = standalone_copy(store, scan_log(store, session, verify=verify), verify=verify)
    if made is None:
        return Copied()
    lines = tuple(made.lines())
    return Copied(lines, made.kept, made.changed, made.lost, tuple(made.omitted))


def exported(store, session="s"):
    """The JSON document of a session."""
    scan, card = scan_with_overview(store, session)
    return b"".join(json_document(store, scan, card.title, card.state))
