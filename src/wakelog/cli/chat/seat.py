"""Protocol for what slash commands and completion may use of the running chat."""

from typing import Protocol

from wakelog.cli.chat.running import Runner
from wakelog.cli.chat.view import View
from wakelog.cli.options import Asked
from wakelog.cli.places import Place
from wakelog.cli.terms import Terms
from wakelog.session import Session


class ChatContext(Protocol):
    """The running chat: store, session, settings, view and runner."""

    asked: Asked
    place: Place
    terms: Terms
    view: View
    runner: Runner

    @property
    def session(self) -> Session | None:
        """Return the session; None before the first message of a new one."""
        ...

    @property
    def is_busy(self) -> bool:
        """Return whether the agent is working, in this process or another."""
        ...

    def enter(self, session: Session) -> None:
        """Open a session."""
        ...

    def detach(self) -> None:
        """Leave the session; the next message begins a new one."""
        ...

    def check(self, terms: Terms) -> str:
        """Return the model of a new session. `UsageError` if it cannot be used."""
        ...

    def say(self, words: str, *, steer: bool) -> None:
        """Send a message to the session or to a new one."""
        ...

    def left(self) -> None:
        """Leave the chat."""
        ...
