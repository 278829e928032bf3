"""Whose a session is: the exact pair (agent, sender) in its first line, and which one is the latest chat of a pair.

Rule: names only narrow the search (`log/names.py`). Whether a session is of a pair is decided by its first line, so
that two different pairs never share a session, whatever their names look like.
"""

from wakelog.log.codec import Header, header_of
from wakelog.log.content import Prompt
from wakelog.log.entry import Message, Queued
from wakelog.log.lines import Reader
from wakelog.log.names import stems
from wakelog.ports import Store
from wakelog.redaction.entries import cleared_identity
from wakelog.redaction.shapes import Redact

_RULES: tuple[Redact, ...] = ("off", "assignments", "keys")


def latest(store: Store, agent: str, sender: str) -> str | None:
    """The name of the newest chat of exactly this agent and sender: the one with the highest number.

    Sub-agents, imported sessions and forks in which no person has spoken yet are left out. Sessions that an earlier
    version named come before those of this one. Only first lines under the names of the pair are read, and the log of
    a fork up to the first thing that a person said.
    """
    # What is taken out of the names depends on what was agreed when the session began.
    pairs = dict.fromkeys((cleared_identity(agent, rule), cleared_identity(sender, rule)) for rule in _RULES)
    found = (_latest_of(store, *pair) for pair in pairs)
    return next((name for name in found if name is not None), None)


def _latest_of(store: Store, agent: str, sender: str) -> str | None:
    for stem in stems(agent, sender):
        for first in store.first_lines(stem):
            if is_chat_of(store, first.name, header_of(first.raw), agent, sender):
                return first.name
    return None


def is_chat_of(store: Store, name: str, header: Header | None, agent: str, sender: str) -> bool:
    """Whether a session is of exactly this pair and people talk in it."""
    if header is None or not header.is_of(agent, sender):
        return False
    return header.origin is None or (header.origin == "fork" and _is_spoken_in(store, name))


def _is_spoken_in(store: Store, name: str) -> bool:
    """Whether a log holds a message of a person, in its own lines."""
    reader = Reader()
    for line in store.load(name):
        for entry in reader.feed(line):
            match entry.value:
                case Message(message=Prompt()) | Queued(message=Prompt(), mode="steer" | "followUp"):
                    return True
    return False
