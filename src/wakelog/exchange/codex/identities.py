"""Ids of the entries of a Codex session.

An item is identified by its own id. One that has only the id of its call is identified by that, its content, and the
session that it was written in: some providers number the calls of each session from 0. One that has neither is
identified by its session and all items up to it. The session is the one of the last header, so an item that a fork
copied behind the header of its ancestor has the same id in both files. All other lines are identified by what names
them everywhere, such as a turn, or else by their file and place.
"""

import hashlib
from typing import Any

from wakelog.exchange.codex.items import TOOL, text_of
from wakelog.exchange.codex.lines import Line
from wakelog.exchange.sessions import entry_id
from wakelog.log.content import JsonObject
from wakelog.log.ids import IdTable, id_hash

# What an item is recognised by. Copies may have other fields, which another version of Codex has added.
_CONTENT_KEYS = (
    *("type", "role", "call_id", "name", "arguments", "input", "action", "output", "tools", "result"),
    *("summary", "content", "encrypted_content"),
)


def digest_of_text(text: str) -> bytes:
    """Return a short digest, to compare texts that are not kept in memory."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _digest_of_item(item: JsonObject) -> bytes:
    content: list[tuple[str, Any]] = [(key, item[key]) for key in _CONTENT_KEYS if item.get(key) is not None]
    return digest_of_text(repr(content))


class Identities:
    """The ids that were given so far, and what the next item is identified by."""

    def __init__(self, session: str) -> None:
        self._session = session
        self._chain = digest_of_text(session)
        self._used = IdTable()

    def begin_session(self, session: str) -> None:
        """Begin the lines of another session; `session` is `Line.origin` of its header."""
        self._session, self._chain = session, digest_of_text(session)

    def of_item(self, item: JsonObject) -> str:
        """Return what identifies the next item. Every item must be passed, once and in order."""
        digest = _digest_of_item(item)
        self._chain = hashlib.sha256(self._chain + digest).digest()[:16]
        kind = item.get("type")
        if own_id := text_of(item.get("id")):
            return f"{kind}:{own_id}"
        if call_id := text_of(item.get("call_id")):
            return f"{kind}:{self._session}:{call_id}:{digest.hex()}"
        return f"{kind}:{self._chain.hex()}"

    def __contains__(self, identity: str) -> bool:
        return entry_id(TOOL, identity) in self._used

    def find(self, line: Line, identity: str | None = None, suffix: str = "") -> str:
        """Return the id that the entry of a line would get: from its identity, or from its place if that is used."""
        if identity is not None:
            found = entry_id(TOOL, identity + suffix)
            if found not in self._used:
                return found
        return entry_id(TOOL, f"{line.place}{suffix}")

    def take(self, line: Line, identity: str | None = None, suffix: str = "") -> str:
        """Return the id of the entry of a line, and take note of it."""
        found = self.find(line, identity, suffix)
        if identity is not None:
            self._used.add(id_hash(found))
        return found
