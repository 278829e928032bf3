"""Commands `head` and `fork`: choose the entry that a session continues from. Nothing is copied or lost."""

import click

from wakelog.app.addresses import Address, find_session, find_target
from wakelog.app.entry_names import EntryNames, entry_name
from wakelog.cli.ui.errors import exit_if_damaged, note, note_damage_before_append
from wakelog.cli.ui.messages import put_entry
from wakelog.cli.ui.options import SharedOptions, command, session_argument
from wakelog.cli.ui.output import put, put_json
from wakelog.cli.ui.safe_text import visible
from wakelog.errors import UsageError
from wakelog.forking import fork as fork_session
from wakelog.log.entry import SessionHeader as SessionEntry
from wakelog.reading import read_active, read_session_header
from wakelog.session import Session


@command(
    "head",
    examples="""
    wakelog head crab_user_3                 show where the next entry goes
    wakelog head crab_user_3 12              continue from entry 12
    wakelog head crab_user_3:works           continue from the entry with this label
    """,
)
@session_argument
@click.argument("entry", required=False, metavar="[ENTRY]")
def head(shared: SharedOptions, session: str, entry: str | None) -> None:
    """Show or move the head, where the next entry goes. The previous branch is unchanged."""
    address = find_session(shared.store_url, session, entry)
    if address.entry is not None:
        _move_head(shared, address)
        return
    log = read_active(address.store, address.name)
    head = log.tree.head
    put_json({"head": head}) if shared.json else put(visible(EntryNames(log.tree).of(head)) if head is not None else "")
    exit_if_damaged(address.ref, log.damage)


@command(
    "fork",
    examples="""
    wakelog fork crab_user_3 --at 12         the next append branches off after entry 12
    wakelog fork crab_user_3 --new-session   continue from its head in a new session
    wakelog fork crab_user_3:12 --new-session --json
    """,
)
@session_argument
@click.option("--at", metavar="ENTRY", help="Entry to branch from. [default with --new-session: the head]")
@click.option("--new-session", is_flag=True, help="Continue in a new session that refers to this one.")
def fork(shared: SharedOptions, session: str, at: str | None, *, new_session: bool) -> None:
    """Branch from an entry, in this session or a new one. In this session, its head is moved there."""
    address = find_session(shared.store_url, session, at)
    if new_session:
        _fork_session(shared, address)
    elif address.entry is not None:
        _move_head(shared, address)
    else:
        raise UsageError("a fork requires an entry", hint="give one with --at, or use --new-session")


def _fork_session(shared: SharedOptions, address: Address) -> None:
    """Create a session that continues from an entry of this one."""
    opened = Session(address.store, address.name)
    damage = opened.damage
    child = fork_session(opened, find_target(address, opened))
    first = read_session_header(child.store, child.name)
    if shared.json:
        origin = first.value.parent if first is not None and isinstance(first.value, SessionEntry) else None
        put_json({"id": child.id, "name": child.name, "parent": origin})
    else:
        put(child.name)
    note_damage_before_append(address.ref, damage)


def _move_head(shared: SharedOptions, address: Address) -> None:
    """Move the head, and print the command that moves it back."""
    opened = Session(address.store, address.name)
    damage, before, target = opened.damage, opened.tree.head, find_target(address, opened)
    assert target is not None
    put_entry(shared, opened.move_head(target))
    back = ""
    if before is not None and before != target:
        back = (
            f"; `wakelog head {address.ref} {entry_name(opened.tree, opened.tree.nodes[before])}` moves the head back"
        )
    note(f"next entry follows {address.entry}{back}")
    note_damage_before_append(address.ref, damage)
