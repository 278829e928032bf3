"""Command `tail`: the last entries of a log in log order, of all branches; `--follow` prints new ones."""

import itertools
from collections.abc import Iterable

import click

from wakelog.app.addresses import Address, find_session
from wakelog.cli.ui.errors import exit_if_damaged
from wakelog.cli.ui.options import SharedOptions, command, session_argument
from wakelog.cli.ui.output import put_bytes, put_lines, put_text
from wakelog.cli.ui.quantities import now_ms
from wakelog.cli.ui.safe_text import json_line
from wakelog.cli.ui.session_text import entry_lines, follow_log
from wakelog.cli.ui.terminal import style_of
from wakelog.cli.ui.transcripts import draw_rows, layout_for
from wakelog.journals import read_journals
from wakelog.log.entry import Entry
from wakelog.log.lines import EntryReader, Line
from wakelog.log.seal import find_seq
from wakelog.projections.transcript import journal_rows
from wakelog.reading import read_log


@command(
    "tail",
    examples="""
    wakelog tail @latest
    wakelog tail crab_user_3 -n 3 --json
    wakelog tail crab_user_3 -f              follow until Ctrl-C
    """,
)
@session_argument
@click.option(
    "-n", "count", type=click.IntRange(min=0), default=10, metavar="N", help="Number of entries. [default: 10]"
)
@click.option("-f", "--follow", is_flag=True, help="Continue with new entries and streamed text until Ctrl-C.")
def tail(shared: SharedOptions, session: str, count: int, *, follow: bool) -> None:
    """Show the last entries, or follow new ones, whatever their branch. With --json: as stored, one per line."""
    address = find_session(shared.store_url, session)
    reader = EntryReader(next_seq=0)
    entries = _last_entries(address, reader, count)
    _put(shared, entries)
    if follow:
        follow_log(shared, address, next_seq=reader.next_seq, damage=reader.damage)
    _put_journals(shared, address)
    exit_if_damaged(address.ref, reader.damage)


def _last_entries(address: Address, reader: EntryReader, count: int) -> list[Entry]:
    """Return the last entries. Reads from the end if every line there has its seq; else from the beginning."""
    last = list(itertools.islice(address.store.tail(address.name), count + 1))[::-1]
    if last and all(_is_plain(line) for line in last):
        reader.next_seq = find_seq(last[0].raw) or 0
        entries = reader.feed_all(last)
        return entries[-count:] if count else []
    log = read_log(address.store, address.name)
    reader.next_seq, reader.damage = log.next_seq, list(log.damage)
    return list(log.entries[-count:]) if count else []


def _is_plain(line: Line) -> bool:
    return line.whole and line.ended and find_seq(line.raw) is not None


def _put(shared: SharedOptions, entries: Iterable[Entry]) -> None:
    if shared.json:
        put_lines(entry.raw for entry in entries)
    else:
        put_text(line for entry in entries for line in entry_lines(style_of(shared.color), entry))


def _put_journals(shared: SharedOptions, address: Address) -> None:
    """Print the text of journals, running or interrupted, after the last entry."""
    journals = read_journals(address.store, address.name)
    if shared.json:
        put_bytes(b"".join(map(json_line, journals.to_json(address.name))))
    elif journals.partials:
        layout = layout_for(style_of(shared.color), now_ms(), {}, ref=address.ref)
        put_text([*draw_rows(layout, journal_rows(journals.partials, running=journals.running)), ""])
