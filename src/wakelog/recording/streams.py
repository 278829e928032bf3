"""A reply that is recorded while it is streamed: every piece is in a journal before the program displays it.

Law 5: nothing is displayed that a process crash could lose. If the process dies, readers show the journal as an
interrupted reply, and `recover` turns it into a `partial` entry. At the end of the `with` statement the whole reply
becomes one entry and the journal is dropped; if the body raises, what was streamed becomes a `partial` entry.
"""

from collections.abc import Callable
from types import TracebackType

import msgspec

from wakelog.decide.assembly import ReplyDraft, fit_entry_content
from wakelog.errors import UsageError
from wakelog.log.content import (
    ContentDelta,
    JsonObject,
    Reply,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    Usage,
    encode_delta,
)
from wakelog.log.entry import Message, Partial
from wakelog.ports.stores import Lease
from wakelog.redaction.entries import DeltaRedactor
from wakelog.writer import SessionWriter


class StreamedReply:
    """A reply in progress, as a context manager.

    Call `text`, `thinking` and `tool_call` with what arrives, and `finish` at the end. After the body, `reply` is the
    reply as it arrived; in the log its secrets are redacted.
    """

    def __init__(
        self,
        session: SessionWriter,
        lease: Lease,
        as_reply: Callable[[object], Reply],
        *,
        model: str | None = None,
        provider: str | None = None,
    ) -> None:
        self.reply: Reply | None = None
        self._session = session
        self._lease = lease
        self._as_reply = as_reply
        self._id = session.clock.new_id()
        self._arrived = ReplyDraft()
        self._draft = ReplyDraft()
        self._finished = Reply(model=model, provider=provider)
        self._redactor = DeltaRedactor(session.policy.redact) if session.policy.redacts else None

    def __enter__(self) -> "StreamedReply":
        """Return this object; nothing is written yet."""
        return self

    def text(self, piece: str) -> str:
        """Record a piece of text and return what may be displayed.

        That is the piece itself, unless it may be part of a secret: then it is held back, or redacted.
        """
        return "".join(delta.text for delta in self._add(TextDelta(piece)) if isinstance(delta, TextDelta))

    def thinking(self, piece: str, *, signature: str | None = None, bound: JsonObject | None = None) -> str:
        """Record a piece of reasoning, with its signature or other provider data at the end; return what to display."""
        added = self._add(ThinkingDelta(piece, signature, bound))
        return "".join(delta.thinking for delta in added if isinstance(delta, ThinkingDelta))

    def tool_call(self, call_id: str, name: str, arguments: object) -> None:
        """Record a complete tool call."""
        self._add(ToolCallDelta(call_id, name, arguments))

    def finish(self, reply: object = None, *, usage: Usage | None = None, stop_reason: str | None = None) -> str:
        """Set the end of the reply, and return the text that was held back, to be displayed last.

        Usage and stop reason complete what was streamed. A whole `reply`, which is what `session.assistant` takes,
        replaces it: for example the final message of the vendor's stream.
        """
        if reply is not None:
            self._finished = self._as_reply(reply)
        else:
            model, provider = self._finished.model, self._finished.provider
            self._finished = Reply(model=model, provider=provider, usage=usage, stop_reason=stop_reason)
        return "".join(delta.text for delta in self._flush() if isinstance(delta, TextDelta))

    def _flush(self) -> list[ContentDelta]:
        """Write the text that was held back because it could have become a secret, and return it."""
        held_back = self._redactor.end() if self._redactor is not None else []
        self._write(held_back)
        return held_back

    def _add(self, delta: ContentDelta) -> list[ContentDelta]:
        """Write a delta to the journal, without secrets, and return what was written."""
        if self.reply is not None:
            raise UsageError("the reply has ended", hint="open another session.streaming()")
        added = self._redactor.take(delta) if self._redactor is not None else [delta]
        self._write(added)
        self._arrived.add(delta)
        return added

    def _write(self, deltas: list[ContentDelta]) -> None:
        for delta in deltas:
            self._session.store.journal(self._session.name, self._id, encode_delta(delta), fence=self._lease.fence)
            self._draft.add(delta)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record the reply; after an exception, record what was streamed as interrupted."""
        if error is not None:
            content = fit_entry_content(self._draft.content)
            if content:
                self._session.append(Partial(reply_id=self._id, content=content), lease=self._lease)
        else:
            self._flush()
            self._session.append(Message(id=self._id, message=self._reply_of(self._draft)), lease=self._lease)
            self.reply = self._reply_of(self._arrived)
        self._session.store.drop(self._session.name, self._id)

    def _reply_of(self, draft: ReplyDraft) -> Reply:
        """Return the reply: the whole one if it was given at the end, else what was streamed."""
        return (
            self._finished if self._finished.content else msgspec.structs.replace(self._finished, content=draft.content)
        )
