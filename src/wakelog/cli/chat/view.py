"""Display of a session in a chat: read from the log and its journals; finished items are printed, live ones redrawn.

It never changes a session, and shows the same for a session that another process runs.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

import msgspec
from prompt_toolkit.completion import Completer

from wakelog.cli.chat.asking import Asking, ask_lines, question_lines
from wakelog.cli.chat.drawing import TranscriptLayout, draw_all
from wakelog.cli.chat.figures import Figures, figures, status_line
from wakelog.cli.chat.history import TypedHistory, history_path
from wakelog.cli.chat.living import Moment, connecting_line, doing_words, live_lines, unsaid_lines
from wakelog.cli.chat.opening import opened
from wakelog.cli.chat.screen import Screen
from wakelog.cli.chat.shown import Block, Lines, Notice, PendingMessage, Shown
from wakelog.cli.chat.talk import ChatState
from wakelog.cli.chat.watching import Heard, Watch
from wakelog.cli.draw import Look, look
from wakelog.cli.journal_pieces import Streamed
from wakelog.cli.times import now_ms
from wakelog.errors import WakelogError
from wakelog.log.content import Reply
from wakelog.log.entry import ContextEntry, Message
from wakelog.projections.state import branch_state, session_state
from wakelog.session import Session


class Doing(msgspec.Struct, frozen=True):
    """Activity: whether the session is run, here or by another process, and whether Ctrl-C was pressed."""

    busy: bool = False
    elsewhere: bool = False
    pressed: bool = False


class View:
    """The terminal of a chat, and the session it shows; None before the first message."""

    def __init__(self, color: str, completer: Completer, doing: Callable[[], Doing]) -> None:
        self.session: Session | None = None
        self.known = Figures()
        self.asking = Asking()
        self.connecting: tuple[str, ...] = ()
        """The servers (or the model) that a message waits for."""
        self.unsaid: list[PendingMessage] = []
        """The messages that wait for them."""
        self.stopping = False
        """Whether the wait was cancelled and is about to end."""
        self._doing = doing
        self._talk = ChatState("")
        self._watch: Watch | None = None
        self._last: Shown | None = None
        self._trouble = ""
        self._moving = not os.environ.get("ACCESSIBLE")
        self.screen = Screen(look(color), completer, TypedHistory(history_path()), self._live, self._status)

    @property
    def look(self) -> Look:
        """Return the look for the terminal's current width."""
        return self.screen.look

    # ── choice of the session ────────────────────────────────────────────────────────────────────

    def attach(self, session: Session) -> None:
        """Display this session from now on."""
        self.session, self._talk, self.asking = session, ChatState(session.name), Asking()
        self._talk.context = _as_stored(branch_state(session.branch()).context)
        self.known = figures(session.name, session.tree)
        self._watch = Watch(session.store, session.name, session.last_seq)

    def detach(self, known: Figures) -> None:
        """Display no session, until one begins."""
        self.session, self._watch, self._talk, self.asking = None, None, ChatState(""), Asking()
        self.known = known

    def open(self, session: Session) -> None:
        """Show the state of a session: its last exchange, live items and open questions."""
        self.attach(session)
        branch, tree = session.branch(), session.tree
        inside = sum(isinstance(node.value, Message) for node in branch.nodes)
        self.show(opened(self._talk, session.name, tree, session_state(tree).messages if tree.partial else inside))
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
                self.notice(_words(error), "bad")
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
        if any(isinstance(one, Heard) for one in news):
            self.known = figures(self.session.name, self.session.tree)
            self._look_for_questions()
        if news:
            self.screen.invalidate()

    def _told(self, one: Heard | Streamed) -> list[Shown]:
        if isinstance(one, Heard):
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

    def show(self, shown: Sequence[Shown]) -> None:
        """Print items to the scroll-back."""
        lines, self._last = draw_all(TranscriptLayout(self.look, boxes=self._moving), shown, self._last)
        self.screen.print(lines)

    def show_lines(self, lines: Sequence[str]) -> None:
        """Print lines that are drawn already."""
        self.show([Lines(tuple(lines))])

    def notice(self, text: str, style: str = "dim") -> None:
        """Print a notice."""
        self.show([Notice(text, style)])

    def tell(self, error: WakelogError) -> None:
        """Print an error and its hint in one line, unless the log has just reported the same text."""
        before = self._last
        self.catch_up()
        text = _words(error)
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
            lines += unsaid_lines(self.look, self.unsaid)
        asked = self.asking.now
        if asked is not None:
            if self.screen.is_untouched:
                self.asking.see()
            lines += ask_lines(self.look, asked, is_open=self.asking.is_open)
        return lines

    def _status(self) -> list[str]:
        now = self._doing()
        doing = doing_words(
            self.look,
            self._moment,
            busy=now.busy,
            elsewhere=now.elsewhere,
            cancelling=self._talk.cancelling,
            pressed=now.pressed,
        )
        return [status_line(self.look, self.known, doing, len(self.asking.left))]

    @property
    def _moment(self) -> Moment:
        return Moment(now_ms(), moving=self._moving)


def _as_stored(record: ContextEntry | None) -> ContextEntry | None:
    """Return a record as it would be read from the log, because it is compared with such records."""
    if record is None:
        return None
    policy, params = (msgspec.json.decode(msgspec.json.encode(value)) for value in (record.policy, record.params))
    return msgspec.structs.replace(record, policy=policy, params=params)


def _words(error: WakelogError) -> str:
    """Return message and hint in one line."""
    return "; ".join(filter(None, (error.message, error.hint)))
