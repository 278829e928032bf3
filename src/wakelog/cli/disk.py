"""Command `du`: disk usage of sessions, journals, locks, blobs and the index."""

import os

import click

from wakelog.cli.addresses import find
from wakelog.cli.draw import Column, look, table
from wakelog.cli.options import Asked, command
from wakelog.cli.output import put, put_bytes, put_text
from wakelog.cli.places import Place
from wakelog.cli.safe import json_line, visible
from wakelog.cli.store_checks import bytes_under, folder_of, index_bytes
from wakelog.cli.times import plural, size
from wakelog.ports import Stat

_SHOWN = 20


@command(
    "du",
    examples="""
    wakelog du
    wakelog du crab_user_3
    wakelog du --json | jq -s 'max_by(.log)'
    """,
)
@click.argument("session", required=False, metavar="[SESSION]")
def du(asked: Asked, session: str | None) -> None:
    """Show how much room the logs take, the largest first, and what journals, locks, blobs and the index add."""
    place = Place(asked.store_url)
    stats = sorted(place.store.sessions(), key=lambda found: (-found.size, found.name))
    if session is not None:
        name = find(asked, session).name
        stats = [found for found in stats if found.name == name]
    folder = folder_of(place)
    rows = [_row(folder, found) for found in stats]
    totals = _totals(place, folder, stats) if session is None else None
    if asked.json:
        put_bytes(b"".join(json_line(row) for row in (*rows, *([totals] if totals is not None else []))))
    else:
        _draw(asked, rows, totals)


def _row(folder: str | None, found: Stat) -> dict[str, object]:
    journals = bytes_under(os.path.join(folder, ".journals", found.name)) if folder else 0
    return {"kind": "session", "name": found.name, "log": found.size, "journals": journals}


def _totals(place: Place, folder: str | None, stats: list[Stat]) -> dict[str, object]:
    beside = {"journals": ".journals", "locks": ".locks", "blobs": ".blobs"}
    sizes = {what: bytes_under(os.path.join(folder, name)) if folder else 0 for what, name in beside.items()}
    if folder is None:
        sizes["blobs"] = sum(blob.bytes for blob in place.store.blobs.stored())
    logs, index = sum(found.size for found in stats), index_bytes(place)
    total = logs + index + sum(sizes.values())
    return {"kind": "total", "sessions": len(stats), "logs": logs, **sizes, "index": index, "bytes": total}


def _draw(asked: Asked, rows: list[dict[str, object]], totals: dict[str, object] | None) -> None:
    seen = look(asked.color)
    shown = rows[:_SHOWN] if seen.width else rows
    columns = (Column("SIZE", right=True), Column("SESSION"))
    cells = [[(_size(row["log"]), ""), (visible(str(row["name"])), "name")] for row in shown]
    put_text(table(seen, columns, cells, headed=False) if cells else ())
    if len(rows) > len(shown):
        put(seen.paint("dim", f"and {plural(len(rows) - len(shown), 'smaller session')}"))
    if totals is not None:
        parts = (f"{what} {_size(totals[what])}" for what in ("logs", "journals", "locks", "blobs", "index"))
        put(seen.paint("bold", f"{_size(totals['bytes'])} in all") + f": {', '.join(parts)}")


def _size(count: object) -> str:
    assert isinstance(count, int)
    return size(count)
