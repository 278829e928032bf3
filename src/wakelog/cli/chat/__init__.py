"""Command `chat`: interactive terminal chat with an agent.

Rules: every user action is an entry in the log, as if another process had made it; everything shown is read from the
log and its journals; no stored text reaches the terminal raw; only the session's name is kept between turns. Pure
modules: blocks, commands, diffs, shown, replies, talk, figures, picking. Drawing: markdown, drawing, living, page.
Effects: history, steady, reflow, standins, typed, screen, keys, watching, channel, running, ahead. `room.py` puts them
together. This file is imported for the command table, so it imports the rest only when a chat starts.
"""

import os
import sys
from typing import TYPE_CHECKING

import click

from wakelog.cli import load
from wakelog.cli.addresses import find
from wakelog.cli.draw import clip, look
from wakelog.cli.failures import note, note_damage
from wakelog.cli.options import Asked, command, maybe_session_argument
from wakelog.cli.output import put
from wakelog.cli.places import Place
from wakelog.cli.run import Options
from wakelog.cli.run import run as run_command
from wakelog.cli.safe import visible
from wakelog.cli.terms import checked
from wakelog.cli.write import here
from wakelog.config import load_config, plan_of
from wakelog.errors import NotFound, UsageError
from wakelog.identity import is_chat_of
from wakelog.projections.state import session_state
from wakelog.reading import read_header
from wakelog.runtime.checks import check_custody, check_store_custody
from wakelog.session import Session
from wakelog.version import APP

if TYPE_CHECKING:
    from wakelog.cli.chat.room import ChatApp

# Options that `chat` shares with `run`.
_TERMS = (
    *("model", "agent", "sender", "system", "tools", "yes", "cwd"),
    *("compact_at", "strategy", "unknown", "reasoning", "redact", "resume"),
)
_LINE_AGAIN = "\r\x1b[K"


@command(
    "chat",
    examples="""
    wakelog chat                             talk in a new session
    wakelog chat -c                          go on with the latest one here
    wakelog chat crab_user_3                 go on with this one
    wakelog chat --pick                      choose from a list
    wakelog chat --model demo                without a key
    """,
    json=False,
)
@maybe_session_argument
@click.option(
    "-c", "--continue", "latest", is_flag=True, help="Go on with the latest session here, of agent and sender."
)
@click.option("--pick", is_flag=True, help="Choose a session from a list.")
def chat(asked: Asked, session: str | None, *, latest: bool, pick: bool, **said: object) -> None:
    """Talk with an agent on this terminal. What is said is in its log at once; leaving loses nothing."""
    _check_terminal()
    if (session is not None) + latest + pick > 1:
        raise UsageError("these are several sessions", hint="name one, or ask for -c, or --pick")
    options = Options(said)
    place = Place(asked.store_url)
    ahead = ""
    if pick:
        _put_heading(asked, place)
        session, ahead = load("wakelog.cli.chat.picker").pick(look(asked.color), place)
        if session is None:
            return
    opened = _opened(asked, place, options, session, latest=latest)
    cwd = options.folder if opened is None else here()
    if not pick:
        _put_heading(asked, place)
    _sit(load("wakelog.cli.chat.room").ChatApp(asked, place, options, cwd), opened, ahead)


chat.params[2:2] = [param for param in run_command.params if param.name in _TERMS]


def _put_heading(asked: Asked, place: Place) -> None:
    """Print a heading above the live area: some terminals keep what was drawn in their top row when it is erased.

    A partial line that was typed before is erased here; it appears again in the input.
    """
    seen = look(asked.color)
    put(_LINE_AGAIN + seen.paint("dim", clip(seen, visible(f"{APP}, {place.shown}"), seen.columns)))


def _check_terminal() -> None:
    """Raise `UsageError` unless stdin and stdout are a capable terminal."""
    dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown")
    if dumb or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("a chat needs a terminal", hint='without one there is `wakelog run "..."`')


# ── choice of the session ────────────────────────────────────────────────────────────────────────


def _opened(asked: Asked, place: Place, options: Options, session: str | None, *, latest: bool) -> Session | None:
    """Return the session to continue, or None for a new one. Checks that its model can be used; writes nothing."""
    found = _latest(place, options) if latest else None
    if session is not None:
        _refuse_given(options)
        address = find(asked, session)
        if address.entry is not None:
            raise UsageError("a chat goes on from the head", hint=f"`wakelog head {session}` moves it there first")
        place.store = address.store
        found = Session(address.store, address.name)
    if found is not None and session_state(found.tree).terminated:
        raise UsageError(f"{found.name} is over for good", hint=f"`wakelog fork {found.name} --new-session` goes on")
    if found is not None:
        check_custody(found)
    else:
        check_store_custody(place.store)
    checked(options.terms, found, cwd=options.folder if found is None else "", agent=options.agent)
    return found


def _refuse_given(options: Options) -> None:
    for name, value in (("--agent", options.agent), ("--sender", options.sender), ("--cwd", options.cwd)):
        if value is not None:
            raise UsageError(f"{name} is for a new session; this one has its own", hint=f"leave {name} out")


def _latest(place: Place, options: Options) -> Session:
    """Return the last changed chat of this agent and sender in this folder. `identity` defines what a chat is."""
    cwd, sender = options.folder, options.sender or "user"
    config = load_config(cwd, os.environ).sound()
    agent = plan_of(config, options.agent or config.agent).name
    for row in place.recent(agent=agent, sender=sender, cwd=cwd):
        header = read_header(place.store, row.name)
        if row.state != "terminated" and is_chat_of(place.store, row.name, header, agent, sender):
            return Session(place.store, row.name)
    elsewhere = "; `wakelog chat --pick` shows those there are" if place.catalog.count() else ""
    raise NotFound(f"no session of {agent} and {sender} in {cwd}", hint=f"`wakelog chat` begins one{elsewhere}")


# ── the chat ─────────────────────────────────────────────────────────────────────────────────────


def _sit(room: "ChatApp", session: Session | None, ahead: str) -> None:
    if session is not None:
        note_damage(session.name, session.damage, brief=True)
    code: int = load("asyncio").run(room.sit(session, ahead))
    if room.session is not None:
        note(room.farewell)
    if code:
        raise click.exceptions.Exit(code)
