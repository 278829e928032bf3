"""Command `wake`: continue a session from wherever it was left, given only its name.

Model, tools and policy are in its log. A session that another process runs is left alone; with `--all`, a failure does
not stop the other sessions.
"""

import asyncio
import functools
import sys
from collections.abc import Callable, Sequence

import click

from wakelog.app.addresses import find_session
from wakelog.app.models import check_session_model
from wakelog.app.runner import BatchWake, RunOutcome, WakeResult
from wakelog.app.stores import StoreLocation, mark_exposure_reported
from wakelog.cli.ui.errors import FAILED, INTERRUPTED, NEEDS_ATTENTION, UNTRUSTED, note, report_error
from wakelog.cli.ui.options import SharedOptions, command, optional_session_argument
from wakelog.cli.ui.output import progress_bar, put
from wakelog.cli.ui.renderers import renderer_for
from wakelog.cli.ui.session_run import note_cancelling, put_end_event, report_end, run_exit_code, wake_and_exit
from wakelog.errors import Conflict, Untrusted, UsageError
from wakelog.ports.catalogs import SessionRow
from wakelog.runtime.checks import check_files
from wakelog.runtime.user_actions import has_failed_turn, retry_turn
from wakelog.session import Session

# States with possibly pending work. It is not known for a log that is damaged, unreadable or not summarised.
_MAY_HAVE_WORK = ("pending", "interrupted", "undelivered", "waiting", "damaged", "inaccessible", "unknown")
_STATE_TEXTS = {
    "running": "being run elsewhere",
    "nothing_to_do": "nothing to do here",
    "dormant": "dormant: it was forked or its head was moved, and waits for a person",
    "no_model": "has no model that can be called",
    "untrusted": "refused: other users own or may write to its files",
}
# With `--all` the exit code is that of the worst result, in this order. Sessions that another process runs do not
# count.
_CODES_BY_PRIORITY = (INTERRUPTED, UNTRUSTED, FAILED, NEEDS_ATTENTION, 0)
# Exit codes of sessions that could not be woken.
_CODES = {"failed": FAILED, "untrusted": UNTRUSTED}
# Providers limit concurrent requests, and each session runs its own tools.
_JOBS, _JOBS_MAX = 4, 64


@command(
    "wake",
    examples="""
    wakelog wake crab_user_3                 go on from wherever it was left
    wakelog wake --all                       all sessions with pending work: after a reboot, or from cron
    wakelog wake --all --jobs 16             so many at a time
    wakelog wake crab_user_3 --retry         the network is back: try again what has failed
    wakelog wake @latest --json | jq -r 'select(.event == "end") | .state'
    """,
)
@optional_session_argument
@click.option("--all", "everything", is_flag=True, help="Every session with pending work, one line each.")
@click.option(
    "--jobs", type=click.IntRange(1, _JOBS_MAX), metavar="N", help=f"With --all: how many at a time. [default: {_JOBS}]"
)
@click.option("--retry", is_flag=True, help="Try a turn that has failed again.")
@click.option("-q", "--quiet", is_flag=True, help="Only what the agent says.")
def wake(
    asked: SharedOptions, session: str | None, *, everything: bool, jobs: int | None, retry: bool, quiet: bool
) -> None:
    """Let a session go on until it rests or waits for somebody. What it needs stands in its log."""
    if everything == (session is not None):
        raise UsageError("wake one session, or --all", hint="see `wakelog ls`")
    if jobs is not None and not everything:
        raise UsageError("--jobs is for --all", hint="leave it out")
    if session is None:
        _wake_all(asked, jobs=jobs or _JOBS, retrying=retry, quiet=quiet)
    else:
        _wake_one(asked, session, retrying=retry, quiet=quiet)


def _wake_one(asked: SharedOptions, session: str, *, retrying: bool, quiet: bool) -> None:
    address = find_session(asked.store_url, session)
    if address.entry is not None:
        raise UsageError("a session goes on from its head", hint=f"`wakelog head {session}` moves it there first")
    found = Session(address.store, address.name)
    if retrying and has_failed_turn(found):
        check_files(found)
        check_session_model(found)
        retry_turn(found)
    wake_and_exit(asked, found, quiet=quiet, ref=address.ref)


# ── --all ────────────────────────────────────────────────────────────────────────────────────────


def _wake_all(asked: SharedOptions, *, jobs: int, retrying: bool, quiet: bool) -> None:
    """Wake all sessions with pending work, the oldest first: parents before their sub-agents, which they wake."""
    place = StoreLocation(asked.store_url)
    states = (*_MAY_HAVE_WORK, "failed") if retrying else _MAY_HAVE_WORK
    rows = sorted((row for row in place.catalog.rows() if row.state in states), key=lambda row: row.created)
    if not rows and not quiet:
        note("nothing is owed")
    codes = [0]
    # If replies go to the terminal, their lines show the progress.
    drawn = sys.stderr.isatty() and not sys.stdout.isatty()
    with progress_bar("Waking sessions" if drawn else "") as progress:

        def told(woken: WakeResult) -> None:
            codes.append(_report_result(asked, woken))
            if progress is not None and drawn:
                progress(len(codes) - 1, len(rows))

        if not _wake_sessions(asked, place, rows, jobs=jobs, quiet=quiet or drawn, told=told):
            codes.append(INTERRUPTED)
    worst = next(code for code in _CODES_BY_PRIORITY if code in codes)
    if worst:
        raise click.exceptions.Exit(worst)


def _wake_sessions(
    asked: SharedOptions,
    place: StoreLocation,
    rows: Sequence[SessionRow],
    *,
    jobs: int,
    quiet: bool,
    told: Callable[[WakeResult], None],
) -> bool:
    async def until_they_rest() -> bool:
        renderer = functools.partial(renderer_for, asked, quiet=quiet, apart=True)
        batch = BatchWake(place, jobs=jobs, renderer_for=renderer, on_result=told, on_slow=note_cancelling)
        return await batch.wake(rows)

    try:
        return asyncio.run(until_they_rest())
    except asyncio.CancelledError:
        note("left; `wakelog wake --all` goes on")
        raise KeyboardInterrupt from None


def _report_result(asked: SharedOptions, woken: WakeResult) -> int:
    """Print the result of one session and return its exit code."""
    if woken.session is not None and woken.ending is not None:
        report_end(asked, woken.session, woken.ending)
        _put_result_line(asked, woken.row, _result_state(woken.ending))
        is_ours = woken.ending.interrupted or woken.ending.state != "cancelled"
        return run_exit_code(woken.ending) if is_ours else 0
    state = _why_not_woken(woken)
    if woken.error is not None and state in _CODES:
        report_error(woken.error, as_json=asked.json)
    if asked.json:
        put_end_event(woken.row.id, woken.row.name, state)
    _put_result_line(asked, woken.row, state)
    return _CODES.get(state, 0)


def _why_not_woken(woken: WakeResult) -> str:
    """Return why one was not woken: dormant, run by another process, files of other users, no model, or failed."""
    if woken.error is None:
        return "dormant"
    if isinstance(woken.error, Conflict):
        return "running"
    if isinstance(woken.error, Untrusted):
        mark_exposure_reported()
        return "untrusted"
    return "no_model" if isinstance(woken.error, UsageError) and woken.row.model is None else "failed"


def _result_state(ending: RunOutcome) -> str:
    return "nothing_to_do" if ending.state == "idle" and ending.rows == ("rest",) else ending.state


def _put_result_line(asked: SharedOptions, row: SessionRow, state: str) -> None:
    if not asked.json:
        put(f"{row.name}  {_STATE_TEXTS.get(state, state)}")
