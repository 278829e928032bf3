"""Commands `new`, `append` and `compact`: add to a conversation. What they wrote is durable when they print it."""

import contextlib
import os
import sys

import click

from wakelog.cli import load
from wakelog.cli.addresses import find, find_target
from wakelog.cli.failures import note, note_written
from wakelog.cli.options import Asked, command, session_argument
from wakelog.cli.output import put, put_json, put_lines
from wakelog.cli.places import Place
from wakelog.errors import UsageError
from wakelog.log.content import Prompt, Reply, Text
from wakelog.log.entry import Entry, Message, Queued
from wakelog.session import Session


@command(
    "new",
    examples="""
    wakelog new
    wakelog new --title "Fix the tests" --agent crab --sender tg-12345
    wakelog new --json | jq -r .name
    """,
)
@click.option("--agent", default="agent", metavar="NAME", help="Who answers. [default: agent]")
@click.option("--sender", default="user", metavar="NAME", help="Who asks. [default: user]")
@click.option("--title", metavar="TEXT", help="What it is about.")
@click.option("--cwd", metavar="DIR", help="Where it works. [default: here]")
@click.option("--model", metavar="NAME", help="Which model answers.")
@click.option("--provider", metavar="NAME", help="Whose model it is.")
@click.option("--id", "session_id", metavar="ID", help="Its id; a session that has it already is left as it is.")
def new(
    asked: Asked,
    agent: str,
    sender: str,
    title: str | None,
    cwd: str | None,
    model: str | None,
    provider: str | None,
    session_id: str | None,
) -> None:
    """Begin a session and print its name."""
    session = Session.create(
        Place(asked.store_url).store,
        agent=agent,
        sender=sender,
        cwd=os.path.abspath(cwd) if cwd is not None else here(),
        title=title,
        model=model,
        provider=provider,
        session_id=session_id,
    )
    put_json({"id": session.id, "name": session.name}) if asked.json else put(session.name)


def here() -> str:
    """Return the working folder as encodable text; empty if it no longer exists."""
    with contextlib.suppress(OSError):
        return os.fsencode(os.getcwd()).decode(errors="replace")
    return ""


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
@click.option("--role", type=click.Choice(["user", "assistant"]), default="user", help="Who says it. [default: user]")
@click.option("--steer", is_flag=True, help="If the agent is busy: let it know at its next step, not when it is done.")
def append(asked: Asked, session: str, words: tuple[str, ...], role: str, *, steer: bool) -> None:
    """Say something at the head of a session; TEXT of `-` is read from standard input. Prints the entry's id."""
    address = find(asked, session)
    if address.entry is not None:
        raise UsageError("an append goes to the head", hint=f"`wakelog fork {session}` moves it there first")
    said = (Text(text=_said(one_text(words))),)
    opened = Session(address.store, address.name)
    damage = opened.damage
    entry = opened.say(
        Prompt(content=said) if role == "user" else Reply(content=said), mode="steer" if steer else "followUp"
    )
    put_entry(asked, entry)
    note_clipped(entry)
    if entry.type == "queued":
        note("the agent is busy: this waits in the queue and is taken up when it can be")
    note_written(address.ref, damage)


def note_clipped(entry: Entry) -> None:
    """Note on stderr that a text was too long for one line, and which blob holds all of it."""
    said = entry.value.message if isinstance(entry.value, Message | Queued) else None
    for part in said.parts if said is not None else ():
        if isinstance(part, Text) and part.blob is not None:
            note(
                f"{part.blob.bytes:,} bytes are too long for one line of the log: the model sees the beginning and "
                f"the end of them, and all of them are kept as the blob {part.blob.digest}"
            )


def one_text(words: tuple[str, ...]) -> str:
    """Return the one text that was given. Several words are refused: the shell dropped the spaces between them."""
    if len(words) > 1:
        raise UsageError("the text has several words", hint="put it in quotes")
    return words[0]


def _said(text: str) -> str:
    """Return the text, read from standard input if it is `-`. `UsageError` if it is blank."""
    if text == "-":
        text = read_stdin()
    if not text.strip():
        raise UsageError("there is nothing to say", hint="give a text, or `-` to read it from standard input")
    return text


def read_stdin() -> str:
    """Return all of standard input. `UsageError` if it is not UTF-8."""
    if sys.stdin.isatty():
        note("type the message and end it with Ctrl-D")
    try:
        return sys.stdin.buffer.read().decode().removesuffix("\n")
    except UnicodeDecodeError:
        raise UsageError("standard input is not UTF-8 text", hint="only text can be said") from None


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
@click.option("--summary", metavar="TEXT", help="What the model sees instead. [default: the model writes it]")
@click.option("--instructions", metavar="TEXT", help="What the model should mind when it writes the summary.")
@click.option("--keep", metavar="ENTRY", help="Keep this entry and what follows it word for word.")
def compact(asked: Asked, session: str, summary: str | None, instructions: str | None, keep: str | None) -> None:
    """Let a summary stand for what came before, in the context only. Nothing is deleted."""
    if summary is not None and instructions is not None:
        raise UsageError("instructions are for a summary that the model writes", hint="leave --summary out")
    address = find(asked, session, keep)
    opened = Session(address.store, address.name)
    damage, target = opened.damage, find_target(address, opened)
    if summary is None:
        entry = load("wakelog.cli.folding").folded(opened, target, instructions or "")
    else:
        entry = opened.compact(summary, first_kept=target)
    put_entry(asked, entry)
    note_written(address.ref, damage)


def put_entry(asked: Asked, entry: Entry) -> None:
    """Print the written entry: as stored with `--json`, else its id."""
    put_lines([entry.raw]) if asked.json else put(entry.id)
