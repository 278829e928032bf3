"""Tab completion of a chat: commands, and their arguments (entries, models, tools, sessions).

Candidates come from stored text, so they are made visible; a name with hidden characters is not offered. Errors give no
candidates.
"""

from collections.abc import Iterable, Iterator

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from wakelog.cli.addresses import labels
from wakelog.cli.chat.commands import COMMANDS, usage_of
from wakelog.cli.chat.seat import ChatContext
from wakelog.cli.names import Names
from wakelog.cli.safe import first_line, visible
from wakelog.cli.terms import unasked
from wakelog.errors import WakelogError
from wakelog.log.content import Reply
from wakelog.log.entry import Message
from wakelog.projections.transcript import show_parts
from wakelog.providers import spelled
from wakelog.stores import open_catalog

_OFFERED = 30
_SESSIONS = 50
_META_CHARS = 60
_PROVIDERS = ("demo", "anthropic:", "openai:", "openai-chat:", "scripted:")

Offer = tuple[str, str]
"""What can be typed, and its description."""


class Completing(Completer):
    """See `Completer`."""

    def __init__(self, room: ChatContext) -> None:
        self._room = room
        self._sessions: list[Offer] | None = None

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:  # noqa: ARG002
        """See `Completer`."""
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in document.text:
            return
        word, space, given = text[1:].partition(" ")
        if not space:
            offers: Iterable[Offer] = [(command.name, command.help) for command in COMMANDS.values()]
            yield from _completions(offers, word, shown={name: usage_of(COMMANDS[name]) for name in COMMANDS})
        elif word in COMMANDS and " " not in given:
            yield from _completions(self._offers(COMMANDS[word].takes), given)

    def _offers(self, takes: str) -> Iterable[Offer]:
        try:
            if takes == "entry":
                return self._entries()
            if takes == "model":
                return self._models()
            if takes == "tool":
                return self._unasked()
            return self._known_sessions() if takes == "session" else ()
        except (WakelogError, OSError):
            return ()

    def _entries(self) -> Iterable[Offer]:
        """Return the latest messages first, by their short names; then the labels."""
        session = self._room.session
        if session is None:
            return []
        tree, names = session.tree, Names(session.tree)
        nodes = [node for node in reversed(session.branch().nodes) if isinstance(node.value, Message)]
        told = [
            (names.short(node), show_parts(node.value.message.parts))
            for node in nodes[: 2 * _OFFERED]
            if isinstance(node.value, Message) and node.value.message.text
        ]
        return [*told, *((label, "a label") for label in labels(tree).values())]

    def _models(self) -> Iterable[Offer]:
        session = self._room.session
        nodes = session.branch().nodes if session is not None else ()
        said = [node.value.message for node in reversed(nodes) if isinstance(node.value, Message)]
        used = [spelled(reply.provider, reply.model) for reply in said if isinstance(reply, Reply) and reply.model]
        return [*((name, "answered before") for name in dict.fromkeys(used)), *((name, "") for name in _PROVIDERS)]

    def _unasked(self) -> Iterable[Offer]:
        session = self._room.session
        return [(name, "runs unasked") for name in unasked(session)] if session is not None else []

    def _known_sessions(self) -> Iterable[Offer]:
        """Return the last changed sessions, as of the first request."""
        if self._sessions is None:
            catalog = open_catalog(self._room.place.url, self._room.place.store)
            try:
                catalog.refresh()
                self._sessions = [(row.name, row.title or row.prompt) for row in catalog.rows(limit=_SESSIONS)]
            finally:
                catalog.close()
        return self._sessions


def _completions(offers: Iterable[Offer], typed: str, shown: dict[str, str] | None = None) -> Iterator[Completion]:
    fitting = [(name, meta) for name, meta in offers if name.startswith(typed) and visible(name) == name]
    for name, meta in fitting[:_OFFERED]:
        display = (shown or {}).get(name, name)
        yield Completion(name, -len(typed), display=display, display_meta=first_line(meta)[:_META_CHARS])
