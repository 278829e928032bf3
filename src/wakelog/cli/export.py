"""The command `export`: a session in another shape, to stdout or into a new file."""

import os
import sys
from collections.abc import Iterable, Sequence

import click

from wakelog.cli.addresses import Address, find, find_link
from wakelog.cli.failures import note, stop_if_damaged
from wakelog.cli.options import Asked, at_option, command, session_argument
from wakelog.cli.output import put_bytes
from wakelog.cli.safe import visible
from wakelog.errors import StoreError, UsageError
from wakelog.exchange import json_document, jsonl, markdown
from wakelog.journals import read_journals
from wakelog.log.lines import Damage
from wakelog.reading import read_log
from wakelog.scanning import scan_log


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
    """The log itself. A log that needs no other is checked and written line by line, however long it is."""
    scan = scan_log(address.store, address.name, lambda _: None)
    if scan.origin is None:
        return jsonl.exact(address.store.load(address.name), scan.size), scan.damage
    if sys.stderr.isatty():
        note("a fork is written out whole: its parent's branch, then its own entries")
    log = read_log(address.store, address.name, verify=True)
    return [jsonl.standalone(address.store, log, verify=True).content], log.damage


def _document(address: Address, shape: str) -> tuple[Iterable[bytes], Sequence[Damage]]:
    log = read_log(address.store, address.name, verify=True)
    journals = read_journals(address.store, log.name, log.tree)
    if shape == "json":
        return [json_document.document(log, journals)], log.damage
    branch = log.tree.branch(find_link(log, address.entry))
    return [markdown.document(log, branch, visible, journals).encode()], log.damage


def write_new(path: str, content: Iterable[bytes]) -> None:
    """Writes a file that was not there before, whole and synced; what is there is never overwritten."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UsageError(f"{path} is there already", hint="name a new file, or remove that one first") from None
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise StoreError(f"cannot write {path}: {reason}") from error
    with os.fdopen(descriptor, "wb") as file:
        file.writelines(content)
        file.flush()
        os.fsync(file.fileno())
