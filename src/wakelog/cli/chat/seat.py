"""What commands and completion need of whoever sits in a chat: a protocol, so that they know the room only by this."""

from typing import Protocol

from wakelog.cli.chat.running import Runner
from wakelog.cli.chat.view import View
from wakelog.cli.options import Asked
from wakelog.cli.places import Place
from wakelog.cli.terms import Terms
from wakelog.session import Session


class Seat(Protocol):
    """A place at the terminal: a store, perhaps a session, what is shown, and who runs it."""

    asked: Asked
    place: Place
    terms: Terms
    view: View
    runner: Runner

    @property
    def session(self) -> Session | None:
        """The session that is talked in; None before the first word of a new one."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether the agent is at work, here or elsewhere."""
        ...

    def enter(self, session: Session) -> None:
        """Goes into a session."""
        ...

    def detach(self) -> None:
        """Goes out of the session: the next word begins a new one."""
        ...

    def check(self, terms: Terms) -> str:
        """The model that would answer; `UsageError` if it could not be asked."""
        ...

    def say(self, words: str, *, steer: bool) -> None:
        """A message, into the session or into a new one."""
        ...

    def left(self) -> None:
        """Leaves the chat."""
        ...
