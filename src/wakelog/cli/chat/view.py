"""Display of a session in a chat: print finished items to the scroll-back, redraw live ones.

Everything is read from the log and its journals. The view never changes a session, and shows the same for a session
that another process runs.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

import msgspec
from prompt_toolkit.completion import Completer

from wakelog.app.journal_stream import StreamedPiece
from wakelog.cli.chat.drawing import ItemLayout, draw_items
from wakelog.cli.chat.items import Block, DrawnLines, Item, Notice, PendingMessage
from wakelog.cli.chat.live_area import (
    FrameTime,
    StatusFigures,
    activity_text,
    connecting_line,
    live_lines,
    pending_message_lines,
    status_figures,
    status_line,
)
from wakelog.cli.chat.questions import OpenQuestions, answer_lines, question_lines
from wakelog.cli.chat.runner import ChatWatcher, SessionEntry
from wakelog.cli.chat.screen import InputHistory, Screen, history_path
from wakelog.cli.chat.transcript import ChatTranscript, initial_items
from wakelog.cli.ui.quantities import now_ms
from wakelog.cli.ui.terminal import TerminalStyle, style_of
from wakelog.errors import WakelogError
from wakelog.log.content import Reply
from wakelog.log.entry import ContextEntry, Message
from wakelog.projections.branch_state import branch_state
from wakelog.projections.session_state import session_state
from wakelog.session import Session


class Activity(msgspec.Struct, frozen=True):
    """Activity: whether the session is run, here or by another process, and whether Ctrl-C was pressed."""

    busy: bool = False
    elsewhere: bool = False
    pressed: bool = False


class ChatView:
    """The terminal of a chat, and the session it shows; None before the first message."""

    def __init__(self, color: str, completer: Completer, doing: Callable[[], Activity]) -> None:
        self.session: Session | None = None
        self.known = StatusFigures()
        self.asking = OpenQuestions()
        self.connecting: tuple[str, ...] = ()
        """The servers (or the model) that a message waits for."""
        self.unsaid: list[PendingMessage] = []
        """The messages that wait for them."""
        self.stopping = False
        """Whether the wait was cancelled and is about to end."""
        self._doing = doing
        self._talk = ChatTranscript("")
        self._watch: ChatWatcher | None = None
        self._last: Item | None = None
        self._trouble = ""
        self._moving = not os.environ.get("ACCESSIBLE")
        self.screen = Screen(style_of(color), completer, InputHistory(history_path()), self._live, self._status)

    @property
    def look(self) -> TerminalStyle:
        """Return the look for the terminal's current width."""
        return self.screen.look

    # ── choice of the session ────────────────────────────────────────────────────────────────────

    def attach(self, session: Session) -> None:
        """Display this session from now on."""
        self.session, self._talk, self.asking = session, ChatTranscript(session.name), OpenQuestions()
        self._talk.context = _as_stored(branch_state(session.branch()).context)
        self.known = status_figures(session.name, session.tree)
        self._watch = ChatWatcher(session.store, session.name, session.last_seq)

    def detach(self, known: StatusFigures) -> None:
        """Display no session, until one begins."""
        self.session, self._watch, self._talk, self.asking = None, None, ChatTranscript(""), OpenQuestions()
        self.known = known

    def open(self, session: Session) -> None:
        """Show the state of a session: its last exchange, live items and open questions."""
        self.attach(session)
        branch, tree = session.branch(), session.tree
        inside = sum(isinstance(node.value, Message) for node in branch.nodes)
        self.show(
            initial_items(self._talk, session.name, tree, session_state(tree).messages if tree.partial else inside)
        )
        self.look_for_questions()

    # ── news ─────────────────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Catch errors of reading: an unreachable store is reported once, and read again later."""
        try:
            yield
        except WakelogError as error:
            if self._trouble != error.message:
                self._trouble = error.message
                self.notice(_error_text(error), "bad")
        else:
            self._trouble = ""

    @property
    def is_cut_off(self) -> bool:
        """Return whether the last reading of the store failed."""
        return bool(self._trouble)

    def catch_up(self) -> None:
        """Show everything that is new."""
        with self.reading():
            self.show_news()

    def expect(self, entry_id: str) -> None:
        """Do not report this head move; a command made it as part of its work."""
        self._talk.expected.add(entry_id)

    def show_news(self) -> None:
        """Like `catch_up`, for callers inside a `reading` block."""
        if self._watch is None or self.session is None:
            return
        news = self._watch.news()
        self.show([shown for one in news for shown in self._told(one)])
        if any(isinstance(one, SessionEntry) for one in news):
            self.known = status_figures(self.session.name, self.session.tree)
            self._look_for_questions()
        if news:
            self.screen.invalidate()

    def _told(self, one: SessionEntry | StreamedPiece) -> list[Item]:
        if isinstance(one, SessionEntry):
            return self._talk.hear(one.session, one.entry)
        return self._talk.piece(one.journal, one.delta)

    def ensure(self, reply_id: str) -> None:
        """Print an undelivered reply from before this chat was opened."""
        if reply_id in self._talk.replies or self.session is None:
            return
        entry = self.session.tree_of(reply_id).nodes.get(reply_id)
        if entry is not None and isinstance(entry.value, Message) and isinstance(entry.value.message, Reply):
            self._talk.replies.add(reply_id)
            self.show([Block(entry.value.message.text)])

    # ── printing ─────────────────────────────────────────────────────────────────────────────────

    def show(self, shown: Sequence[Item]) -> None:
        """Print items to the scroll-back."""
        lines, self._last = draw_items(ItemLayout(self.look, boxes=self._moving), shown, self._last)
        self.screen.print(lines)

    def show_lines(self, lines: Sequence[str]) -> None:
        """Print lines that are drawn already."""
        self.show([DrawnLines(tuple(lines))])

    def notice(self, text: str, style: str = "dim") -> None:
        """Print a notice."""
        self.show([Notice(text, style)])

    def tell(self, error: WakelogError) -> None:
        """Print an error and its hint in one line, unless the log has just reported the same text."""
        before = self._last
        self.catch_up()
        text = _error_text(error)
        told = self._last is not before and isinstance(self._last, Notice) and self._last.text == text
        if not told:
            self.notice(text, "bad")

    def overheard(self, line: str) -> None:
        """Print a line that some part of the program wrote to stderr."""
        self.notice(line.removeprefix("wakelog: "), "warn")

    # ── questions ────────────────────────────────────────────────────────────────────────────────

    def look_for_questions(self) -> None:
        """Print the next question if it is new."""
        with self.reading():
            self._look_for_questions()

    def _look_for_questions(self) -> None:
        if self.session is None:
            return
        self.asking.look(self.session)
        asked = self.asking.fresh()
        if asked is not None:
            self.show_lines(question_lines(self.look, asked, now_ms()))
            self._talk.told.add(asked.key)

    def ask_again(self) -> int:
        """Ask all open questions again; return their number."""
        self.asking.again()
        self.look_for_questions()
        return len(self.asking.left)

    # ── frame ────────────────────────────────────────────────────────────────────────────────────

    def _live(self) -> list[str]:
        lines = ["", *live_lines(self.look, self._talk, self._moment, {asked.key for asked in self.asking.left})]
        if self.connecting:
            lines.append(connecting_line(self.look, self._moment, self.connecting, stopping=self.stopping))
            lines += pending_message_lines(self.look, self.unsaid)
        asked = self.asking.now
        if asked is not None:
            if self.screen.is_untouched:
                self.asking.see()
            lines += answer_lines(self.look, asked, is_open=self.asking.is_open)
        return lines

    def _status(self) -> list[str]:
        now = self._doing()
        doing = activity_text(
            self.look,
            self._moment,
            busy=now.busy,
            elsewhere=now.elsewhere,
            cancelling=self._talk.cancelling,
            pressed=now.pressed,
        )
        return [status_line(self.look, self.known, doing, len(self.asking.left))]

    @property
    def _moment(self) -> FrameTime:
        return FrameTime(now_ms(), moving=self._moving)


def _as_stored(record: ContextEntry | None) -> ContextEntry | None:
    """Return a record as it would be read from the log, because it is compared with such records."""
    if record is None:
        return None
    policy, params = (msgspec.json.decode(msgspec.json.encode(value)) for value in (record.policy, record.params))
    return msgspec.structs.replace(record, policy=policy, params=params)


def _error_text(error: WakelogError) -> str:
    """Return message and hint in one line."""
    return "; ".join(filter(None, (error.message, error.hint)))
