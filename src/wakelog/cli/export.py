"""Command `export`: write a session as JSONL, JSON or Markdown, to stdout or a new file."""

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

import click

from wakelog.cli.addresses import Address, find
from wakelog.cli.failures import note, stop_if_damaged
from wakelog.cli.options import Asked, at_option, command, session_argument
from wakelog.cli.output import put_bytes
from wakelog.cli.safe import visible
from wakelog.cli.scanned_addresses import find_scanned_node
from wakelog.errors import StoreError, UsageError
from wakelog.exchange import json_document, jsonl, markdown
from wakelog.exchange.branch_rows import branch_rows
from wakelog.exchange.scanned_journals import journals_of_scan
from wakelog.log.entry import Queued
from wakelog.log.id_table import NONE
from wakelog.log.lines import Damage
from wakelog.log.tail import MESSAGE_MODES
from wakelog.overviews import scan_with_overview
from wakelog.projections.overview import Overview
from wakelog.projections.state import queued_on
from wakelog.projections.transcript import queue_rows
from wakelog.scanning import Scan, path_entries, scan_log

_LINES_OF_A_PIECE = 1_000


@command(
    "export",
    examples="""
    wakelog export @latest --format md | less
    wakelog export crab_user_3 -f jsonl -o session.jsonl
    wakelog export crab_user_3:12 -f md -o until-12.md
    """,
    json=False,
)
@session_argument
@click.option(
    "-f", "--format", "shape", type=click.Choice(["jsonl", "md", "json"]), default="jsonl", help="[default: jsonl]"
)
@click.option("-o", "--output", metavar="FILE", help="Write to a new file. [default: standard output]")
@at_option
def export(asked: Asked, session: str, shape: str, output: str | None, at: str | None) -> None:
    """Write a session out: jsonl is the log itself, json one document, md a branch for people to read."""
    address = find(asked, session, at)
    if address.entry is not None and shape != "md":
        raise UsageError(f"--at goes with --format md; {shape} holds every branch", hint="leave the entry out")
    content, damage = _lines(address) if shape == "jsonl" else _document(address, shape)
    if output is None or output == "-":
        for piece in content:
            put_bytes(piece)
    else:
        write_new(output, content)
        if sys.stderr.isatty():
            note(f"wrote {output}")
    stop_if_damaged(address.ref, damage)


def _lines(address: Address) -> tuple[Iterable[bytes], Sequence[Damage]]:
    """Return the log itself. A log without a parent is checked and written line by line, at any size."""
    scan = scan_log(address.store, address.name)
    if scan.origin is None:
        return jsonl.exact(address.store.load(address.name), scan.size), scan.damage
    if sys.stderr.isatty():
        note("a fork is written out whole: its parent's branch, then its own entries")
    copy = jsonl.standalone(address.store, scan, verify=True)
    return jsonl.content_of(copy) if copy is not None else [], scan.damage


def _document(address: Address, shape: str) -> tuple[Iterable[bytes], Sequence[Damage]]:
    store = address.store
    scan, overview = scan_with_overview(store, address.name)
    journals = journals_of_scan(store, scan)
    if shape == "json":
        return json_document.document(store, scan, overview.title, overview.state, journals), scan.damage
    path, waiting = _branch(address, scan, overview)
    about = markdown.About(
        name=scan.name,
        id=scan.id,
        title=overview.title,
        created=overview.created,
        cwd=overview.cwd,
        model=overview.model,
        messages=scan.outline.count_messages(path),
        damage=len(scan.damage),
    )
    rows = chain(branch_rows(store, scan, path, journals), queue_rows(waiting))
    return _encoded(markdown.document(about, rows, visible)), scan.damage


def _branch(address: Address, scan: Scan, overview: Overview) -> tuple[bytearray, tuple[Queued, ...]]:
    """Return the requested branch, as marks in the outline, and the messages queued at its end."""
    outline = scan.outline
    head = outline.head
    if address.entry is not None:
        head = find_scanned_node(address.store, scan, address.entry)
    if head == NONE:
        return bytearray(len(outline)), ()
    path = outline.path(head)
    if head == outline.head:
        return path, tuple(queued for queued in overview.queue if queued.mode in MESSAGE_MODES)
    own = (entry for entry in path_entries(address.store, scan, path) if outline.number(entry.id) >= outline.inherited)
    return path, queued_on(own)


def _encoded(pieces: Iterable[str]) -> Iterator[bytes]:
    """Encode text, in pieces of many lines."""
    texts = iter(pieces)
    while piece := "".join(islice(texts, _LINES_OF_A_PIECE)):
        yield piece.encode()


def write_new(path: str, content: Iterable[bytes]) -> None:
    """Write and sync a new file; an incomplete one is removed. `UsageError` if it exists; nothing is overwritten."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UsageError(f"{path} is there already", hint="name a new file, or remove that one first") from None
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise StoreError(f"cannot write {path}: {reason}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(content)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        os.unlink(path)
        raise
