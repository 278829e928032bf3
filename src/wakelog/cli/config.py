"""Command `config`: show the settings in force with their origin, or list all mistakes in the configuration.

A project's file is untrusted text: it is made visible before it is written to a terminal. Keys are never shown, because
they are not looked up.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Any

import click
import msgspec

from wakelog.cli.draw import Cell, Column, look, table
from wakelog.cli.failures import USAGE, note
from wakelog.cli.options import Asked, command
from wakelog.cli.output import put, put_bytes, put_json, put_pages
from wakelog.cli.places import default_store, shown_url
from wakelog.cli.safe import json_line, visible
from wakelog.cli.times import plural
from wakelog.config.finding import load_config
from wakelog.config.shape import dotted
from wakelog.config.showing import Row, rows
from wakelog.config.values import DEFAULT, Loaded, Mistake, Source


@command(
    "config",
    examples="""
    wakelog config                           what is in force here, and where it comes from
    wakelog config show --json | jq 'select(.from != "default")'
    wakelog config check                     every mistake, with its line
    """,
    paged=True,
)
@click.argument("what", type=click.Choice(["show", "check"]), default="show")
def config(asked: Asked, what: str) -> None:
    """Show the configuration that is in force in this folder and where each value comes from, or check it."""
    options = {"--store": asked.store_url} if asked.store_url else {}
    loaded = load_config("", os.environ, options)
    if what == "show":
        _show(asked, loaded)
    else:
        _check(asked, loaded)


# ── show ─────────────────────────────────────────────────────────────────────────────────────────


def _show(asked: Asked, loaded: Loaded) -> None:
    found = list(_with_store(rows(loaded)))
    if asked.json:
        put_bytes(b"".join(json_line(_plain(row)) for row in found))
    else:
        put_pages(asked, _table(asked, found))
    for notice in loaded.notices:
        note(notice.message)
    if loaded.mistakes:
        note(f"{plural(len(loaded.mistakes), 'mistake')}, left out here; `wakelog config check` explains")


def _with_store(found: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows, with secrets removed from store URLs and the default store added if none is configured."""
    shown = [msgspec.structs.replace(row, value=shown_url(row.value)) if _is_store(row) else row for row in found]
    unsaid = not any(_is_store(row) and row.taken for row in shown)
    for row in shown:
        yield row
        if unsaid and row.path == ("agent",) and row.taken:
            yield Row(("store",), default_store(), DEFAULT)


def _is_store(row: Row) -> bool:
    return row.path == ("store",)


def _plain(row: Row) -> dict[str, object]:
    return {
        "key": dotted(row.path),
        "value": _tame(row.value),
        "from": row.place.kind,
        "name": _tame(row.place.name),
        "line": row.place.line or None,
        "taken": row.taken,
    }


def _tame(value: Any) -> Any:
    """Return text that is valid in JSON: undecodable bytes from the system are replaced."""
    return os.fsencode(value).decode(errors="replace") if isinstance(value, str) else value


def _table(asked: Asked, found: list[Row]) -> Iterable[str]:
    columns = (Column("KEY"), Column("VALUE", gives=True), Column("FROM"))
    return table(look(asked.color), columns, [_cells(row) for row in found], headed=True)


def _cells(row: Row) -> list[Cell]:
    value = json_line(_tame(row.value)).decode().rstrip("\n")
    place = visible(str(row.place))
    if not row.taken:
        return [(visible(dotted(row.path)), "dim"), (visible(value), "dim"), (f"{place}, left out", "warn")]
    return [(visible(dotted(row.path)), "name"), (visible(value), ""), (place, "dim" if row.place == DEFAULT else "")]


# ── check ────────────────────────────────────────────────────────────────────────────────────────


def _check(asked: Asked, loaded: Loaded) -> None:
    if asked.json:
        put_json(_findings(loaded))
    else:
        for line in _lines(loaded):
            put(visible(line))
    if loaded.mistakes:
        raise click.exceptions.Exit(USAGE)


def _lines(loaded: Loaded) -> Iterator[str]:
    yield from map(str, loaded.mistakes)
    yield from (notice.message for notice in loaded.notices)
    read = [source.path for source in loaded.sources if source.found]
    how_many = plural(len(loaded.mistakes), "mistake") if loaded.mistakes else "no mistakes"
    yield f"{how_many} in {', '.join(read)}" if read else f"no file is there; yours would be {loaded.sources[0].path}"


def _findings(loaded: Loaded) -> dict[str, object]:
    return {
        "ok": not loaded.mistakes,
        "files": [_source(source) for source in loaded.sources],
        "mistakes": [_mistake(mistake) for mistake in loaded.mistakes],
        "notices": [
            {
                "file": _tame(notice.file),
                "keys": [dotted(held.path) for held in notice.held],
                "message": _tame(notice.message),
            }
            for notice in loaded.notices
        ],
    }


def _source(source: Source) -> dict[str, Any]:
    return {"path": _tame(source.path), "role": source.role, "found": source.found, "trusted": source.trusted}


def _mistake(mistake: Mistake) -> dict[str, Any]:
    return {
        "from": mistake.place.kind,
        "name": _tame(mistake.place.name),
        "line": mistake.place.line or None,
        "column": mistake.column or None,
        "exact": mistake.place.exact,
        "message": _tame(mistake.message),
        "hint": mistake.hint,
    }
