"""What a chat shows of its session: read from the log and its journals, printed once, and drawn anew for as long as it
is live.

It does nothing to a session. Whoever looks at one that another process runs sees the same.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence

import msgspec
from prompt_toolkit.completion import Completer

from wakelog.cli.chat.asking import Asking, ask_lines, question_lines
from wakelog.cli.chat.drawing import Dress, draw_all
from wakelog.cli.chat.figures import Figures, figures, status_line
from wakelog.cli.chat.history import TypedHistory, history_path
from wakelog.cli.chat.living import Moment, connecting_line, doing_words, live_lines, unsaid_lines
from wakelog.cli.chat.opening import opened
from wakelog.cli.chat.screen import Screen
from wakelog.cli.chat.shown import Block, Lines, Notice, Shown, Unsaid
from wakelog.cli.chat.talk import Talk
from wakelog.cli.chat.watching import Heard, Watch
from wakelog.cli.draw import Look, look
from wakelog.cli.journal_pieces import Streamed
from wakelog.cli.times import now_ms
from wakelog.errors import WakelogError
from wakelog.log.content import Reply
from wakelog.log.entry import ContextRecord, Message
from wakelog.projections.state import branch_state, session_state
from wakelog.session import Session


class Doing(msgspec.Struct, frozen=True):
    """What is going on: somebody runs the session, here or elsewhere; somebody has pressed Ctrl-C."""

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
        """The servers that are waited for before a session begins."""
        self.unsaid: list[Unsaid] = []
        """The messages that wait with them."""
        self.stopping = False
        """Whether they are not waited for any more, and are about to be gone."""
        self._doing = doing
        self._talk = Talk("")
        self._watch: Watch | None = None
        self._last: Shown | None = None
        self._trouble = ""
        self._moving = not os.environ.get("ACCESSIBLE")
        self.screen = Screen(look(color), completer, TypedHistory(history_path()), self._live, self._status)

    @property
    def look(self) -> Look:
        """How to draw on the terminal as wide as it is now."""
        return self.screen.look

    # ── which session ────────────────────────────────────────────────────────────────────────────

    def attach(self, session: Session) -> None:
        """From here on this is the session."""
        self.session, self._talk, self.asking = session, Talk(session.name), Asking()
        self._talk.context = _as_stored(branch_state(session.branch()).context)
        self.known = figures(session.name, session.tree)
        self._watch = Watch(session.store, session.name, session.last_seq)

    def detach(self, known: Figures) -> None:
        """There is no session yet."""
        self.session, self._watch, self._talk, self.asking = None, None, Talk(""), Asking()
        self.known = known

    def open(self, session: Session) -> None:
        """Shows where a session stands: its last exchange, what is under way, what waits for a person."""
        self.attach(session)
        branch, tree = session.branch(), session.tree
        inside = sum(isinstance(node.value, Message) for node in branch.nodes)
        self.show(opened(self._talk, session.name, tree, session_state(tree).messages if tree.partial else inside))
        self.look_for_questions()

    # ── what has happened ────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Around everything that is read to be shown: a store that cannot be reached is said once, and tried again."""
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
        """Whether the store could not be read when it was last looked at."""
        return bool(self._trouble)

    def catch_up(self) -> None:
        """Shows everything that has happened since."""
        with self.reading():
            self.show_news()

    def expect(self, entry_id: str) -> None:
        """A command has moved the head in the course of what it says it does: that is not told as well."""
        self._talk.expected.add(entry_id)

    def show_news(self) -> None:
        """The same for those who do more within one `reading`."""
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
        """Prints a reply that was owed from before this chat was opened."""
        if reply_id in self._talk.replies or self.session is None:
            return
        entry = self.session.tree_of(reply_id).nodes.get(reply_id)
        if entry is not None and isinstance(entry.value, Message) and isinstance(entry.value.message, Reply):
            self._talk.replies.add(reply_id)
            self.show([Block(entry.value.message.text)])

    # ── what is printed ──────────────────────────────────────────────────────────────────────────

    def show(self, shown: Sequence[Shown]) -> None:
        """Prints things to the scroll-back."""
        lines, self._last = draw_all(Dress(self.look, boxes=self._moving), shown, self._last)
        self.screen.print(lines)

    def show_lines(self, lines: Sequence[str]) -> None:
        """Prints lines that are drawn already."""
        self.show([Lines(tuple(lines))])

    def notice(self, text: str, style: str = "dim") -> None:
        """Prints a line of our own."""
        self.show([Notice(text, style)])

    def tell(self, error: WakelogError) -> None:
        """Says in one line what went wrong, and what to do; what the log has just said is not said again."""
        before = self._last
        self.catch_up()
        text = _words(error)
        told = self._last is not before and isinstance(self._last, Notice) and self._last.text == text
        if not told:
            self.notice(text, "bad")

    def overheard(self, line: str) -> None:
        """What any part of the program says on stderr meanwhile, as a line of its own."""
        self.notice(line.removeprefix("wakelog: "), "warn")

    # ── questions ────────────────────────────────────────────────────────────────────────────────

    def look_for_questions(self) -> None:
        """Prints the question that is to be answered next, if it is a new one."""
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
        """Every question that waits is asked once more; gives how many there are."""
        self.asking.again()
        self.look_for_questions()
        return len(self.asking.left)

    # ── the frame ────────────────────────────────────────────────────────────────────────────────

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


def _as_stored(record: ContextRecord | None) -> ContextRecord | None:
    """A record that may have been made just now, as it is read from the log: it is compared with such."""
    if record is None:
        return None
    policy, params = (msgspec.json.decode(msgspec.json.encode(value)) for value in (record.policy, record.params))
    return msgspec.structs.replace(record, policy=policy, params=params)


def _words(error: WakelogError) -> str:
    """What went wrong, and what to do, in one line."""
    return "; ".join(filter(None, (error.message, error.hint)))
