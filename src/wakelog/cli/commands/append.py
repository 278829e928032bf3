"""Commands `new`, `append` and `compact`: write to a session. An entry is durable before its id is printed."""

import os

import click

from wakelog.app.addresses import find_session, find_target
from wakelog.app.stores import StoreLocation
from wakelog.cli import load
from wakelog.cli.ui.errors import note, note_damage_before_append
from wakelog.cli.ui.messages import note_clipped, put_entry, read_stdin, single_text, working_folder
from wakelog.cli.ui.options import SharedOptions, command, session_argument
from wakelog.cli.ui.output import put, put_json
from wakelog.errors import UsageError
from wakelog.log.content import Prompt, Reply, Text
from wakelog.session import Session


@command(
    "new",
    examples="""
    wakelog new
    wakelog new --title "Fix the tests" --agent crab --sender tg-12345
    wakelog new --json | jq -r .name
    """,
)
@click.option("--agent", default="agent", metavar="NAME", help="Agent of the session. [default: agent]")
@click.option("--sender", default="user", metavar="NAME", help="Sender of the session. [default: user]")
@click.option("--title", metavar="TEXT", help="Title of the session.")
@click.option("--cwd", metavar="DIR", help="Working folder. [default: the current one]")
@click.option("--model", metavar="NAME", help="Model to call.")
@click.option("--provider", metavar="NAME", help="Provider of the model.")
@click.option(
    "--id", "session_id", metavar="ID", help="Id of the session; an existing session with this id is left unchanged."
)
def new(
    shared: SharedOptions,
    agent: str,
    sender: str,
    title: str | None,
    cwd: str | None,
    model: str | None,
    provider: str | None,
    session_id: str | None,
) -> None:
    """Create a session and print its name."""
    session = Session.create(
        StoreLocation(shared.store_url).store,
        agent=agent,
        sender=sender,
        cwd=os.path.abspath(cwd) if cwd is not None else working_folder(),
        title=title,
        model=model,
        provider=provider,
        session_id=session_id,
    )
    put_json({"id": session.id, "name": session.name}) if shared.json else put(session.name)


@command(
    "append",
    examples="""
    wakelog append @latest "Fix the tests"
    wakelog append crab_user_3 --role assistant "They pass now."
    git diff | wakelog append crab_user_3 -
    """,
)
@session_argument
@click.argument("words", nargs=-1, required=True, metavar="TEXT")
@click.option(
    "--role", type=click.Choice(["user", "assistant"]), default="user", help="Role of the message. [default: user]"
)
@click.option(
    "--steer", is_flag=True, help="If the session is busy: deliver at the agent's next step, not after the turn."
)
def append(shared: SharedOptions, session: str, words: tuple[str, ...], role: str, *, steer: bool) -> None:
    """Append a message at the head of a session and print its id. A TEXT of `-` is read from standard input."""
    address = find_session(shared.store_url, session)
    if address.entry is not None:
        raise UsageError(
            "a message is appended at the head", hint=f"`wakelog fork {session}` moves the head there first"
        )
    content = (Text(text=_message_text(single_text(words))),)
    opened = Session(address.store, address.name)
    damage = opened.damage
    entry = opened.say(
        Prompt(content=content) if role == "user" else Reply(content=content), mode="steer" if steer else "followUp"
    )
    put_entry(shared, entry)
    note_clipped(entry)
    if entry.type == "queued":
        note("the session is busy: the message waits in its queue")
    note_damage_before_append(address.ref, damage)


def _message_text(text: str) -> str:
    """Return the text, read from standard input if it is `-`. `UsageError` if it is blank."""
    if text == "-":
        text = read_stdin()
    if not text.strip():
        raise UsageError("the message is empty", hint="give a text, or `-` to read it from standard input")
    return text


@command(
    "compact",
    examples="""
    wakelog compact @latest                  the session's own model writes the summary
    wakelog compact @latest --instructions "Keep every file name."
    wakelog compact @latest --summary "We fixed the parser; the lexer is left."
    wakelog compact crab_user_3 --summary "$(cat summary.txt)" --keep 40
    """,
)
@session_argument
@click.option("--summary", metavar="TEXT", help="Text that replaces older messages. [default: the model writes it]")
@click.option("--instructions", metavar="TEXT", help="Instructions for the model that writes the summary.")
@click.option("--keep", metavar="ENTRY", help="Keep this entry and all that follow it unchanged.")
def compact(
    shared: SharedOptions, session: str, summary: str | None, instructions: str | None, keep: str | None
) -> None:
    """Replace older messages by a summary in the context. Nothing is deleted."""
    if summary is not None and instructions is not None:
        raise UsageError("--instructions cannot be combined with --summary", hint="leave one of them out")
    address = find_session(shared.store_url, session, keep)
    opened = Session(address.store, address.name)
    damage, target = opened.damage, find_target(address, opened)
    if summary is None:
        entry = load("wakelog.cli.ui.model_calls").compact_with_model(opened, target, instructions or "")
    else:
        entry = opened.compact(summary, first_kept=target)
    put_entry(shared, entry)
    note_damage_before_append(address.ref, damage)
