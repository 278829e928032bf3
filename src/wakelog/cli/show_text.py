"""Text output of `show`: a heading about the session, then the transcript of a branch.

`show` selects the entries, and `transcripts` draws the rows. Every stored string passes through `safe`.
"""

from collections.abc import Iterator

from wakelog.cli.addresses import Address
from wakelog.cli.draw import Look, clip, look
from wakelog.cli.names import Names
from wakelog.cli.options import Asked
from wakelog.cli.safe import first_line, visible
from wakelog.cli.times import ago, lasted, now_ms, plural
from wakelog.cli.transcripts import draw_rows, layout_for
from wakelog.journals import JournalTexts
from wakelog.log.tree import Branch
from wakelog.projections.overview import overview
from wakelog.projections.queue import waiting_messages
from wakelog.projections.transcript import count_messages, transcript
from wakelog.reading import Log


def transcript_lines(
    asked: Asked, address: Address, log: Log, branch: Branch, journals: JournalTexts, *, full: bool | None
) -> Iterator[str]:
    """Yield the heading of the session, the transcript of a branch, and a hint if there are other branches."""
    seen = look(asked.color)
    now = now_ms()
    names = Names(log.tree)
    addresses = {node.id: names.short(node) for node in branch.nodes}
    dress = layout_for(seen, now, addresses, full=full, ref=address.ref)
    waiting = waiting_messages(log.tree) if branch.tip is not None and branch.tip.id == log.tree.head else None
    rows = transcript(branch, journals.partials, running=journals.running, waiting=waiting)
    yield from _card(seen, address, log, branch, now)
    yield from draw_rows(dress, (row for row in rows if row.kind != "session"))
    others = len(log.tree.leaves()) - 1
    if others > 0 and address.entry is None and not log.tree.partial:
        yield ""
        hint = f"{plural(others, 'other branch', 'other branches')}: wakelog tree {visible(address.ref)}"
        yield seen.paint("dim", hint)


def _card(seen: Look, address: Address, log: Log, branch: Branch, now: int) -> Iterator[str]:
    """Yield the heading: the session, its state, and its number of messages, inherited ones included."""
    held = address.store.held(address.name) is not None
    card = overview(log.tree, held=held, damaged=bool(log.damage))
    title = first_line(card.title or "")
    yield seen.paint("name", log.name) + (f"  {clip(seen, title, seen.columns - len(log.name) - 2)}" if title else "")
    updated = log.entries[-1].value.timestamp if log.entries else ""
    annotations = (
        visible(card.cwd),
        visible(card.model or ""),
        plural(count_messages(branch), "message"),
        card.state,
        f"uptime {lasted(card.uptime_ms)}" if card.uptime_ms else "",
        f"{card.undelivered} undelivered" if card.undelivered and card.state != "undelivered" else "",
        "archived" if card.archived else "",
        ago(updated, now),
    )
    dot = seen.sign(" · ", " - ")
    yield seen.paint(
        "dim",
        clip(seen, dot.join(filter(None, annotations)), seen.columns)
        if seen.width
        else dot.join(filter(None, annotations)),
    )
    yield ""
