"""Run a session from a terminal: wake it, display it, handle Ctrl-C, ask its questions, return an exit code.

Rule 1: every user action is an entry in the log, as if another process had made it: Ctrl-C appends a cancel, an answer
appends a decision. Ctrl-C at a question appends nothing and leaves the question open.
Rule 2: a second Ctrl-C leaves at once and writes nothing more than that this process left. The session is then like
one with a killed process, and is woken in the same way.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Iterator

import click
import msgspec

from wakelog.cli.configured import prepare_model, world_for
from wakelog.cli.draw import look
from wakelog.cli.failures import CONFLICT, FAILED, INTERRUPTED, NEEDS_ATTENTION, note
from wakelog.cli.happenings import SessionWatcher, WatchedChannel
from wakelog.cli.options import Asked
from wakelog.cli.output import ReaderGone, put_json
from wakelog.cli.places import store_url
from wakelog.cli.questions import Waiting, approve_all, decide_in_place, waiting
from wakelog.cli.renderers import CHANNEL, Renderer, renderer_for, tell
from wakelog.cli.safe import visible
from wakelog.cli.serving import EventLoopRunner
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
# Characters of a tool's input in the one-line message about it.
_WHAT_CHARS = 100


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to run: `quiet` hides tool activity, `in_place` asks on the terminal, `yes` approves every request."""

    quiet: bool = False
    in_place: bool = False
    yes: bool = False


class Ending(msgspec.Struct, frozen=True):
    """How a run ended: a state as in `ls`, or `cancelled` or `queued`; and the questions that are still open."""

    state: str
    rows: tuple[str, ...] = ()
    left: tuple[Waiting, ...] = ()
    interrupted: bool = False

    @property
    def untouched(self) -> bool:
        """Return whether there was nothing to do: one decision, no step, and so no entry."""
        return len(self.rows) == 1 and self.state not in ("waiting", "running")

    @property
    def code(self) -> int:
        """Return the exit code. A sub-agent run elsewhere is a conflict; a turn cancelled before this run is 0."""
        if self.untouched and self.state == "cancelled":
            return 0
        return _CODES.get(self.state, CONFLICT)


def can_ask(asked: Asked) -> bool:
    """Return whether a person can be asked: no `--json`, and stdin and stderr are terminals."""
    return not asked.json and sys.stdin.isatty() and sys.stderr.isatty()


def drive(
    asked: Asked, session: Session, manner: RunOptions, one_loop: EventLoopRunner, *, after: int | None = None
) -> Ending:
    """Run a session until it rests, or waits for a decision that cannot be had here. Shows entries after `after`."""
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


def _woken(run: "Run", one_loop: EventLoopRunner) -> Report:
    """Wake the session once. `KeyboardInterrupt` if the user pressed Ctrl-C twice."""

    async def until_it_rests() -> Report:
        with handle_sigint(run.interrupt):
            return await run.wake()

    try:
        return one_loop.run(until_it_rests())
    except asyncio.CancelledError:
        note(_left(run.name))
        raise KeyboardInterrupt from None


def _decided(asked: Asked, session: Session, manner: RunOptions, left: list[Waiting]) -> bool:
    if manner.yes and approve_all(left):
        return True
    try:
        return manner.in_place and decide_in_place(look(asked.color, sys.stderr), session, left, now_ms())
    except KeyboardInterrupt:
        _tell_open(session)
        raise


def _tell_open(session: Session) -> None:
    """Say that the question stays open, and how to decide it; for a user who left at a question."""
    left = tuple(waiting(session))
    tell("\n")
    note(f"the question stays open; {_how_to_decide(session, left)}" if left else _left(session.name))


def _left(name: str) -> str:
    return f"left; `wakelog wake {name}` goes on"


def ending_of(session: Session, report: Report, rows: tuple[str, ...], *, interrupted: bool) -> Ending:
    """Return how a run ended, in the words of `ls`."""
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
    """Return the replies that could not be displayed here."""
    return [debt for debt in branch_state(session.branch()).owed if debt.channel == CHANNEL]


class Run:
    """One session and its renderer; the session may be woken several times."""

    def __init__(
        self, session: Session, renderer: Renderer, after: int, url: str, servers: Servers | None = None
    ) -> None:
        self.name = session.name
        self.interrupted = False
        """Whether Ctrl-C was pressed during the last run."""
        self._session = session
        self._renderer = renderer
        self._happenings = SessionWatcher(session.store, session.name, after, renderer.hear)
        channel = WatchedChannel(renderer.channel, self._happenings)
        self._world = world_for(session.store, url=url, channels=[channel], servers=servers)

    async def wake(self) -> Report:
        """Wake the session once and display what happens meanwhile. `ReaderGone` if stdout was closed."""
        self.interrupted = False
        await prepare_model(self._world, self._session)
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
        """Append a cancel of the turn; False if there is no turn."""
        self.interrupted = True
        return cancel(Session(self._session.store, self.name)) is not None


@contextlib.contextmanager
def handle_sigint(interrupt: Callable[[], bool]) -> Iterator[None]:
    """Handle Ctrl-C in this task: the first calls `interrupt`, the second cancels the task."""
    loop, here, presses = asyncio.get_running_loop(), asyncio.current_task(), 0
    assert here is not None
    telling: asyncio.TimerHandle | None = None

    def pressed() -> None:
        nonlocal presses, telling
        presses += 1
        try:
            leaves = presses > 1
            if not leaves and interrupt():
                # Cancelling is usually immediate; a message is needed only if it is not.
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
            # The event loop may continue, but there is nothing left to cancel.
            telling.cancel()


def _tell_cancelling() -> None:
    tell("\n")
    note("cancelling; Ctrl-C again leaves at once")


# ── end of a run ─────────────────────────────────────────────────────────────────────────────────


def finish(asked: Asked, session: Session, ending: Ending, *, quiet: bool) -> None:
    """Print how the run ended, and exit with its code."""
    tell_end(asked, session, ending)
    if not (quiet or asked.json):
        idle = ": nothing to do" if ending.untouched and ending.state == "rest" else ""
        tell(f"{look(asked.color, sys.stderr).paint('dim', f'session {session.name}{idle}')}\n")
    if ending.code:
        raise click.exceptions.Exit(ending.code)


def tell_end(asked: Asked, session: Session, ending: Ending) -> None:
    """Write the last event (`--json`), and a note on stderr if the user has to know something."""
    if asked.json:
        put_end(session.id, session.name, ending.state, ending.rows)
    words = _last_words(session, ending)
    if words:
        note(words)


def put_end(session: str, name: str, state: str, rows: tuple[str, ...] = ()) -> None:
    """Write the last event of a session."""
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
