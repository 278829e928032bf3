"""Running a session from a terminal: it is woken, shown, interrupted, asked about, and left with an exit code.

Rule 1: everything a person does here is an entry in the log, as if another process had done it: Ctrl-C appends a
cancel, an answer appends a decision; Ctrl-C at a question appends nothing, and leaves it open. Rule 2: a second
Ctrl-C leaves at once and writes nothing more than that we left; the session is then like one whose process was
killed, and is woken like it.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator

import click
import msgspec

from wakelog.cli.configured import be_ready, world_for
from wakelog.cli.draw import look
from wakelog.cli.failures import CONFLICT, FAILED, INTERRUPTED, NEEDS_ATTENTION, note
from wakelog.cli.happenings import Happenings, Informed
from wakelog.cli.options import Asked
from wakelog.cli.output import ReaderGone, put_json
from wakelog.cli.places import store_url
from wakelog.cli.questions import Waiting, approve_all, decide_in_place, waiting
from wakelog.cli.renderers import CHANNEL, Renderer, renderer_for, tell
from wakelog.cli.safe import visible
from wakelog.cli.serving import OneLoop
from wakelog.cli.times import now_ms, plural
from wakelog.cli.transcripts import telling
from wakelog.decide.decisions import Await, Rest
from wakelog.errors import WakelogError
from wakelog.log.entry import Failed, Owed
from wakelog.projections.state import branch_state
from wakelog.runtime.user_actions import cancel
from wakelog.runtime.wake import Report, wake
from wakelog.session import Session
from wakelog.tools.mcp import Servers

_CODES = {
    "rest": 0,
    "queued": 0,
    "terminated": 0,
    "cancelled": INTERRUPTED,
    "failed": FAILED,
    "undelivered": FAILED,
    "waiting": NEEDS_ATTENTION,
}


_PATIENCE_S = 1.0
# How much of an input the one line about it shows.
_WHAT_CHARS = 100


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How to run: whether to show what tools do, to ask on the terminal, to approve whatever asks."""

    quiet: bool = False
    in_place: bool = False
    yes: bool = False


class Ending(msgspec.Struct, frozen=True):
    """How a session was left: a word as `ls` has it, or `cancelled` or `queued`; and what still waits for a person."""

    state: str
    rows: tuple[str, ...] = ()
    left: tuple[Waiting, ...] = ()
    interrupted: bool = False

    @property
    def untouched(self) -> bool:
        """Whether there was nothing to do: one look, no step, and so no entry."""
        return len(self.rows) == 1 and self.state not in ("waiting", "running")

    @property
    def code(self) -> int:
        """The exit code: a sub-agent that somebody else runs is a conflict; what was over before is no news."""
        if self.untouched and self.state == "cancelled":
            return 0
        return _CODES.get(self.state, CONFLICT)


def can_ask(asked: Asked) -> bool:
    """Whether a person sits here who can be asked."""
    return not asked.json and sys.stdin.isatty() and sys.stderr.isatty()


def drive(asked: Asked, session: Session, manner: Manner, one_loop: OneLoop, *, after: int | None = None) -> Ending:
    """Runs a session until it rests or waits for somebody who is not here. Told is what stands behind `after`."""
    seen_to = session.last_seq if after is None else after
    renderer = renderer_for(asked, session, quiet=manner.quiet)
    run = Run(session, renderer, seen_to, store_url(asked.store_url), one_loop.servers)
    rows: tuple[str, ...] = ()
    while True:
        report = _woken(run, one_loop)
        rows += report.rows
        ending = ending_of(session, report, rows, interrupted=run.interrupted)
        if not _decided(asked, session, manner, list(ending.left)):
            return ending


def _woken(run: "Run", one_loop: OneLoop) -> Report:
    """Wakes it once; `KeyboardInterrupt` if a person left at once."""

    async def until_it_rests() -> Report:
        with heeding(run.interrupt):
            return await run.wake()

    try:
        return one_loop.run(until_it_rests())
    except asyncio.CancelledError:
        note(_left(run.name))
        raise KeyboardInterrupt from None


def _decided(asked: Asked, session: Session, manner: Manner, left: list[Waiting]) -> bool:
    if manner.yes and approve_all(left):
        return True
    try:
        return manner.in_place and decide_in_place(look(asked.color, sys.stderr), session, left, now_ms())
    except KeyboardInterrupt:
        _tell_open(session)
        raise


def _tell_open(session: Session) -> None:
    """Somebody left at a question: it stays open, and whoever comes next finds out how to decide."""
    left = tuple(waiting(session))
    tell("\n")
    note(f"the question stays open; {_how_to_decide(session, left)}" if left else _left(session.name))


def _left(name: str) -> str:
    return f"left; `wakelog wake {name}` goes on"


def ending_of(session: Session, report: Report, rows: tuple[str, ...], *, interrupted: bool) -> Ending:
    """How a session was left, in the words of `ls`."""
    left = tuple(waiting(session)) if isinstance(report.decision, Await) else ()
    state: str
    if report.decision == Rest():
        state = "undelivered" if _undelivered(session) else "rest"
    elif isinstance(report.decision, Rest):
        state = report.decision.outcome
    else:
        state = "waiting" if left else "running"
    return Ending(state, rows, left, interrupted)


def _undelivered(session: Session) -> list[Owed]:
    """The replies that could not be shown here."""
    return [debt for debt in branch_state(session.branch()).owed if debt.channel == CHANNEL]


class Run:
    """One session, run here as often as it takes."""

    def __init__(
        self, session: Session, renderer: Renderer, after: int, url: str, servers: Servers | None = None
    ) -> None:
        self.name = session.name
        self.interrupted = False
        """Whether somebody pressed Ctrl-C while it ran."""
        self._session = session
        self._renderer = renderer
        self._happenings = Happenings(session.store, session.name, after, renderer.hear)
        channel = Informed(renderer.channel, self._happenings)
        self._world = world_for(session.store, url=url, channels=[channel], servers=servers)

    async def wake(self) -> Report:
        """Wakes it once, and tells what happens meanwhile."""
        self.interrupted = False
        await be_ready(self._world, self._session)
        try:
            return await self._watched()
        except BrokenPipeError:
            raise ReaderGone from None

    async def _watched(self) -> Report:
        watching = asyncio.ensure_future(self._happenings.watch())
        try:
            return await wake(self._world, self.name)
        finally:
            watching.cancel()
            await asyncio.wait({watching})
            self._happenings.catch_up()
            await self._renderer.close()

    def interrupt(self) -> bool:
        """Cancels the turn, as an entry; False if there is none."""
        self.interrupted = True
        return cancel(Session(self._session.store, self.name)) is not None


@contextlib.contextmanager
def heeding(interrupt: Callable[[], bool]) -> Iterator[None]:
    """Ctrl-C, in this task: the first time `interrupt` cancels what runs, the second time we leave."""
    loop, here, presses = asyncio.get_running_loop(), asyncio.current_task(), 0
    assert here is not None
    telling: asyncio.TimerHandle | None = None

    def pressed() -> None:
        nonlocal presses, telling
        presses += 1
        try:
            leaves = presses > 1
            if not leaves and interrupt():
                # It takes no time, mostly, and then there is nothing to say.
                telling = loop.call_later(_PATIENCE_S, _tell_cancelling)
        except (WakelogError, OSError):
            leaves = True
        if leaves:
            here.cancel()

    loop.add_signal_handler(signal.SIGINT, pressed)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        if telling is not None:
            # The loop may go on, and then there is nothing left to cancel.
            telling.cancel()


def _tell_cancelling() -> None:
    tell("\n")
    note("cancelling; Ctrl-C again leaves at once")


# ── the end ──────────────────────────────────────────────────────────────────────────────────────


def finish(asked: Asked, session: Session, ending: Ending, *, quiet: bool) -> None:
    """Says how it ended, and ends the command with the code that says so."""
    tell_end(asked, session, ending)
    if not (quiet or asked.json):
        idle = ": nothing to do" if ending.untouched and ending.state == "rest" else ""
        tell(f"{look(asked.color, sys.stderr).paint('dim', f'session {session.name}{idle}')}\n")
    if ending.code:
        raise click.exceptions.Exit(ending.code)


def tell_end(asked: Asked, session: Session, ending: Ending) -> None:
    """The last event for programs; what people have to know, on stderr."""
    if asked.json:
        put_end(session.id, session.name, ending.state, ending.rows)
    words = _last_words(session, ending)
    if words:
        note(words)


def put_end(session: str, name: str, state: str, rows: tuple[str, ...] = ()) -> None:
    """The event that is the last one of a session."""
    put_json({"event": "end", "session": session, "name": name, "state": state, "rows": rows})


def _last_words(session: Session, ending: Ending) -> str:
    match ending.state:
        case "waiting":
            return _how_to_decide(session, ending.left)
        case "failed":
            return f"{session.name}: the turn failed{_why(session)} (`wakelog wake {session.name} --retry` tries again)"
        case "undelivered":
            count = plural(len(_undelivered(session)), "reply", "replies")
            how = f"(`wakelog wake {session.name}` tries again)"
            return f"{session.name}: {count} not delivered{_why_not_sent(session)} {how}"
        case "cancelled" if not ending.untouched:
            return f"{session.name}: the turn was cancelled"
        case "terminated":
            return f"{session.name} is over for good"
        case "running":
            return f"{session.name} waits for a sub-agent that is being run elsewhere"
    return ""


def _how_to_decide(session: Session, left: tuple[Waiting, ...]) -> str:
    first = left[0]
    what = f"{visible(first.tool)}({telling(first.input)[:_WHAT_CHARS]})" if first.tool else "something"
    name, several = first.session.name, len(left) > 1
    place = f"{name}:{first.question.attention.seq}" if several else name
    options = " or ".join(f"`--{word.replace(' ', '-')}`" for word in first.question.choices[:2])
    more = f" ({plural(len(left) - 1, 'more question')}, see `wakelog attention`)" if several else ""
    how = f"`wakelog attention {place}` with {options} decides, `wakelog wake {session.name}` goes on"
    return f"{name} waits for you: {what} {first.why}{more}; {how}"


def _why_not_sent(session: Session) -> str:
    errors = [failed.error for failed in branch_state(session.branch()).send_failed if failed.channel == CHANNEL]
    error = errors[-1] if errors else None
    return f": {error.message or error.kind}" if error is not None else ""


def _why(session: Session) -> str:
    faults = [node.value for node in session.branch().nodes if isinstance(node.value, Failed)]
    error = faults[-1].error if faults else None
    return f": {error.message or error.kind}" if error is not None else ""
