"""Command `wake`: continue a session from its last state, given only its name.

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
from wakelog.app.runner import BatchWake, RunOutcome, WakeResult, runtime_for
from wakelog.app.settings import configure_if_never_run
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
from wakelog.runtime.wake import next_decision
from wakelog.session import Session

# States with possibly pending work. It is not known for a log that is damaged, unreadable or not summarised.
_MAY_HAVE_WORK = ("pending", "interrupted", "undelivered", "waiting", "damaged", "inaccessible", "unknown")
_STATE_TEXTS = {
    "running": "another process runs it",
    "nothing_to_do": "nothing to do",
    "dormant": "dormant: it was forked or its head was moved, and has no new message since",
    "imported": "imported from another agent; `wakelog wake SESSION` continues it here",
    "recorded": "left to the program that records it; `wakelog wake SESSION` continues it here",
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
    wakelog wake crab_user_3                 continue from its last state
    wakelog wake --all                       every session with pending work: after a reboot, or from cron
    wakelog wake --all --jobs 16             at most 16 at a time
    wakelog wake crab_user_3 --retry         retry a failed turn, for example once the network is back
    wakelog wake @latest --json | jq -r 'select(.event == "end") | .state'
    """,
)
@optional_session_argument
@click.option("--all", "everything", is_flag=True, help="Wake every session with pending work, one line each.")
@click.option(
    "--jobs",
    type=click.IntRange(1, _JOBS_MAX),
    metavar="N",
    help=f"With --all: number of sessions at a time. [default: {_JOBS}]",
)
@click.option("--retry", is_flag=True, help="Retry a failed turn.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the text of replies.")
def wake(
    shared: SharedOptions, session: str | None, *, everything: bool, jobs: int | None, retry: bool, quiet: bool
) -> None:
    """Continue a session from its last state until it is idle or waits for a person.

    Everything it needs is in its log.
    """
    if everything == (session is not None):
        raise UsageError("give a session to wake, or --all", hint="see `wakelog ls`")
    if jobs is not None and not everything:
        raise UsageError("--jobs requires --all", hint="leave it out")
    if session is None:
        _wake_all(shared, jobs=jobs or _JOBS, retrying=retry, quiet=quiet)
    else:
        _wake_one(shared, session, retrying=retry, quiet=quiet)


def _wake_one(shared: SharedOptions, session: str, *, retrying: bool, quiet: bool) -> None:
    address = find_session(shared.store_url, session)
    if address.entry is not None:
        raise UsageError("a session continues from its head", hint=f"`wakelog head {session}` moves it there first")
    found = Session(address.store, address.name)
    if retrying and has_failed_turn(found):
        check_files(found)
        check_session_model(found)
        retry_turn(found)
    check_files(found)
    configure_if_never_run(found, next_decision(runtime_for(address.store), found))
    wake_and_exit(shared, found, quiet=quiet, ref=address.ref)


# ── --all ────────────────────────────────────────────────────────────────────────────────────────


def _wake_all(shared: SharedOptions, *, jobs: int, retrying: bool, quiet: bool) -> None:
    """Wake all sessions with pending work, the oldest first: parents before their sub-agents, which they wake."""
    place = StoreLocation(shared.store_url)
    states = (*_MAY_HAVE_WORK, "failed") if retrying else _MAY_HAVE_WORK
    rows = sorted((row for row in place.catalog.rows() if row.state in states), key=lambda row: row.created)
    if not rows and not quiet:
        note("no session has pending work")
    codes = [0]
    # If replies go to the terminal, their lines show the progress.
    drawn = sys.stderr.isatty() and not sys.stdout.isatty()
    with progress_bar("Waking sessions" if drawn else "") as progress:

        def on_result(woken: WakeResult) -> None:
            codes.append(_report_result(shared, woken))
            if progress is not None and drawn:
                progress(len(codes) - 1, len(rows))

        if not _wake_sessions(shared, place, rows, jobs=jobs, quiet=quiet or drawn, on_result=on_result):
            codes.append(INTERRUPTED)
    worst = next(code for code in _CODES_BY_PRIORITY if code in codes)
    if worst:
        raise click.exceptions.Exit(worst)


def _wake_sessions(
    shared: SharedOptions,
    place: StoreLocation,
    rows: Sequence[SessionRow],
    *,
    jobs: int,
    quiet: bool,
    on_result: Callable[[WakeResult], None],
) -> bool:
    async def wake_all() -> bool:
        renderer = functools.partial(renderer_for, shared, quiet=quiet, apart=True)
        batch = BatchWake(place, jobs=jobs, renderer_for=renderer, on_result=on_result, on_slow=note_cancelling)
        return await batch.wake(rows)

    try:
        return asyncio.run(wake_all())
    except asyncio.CancelledError:
        note("left; `wakelog wake --all` continues the sessions")
        raise KeyboardInterrupt from None


def _report_result(shared: SharedOptions, woken: WakeResult) -> int:
    """Print the result of one session and return its exit code."""
    if woken.session is not None and woken.ending is not None:
        report_end(shared, woken.session, woken.ending)
        _put_result_line(shared, woken.row, _result_state(woken.ending))
        is_ours = woken.ending.interrupted or woken.ending.state != "cancelled"
        return run_exit_code(woken.ending) if is_ours else 0
    state = _why_not_woken(woken)
    if woken.error is not None and state in _CODES:
        report_error(woken.error, as_json=shared.json)
    if shared.json:
        put_end_event(woken.row.id, woken.row.name, state, unknown=woken.row.unknown_outcomes)
    _put_result_line(shared, woken.row, state)
    return _CODES.get(state, 0)


def _why_not_woken(woken: WakeResult) -> str:
    """Return why one was not woken: skipped, run by another process, files of other users, no model, or failed."""
    if woken.skipped is not None:
        return woken.skipped
    if isinstance(woken.error, Conflict):
        return "running"
    if isinstance(woken.error, Untrusted):
        mark_exposure_reported()
        return "untrusted"
    return "no_model" if isinstance(woken.error, UsageError) and woken.row.model is None else "failed"


def _result_state(ending: RunOutcome) -> str:
    return "nothing_to_do" if ending.state == "idle" and ending.rows == ("rest",) else ending.state


def _put_result_line(shared: SharedOptions, row: SessionRow, state: str) -> None:
    if not shared.json:
        put(f"{row.name}  {_STATE_TEXTS.get(state, state)}")
