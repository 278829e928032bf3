"""Key bindings of a chat. Each key calls one method of the `Sitter`; nothing is decided here.

Enter sends; Alt-Enter and Ctrl-J begin a new line; Alt-S sends to a busy agent at its next step. Esc and Ctrl-C cancel
the turn and, pressed again, leave; Ctrl-D leaves if nothing is typed, and Ctrl-Z suspends the program. A question is
answered by a line of its own, a letter and Enter, so that no letter of a message can be mistaken for an answer.
"""

from typing import Protocol

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent


class InputHandler(Protocol):
    """Handler of the keys."""

    def said(self, text: str, *, steer: bool = False) -> None:
        """Handle a sent text."""
        ...

    def interrupted(self) -> None:
        """Handle Esc or Ctrl-C, with nothing typed or while the agent is busy."""
        ...

    def left(self) -> None:
        """Handle a request to leave."""
        ...

    def can_answer(self, text: str) -> bool:
        """Return whether a line answers the open question."""
        ...

    def answered(self, text: str) -> None:
        """Handle an answer to the open question."""
        ...

    @property
    def is_busy(self) -> bool:
        """Return whether the agent is working."""
        ...


def bindings(sitter: InputHandler, typing: Buffer) -> KeyBindings:
    """Return the key bindings of a chat."""
    keys = KeyBindings()
    empty = Condition(lambda: not typing.text)

    @keys.add("enter")
    def send(_: KeyPressEvent) -> None:
        if sitter.can_answer(typing.text):
            sitter.answered(_taken(typing, kept=False))
        else:
            sitter.said(_taken(typing))

    @keys.add("escape", "s")
    def steer(_: KeyPressEvent) -> None:
        sitter.said(_taken(typing), steer=True)

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def newline(_: KeyPressEvent) -> None:
        typing.insert_text("\n")

    @keys.add("escape")
    @keys.add("c-c")
    @keys.add("<sigint>")
    def interrupt(_: KeyPressEvent) -> None:
        if typing.complete_state is not None:
            typing.cancel_completion()
        elif typing.text and not sitter.is_busy:
            typing.reset()
        else:
            sitter.interrupted()

    @keys.add("c-d", filter=empty)
    def leave(_: KeyPressEvent) -> None:
        sitter.left()

    @keys.add("c-z")
    def stop(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    return keys


def _taken(typing: Buffer, *, kept: bool = True) -> str:
    """Return the typed text and clear the input; with `kept` it goes to the history."""
    text = typing.text
    typing.reset(append_to_history=kept and bool(text.strip()))
    return text
