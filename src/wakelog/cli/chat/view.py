"""Display of a session in a chat: print finished items to the scroll-back, redraw live ones.

Everything is read from the log and its journals. The view never changes a session, and shows the same for a session
that another process runs.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

import msgspec
from prompt_toolkit.completion import Completer

from wakelog.app.watch import SessionEntry, SessionWatcher
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
from wakelog.cli.chat.screen import InputHistory, Screen, history_path
from wakelog.cli.chat.transcript import ChatTranscript, initial_items
from wakelog.cli.ui.quantities import now_ms
from wakelog.cli.ui.session_run import unknown_outcomes_text
from wakelog.cli.ui.terminal import TerminalStyle, style_of
from wakelog.errors import WakelogError
from wakelog.log.content import Reply
from wakelog.log.entry import ContextEntry, Message
from wakelog.projections.branch_state import branch_state
from wakelog.projections.session_state import session_state
from wakelog.session import Session
from wakelog.session_news import StreamedPiece


class Activity(msgspec.Struct, frozen=True):
    """Activity of a chat: whether the session is run, here or by another process, and whether Ctrl-C was pressed."""

    busy: bool = False
    runs_elsewhere: bool = False
    interrupt_pressed: bool = False


class ChatView:
    """The terminal of a chat, and the session it shows; None before the first message."""

    def __init__(self, color: str, completer: Completer, activity: Callable[[], Activity]) -> None:
        self.session: Session | None = None
        self.figures = StatusFigures()
        self.questions = OpenQuestions()
        self.connecting: tuple[str, ...] = ()
        """The servers (or the model) that a message waits for."""
        self.unsent: list[PendingMessage] = []
        """The messages that wait for them."""
        self.stopping = False
        """Whether the wait was cancelled and is about to end."""
        self._activity = activity
        self._transcript = ChatTranscript("")
        self._watch: SessionWatcher | None = None
        self._last_item: Item | None = None
        self._read_error = ""
        self._animated = not os.environ.get("ACCESSIBLE")
        self.screen = Screen(
            style_of(color), completer, InputHistory(history_path()), self._live_lines, self._status_lines
        )

    @property
    def look(self) -> TerminalStyle:
        """Return the look for the terminal's current width."""
        return self.screen.look

    # ── choice of the session ────────────────────────────────────────────────────────────────────

    def attach(self, session: Session) -> None:
        """Display this session from now on."""
        self.session, self.questions = session, OpenQuestions()
        self._transcript = ChatTranscript(session.name, session.store.blobs)
        self._transcript.context = _as_stored(branch_state(session.branch()).context)
        self.figures = status_figures(session)
        self.stop_watching()
        self._watch = SessionWatcher(session.store, session.name, session.last_seq, with_text=True)

    def detach(self, figures: StatusFigures) -> None:
        """Display no session until one is attached."""
        self.stop_watching()
        self.session, self._watch, self._transcript, self.questions = None, None, ChatTranscript(""), OpenQuestions()
        self.figures = figures

    def open(self, session: Session) -> None:
        """Show the state of a session: its last exchange, live items and open questions."""
        self.attach(session)
        branch, tree = session.branch(), session.tree
        inside = sum(isinstance(node.value, Message) for node in branch.nodes)
        self.show(
            initial_items(
                self._transcript, session.name, tree, session_state(tree).messages if tree.partial else inside
            )
        )
        self.update_questions()

    # ── news ─────────────────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def report_read_errors(self) -> Iterator[None]:
        """Catch errors of reading: an unreachable store is reported once, and read again later."""
        try:
            yield
        except WakelogError as error:
            if self._read_error != error.message:
                self._read_error = error.message
                self.notice(_error_text(error), "bad")
        else:
            self._read_error = ""

    @property
    def is_store_unreachable(self) -> bool:
        """Return whether the last reading of the store failed."""
        return bool(self._read_error)

    def catch_up(self) -> None:
        """Show everything that is new."""
        with self.report_read_errors():
            self.show_new()

    def expect_head_move(self, entry_id: str) -> None:
        """Do not report this head move; a command made it as part of its work."""
        self._transcript.expected_head_moves.add(entry_id)

    def show_new(self) -> None:
        """Like `catch_up`, for callers inside a `report_read_errors` block."""
        if self._watch is None or self.session is None:
            return
        self._show_news(self._watch.read_new())

    @property
    def has_news(self) -> bool:
        """Return whether something has arrived from the store that is not shown yet."""
        return self._watch is not None and self._watch.has_news

    def show_arrived(self) -> None:
        """Show what has arrived from the store."""
        if self._watch is not None:
            self._show_news(self._watch.fetch())

    def start_watching(self) -> None:
        """Follow the session, unless it is followed already. For the running event loop."""
        if self._watch is not None and not self._watch.is_started:
            self._watch.start()

    def stop_watching(self) -> None:
        """Stop following the session."""
        if self._watch is not None:
            self._watch.stop()

    def _show_news(self, news: Sequence[SessionEntry | StreamedPiece]) -> None:
        assert self.session is not None
        self.show([shown for one in news for shown in self._items_of(one)])
        if any(isinstance(one, SessionEntry) for one in news):
            self.figures = status_figures(self.session)
            self._update_questions()
        if news:
            self.screen.invalidate()

    def _items_of(self, news: SessionEntry | StreamedPiece) -> list[Item]:
        if isinstance(news, SessionEntry):
            return self._transcript.add_entry(news.session, news.entry)
        return self._transcript.add_piece(news.journal, news.delta)

    def ensure_printed(self, reply_id: str) -> None:
        """Print an undelivered reply from before this chat was opened."""
        if reply_id in self._transcript.printed_replies or self.session is None:
            return
        entry = self.session.tree_with(reply_id).nodes.get(reply_id)
        if entry is not None and isinstance(entry.value, Message) and isinstance(entry.value.message, Reply):
            self._transcript.printed_replies.add(reply_id)
            self.show([Block(entry.value.message.text)])

    # ── printing ─────────────────────────────────────────────────────────────────────────────────

    def show(self, items: Sequence[Item]) -> None:
        """Print items to the scroll-back."""
        lines, self._last_item = draw_items(ItemLayout(self.look, boxes=self._animated), items, self._last_item)
        self.screen.print(lines)

    def show_lines(self, lines: Sequence[str]) -> None:
        """Print lines that are drawn already."""
        self.show([DrawnLines(tuple(lines))])

    def notice(self, text: str, style: str = "dim") -> None:
        """Print a notice."""
        self.show([Notice(text, style)])

    def report_error(self, error: WakelogError) -> None:
        """Print an error and its hint in one line, unless the log has just reported the same text."""
        before = self._last_item
        self.catch_up()
        text = _error_text(error)
        is_reported = (
            self._last_item is not before and isinstance(self._last_item, Notice) and self._last_item.text == text
        )
        if not is_reported:
            self.notice(text, "bad")

    def print_stderr_line(self, line: str) -> None:
        """Print a line that some part of the program wrote to stderr."""
        self.notice(line.removeprefix("wakelog: "), "warn")

    # ── questions ────────────────────────────────────────────────────────────────────────────────

    def update_questions(self) -> None:
        """Print the next question if it is new."""
        with self.report_read_errors():
            self._update_questions()

    def _update_questions(self) -> None:
        if self.session is None:
            return
        self.questions.update(self.session)
        text = unknown_outcomes_text(self.questions.take_new_outcomes(), answer_with="/questions")
        if text:
            self.notice(text, "warn")
        question = self.questions.take_unprinted()
        if question is not None:
            self.show_lines(question_lines(self.look, question, now_ms()))
            self._transcript.inputs_shown.add(question.key)

    def repeat_questions(self) -> int:
        """Ask all open questions again, and about the tool calls that may have run; return their number."""
        self.questions.reset()
        self.update_questions()
        return len(self.questions.unanswered) + len(self.questions.outcomes)

    # ── frame ────────────────────────────────────────────────────────────────────────────────────

    def _live_lines(self) -> list[str]:
        lines = [
            "",
            *live_lines(
                self.look, self._transcript, self._frame_time, {question.key for question in self.questions.unanswered}
            ),
        ]
        if self.connecting:
            lines.append(connecting_line(self.look, self._frame_time, self.connecting, stopping=self.stopping))
            lines += pending_message_lines(self.look, self.unsent)
        question = self.questions.current
        if question is not None:
            if self.screen.is_input_empty:
                self.questions.mark_seen()
            lines += answer_lines(self.look, question, is_answerable=self.questions.is_answerable)
        return lines

    def _status_lines(self) -> list[str]:
        now = self._activity()
        doing = activity_text(
            self.look,
            self._frame_time,
            busy=now.busy,
            runs_elsewhere=now.runs_elsewhere,
            cancelling=self._transcript.cancelling,
            interrupt_pressed=now.interrupt_pressed,
        )
        return [
            status_line(self.look, self.figures, doing, len(self.questions.unanswered), len(self.questions.outcomes))
        ]

    @property
    def _frame_time(self) -> FrameTime:
        return FrameTime(now_ms(), animated=self._animated)


def _as_stored(context: ContextEntry | None) -> ContextEntry | None:
    """Return a context entry as it would be read from the log, because it is compared with such entries."""
    if context is None:
        return None
    policy, params = (msgspec.json.decode(msgspec.json.encode(value)) for value in (context.policy, context.params))
    return msgspec.structs.replace(context, policy=policy, params=params)


def _error_text(error: WakelogError) -> str:
    """Return message and hint in one line."""
    return "; ".join(filter(None, (error.message, error.hint)))
