"""A reply that is recorded while it is streamed: every piece is in a journal before the program displays it.

Law 5: nothing is displayed that a process crash could lose. If the process dies, readers show the journal as an
interrupted reply, and `recover` turns it into a `partial` entry. At the end of the `with` statement the whole reply
becomes one entry and the journal is dropped; if the body raises, what was streamed becomes a `partial` entry.
"""

import contextlib
import json
import os
from collections.abc import Callable
from types import TracebackType

import msgspec

from wakelog.decide.assembly import ReplyDraft, fit_entry_content
from wakelog.decide.wording import valid_utf8
from wakelog.errors import OpenToolCalls, UsageError
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
from wakelog.projections.pending import open_tool_calls
from wakelog.recording.tool_runs import Recorder
from wakelog.redaction.entries import DeltaRedactor


class StreamRecorder(Recorder):
    """A session that streams one reply at a time. `Session` implements it."""

    stream: "StreamedReply | None"
    """The reply that is being streamed."""

    def check_not_streaming(self, hint: str) -> None:
        """Raise `UsageError` while a reply is streamed: another node would leave that reply on a side branch."""
        if self.stream is not None:
            raise UsageError("a reply is being streamed", hint=hint)

    def check_no_open_tool_calls(self) -> None:
        """Raise `OpenToolCalls` if a call at the head has no result: what follows would be sent before its result."""
        open_calls = open_tool_calls(self._log.tree.branch())
        if open_calls:
            names = ", ".join(f"{call.tool_call.name} ({call.tool_call.id})" for call in open_calls)
            hint = "record their results, or call session.recover() after a crash"
            raise OpenToolCalls(f"{self.name} has tool calls without a result: {names}", hint=hint)


class StreamedReply:
    """A reply in progress, as a context manager.

    Call `text`, `thinking` and `tool_call` with what arrives, and `finish` at the end. After the body, `reply` is the
    reply as it arrived; in the log its secrets are redacted. It follows the entry that was the head when the stream
    began, wherever a person moves the head meanwhile.
    """

    def __init__(
        self,
        session: StreamRecorder,
        as_reply: Callable[[object], Reply],
        *,
        model: str | None = None,
        provider: str | None = None,
    ) -> None:
        self.reply: Reply | None = None
        self._session = session
        self._as_reply = as_reply
        self._id = session.clock.new_id()
        self._pid = os.getpid()
        self._place: str | None = None
        self._arrived = ReplyDraft()
        self._draft = ReplyDraft()
        self._finished = Reply(model=model, provider=provider)
        self._redactor = DeltaRedactor(session.policy.redact, session.known_secrets) if session.policy.redacts else None

    def __enter__(self) -> "StreamedReply":
        """Begin the reply; `UsageError` while this session object streams another, `OpenToolCalls` with open calls."""
        session = self._session
        with session.mutex:
            session.hold_lease()
            if session.stream is not None:
                raise UsageError("a reply is being streamed already", hint="end its with statement first")
            self._place = session.tree.head
            session.check_no_open_tool_calls()
            session.stream = self
        return self

    def text(self, piece: str | None) -> str:
        """Record a piece of text and return what may be displayed; None, as some APIs send it, is no text.

        That is the piece itself, unless it may be part of a secret: then it is held back, or redacted.
        """
        added = self._add(TextDelta(valid_utf8(_checked_text(piece))))
        return "".join(delta.text for delta in added if isinstance(delta, TextDelta))

    def thinking(self, piece: str | None, *, signature: str | None = None, bound: JsonObject | None = None) -> str:
        """Record a piece of reasoning, with its signature or other provider data at the end; return what to display."""
        added = self._add(ThinkingDelta(valid_utf8(_checked_text(piece)), signature, bound))
        return "".join(delta.thinking for delta in added if isinstance(delta, ThinkingDelta))

    def tool_call(self, call_id: str, name: str, arguments: object, *, custom: bool = False) -> None:
        """Record a complete tool call. Arguments in JSON text, as OpenAI's APIs stream them, are decoded.

        `custom`: it is a custom tool call of OpenAI's APIs, whose arguments are free text.
        """
        bound: JsonObject | None = {"custom": {}} if custom else None
        if isinstance(arguments, str) and not custom:
            with contextlib.suppress(ValueError):
                arguments = json.loads(arguments)
        self._add(ToolCallDelta(_checked_text(call_id), _checked_text(name), arguments, bound))

    def finish(self, reply: object = None, *, usage: Usage | None = None, stop_reason: str | None = None) -> str:
        """Set the end of the reply, and return the text that was held back, to be displayed last.

        Usage and stop reason complete what was streamed. A whole `reply`, which is what `session.assistant` takes,
        replaces it: for example the final message of the vendor's stream.
        """
        _check_usage(usage)
        before, given = self._finished, self._as_reply(reply) if reply is not None else Reply()
        self._finished = msgspec.structs.replace(
            given,
            model=given.model or before.model,
            provider=given.provider or before.provider,
            usage=usage or given.usage or before.usage,
            stop_reason=stop_reason or given.stop_reason or before.stop_reason,
        )
        return "".join(delta.text for delta in self._flush() if isinstance(delta, TextDelta))

    def _flush(self) -> list[ContentDelta]:
        """Write the text that was held back because it could have become a secret, and return it."""
        held_back = self._redactor.end() if self._redactor is not None else []
        self._write(held_back)
        return held_back

    def _add(self, delta: ContentDelta) -> list[ContentDelta]:
        """Write a delta to the journal, without secrets, and return what was written."""
        if self._session.stream is not self:
            raise UsageError("the reply is not being streamed", hint="use it in `with session.streaming() as stream`")
        added = self._redactor.take(delta) if self._redactor is not None else [delta]
        self._write(added)
        self._arrived.add(delta)
        return added

    def _write(self, deltas: list[ContentDelta]) -> None:
        fence = self._session.hold_lease().fence
        for delta in deltas:
            self._session.store.journal(self._session.name, self._id, encode_delta(delta), fence=fence)
            self._draft.add(delta)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Record the reply; after an exception, record what was streamed as interrupted.

        A child process that was forked in the body records nothing when it leaves: the reply is its parent's.
        """
        if os.getpid() != self._pid:
            return
        session = self._session
        with session.mutex:
            session.stream = None
            lease = session.hold_lease()
            if error is not None:
                content = fit_entry_content(self._draft.content)
                if content:
                    session.append(Partial(reply_id=self._id, content=content), at=self._place, lease=lease)
            else:
                self._flush()
                body = Message(id=self._id, message=self._reply_of(self._draft))
                session.append(body, at=self._place, fork=True, lease=lease)
                self.reply = self._reply_of(self._arrived)
            session.store.drop(session.name, self._id)

    def _reply_of(self, draft: ReplyDraft) -> Reply:
        """Return the reply: the whole one if it was given at the end, else what was streamed."""
        if self._finished.content:
            return self._finished
        return msgspec.structs.replace(self._finished, content=draft.content)


def _check_usage(usage: object) -> None:
    if usage is not None and not isinstance(usage, Usage):
        hint = "pass wakelog.Usage(…), or the whole response of the API"
        raise UsageError(f"not a usage: {type(usage).__name__}", hint=hint)


def _checked_text(value: object) -> str:
    if value is not None and not isinstance(value, str):
        raise UsageError(f"not a text: {type(value).__name__}", hint="pass a string")
    return value or ""
