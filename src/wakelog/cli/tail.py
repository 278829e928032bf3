"""The command `tail`: the end of a log in its own order, all branches, and what is added while one looks."""

import itertools
import time
from collections.abc import Iterable, Iterator

import click
import msgspec

from wakelog.cli.addresses import Address, find
from wakelog.cli.draw import clip, look
from wakelog.cli.facts import fact_line
from wakelog.cli.failures import note_damage, stop_if_damaged
from wakelog.cli.options import Asked, command, session_argument
from wakelog.cli.output import put_lines, put_text
from wakelog.cli.times import now_ms
from wakelog.cli.transcripts import draw_rows, dressed
from wakelog.log.entry import Entry
from wakelog.log.lines import Line, Reader
from wakelog.log.seal import seq_of
from wakelog.log.tree import Branch
from wakelog.reading import read_log
from wakelog.views.transcript import transcript

_WAIT_S = 1.0


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
@click.option("-f", "--follow", is_flag=True, help="Go on with what is appended.")
def tail(asked: Asked, session: str, count: int, *, follow: bool) -> None:
    """Show the last entries of a session, whatever their branch. With --json: as stored, a line each."""
    address = find(asked, session)
    reader = Reader(next_seq=0)
    entries = _last_entries(address, reader, count)
    _put(asked, entries)
    if follow:
        _follow(asked, address, reader)
    stop_if_damaged(address.ref, reader.damage)


def _last_entries(address: Address, reader: Reader, count: int) -> list[Entry]:
    """The last entries, read from the end where every line there says its number; else from the beginning."""
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


def _follow(asked: Asked, address: Address, reader: Reader) -> None:
    """Shows what is appended, until the process is interrupted."""
    pieces: dict[str, int] = {}
    told = {hurt.offset for hurt in reader.damage}
    next_seq = reader.next_seq
    while True:
        news = address.store.follow(address.name, after=next_seq - 1, pieces=pieces, timeout_s=_WAIT_S)
        pieces |= {piece.reply_id: piece.offset + 1 for piece in news.pieces}
        fresh = Reader(next_seq=next_seq)
        _put(asked, fresh.feed_all(news.lines))
        note_damage(address.ref, [hurt for hurt in fresh.damage if hurt.offset not in told])
        told |= {hurt.offset for hurt in fresh.damage}
        if news.lines and fresh.next_seq == next_seq:
            # A torn tail is news for as long as it stands there: once told, it is not asked about at once.
            time.sleep(_WAIT_S)
        next_seq = fresh.next_seq


def _put(asked: Asked, entries: Iterable[Entry]) -> None:
    if asked.json:
        put_lines(entry.raw for entry in entries)
    else:
        put_text(line for entry in entries for line in _lines(asked, entry))


def _lines(asked: Asked, entry: Entry) -> Iterator[str]:
    """An entry as a transcript shows it; a fact on one line."""
    seen = look(asked.color)
    if entry.is_link:
        dress = dressed(seen, now_ms(), {entry.id: str(entry.seq)})
        rows = transcript(Branch((entry,)))
        # What came of a call stands in an entry of its own here: a call by itself is neither open nor settled.
        yield from draw_rows(
            dress, (msgspec.structs.replace(row, status="") if row.kind == "call" else row for row in rows)
        )
    else:
        yield seen.paint("dim", clip(seen, f"{entry.seq:>3}  {fact_line(entry.value)}", seen.columns))
    yield ""
