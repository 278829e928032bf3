"""What holds for every session that is read from a format without a tree."""

from typing import Any

from tests.exchange.pi_records import check_entries, tree_of
from tests.exchange.samples import account_of
from wakelog.exchange.sessions import ForeignSession, ImportedEntry
from wakelog.log.entry import Message


def bodies_of(items: list[Any]) -> list[Any]:
    return [item.body for item in items if isinstance(item, ImportedEntry)]


def checked(session: ForeignSession, records: int) -> list[Any]:
    """Return the bodies of a session whose records are all accounted for and whose entries are a tree."""
    items = list(session.items)
    assert sum(account_of(items).values()) == records, items
    bodies = bodies_of(items)
    check_entries(bodies)
    if bodies:
        assert tree_of(bodies).damage == []
    return bodies


def messages(bodies: list[Any], kind: Any = object) -> list[Any]:
    return [body.message for body in bodies if isinstance(body, Message) and isinstance(body.message, kind)]


def of_type(bodies: list[Any], kind: Any) -> list[Any]:
    return [body for body in bodies if isinstance(body, kind)]


def said(bodies: list[Any]) -> list[str]:
    """Return a short form of the conversation: prompts, replies, calls and results in order."""
    words: list[str] = []
    for message in messages(bodies):
        role = type(message).__name__
        words.append(f"{role}: {message.text}" if message.text or role != "Reply" else "Reply")
        words += [f"call {call.name}" for call in getattr(message, "tool_calls", ())]
    return words
