"""Command `chat`: start an interactive terminal chat with an agent.

Chooses the session (a new one, the latest, a named or a picked one), checks that its model can be used, and runs the
chat. This module is loaded for the command's options and help, so it loads `wakelog.cli.chat` only when a chat starts;
with `--pick` it loads the session list first and the chat after the choice.
"""

import os
import sys
from typing import TYPE_CHECKING

import click

from wakelog.app.addresses import find_session
from wakelog.app.settings import Overrides, checked_model
from wakelog.app.stores import StoreLocation
from wakelog.cli import load
from wakelog.cli.ui.errors import note, note_damage
from wakelog.cli.ui.messages import working_folder
from wakelog.cli.ui.options import SharedOptions, command, optional_session_argument
from wakelog.cli.ui.output import put
from wakelog.cli.ui.run_settings import RunSettings, run_settings_options
from wakelog.cli.ui.safe_text import visible
from wakelog.cli.ui.terminal import clip, style_of
from wakelog.config import load_config, plan_agent
from wakelog.errors import NotFound, UsageError
from wakelog.identity import is_chat_of
from wakelog.reading import read_identity
from wakelog.runtime.checks import check_files, check_store_files
from wakelog.session import Session
from wakelog.version import APP

if TYPE_CHECKING:
    from wakelog.cli.chat.app import ChatApp

_CLEAR_LINE = "\r\x1b[K"


@command(
    "chat",
    examples="""
    wakelog chat                             chat in a new session
    wakelog chat -c                          continue the latest session in this folder
    wakelog chat crab_user_3                 continue this session
    wakelog chat --pick                      choose from a list
    wakelog chat --model demo                use the offline model, which needs no key
    """,
    json=False,
)
@optional_session_argument
@click.option(
    "-c", "--continue", "latest", is_flag=True, help="Continue the latest session of agent and sender in this folder."
)
@run_settings_options
@click.option("--pick", is_flag=True, help="Choose a session from a list.")
def chat(shared: SharedOptions, session: str | None, *, latest: bool, pick: bool, **values: object) -> None:
    """Chat with an agent in this terminal. Messages are logged at once; leaving loses nothing."""
    _check_terminal()
    if (session is not None) + latest + pick > 1:
        raise UsageError("more than one session is selected", hint="use only one of SESSION, -c and --pick")
    options = RunSettings(values)
    place = StoreLocation(shared.store_url)
    ahead = ""
    if pick:
        _print_heading(shared, place)
        session, ahead = load("wakelog.cli.chat.picker").pick(style_of(shared.color), place)
        if session is None:
            return
    opened = _session_to_continue(shared, place, options, session, latest=latest)
    cwd = options.folder if opened is None else working_folder()
    if not pick:
        _print_heading(shared, place)
    _run_chat(load("wakelog.cli.chat.app").ChatApp(shared, place, options, cwd), opened, ahead)


def _print_heading(shared: SharedOptions, place: StoreLocation) -> None:
    """Print a heading above the live area: some terminals keep what was drawn in their top row when it is erased.

    A partial line that was typed before is erased here; it appears again in the input.
    """
    look = style_of(shared.color)
    put(_CLEAR_LINE + look.paint("dim", clip(look, visible(f"{APP}, {place.display_url}"), look.columns)))


def _check_terminal() -> None:
    """Raise `UsageError` unless stdin and stdout are a capable terminal."""
    dumb = os.environ.get("TERM", "dumb") in ("dumb", "unknown")
    if dumb or not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("a chat needs a terminal", hint='without one, use `wakelog run "..."`')


# ── choice of the session ────────────────────────────────────────────────────────────────────────


def _session_to_continue(
    shared: SharedOptions, place: StoreLocation, options: RunSettings, session: str | None, *, latest: bool
) -> Session | None:
    """Return the session to continue, or None for a new one. Writes nothing.

    Checks that the model can be used. An existing session opens without that if no other settings were requested.
    """
    found = _latest_chat(place, options) if latest else None
    if session is not None:
        _reject_new_session_options(options)
        address = find_session(shared.store_url, session)
        if address.entry is not None:
            raise UsageError("a chat continues from the head", hint=f"`wakelog head {session}` moves it there first")
        place.store = address.store
        found = Session(address.store, address.name)
    if found is not None:
        found.check_not_ended()
        check_files(found)
    else:
        check_store_files(place.store)
    try:
        checked_model(options.overrides, found, cwd=options.folder if found is None else "", agent=options.agent)
    except UsageError:
        # An existing session can be looked at: the chat says that its model cannot be called.
        if found is None or options.overrides != Overrides():
            raise
    return found


def _reject_new_session_options(options: RunSettings) -> None:
    for name, value in (("--agent", options.agent), ("--sender", options.sender), ("--cwd", options.cwd)):
        if value is not None:
            raise UsageError(f"{name} applies only to a new session", hint=f"leave {name} out")


def _latest_chat(place: StoreLocation, options: RunSettings) -> Session:
    """Return the last changed chat of this agent and sender in this folder. `identity` defines what a chat is."""
    cwd, sender = options.folder, options.sender or "user"
    config = load_config(cwd, os.environ).require_valid()
    agent = plan_agent(config, options.agent or config.agent).name
    for row in place.recent(agent=agent, sender=sender, cwd=cwd):
        header = read_identity(place.store, row.name)
        if row.state != "terminated" and is_chat_of(place.store, row.name, header, agent, sender):
            return Session(place.store, row.name)
    elsewhere = "; `wakelog chat --pick` lists the others" if place.catalog.count() else ""
    raise NotFound(f"no session of {agent} and {sender} in {cwd}", hint=f"`wakelog chat` creates one{elsewhere}")


# ── the chat ─────────────────────────────────────────────────────────────────────────────────────


def _run_chat(app: "ChatApp", session: Session | None, typeahead: str) -> None:
    if session is not None:
        note_damage(session.name, session.damage, brief=True)
    code: int = load("asyncio").run(app.run(session, typeahead))
    if app.session is not None:
        note(app.exit_hint)
    if code:
        raise click.exceptions.Exit(code)
