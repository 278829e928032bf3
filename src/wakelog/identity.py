"""Session identity: the exact pair (agent, sender) in the header, and the latest chat of a pair.

Rule: names only narrow the search (`log/session_names.py`). The header decides which pair a session belongs to, so that
two different pairs never share a session, whatever their names look like.
"""

from wakelog.arguments import check_store, checked_text
from wakelog.decide.policy import RedactMode
from wakelog.errors import Conflict, UnreadableHeader
from wakelog.log.codec import SessionIdentity, decode_identity
from wakelog.log.content import Prompt
from wakelog.log.entry import Message, Queued
from wakelog.log.lines import EntryReader
from wakelog.log.seal import is_changed_header
from wakelog.log.session_names import name_stem, stems
from wakelog.ports.stores import Store
from wakelog.redaction.entries import redact_identity

_REDACT_MODES: tuple[RedactMode, ...] = ("off", "assignments", "keys", "strict")


def latest(store: Store, agent: str, sender: str) -> str | None:
    """Return the name of the newest chat of exactly this agent and sender: the one with the highest number; or None.

    Subagent sessions, imported sessions and forks without a message from a person are left out. Sessions named by this
    version take precedence over those named by earlier versions. `UnreadableHeader` if a newer session has the name of
    this pair and a header that cannot be read: it may be the latest one. Only first lines under the names of the pair
    are read, and the log of a fork up to its first message from a person.
    """
    check_store(store)
    checked_text("the agent", agent)
    checked_text("the sender", sender)
    # The redaction applied to agent and sender depends on the policy in force when the session was created.
    pairs = dict.fromkeys((redact_identity(agent, rule), redact_identity(sender, rule)) for rule in _REDACT_MODES)
    found = (_latest_of(store, *pair) for pair in pairs)
    return next((name for name in found if name is not None), None)


def _latest_of(store: Store, agent: str, sender: str) -> str | None:
    for stem in stems(agent, sender):
        for first in store.first_lines(stem):
            identity = decode_identity(first.raw)
            if is_chat_of(store, first.name, identity, agent, sender):
                return first.name
            # Only names of the current scheme belong to one pair; those of earlier versions may be of another one.
            if stem == name_stem(agent, sender) and (identity is None or is_changed_header(first.raw)):
                raise UnreadableHeader(
                    f"the header of {first.name} cannot be read, so it may be the latest session of "
                    f"{agent!r} and {sender!r}",
                    hint=f'continue it by its name, as with Session.get(store, "{first.name}"), or create a new one',
                )
    return None


def is_chat_of(store: Store, name: str, identity: SessionIdentity | None, agent: str, sender: str) -> bool:
    """Return whether a session belongs to exactly this pair and is a chat: no subagent, import or unused fork."""
    if identity is None or not identity.is_of(agent, sender):
        return False
    return identity.origin is None or (identity.origin == "fork" and _has_user_message(store, name))


def _has_user_message(store: Store, name: str) -> bool:
    """Return whether the session's own lines contain a message from a person."""
    reader = EntryReader()
    for line in store.load(name):
        for entry in reader.feed(line):
            match entry.value:
                case Message(message=Prompt()) | Queued(message=Prompt(), mode="steer" | "followUp"):
                    return True
    return False


class NumberRefused(Conflict):
    """A session is not created, because another one may have been since the latest of the pair was looked up."""


class NumberLimit:
    """The highest number that a new session may have: the one that was next before the latest session was looked up.

    The store never gives a number twice. So if the new session gets this number, no other session of the pair was
    created between the look and the creation. The first number is refused, to learn it before looking once more.
    """

    def __init__(self) -> None:
        self._limit = 0

    def check(self, number: int) -> None:
        """Raise `NumberRefused` for a number above the limit, which becomes the limit."""
        if number > self._limit:
            self._limit = number
            raise NumberRefused(f"the next session of the pair has the number {number}")
