"""The command `export`: a session in another shape, to stdout or into a new file."""

import os
import sys

import click

from wakelog.cli.addresses import Address, find, find_link
from wakelog.cli.failures import note, stop_if_damaged
from wakelog.cli.options import Asked, at_option, command, session_argument
from wakelog.cli.output import put_bytes
from wakelog.cli.safe import visible
from wakelog.errors import StoreError, UsageError
from wakelog.exchange import json_document, jsonl, markdown
from wakelog.journals import read_journals
from wakelog.reading import Log, read_log


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
    log = read_log(address.store, address.name, verify=True)
    content = _content(address, log, shape)
    if output is None or output == "-":
        put_bytes(content)
    else:
        write_new(output, content)
        if sys.stderr.isatty():
            note(f"wrote {output}")
    if shape == "jsonl" and jsonl.is_fork(log) and sys.stderr.isatty():
        note("a fork is written out whole: its parent's branch, then its own entries")
    stop_if_damaged(address.ref, log.damage)


def _content(address: Address, log: Log, shape: str) -> bytes:
    if shape == "md":
        branch = log.tree.branch(find_link(log, address.entry))
        return markdown.document(log, branch, visible, read_journals(address.store, log.name, log.tree)).encode()
    if shape == "json":
        return json_document.document(log, read_journals(address.store, log.name, log.tree))
    if jsonl.is_fork(log):
        return jsonl.standalone(address.store, log, verify=True).content
    return jsonl.exact(address.store.load(address.name))


def write_new(path: str, content: bytes) -> None:
    """Writes a file that was not there before, whole and synced; what is there is never overwritten."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise UsageError(f"{path} is there already", hint="name a new file, or remove that one first") from None
    except (OSError, ValueError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise StoreError(f"cannot write {path}: {reason}") from error
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
