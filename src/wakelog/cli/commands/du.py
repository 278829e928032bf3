"""Commands `du` and `gc`: disk usage of a store, and removal of blobs that no log refers to."""

import os

import click

from wakelog.app.addresses import find_session
from wakelog.app.store_checks import bytes_under, index_bytes, store_folder
from wakelog.app.stores import StoreLocation
from wakelog.cli.ui.options import SharedOptions, command
from wakelog.cli.ui.output import progress_bar, put, put_bytes, put_text
from wakelog.cli.ui.quantities import parse_span, plural, size_text, span_text
from wakelog.cli.ui.safe_text import json_line, visible
from wakelog.cli.ui.terminal import Cell, Column, TerminalStyle, style_of, table
from wakelog.ports.stores import SessionStat, StoredBlob
from wakelog.transfer.garbage import Collected, collect

_SESSIONS_SHOWN = 20


@command(
    "du",
    examples="""
    wakelog du
    wakelog du crab_user_3
    wakelog du --json | jq -s 'max_by(.log)'
    """,
)
@click.argument("session", required=False, metavar="[SESSION]")
def du(shared: SharedOptions, session: str | None) -> None:
    """Show the disk usage of each log, the largest first, and the totals of journals, locks, blobs and the index."""
    place = StoreLocation(shared.store_url)
    stats = sorted(place.store.sessions(), key=lambda found: (-found.size, found.name))
    if session is not None:
        name = find_session(shared.store_url, session).name
        stats = [found for found in stats if found.name == name]
    folder = store_folder(place)
    rows = [_session_values(folder, found) for found in stats]
    totals = _totals(place, folder, stats) if session is None else None
    if shared.json:
        put_bytes(b"".join(json_line(row) for row in (*rows, *([totals] if totals is not None else []))))
    else:
        _draw_usage(shared, rows, totals)


def _session_values(folder: str | None, found: SessionStat) -> dict[str, object]:
    journals = bytes_under(os.path.join(folder, ".journals", found.name)) if folder else 0
    return {"kind": "session", "name": found.name, "log": found.size, "journals": journals}


def _totals(place: StoreLocation, folder: str | None, stats: list[SessionStat]) -> dict[str, object]:
    beside = {"journals": ".journals", "locks": ".locks", "blobs": ".blobs"}
    sizes = {what: bytes_under(os.path.join(folder, name)) if folder else 0 for what, name in beside.items()}
    if folder is None:
        sizes["blobs"] = sum(blob.bytes for blob in place.store.blobs.stored())
    logs, index = sum(found.size for found in stats), index_bytes(place)
    total = logs + index + sum(sizes.values())
    return {"kind": "total", "sessions": len(stats), "logs": logs, **sizes, "index": index, "bytes": total}


def _draw_usage(shared: SharedOptions, rows: list[dict[str, object]], totals: dict[str, object] | None) -> None:
    look = style_of(shared.color)
    shown = rows[:_SESSIONS_SHOWN] if look.width else rows
    columns = (Column("SIZE", right=True), Column("SESSION"))
    cells = [[(_size_cell(row["log"]), ""), (visible(str(row["name"])), "name")] for row in shown]
    put_text(table(look, columns, cells, headed=False) if cells else ())
    if len(rows) > len(shown):
        put(look.paint("dim", f"and {plural(len(rows) - len(shown), 'smaller session')}"))
    if totals is not None:
        parts = (f"{what} {_size_cell(totals[what])}" for what in ("logs", "journals", "locks", "blobs", "index"))
        put(look.paint("bold", f"{_size_cell(totals['bytes'])} in total") + f": {', '.join(parts)}")


def _size_cell(count: object) -> str:
    assert isinstance(count, int)
    return size_text(count)


_BLOBS_SHOWN = 20


@command(
    "gc",
    examples="""
    wakelog gc --dry-run
    wakelog gc
    wakelog gc --older-than 30d
    """,
)
@click.option("--dry-run", is_flag=True, help="Only show what would be removed.")
@click.option(
    "--older-than",
    metavar="TIME",
    default="1d",
    help="Keep blobs that are newer than this: 30m, 12h, 1d, 2w. [default: 1d]",
)
def gc(shared: SharedOptions, dry_run: bool, older_than: str) -> None:  # noqa: FBT001 - click's way to hand over a flag
    """Remove blobs that no log refers to and that are older than a day. Logs are only read.

    A blob is written before the entry that refers to it: while agents are running, a time shorter than that
    takes is not safe.
    """
    older_than_s = parse_span(older_than)
    place = StoreLocation(shared.store_url)
    with progress_bar("Reading logs") as progress:
        found = collect(place.store, older_than_s=older_than_s, dry_run=dry_run, progress=progress)
    if shared.json:
        rows = [*map(_blob_values, found.blobs), _garbage_total(found, removed=not dry_run)]
        put_bytes(b"".join(map(json_line, rows)))
    else:
        _draw_garbage(style_of(shared.color), found, dry_run=dry_run)


def _blob_values(blob: StoredBlob) -> dict[str, object]:
    return {"kind": "blob", "digest": blob.digest, "size": blob.bytes, "age": int(blob.age_s)}


def _garbage_total(found: Collected, *, removed: bool) -> dict[str, object]:
    sizes = {"blobs": len(found.blobs), "bytes": _garbage_bytes(found), "leftovers": found.leftovers}
    return {"kind": "total", **sizes, "removed": removed}


def _garbage_bytes(found: Collected) -> int:
    return sum(blob.bytes for blob in found.blobs)


def _draw_garbage(look: TerminalStyle, found: Collected, *, dry_run: bool) -> None:
    shown = found.blobs[:_BLOBS_SHOWN] if look.width else found.blobs
    columns = (Column("SIZE", right=True), Column("AGE", right=True), Column("BLOB", shrinks=True))
    put_text(table(look, columns, [_blob_cells(blob) for blob in shown], headed=False) if shown else ())
    if len(found.blobs) > len(shown):
        put(look.paint("dim", f"and {plural(len(found.blobs) - len(shown), 'more blob')}"))
    if found.leftovers:
        leftovers = plural(found.leftovers, "partly written blob")
        put(look.paint("dim", f"and {leftovers} left by a crash"))
    what, verb = plural(len(found.blobs), "blob"), "would be removed" if dry_run else "removed"
    nothing = not found.blobs and not found.leftovers
    put(
        "nothing to remove"
        if nothing
        else look.paint("bold", f"{what} {verb}") + f": {size_text(_garbage_bytes(found))}"
    )


def _blob_cells(blob: StoredBlob) -> list[Cell]:
    return [(size_text(blob.bytes), ""), (span_text(blob.age_s), "dim"), (visible(blob.digest), "")]
