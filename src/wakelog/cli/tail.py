"""Command `tail`: the last entries of a log in log order, of all branches; `--follow` prints new ones."""

import itertools
from collections.abc import Iterable

import click

from wakelog.cli.addresses import Address, find
from wakelog.cli.draw import look
from wakelog.cli.failures import stop_if_damaged
from wakelog.cli.following import entry_lines, follow_log
from wakelog.cli.options import Asked, command, session_argument
from wakelog.cli.output import put_bytes, put_lines, put_text
from wakelog.cli.safe import json_line
from wakelog.cli.times import now_ms
from wakelog.cli.transcripts import draw_rows, layout_for
from wakelog.journals import read_journals
from wakelog.log.entry import Entry
from wakelog.log.lines import Line, Reader
from wakelog.log.seal import seq_of
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
@click.option("-n", "count", type=click.IntRange(min=0), default=10, metavar="N", help="How many. [default: 10]")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is appended and what streams.")
def tail(asked: Asked, session: str, count: int, *, follow: bool) -> None:
    """Show the last entries of a session, whatever their branch. With --json: as stored, a line each."""
    address = find(asked, session)
    reader = Reader(next_seq=0)
    entries = _last_entries(address, reader, count)
    _put(asked, entries)
    if follow:
        follow_log(asked, address, next_seq=reader.next_seq, damage=reader.damage)
    _put_journals(asked, address)
    stop_if_damaged(address.ref, reader.damage)


def _last_entries(address: Address, reader: Reader, count: int) -> list[Entry]:
    """Return the last entries. Reads from the end if every line there has its seq; else from the beginning."""
    last = list(itertools.islice(address.store.tail(address.name), count + 1))[::-1]
    if last and all(_is_plain(line) for line in last):
        reader.next_seq = seq_of(last[0].raw) or 0
        entries = reader.feed_all(last)
        return entries[-count:] if count else []
    log = read_log(address.store, address.name)
    reader.next_seq, reader.damage = log.next_seq, list(log.damage)
    return list(log.entries[-count:]) if count else []


def _is_plain(line: Line) -> bool:
    return line.whole and line.ended and seq_of(line.raw) is not None


def _put(asked: Asked, entries: Iterable[Entry]) -> None:
    if asked.json:
        put_lines(entry.raw for entry in entries)
    else:
        put_text(line for entry in entries for line in entry_lines(look(asked.color), entry))


def _put_journals(asked: Asked, address: Address) -> None:
    """Print the text of journals, running or interrupted, after the last entry."""
    journals = read_journals(address.store, address.name)
    if asked.json:
        put_bytes(b"".join(map(json_line, journals.values(address.name))))
    elif journals.partials:
        dress = layout_for(look(asked.color), now_ms(), {}, ref=address.ref)
        put_text([*draw_rows(dress, journal_rows(journals.partials, running=journals.running)), ""])
