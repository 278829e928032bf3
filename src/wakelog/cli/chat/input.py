"""Input of a chat: key bindings and Tab completion.

Each key calls one method of `InputActions`; nothing is decided here. Enter sends; Alt-Enter and Ctrl-J begin a new
line; Alt-S sends to a busy agent at its next step. Esc and Ctrl-C cancel the turn and, pressed again, leave; Ctrl-D
leaves if nothing is typed, and Ctrl-Z suspends the program. A question is answered by a line of its own, a letter and
Enter, so that no letter of a message can be mistaken for an answer.
Completion offers commands and their arguments (entries, models, tools, sessions). Candidates come from stored text, so
they are made visible; a name with hidden characters is not offered. Errors give no candidates.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from wakelog.app.addresses import node_labels
from wakelog.app.approvals import tools_without_approval
from wakelog.app.entry_names import EntryNames
from wakelog.cli.chat.commands import COMMANDS, ChatContext, command_usage
from wakelog.cli.ui.safe_text import first_line, visible
from wakelog.errors import WakelogError
from wakelog.log.content import Reply
from wakelog.log.entry import Message
from wakelog.projections.transcript import parts_text
from wakelog.providers import format_model
from wakelog.stores import open_catalog


class InputActions(Protocol):
    """Actions of the keys."""

    def submit(self, text: str, *, steer: bool = False) -> None:
        """Handle a sent text."""
        ...

    def interrupt(self) -> None:
        """Handle Esc or Ctrl-C, with nothing typed or while the agent is busy."""
        ...

    def leave(self) -> None:
        """Handle a request to leave."""
        ...

    def can_answer(self, text: str) -> bool:
        """Return whether a line answers the open question."""
        ...

    def answer(self, text: str) -> None:
        """Handle an answer to the open question."""
        ...

    @property
    def is_busy(self) -> bool:
        """Return whether the agent is working."""
        ...


def key_bindings(actions: InputActions, buffer: Buffer) -> KeyBindings:
    """Return the key bindings of a chat."""
    keys = KeyBindings()
    empty = Condition(lambda: not buffer.text)

    @keys.add("enter")
    def send(_: KeyPressEvent) -> None:
        if actions.can_answer(buffer.text):
            actions.answer(_take_text(buffer, to_history=False))
        else:
            actions.submit(_take_text(buffer))

    @keys.add("escape", "s")
    def steer(_: KeyPressEvent) -> None:
        actions.submit(_take_text(buffer), steer=True)

    @keys.add("escape", "enter")
    @keys.add("c-j")
    def newline(_: KeyPressEvent) -> None:
        buffer.insert_text("\n")

    @keys.add("escape")
    @keys.add("c-c")
    @keys.add("<sigint>")
    def interrupt(_: KeyPressEvent) -> None:
        if buffer.complete_state is not None:
            buffer.cancel_completion()
        elif buffer.text and not actions.is_busy:
            buffer.reset()
        else:
            actions.interrupt()

    @keys.add("c-d", filter=empty)
    def leave(_: KeyPressEvent) -> None:
        actions.leave()

    @keys.add("c-z")
    def stop(event: KeyPressEvent) -> None:
        event.app.suspend_to_background()

    return keys


def _take_text(buffer: Buffer, *, to_history: bool = True) -> str:
    """Return the typed text and clear the input; with `to_history` it is added to the history."""
    text = buffer.text
    buffer.reset(append_to_history=to_history and bool(text.strip()))
    return text


_CANDIDATES_MAX = 30
_SESSIONS_MAX = 50
_DESCRIPTION_CHARS = 60
_MODEL_PREFIXES = ("demo", "anthropic:", "openai:", "openai-chat:", "scripted:")
Candidate = tuple[str, str]
"""A text to insert, and its description."""


class ChatCompleter(Completer):
    """See `Completer`."""

    def __init__(self, chat: ChatContext) -> None:
        self._chat = chat
        self._sessions: list[Candidate] | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002
        """See `Completer`."""
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in document.text:
            return
        word, space, argument = text[1:].partition(" ")
        if not space:
            commands: Iterable[Candidate] = [(command.name, command.help) for command in COMMANDS.values()]
            yield from _completions(commands, word, displays={name: command_usage(COMMANDS[name]) for name in COMMANDS})
        elif word in COMMANDS and " " not in argument:
            yield from _completions(self._candidates(COMMANDS[word].argument_kind), argument)

    def _candidates(self, kind: str) -> Iterable[Candidate]:
        try:
            if kind == "entry":
                return self._entry_candidates()
            if kind == "model":
                return self._model_candidates()
            if kind == "tool":
                return self._tool_candidates()
            return self._session_candidates() if kind == "session" else ()
        except (WakelogError, OSError):
            return ()

    def _entry_candidates(self) -> Iterable[Candidate]:
        """Return the latest messages first, by their short names; then the labels."""
        session = self._chat.session
        if session is None:
            return []
        tree, names = session.tree, EntryNames(session.tree)
        nodes = [node for node in reversed(session.branch().nodes) if isinstance(node.value, Message)]
        messages = [
            (names.short(node), parts_text(node.value.message.parts))
            for node in nodes[: 2 * _CANDIDATES_MAX]
            if isinstance(node.value, Message) and node.value.message.text
        ]
        return [*messages, *((label, "label") for label in node_labels(tree).values())]

    def _model_candidates(self) -> Iterable[Candidate]:
        session = self._chat.session
        nodes = session.branch().nodes if session is not None else ()
        messages = [node.value.message for node in reversed(nodes) if isinstance(node.value, Message)]
        used = [
            format_model(reply.provider, reply.model) for reply in messages if isinstance(reply, Reply) and reply.model
        ]
        return [*((name, "used before") for name in dict.fromkeys(used)), *((name, "") for name in _MODEL_PREFIXES)]

    def _tool_candidates(self) -> Iterable[Candidate]:
        session = self._chat.session
        return (
            [(name, "runs without approval") for name in tools_without_approval(session)] if session is not None else []
        )

    def _session_candidates(self) -> Iterable[Candidate]:
        """Return the last changed sessions, as of the first request."""
        if self._sessions is None:
            catalog = open_catalog(self._chat.place.url, self._chat.place.store)
            try:
                catalog.refresh()
                self._sessions = [(row.name, row.title or row.prompt) for row in catalog.rows(limit=_SESSIONS_MAX)]
            finally:
                catalog.close()
        return self._sessions


def _completions(
    candidates: Iterable[Candidate], typed: str, displays: dict[str, str] | None = None
) -> Iterator[Completion]:
    fitting = [(name, meta) for name, meta in candidates if name.startswith(typed) and visible(name) == name]
    for name, meta in fitting[:_CANDIDATES_MAX]:
        display = (displays or {}).get(name, name)
        yield Completion(name, -len(typed), display=display, display_meta=first_line(meta)[:_DESCRIPTION_CHARS])
