"""Command `export`: write a session as JSONL, JSON or Markdown, to stdout or a new file."""

import sys

import click

from wakelog.app.addresses import find_session
from wakelog.app.export import document_content, jsonl_content, write_new_file
from wakelog.cli.ui.errors import exit_if_damaged, note
from wakelog.cli.ui.options import SharedOptions, at_option, command, session_argument
from wakelog.cli.ui.output import put_bytes
from wakelog.cli.ui.safe_text import visible
from wakelog.errors import UsageError


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
def export(shared: SharedOptions, session: str, shape: str, output: str | None, at: str | None) -> None:
    """Export a session as JSONL, Markdown or JSON.

    jsonl is the log itself, json one document, md one branch for people to read.
    """
    address = find_session(shared.store_url, session, at)
    if address.entry is not None and shape != "md":
        raise UsageError(f"--at requires --format md; {shape} contains every branch", hint="leave the entry out")
    content = jsonl_content(address) if shape == "jsonl" else document_content(address, shape, visible)
    if content.includes_parent and sys.stderr.isatty():
        note("a fork is exported as a whole: its parent's branch, then its own entries")
    if output is None or output == "-":
        for piece in content.pieces:
            put_bytes(piece)
    else:
        write_new_file(output, content.pieces)
        if sys.stderr.isatty():
            note(f"wrote {output}")
    exit_if_damaged(address.ref, content.damage)
