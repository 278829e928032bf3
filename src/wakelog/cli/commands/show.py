"""Command `show`: select and order the entries of a session to show. It writes nothing.

With `--json` entries are written as stored, byte for byte. Text is drawn by `ui.session_text`, which is imported only
when needed, so that JSON output starts faster.
"""

import click
import msgspec

from wakelog.app.addresses import find_node, find_session, read_log_of
from wakelog.cli import load
from wakelog.cli.ui.errors import exit_if_damaged
from wakelog.cli.ui.options import SharedOptions, at_option, command, session_argument
from wakelog.cli.ui.output import put_bytes, put_lines, put_pages, put_text
from wakelog.cli.ui.safe_text import json_line
from wakelog.errors import UsageError
from wakelog.journals import NO_JOURNALS, read_journals
from wakelog.log.entry import Entry
from wakelog.log.redaction_marks import count_marks
from wakelog.log.tree import Branch
from wakelog.projections.context import active_part
from wakelog.reading import Log


@command(
    "show",
    examples="""
    wakelog show @latest
    wakelog show crab_user_3:12              the branch that ends at entry 12
    wakelog show crab_user_4:^12             the same in a fork of it
    wakelog show crab_user_3 --active        what follows the last compaction
    wakelog show crab_user_3 --follow        continue with new entries and streamed text
    wakelog show crab_user_3 --json | jq .type
    wakelog show ./some/log.jsonl
    """,
    paged=True,
)
@session_argument
@at_option
@click.option("--active", is_flag=True, help="Only what follows the last compaction, with its summary first.")
@click.option(
    "--full/--folded", default=None, help="Show all tool output, or shorten it. [default: shorten on a terminal]"
)
@click.option("--follow", is_flag=True, help="Continue with new entries and streamed text until Ctrl-C.")
def show(shared: SharedOptions, session: str, at: str | None, *, active: bool, full: bool | None, follow: bool) -> None:
    """Show the transcript of a session, on one branch. With --json: the entries as stored, one per line."""
    address = find_session(shared.store_url, session, at)
    if follow and address.entry is not None:
        raise UsageError("only the head of a session can be followed", hint="leave the entry or --follow out")
    log = read_log_of(address, tail=active)
    branch = log.tree.branch(find_node(log, address.entry))
    if active:
        branch = _active(log, branch)
    # With `--follow`, the text in journals is printed by `follow_transcript`.
    journals = NO_JOURNALS if follow else read_journals(address.store, log.name, log.tree)
    if shared.json:
        whole = not active and address.entry is None
        entries = log.entries if whole else _in_order(branch, active=active)
        put_lines(entry.raw for entry in entries)
        put_bytes(b"".join(map(json_line, journals.to_json(address.name))))
        redacted = count_marks(entry.raw for entry in entries)
        put_bytes(json_line({"type": "redacted", "counts": redacted}) if redacted else b"")
    else:
        text = load("wakelog.cli.ui.session_text")
        lines = text.transcript_lines(shared, address, log, branch, journals, full=full)
        put_text(lines) if follow else put_pages(shared, lines)
    if follow:
        load("wakelog.cli.ui.session_text").follow_transcript(shared, address, log, full=full)
    exit_if_damaged(address.ref, log.damage)


def _active(log: Log, branch: Branch) -> Branch:
    """Return the part of a branch after its last compaction, with the compaction first."""
    part = active_part(branch)
    compaction = (log.tree.nodes[part.compaction.id],) if part.compaction else ()
    nodes = (*compaction, *part.nodes)
    shown = {node.id for node in nodes}
    annotations = tuple(annotation for annotation in branch.annotations if annotation.value.parent_id in shown)
    return msgspec.structs.replace(branch, nodes=nodes, annotations=annotations, inherited=0, inherited_annotations=())


def _in_order(branch: Branch, *, active: bool) -> list[Entry]:
    """Return the entries of a branch in log order; an active part keeps its compaction first."""
    nodes = branch.nodes if active else branch.nodes[branch.inherited :]
    front = nodes[:1] if active else ()
    rest = sorted((*nodes[len(front) :], *branch.annotations), key=lambda entry: entry.seq)
    return [*front, *rest] if active else [*branch.nodes[: branch.inherited], *branch.inherited_annotations, *rest]
