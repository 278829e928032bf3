"""Commands `head` and `fork`: choose the entry that a session continues from. Nothing is copied or lost."""

import click

from wakelog.cli.addresses import Address, find, find_target
from wakelog.cli.failures import note, note_written, stop_if_damaged
from wakelog.cli.names import Names, short
from wakelog.cli.options import Asked, command, session_argument
from wakelog.cli.output import put, put_json
from wakelog.cli.safe import visible
from wakelog.cli.write import put_entry
from wakelog.errors import UsageError
from wakelog.forking import fork as fork_session
from wakelog.log.entry import Session as SessionEntry
from wakelog.reading import read_active, read_first
from wakelog.session import Session


@command(
    "head",
    examples="""
    wakelog head crab_user_3                 where the next entry goes
    wakelog head crab_user_3 12              go on from entry 12
    wakelog head crab_user_3:works           go on from what is labelled so
    """,
)
@session_argument
@click.argument("entry", required=False, metavar="[ENTRY]")
def head(asked: Asked, session: str, entry: str | None) -> None:
    """Show or move the place where the next entry goes. The branch that is left stays as it is."""
    address = find(asked, session, entry)
    if address.entry is not None:
        _move(asked, address)
        return
    log = read_active(address.store, address.name)
    head = log.tree.head
    put_json({"head": head}) if asked.json else put(visible(Names(log.tree).of(head)) if head is not None else "")
    stop_if_damaged(address.ref, log.damage)


@command(
    "fork",
    examples="""
    wakelog fork crab_user_3 --at 12         the next append branches off behind entry 12
    wakelog fork crab_user_3 --new-session   go on from its head in a session of its own
    wakelog fork crab_user_3:12 --new-session --json
    """,
)
@session_argument
@click.option("--at", metavar="ENTRY", help="Where to branch off. [default with --new-session: the head]")
@click.option("--new-session", is_flag=True, help="Go on in a new session that refers to this one.")
def fork(asked: Asked, session: str, at: str | None, *, new_session: bool) -> None:
    """Branch from an entry: inside the session, by moving its head there, or into a new session."""
    address = find(asked, session, at)
    if new_session:
        _fork(asked, address)
    elif address.entry is not None:
        _move(asked, address)
    else:
        raise UsageError("a fork needs an entry", hint="say which with --at, or ask for a --new-session")


def _fork(asked: Asked, address: Address) -> None:
    """Create a session that continues from an entry of this one."""
    opened = Session(address.store, address.name)
    damage = opened.damage
    child = fork_session(opened, find_target(address, opened))
    first = read_first(child.store, child.name)
    if asked.json:
        origin = first.value.parent if first is not None and isinstance(first.value, SessionEntry) else None
        put_json({"id": child.id, "name": child.name, "parent": origin})
    else:
        put(child.name)
    note_written(address.ref, damage)


def _move(asked: Asked, address: Address) -> None:
    """Move the head, and print the command that moves it back."""
    opened = Session(address.store, address.name)
    damage, before, target = opened.damage, opened.tree.head, find_target(address, opened)
    assert target is not None
    put_entry(asked, opened.move_head(target))
    back = ""
    if before is not None and before != target:
        back = f"; `wakelog head {address.ref} {short(opened.tree, opened.tree.nodes[before])}` goes back"
    note(f"the next entry goes behind {address.entry}{back}")
    note_written(address.ref, damage)
