"""Print a session as text: the transcript of a branch, then entries as they are appended and replies as they stream.

`show` and `tail` select the entries. `show` imports this module only for text output, so that JSON output starts
faster. To follow a session, everything is read from the store, so any process may run the session. A subscription
(`wakelog.watcher`) waits for new entries; nothing here polls. Streamed text is read from a journal (`journals.py`) and
printed once; when its entry arrives, only the part that was not printed yet follows.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from wakelog.app.addresses import Address
from wakelog.app.entry_names import EntryNames
from wakelog.app.stores import warn_once
from wakelog.cli.ui.errors import note_damage
from wakelog.cli.ui.import_figures import import_lines, verbatim_records
from wakelog.cli.ui.options import SharedOptions
from wakelog.cli.ui.output import put_json, put_lines, put_raw, put_text
from wakelog.cli.ui.quantities import age_text, duration_text, now_ms, plural, redacted_text
from wakelog.cli.ui.safe_text import first_line, visible, visible_lines
from wakelog.cli.ui.terminal import TerminalStyle, clip, style_of
from wakelog.cli.ui.transcripts import annotation_line, draw_rows, how_to_continue, layout_for
from wakelog.journals import JournalTexts, read_journals
from wakelog.log.content import Reply, TextDelta
from wakelog.log.entry import Attention, AttentionResolved, Entry, Head, Message, Partial, Queued, Resumed, ToolStarted
from wakelog.log.lines import Damage
from wakelog.log.redaction_marks import count_marks
from wakelog.log.tree import Branch
from wakelog.projections.overview import overview
from wakelog.projections.queue import waiting_messages
from wakelog.projections.transcript import count_messages, transcript
from wakelog.reading import Log, read_active
from wakelog.session_news import StreamedPiece
from wakelog.watcher import Subscription


def transcript_lines(
    shared: SharedOptions, address: Address, log: Log, branch: Branch, journals: JournalTexts, *, full: bool | None
) -> Iterator[str]:
    """Yield the heading of the session, the transcript of a branch, and a hint if there are other branches."""
    look = style_of(shared.color)
    now = now_ms()
    names = EntryNames(log.tree)
    addresses = {node.id: names.short(node) for node in branch.nodes}
    layout = layout_for(look, now, addresses, full=full, ref=address.ref)
    waiting = waiting_messages(log.tree) if branch.tip is not None and branch.tip.id == log.tree.head else None
    rows = transcript(branch, journals.partials, running=journals.running, waiting=waiting)
    yield from _session_heading(look, address, log, branch, now)
    kept = frozenset() if full else verbatim_records(log)
    yield from draw_rows(layout, (row for row in rows if row.kind != "session" and row.entry_id not in kept))
    others = len(log.tree.branch_ends()) - 1
    if others > 0 and address.entry is None and not log.tree.partial:
        yield ""
        hint = f"{plural(others, 'other branch', 'other branches')}: wakelog tree {visible(address.ref)}"
        yield look.paint("dim", hint)


def _session_heading(look: TerminalStyle, address: Address, log: Log, branch: Branch, now: int) -> Iterator[str]:
    """Yield the heading: the session, its state, and its number of messages, inherited ones included."""
    held = address.store.held(address.name) is not None
    summary = overview(log.tree, held=held, damaged=bool(log.damage))
    title = first_line(summary.title or "")
    yield look.paint("name", log.name) + (f"  {clip(look, title, look.columns - len(log.name) - 2)}" if title else "")
    updated = log.entries[-1].value.timestamp if log.entries else ""
    annotations = (
        visible(summary.cwd),
        visible(summary.model or ""),
        plural(count_messages(branch), "message"),
        summary.state,
        plural(summary.unknown_outcomes, "unknown outcome") if summary.unknown_outcomes else "",
        f"uptime {duration_text(summary.uptime_ms)}" if summary.uptime_ms else "",
        f"{summary.undelivered} undelivered" if summary.undelivered and summary.state != "undelivered" else "",
        "archived" if summary.archived else "",
        age_text(updated, now),
    )
    dot = look.symbol(" · ", " - ")
    yield look.paint(
        "dim",
        clip(look, dot.join(filter(None, annotations)), look.columns)
        if look.width
        else dot.join(filter(None, annotations)),
    )
    yield from import_lines(look, log)
    redacted = count_marks(entry.raw for entry in (*branch.nodes, *branch.annotations))
    if redacted:
        yield look.paint("dim", redacted_text(redacted))
    yield ""


_INDENT = 5
# The annotations that a transcript shows; `tail` shows the others too.
_SHOWN_ANNOTATIONS = (Queued, Head, Attention, AttentionResolved)
EntryLines = Callable[[Entry, bool], Iterable[str]]
"""Returns the lines of an entry; the flag says that the text of a reply was printed while it streamed."""


def follow_log(shared: SharedOptions, address: Address, *, next_seq: int, damage: Sequence[Damage]) -> None:
    """Print every entry of a log and the text that streams, until the process is interrupted (`tail -f`)."""
    look = style_of(shared.color)
    _Follower(shared, address, lambda entry, printed: entry_lines(look, entry, printed=printed)).run(next_seq, damage)


def follow_transcript(shared: SharedOptions, address: Address, log: Log, *, full: bool | None) -> None:
    """Print new entries at the head of a session, until the process is interrupted (`show --follow`)."""
    look, tree = style_of(shared.color), log.tree

    def lines_of(entry: Entry, printed: bool) -> Iterable[str]:  # noqa: FBT001 - see `EntryLines`
        tree.add(entry)
        at_head = entry.is_node and entry.id == tree.head
        shown = at_head or isinstance(entry.value, _SHOWN_ANNOTATIONS)
        return entry_lines(look, entry, printed=printed, full=full) if shown else ()

    if not shared.json:
        put_text([""])
    _Follower(shared, address, lines_of).run(log.next_seq, log.damage)


def entry_lines(look: TerminalStyle, entry: Entry, *, printed: bool = False, full: bool | None = None) -> Iterator[str]:
    """Yield an entry as in a transcript, without a reply's text if it was `printed`; an annotation on one line."""
    if entry.is_node:
        layout = layout_for(look, now_ms(), {entry.id: str(entry.seq)}, full=full)
        # Here a tool call and its result are separate entries, so the call alone is neither open nor completed.
        rows = [
            msgspec.structs.replace(row, status="") if row.kind == "call" else row
            for row in transcript(Branch((entry,)))
            if not (printed and row.kind == "reply")
        ]
        yield from draw_rows(layout, rows) if rows else [look.paint("dim", f"{entry.seq:>3}  complete")]
    else:
        yield look.paint("dim", clip(look, f"{entry.seq:>3}  {annotation_line(entry.value)}", look.columns))
    yield ""


class _Printed:
    """How much of a journal's text was printed, and its digest: the text itself may be of any length."""

    def __init__(self) -> None:
        self.chars = 0
        self._digest = hashlib.sha256()

    def add(self, text: str) -> None:
        """Add the next printed piece."""
        self.chars += len(text)
        self._digest.update(text.encode(errors="backslashreplace"))

    def is_all_of(self, text: str) -> bool:
        """Return whether exactly this text was printed."""
        whole = _Printed()
        whole.add(text)
        return self.chars > 0 and whole._digest.digest() == self._digest.digest()


class _Follower:
    """A followed session, with the position of the output in its log and journals."""

    def __init__(self, shared: SharedOptions, address: Address, lines_of: EntryLines) -> None:
        self._shared = shared
        self._address = address
        self._lines_of = lines_of
        self._tools: dict[str, ToolStarted] = {}
        self._printed: dict[str, _Printed] = {}
        self._open = ""

    def run(self, next_seq: int, damage: Sequence[Damage]) -> None:
        """Print what is new, until the process is interrupted. Warnings come first, because there may be no end."""
        warn_once()
        store, name = self._address.store, self._address.name
        note_damage(self._address.ref, damage)
        reported = {item.offset for item in damage}
        pieces = self._skip_logged_journals()
        with Subscription(store, name, after=next_seq - 1, pieces=pieces) as subscription:
            while not subscription.is_over:
                for news in subscription.wait():
                    self._put_entries(news.entries)
                    self._put_pieces(news.pieces)
                    note_damage(self._address.ref, [item for item in news.damage if item.offset not in reported])
                    reported |= {item.offset for item in news.damage}

    def _skip_logged_journals(self) -> dict[str, int]:
        """Return the number of pieces of the journals that are not yet removed but have their text in the log."""
        store, name = self._address.store, self._address.name
        journals = store.journals(name)
        if not journals:
            return {}
        tree = read_active(store, name).tree
        under_way = {partial.id for partial in read_journals(store, name, tree).partials}
        over = [journal for journal in journals if journal not in under_way]
        self._remember_tools(entry for entry in tree.own_entries() if entry.id in journals)
        return {journal: sum(1 for _ in journals[journal]) for journal in over}

    def _remember_tools(self, entries: Iterable[Entry]) -> None:
        self._tools |= {entry.id: entry.value for entry in entries if isinstance(entry.value, ToolStarted)}

    # ── entries ──────────────────────────────────────────────────────────────────────────────────

    def _put_entries(self, entries: Sequence[Entry]) -> None:
        self._remember_tools(entries)
        if entries:
            self._close()
        pairs = [(entry, self._was_printed(entry)) for entry in entries]
        if self._shared.json:
            put_lines(entry.raw for entry in entries)
        else:
            put_text(line for entry, printed in pairs for line in self._lines_of(entry, printed))

    def _was_printed(self, entry: Entry) -> bool:
        """Return whether a reply's whole text was printed while it streamed; forget what was printed of it."""
        match entry.value:
            case Message(message=Reply() as reply):
                printed = self._printed.pop(entry.id, None)
                return printed is not None and printed.is_all_of(reply.text)
            case Partial(reply_id=reply_id) | Resumed(reply_id=reply_id):
                # This journal is over; the next text of the reply begins a new one.
                self._printed.pop(reply_id, None)
        return False

    # ── pieces ───────────────────────────────────────────────────────────────────────────────────

    def _put_pieces(self, pieces: Sequence[StreamedPiece]) -> None:
        texts = [(piece.journal, piece.delta.text) for piece in pieces if isinstance(piece.delta, TextDelta)]
        if not texts:
            return
        running = self._address.store.held(self._address.name) is not None
        put_piece = self._put_json if self._shared.json else self._put_text
        for journal, text in texts:
            put_piece(journal, text, running=running)
        if not running:
            self._close(interrupted=True)

    def _put_json(self, journal: str, text: str, *, running: bool) -> None:
        tool = self._tools.get(journal)
        put_json(
            {
                "type": "journal",
                "replyId": tool.reply_id if tool is not None else journal,
                "toolCallId": tool.tool_call_id if tool is not None else None,
                "state": "running" if running else "interrupted",
                "offset": self._printed.setdefault(journal, _Printed()).chars,
                "text": text,
            }
        )
        self._printed[journal].add(text)

    def _put_text(self, journal: str, text: str, *, running: bool) -> None:
        indent = " " * _INDENT
        if journal != self._open:
            self._close()
            put_raw(f"{self._heading(journal, running=running)}\n{indent}")
            self._open = journal
        self._printed.setdefault(journal, _Printed()).add(text)
        put_raw(f"\n{indent}".join(visible_lines(text)))

    def _heading(self, journal: str, *, running: bool) -> str:
        tool, look = self._tools.get(journal), style_of(self._shared.color)
        how = "being written" if running else "interrupted"
        speaker = "assistant" if tool is None else f"output of {visible(tool.name)}"
        return f"{' ' * (_INDENT - 1)}{look.paint('warn', f'{speaker}, {how}')}"

    def _close(self, *, interrupted: bool = False) -> None:
        """End the text that is being printed."""
        if not self._open:
            return
        self._open = ""
        hint = style_of(self._shared.color).paint("warn", how_to_continue(self._address.ref))
        put_raw(f"\n{' ' * _INDENT}{hint}\n\n" if interrupted else "\n\n")
