"""The command `wake`: a session goes on from wherever it was left, with nothing but its name.

Model, tools and policy stand in its log. One that somebody else runs is left to them, and of many one that
fails does not keep the others from going on.
"""

import sys

import click

from wakelog.cli.addresses import find
from wakelog.cli.driving import Ending, Manner, can_ask, drive, finish, tell_end
from wakelog.cli.failures import FAILED, INTERRUPTED, NEEDS_ATTENTION, note, note_damage, note_written, report
from wakelog.cli.options import Asked, command, maybe_session_argument
from wakelog.cli.output import put
from wakelog.cli.places import Place
from wakelog.cli.progress import watched
from wakelog.errors import Conflict, UsageError, WakelogError
from wakelog.ports import Store
from wakelog.session import Session

# What may owe something. A damaged log may too: nobody knows before it is read.
_MAY_OWE = ("owes", "waiting", "damaged")
_SPOKEN = {"rest": "rest", "waiting": "waiting", "running": "being run elsewhere", "idle": "nothing to do here"}
# Of many sessions the worst that happened is the answer, in the order of the exit codes.
_BY_WEIGHT = (INTERRUPTED, FAILED, NEEDS_ATTENTION, 0)


@command(
    "wake",
    examples="""
    wakelog wake crab_user_3                 go on from wherever it was left
    wakelog wake --all                       everything that owes something: after a reboot, or from cron
    wakelog wake @latest --json | jq -r 'select(.event == "end") | .state'
    """,
)
@maybe_session_argument
@click.option("--all", "everything", is_flag=True, help="Every session that owes something, a line for each.")
@click.option("-q", "--quiet", is_flag=True, help="Only what the agent says.")
def wake(asked: Asked, session: str | None, *, everything: bool, quiet: bool) -> None:
    """Let a session go on until it rests or waits for somebody. What it needs stands in its log."""
    if everything == (session is not None):
        raise UsageError("wake one session, or --all", hint="see `wakelog ls`")
    if session is None:
        _wake_all(asked, quiet=quiet)
    else:
        _wake_one(asked, session, quiet=quiet)


def _wake_one(asked: Asked, session: str, *, quiet: bool) -> None:
    address = find(asked, session)
    if address.entry is not None:
        raise UsageError("a session goes on from its head", hint=f"`wakelog head {session}` moves it there first")
    wake_and_finish(asked, Session(address.store, address.name), quiet=quiet, ref=address.ref)


def wake_and_finish(asked: Asked, session: Session, *, quiet: bool = False, ref: str | None = None) -> None:
    """Lets one session go on, and ends the command as it ended."""
    damage = session.damage
    ending = drive(asked, session, Manner(quiet=quiet, in_place=can_ask(asked)))
    name = ref or session.name
    if ending.untouched:
        note_damage(name, damage, brief=True)
    elif not ending.left:
        note_written(name, damage)
    finish(asked, session, ending, quiet=quiet)


# ── many ─────────────────────────────────────────────────────────────────────────────────────────


def _wake_all(asked: Asked, *, quiet: bool) -> None:
    """One after the other, parents before their sub-agents, which they wake themselves."""
    place = Place(asked.store_url)
    rows = sorted((row for row in place.catalog.rows() if row.state in _MAY_OWE), key=lambda row: row.created)
    if not rows and not quiet:
        note("nothing is owed")
    codes = {0}
    # Where text goes to the terminal, the lines are the progress.
    drawn = sys.stderr.isatty() and not sys.stdout.isatty()
    with watched("Waking sessions" if drawn else "") as progress:
        for at, row in enumerate(rows):
            code, interrupted = _one_of_many(asked, place.store, row.name, quiet=quiet or drawn)
            codes.add(code)
            if progress is not None and drawn:
                progress(at + 1, len(rows))
            if interrupted:
                break
    worst = next(code for code in _BY_WEIGHT if code in codes)
    if worst:
        raise click.exceptions.Exit(worst)


def _one_of_many(asked: Asked, store: Store, name: str, *, quiet: bool) -> tuple[int, bool]:
    """Wakes one; gives its exit code, and whether a person has had enough."""
    try:
        session = Session(store, name)
        ending = drive(asked, session, Manner(quiet=quiet))
    except Conflict:
        _tell_line(asked, name, "running")
        return 0, False
    except (WakelogError, OSError) as error:
        report(error, as_json=asked.json)
        _tell_line(asked, name, "failed")
        return FAILED, False
    tell_end(asked, session, ending)
    _tell_line(asked, name, _word(ending))
    return (ending.code if ending.interrupted or ending.state != "cancelled" else 0), ending.interrupted


def _word(ending: Ending) -> str:
    return "idle" if ending.state == "rest" and ending.rows == ("rest",) else ending.state


def _tell_line(asked: Asked, name: str, state: str) -> None:
    if not asked.json:
        put(f"{name}  {_SPOKEN.get(state, state)}")
