"""Commands `rename`, `label` and `archive`: metadata of a session or an entry. Each appends one entry."""

import click

from wakelog.cli.addresses import find, find_target
from wakelog.cli.failures import note_written
from wakelog.cli.options import Asked, command, session_argument
from wakelog.cli.write import one_text, put_entry
from wakelog.errors import UsageError
from wakelog.session import Session


@command(
    "rename",
    examples="""
    wakelog rename crab_user_3 "The parser, second try"
    wakelog rename @latest ""                take the title away
    """,
)
@session_argument
@click.argument("title", nargs=-1, required=True, metavar="TITLE")
def rename(asked: Asked, session: str, title: tuple[str, ...]) -> None:
    """Give a session a title. The log keeps its name; `by-title/` in the store nodes to it."""
    address = find(asked, session)
    opened = Session(address.store, address.name)
    damage = opened.damage
    put_entry(asked, opened.rename(one_text(title)))
    note_written(address.ref, damage)


@command(
    "archive",
    examples="""
    wakelog archive crab_user_3
    wakelog archive crab_user_3 --undo
    wakelog ls --archived
    """,
)
@session_argument
@click.option("--undo", is_flag=True, help="Bring it back.")
def archive(asked: Asked, session: str, *, undo: bool) -> None:
    """Put a session away: lists leave it out, nothing is deleted."""
    address = find(asked, session)
    opened = Session(address.store, address.name)
    damage = opened.damage
    put_entry(asked, opened.archive(archived=not undo))
    note_written(address.ref, damage)


@command(
    "label",
    examples="""
    wakelog label crab_user_3 12 works
    wakelog label crab_user_3:12 ""          take the name away
    wakelog show crab_user_3:works
    """,
)
@session_argument
@click.argument("words", nargs=-1, required=True, metavar="[ENTRY] TEXT")
def label(asked: Asked, session: str, words: tuple[str, ...]) -> None:
    """Name an entry, so that it can be found and addressed by that name."""
    if len(words) > 2:
        raise UsageError("the text has several words", hint="put it in quotes")
    address = find(asked, session, words[0] if len(words) == 2 else None)
    if address.entry is None:
        raise UsageError("no entry is named", hint="wakelog label SESSION ENTRY TEXT")
    opened = Session(address.store, address.name)
    damage, target = opened.damage, find_target(address, opened)
    assert target is not None
    put_entry(asked, opened.label(target, words[-1]))
    note_written(address.ref, damage)
