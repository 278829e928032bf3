"""What keys do in a chat. Each calls one function of whoever sits behind it; nothing is decided here.

Enter sends; Alt-Enter and Ctrl-J begin a new line; Alt-S sends to a busy agent at its next step. Esc and Ctrl-C
cancel the turn and, pressed again, leave; Ctrl-D leaves where nothing is typed, and Ctrl-Z stops the program for a
while. A question is answered by a line of its own, a letter and Enter: no letter of a message can be taken for one.
"""

from typing import Protocol

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent


class Sitter(Protocol):
    """Whoever the keys speak to."""

    def said(self, text: str, *, steer: bool = False) -> None:
        """A text was sent."""
        ...

    def interrupted(self) -> None:
        """Esc or Ctrl-C, with nothing typed or while the agent is busy."""
        ...

    def left(self) -> None:
        """Somebody wants to leave."""
        ...

    def can_answer(self, text: str) -> bool:
        """Whether a line answers the question that waits."""
        ...

    def answered(self, text: str) -> None:
        """A question was answered."""
        ...

    @property
    def is_busy(self) -> bool:
        """Whether the agent is at work."""
        ...


def bindings(sitter: Sitter, typing: Buffer) -> KeyBindings:
    """The keys of a chat."""
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
    """What was typed; the line is empty again, and Up brings back what is kept."""
    text = typing.text
    typing.reset(append_to_history=kept and bool(text.strip()))
    return text
