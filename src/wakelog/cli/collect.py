"""Command `gc`: find blobs that no log names, list them and remove them.

The module is not named `gc`, because that would hide Python's own `gc` module from this package.
"""

import click

from wakelog.cli.draw import Cell, Column, Look, look, table
from wakelog.cli.options import Asked, command
from wakelog.cli.output import put, put_bytes, put_text
from wakelog.cli.places import Place
from wakelog.cli.progress import watched
from wakelog.cli.safe import json_line, visible
from wakelog.cli.times import parse_span, plural, size, span
from wakelog.ports import StoredBlob
from wakelog.transfer.garbage import Collected, collect

_SHOWN = 20


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
    help="Leave what was put more recently: 30m, 12h, 1d, 2w. [default: 1d]",
)
def gc(asked: Asked, dry_run: bool, older_than: str) -> None:  # noqa: FBT001 - click's way to hand over a flag
    """Remove blobs that no log names and that are older than a day. Logs are only read.

    A blob is written before the entry that names it: a time shorter than that takes is no safe choice
    while agents are running.
    """
    older_than_s = parse_span(older_than)
    place = Place(asked.store_url)
    with watched("Reading logs") as progress:
        found = collect(place.store, older_than_s=older_than_s, dry_run=dry_run, progress=progress)
    if asked.json:
        rows = [*map(_row, found.blobs), _total(found, removed=not dry_run)]
        put_bytes(b"".join(map(json_line, rows)))
    else:
        _draw(look(asked.color), found, dry_run=dry_run)


def _row(blob: StoredBlob) -> dict[str, object]:
    return {"kind": "blob", "digest": blob.digest, "size": blob.bytes, "age": int(blob.age_s)}


def _total(found: Collected, *, removed: bool) -> dict[str, object]:
    sizes = {"blobs": len(found.blobs), "bytes": _bytes(found), "leftovers": found.leftovers}
    return {"kind": "total", **sizes, "removed": removed}


def _bytes(found: Collected) -> int:
    return sum(blob.bytes for blob in found.blobs)


def _draw(seen: Look, found: Collected, *, dry_run: bool) -> None:
    shown = found.blobs[:_SHOWN] if seen.width else found.blobs
    columns = (Column("SIZE", right=True), Column("AGE", right=True), Column("BLOB", gives=True))
    put_text(table(seen, columns, [_cells(blob) for blob in shown], headed=False) if shown else ())
    if len(found.blobs) > len(shown):
        put(seen.paint("dim", f"and {plural(len(found.blobs) - len(shown), 'more blob')}"))
    if found.leftovers:
        leftovers = plural(found.leftovers, "leftover of a blob", "leftovers of blobs")
        put(seen.paint("dim", f"and {leftovers} that a crash cut short"))
    what, verb = plural(len(found.blobs), "blob"), "would be removed" if dry_run else "removed"
    nothing = not found.blobs and not found.leftovers
    put("nothing to remove" if nothing else seen.paint("bold", f"{what} {verb}") + f": {size(_bytes(found))}")


def _cells(blob: StoredBlob) -> list[Cell]:
    return [(size(blob.bytes), ""), (span(blob.age_s), "dim"), (visible(blob.digest), "")]
