"""Command `config`: show the settings in force with their origin, or list all mistakes in the configuration.

A project's file is untrusted text: it is made visible before it is written to a terminal. Keys are never shown, because
they are not looked up.
"""

import os
from collections.abc import Iterable, Iterator
from typing import Any

import click
import msgspec

from wakelog.app.stores import default_store, url_for_display
from wakelog.cli.ui.errors import USAGE, note
from wakelog.cli.ui.options import SharedOptions, command
from wakelog.cli.ui.output import put, put_bytes, put_json, put_pages
from wakelog.cli.ui.quantities import plural
from wakelog.cli.ui.safe_text import json_line, visible
from wakelog.cli.ui.terminal import Cell, Column, style_of, table
from wakelog.config.agent_plan import ShownValue, shown_values
from wakelog.config.files import load_config
from wakelog.config.schema import DEFAULT, LoadedConfig, Mistake, Source
from wakelog.config.validation import dotted


@command(
    "config",
    examples="""
    wakelog config                           the values in force here, with their sources
    wakelog config show --json | jq 'select(.from != "default")'
    wakelog config check                     every mistake, with its line
    """,
    paged=True,
)
@click.argument("what", type=click.Choice(["show", "check"]), default="show")
def config(shared: SharedOptions, what: str) -> None:
    """Show the configuration with its sources, or check it: the values in force in this folder."""
    options = {"--store": shared.store_url} if shared.store_url else {}
    loaded = load_config("", os.environ, options)
    if what == "show":
        _show(shared, loaded)
    else:
        _check(shared, loaded)


# ── show ─────────────────────────────────────────────────────────────────────────────────────────


def _show(shared: SharedOptions, loaded: LoadedConfig) -> None:
    found = list(_with_store(shown_values(loaded)))
    if shared.json:
        put_bytes(b"".join(json_line(_row_values(row)) for row in found))
    else:
        put_pages(shared, _table(shared, found))
    for notice in loaded.notices:
        note(notice.message)
    if loaded.mistakes:
        note(f"{plural(len(loaded.mistakes), 'mistake')}, left out here; `wakelog config check` explains")


def _with_store(found: Iterable[ShownValue]) -> Iterator[ShownValue]:
    """Yield the rows, with secrets removed from store URLs and the default store added if none is configured."""
    shown = [msgspec.structs.replace(row, value=url_for_display(row.value)) if _is_store(row) else row for row in found]
    is_missing = not any(_is_store(row) and row.taken for row in shown)
    for row in shown:
        yield row
        if is_missing and row.path == ("agent",) and row.taken:
            yield ShownValue(("store",), default_store(), DEFAULT)


def _is_store(row: ShownValue) -> bool:
    return row.path == ("store",)


def _row_values(row: ShownValue) -> dict[str, object]:
    return {
        "key": dotted(row.path),
        "value": _valid_text(row.value),
        "from": row.place.kind,
        "name": _valid_text(row.place.name),
        "line": row.place.line or None,
        "taken": row.taken,
    }


def _valid_text(value: Any) -> Any:
    """Return text that is valid in JSON: undecodable bytes from the system are replaced."""
    return os.fsencode(value).decode(errors="replace") if isinstance(value, str) else value


def _table(shared: SharedOptions, found: list[ShownValue]) -> Iterable[str]:
    columns = (Column("KEY"), Column("VALUE", shrinks=True), Column("FROM"))
    return table(style_of(shared.color), columns, [_cells(row) for row in found], headed=True)


def _cells(row: ShownValue) -> list[Cell]:
    value = json_line(_valid_text(row.value)).decode().rstrip("\n")
    place = visible(str(row.place))
    if not row.taken:
        return [(visible(dotted(row.path)), "dim"), (visible(value), "dim"), (f"{place}, left out", "warn")]
    return [(visible(dotted(row.path)), "name"), (visible(value), ""), (place, "dim" if row.place == DEFAULT else "")]


# ── check ────────────────────────────────────────────────────────────────────────────────────────


def _check(shared: SharedOptions, loaded: LoadedConfig) -> None:
    if shared.json:
        put_json(_findings(loaded))
    else:
        for line in _lines(loaded):
            put(visible(line))
    if loaded.mistakes:
        raise click.exceptions.Exit(USAGE)


def _lines(loaded: LoadedConfig) -> Iterator[str]:
    yield from map(str, loaded.mistakes)
    yield from (notice.message for notice in loaded.notices)
    read = [source.path for source in loaded.sources if source.found]
    how_many = plural(len(loaded.mistakes), "mistake") if loaded.mistakes else "no mistakes"
    yield (
        f"{how_many} in {', '.join(read)}"
        if read
        else f"no configuration file exists; yours would be {loaded.sources[0].path}"
    )


def _findings(loaded: LoadedConfig) -> dict[str, object]:
    return {
        "ok": not loaded.mistakes,
        "files": [_source(source) for source in loaded.sources],
        "mistakes": [_mistake(mistake) for mistake in loaded.mistakes],
        "notices": [
            {
                "file": _valid_text(notice.file),
                "keys": [dotted(held.path) for held in notice.held],
                "message": _valid_text(notice.message),
            }
            for notice in loaded.notices
        ],
    }


def _source(source: Source) -> dict[str, Any]:
    return {"path": _valid_text(source.path), "role": source.role, "found": source.found, "trusted": source.trusted}


def _mistake(mistake: Mistake) -> dict[str, Any]:
    return {
        "from": mistake.place.kind,
        "name": _valid_text(mistake.place.name),
        "line": mistake.place.line or None,
        "column": mistake.column or None,
        "exact": mistake.place.exact,
        "message": _valid_text(mistake.message),
        "hint": mistake.hint,
    }
