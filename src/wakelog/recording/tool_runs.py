"""Tool runs of a program's own agent loop: `tool_started` before the body, exactly one result after it.

Law 6: a tool that may not be repeated runs at most once per call. `tool_started` is durable before the body of the
`with` statement runs, and a call that was started before is refused unless its tool declared itself safe to repeat.
Law 7: every tool call gets exactly one result. An exception of the body becomes an error result, an interruption the
status `interrupted`, and a body that sets no result the status `unknown`. A crash leaves the call open; `recover`
settles it.
"""

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple, TypeAlias

import msgspec

from wakelog.decide import wording
from wakelog.decide.open_tool_calls import tool_result
from wakelog.decide.policy import RedactMode
from wakelog.decide.wording import clip, valid_utf8
from wakelog.errors import Conflict, UsageError, WakelogError
from wakelog.large_content import PutBlob
from wakelog.log.codec import canonical_json
from wakelog.log.content import (
    Audio,
    Image,
    Text,
    TextDelta,
    ToolCall,
    ToolResult,
    ToolStatus,
    encode_delta,
)
from wakelog.log.entry import Entry, Message, ReplayMode, ToolStarted
from wakelog.log.ids import digest_of
from wakelog.log.timestamps import parse_ms
from wakelog.log.tree import Tree
from wakelog.ports.runtime import ReceiptAnswer, ToolInvocation, ToolOutcome
from wakelog.ports.stores import Lease
from wakelog.projections.pending import OpenToolCall, open_tool_calls
from wakelog.redaction.entries import redacting_show
from wakelog.redaction.known_values import KnownValues
from wakelog.redaction.redactor import redact
from wakelog.writer import SessionWriter

FindReceipt: TypeAlias = Callable[[ToolInvocation], ReceiptAnswer | str]
"""Returns what a tool call that was started did: its result, `"not begun"` or `"cannot say"`."""
_UNSET: Any = object()
_JOURNAL_PIECE_CHARS = 64 * 1024


class Recorder(SessionWriter):
    """What a tool run and a streamed reply need of the session that records them. `Session` implements it."""

    running: set[tuple[str, str]]
    """The tool calls, as (reply id, tool call id), whose `with` statement this object is in."""

    def hold_lease(self) -> Lease:
        """Return the lease of this object; acquire it on first use. `Conflict` while another holder has it."""
        raise NotImplementedError


class ToolRun:
    """One run of a tool, as a context manager. Set `result` in its body.

    `call` is the tool call as it was passed; `result` is text, parts, a `ToolOutcome`, or any value that JSON can
    represent. After the body, `exception` is what it raised, if anything. An `Exception` is recorded as an error result
    and not raised again, except errors of wakelog itself: those are mistakes of the program.
    """

    def __init__(
        self, session: Recorder, call: object, *, replay: ReplayMode, receipt: FindReceipt | None = None
    ) -> None:
        self._open_call = find_open_call(session, call)
        self.call: ToolCall = call if isinstance(call, ToolCall) else self._open_call.tool_call
        self.result: Any = _UNSET
        self.exception: Exception | None = None
        self._session = session
        self._replay = replay
        self._receipt = receipt
        self._started: Entry | None = None
        self._pid = os.getpid()

    @property
    def _key(self) -> tuple[str, str]:
        return self._open_call.reply_id, self._open_call.tool_call.id

    def __enter__(self) -> "ToolRun":
        """Record durably that the tool starts; `Conflict` if it was started before and may not be repeated.

        With a receipt, a call that was started before is looked up first. If it has run, its result is recorded and
        `Conflict` is raised, so that the body does not run again.
        """
        session = self._session
        # One step for threads of this process; the lease keeps other processes out.
        with session.mutex:
            lease = session.hold_lease()
            self._open_call = call = find_open_call(session, self._open_call)
            self._check_not_begun(lease)
            started = ToolStarted(
                reply_id=call.reply_id,
                tool_call_id=call.tool_call.id,
                name=call.tool_call.name,
                input_digest=digest_of(canonical_json(call.tool_call.input)),
                replay=self._replay,
                attempt=call.starts + 1,
            )
            self._started = session.append(started, at=call.reply_id, lease=lease)
            session.running.add(self._key)
        redact_mode = session.policy.redact
        write = self._write_output
        self._show = write if redact_mode == "off" else redacting_show(write, redact_mode, session.known_secrets)
        return self

    def _check_not_begun(self, lease: Lease) -> None:
        call = self._open_call
        is_safe = self._replay == "safe" and call.replay in ("safe", None)
        if (is_safe or not call.may_have_started) and self._key not in self._session.running:
            return
        name = f"{call.tool_call.name} ({call.tool_call.id})"
        if self._key in self._session.running:
            raise Conflict(f"the tool call {name} is running", hint="wait until its with statement ends")
        hint = "call session.recover(), which records the outcome as interrupted or unknown"
        try:
            answer = ask_receipt(self._receipt, call) if self._receipt is not None else "cannot say"
        except Exception as error:
            what = f"the tool call {name} was started before, and its receipt function failed: {error_text(error)}"
            raise Conflict(what, hint=hint) from error
        if isinstance(answer, ToolOutcome):
            write_result(self._session, lease, call, "error" if answer.is_error else "ok", answer)
            next_step = "its receipt is recorded as the result: continue with the next tool call"
            raise Conflict(f"the tool call {name} ran before", hint=next_step)
        if answer == "cannot say":
            raise Conflict(f"the tool call {name} was started before, and its outcome is not known", hint=hint)

    def output(self, text: str) -> None:
        """Record live output. If the process crashes, it is part of the result that `recover` writes."""
        self._show(valid_utf8(text))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """Record the result; `Conflict` if the call got one meanwhile, which only another holder can write.

        A child process that was forked in the body records nothing when it leaves: the tool is its parent's.
        """
        if os.getpid() != self._pid:
            return False
        if isinstance(error, Exception):
            self.exception = error
            self._settle("error", ToolOutcome(error_text(error), is_error=True))
            return not isinstance(error, WakelogError)
        if error is not None:
            self._settle("interrupted", ToolOutcome(wording.INTERRUPTED))
        elif self.result is _UNSET:
            self._settle("unknown", ToolOutcome(wording.UNKNOWN_WITHOUT_RESULT))
            hint = "set run.result in the body of the with statement"
            raise UsageError(f"the run of {self.call.name} ended without a result", hint=hint)
        else:
            outcome = as_outcome(self.result)
            self._settle("error" if outcome.is_error else "ok", outcome)
        return False

    def _settle(self, status: ToolStatus, outcome: ToolOutcome) -> None:
        session, started = self._session, self._started
        assert started is not None
        with session.mutex:
            session.running.discard(self._key)
            lease = session.hold_lease()
            if not _is_open(session, self._open_call):
                name = f"{self.call.name} ({self.call.id})"
                hint = "another process has recovered the session; the outcome of this run is not recorded"
                raise Conflict(f"the tool call {name} has a result already", hint=hint)
            write_result(session, lease, self._open_call, status, outcome, started)
            session.store.drop(session.name, started.id)

    def _write_output(self, text: str) -> None:
        assert self._started is not None
        fence = self._session.hold_lease().fence
        for start in range(0, len(text), _JOURNAL_PIECE_CHARS):
            piece = encode_delta(TextDelta(text[start : start + _JOURNAL_PIECE_CHARS]))
            self._session.store.journal(self._session.name, self._started.id, piece, fence=fence)


def _is_open(session: SessionWriter, call: OpenToolCall) -> bool:
    """Return whether a call has no result yet, on the branch of its reply."""
    tree = session.tree_with(call.reply_id)
    nodes = (tree.nodes[child].value for child in _descendants(tree, call.reply_id))
    return not any(
        isinstance(node, Message)
        and isinstance(node.message, ToolResult)
        and (node.message.reply_id, node.message.tool_call_id) == (call.reply_id, call.tool_call.id)
        for node in nodes
    )


def _descendants(tree: Tree, node_id: str) -> Iterator[str]:
    waiting = list(tree.children(node_id))
    while waiting:
        child = waiting.pop()
        yield child
        waiting += tree.children(child)


def ask_receipt(find: FindReceipt, call: OpenToolCall) -> ReceiptAnswer:
    """Return the receipt of a started tool call."""
    given = call.tool_call.input
    given = given if isinstance(given, dict) else {} if given is None else {"input": given}
    match find(ToolInvocation(call.reply_id, call.tool_call.id, given, call.starts, call.intent)):
        case "not begun":
            return "not begun"
        case "cannot say":
            return "cannot say"
        case answer:
            return as_outcome(answer)


def find_open_call(session: SessionWriter, call: object) -> OpenToolCall:
    """Return the open tool call that a tool call of any API or its id names; `UsageError` if it is not open."""
    reply_id = call.reply_id if isinstance(call, OpenToolCall) else None
    wanted = call.tool_call.id if isinstance(call, OpenToolCall) else _call_id(call)
    open_calls = open_tool_calls(session.branch())
    for found in reversed(open_calls):
        if found.tool_call.id == wanted and reply_id in (None, found.reply_id):
            return found
    names = ", ".join(f"{each.tool_call.name} ({each.tool_call.id})" for each in open_calls)
    hint = f"open tool calls: {names}" if names else "no tool call of the last reply is open; record the reply first"
    raise UsageError(f"{wanted!r} is not an open tool call of {session.name}", hint=hint)


def _call_id(call: object) -> str:
    """Return the id of a `ToolCall`, of a tool call object or dict of a vendor's API, or the id itself."""
    if isinstance(call, str):
        return call
    for key in ("call_id", "id"):
        value = call.get(key) if isinstance(call, Mapping) else getattr(call, key, None)
        if isinstance(value, str):
            return value
    hint = "pass one of reply.tool_calls, or its id"
    raise UsageError(f"not a tool call: {type(call).__name__}", hint=hint)


class _Output(NamedTuple):
    """Text and media of a result."""

    text: str
    media: tuple[Image | Audio, ...] = ()


def as_outcome(result: object, *, is_error: bool = False) -> ToolOutcome:
    """Return a result as an outcome: text as it is, parts by their kind, any other value as JSON."""
    if isinstance(result, ToolOutcome):
        return result
    output = _output(result)
    return ToolOutcome(output.text, is_error=is_error, media=output.media)


def _output(result: object) -> _Output:
    match result:
        case None:
            return _Output("")
        case str():
            return _Output(result)
        case bytes():
            return _Output(_text_of_bytes(result))
        case Text() | Image() | Audio():
            return _of_parts((result,))
        case list() | tuple() if _has_parts(result):
            return _of_parts(result)
    try:
        return _Output(json.dumps(msgspec.to_builtins(result), ensure_ascii=False, separators=(",", ":")))
    except (TypeError, ValueError, RecursionError):
        return _Output(text_of(result))


def text_of(value: object) -> str:
    """Return the text of any object, or a placeholder if it has none: a result must not be lost for that."""
    try:
        return str(value)
    except Exception as error:  # noqa: BLE001 - `__str__` may be any code, and raise anything
        return f"<{type(value).__name__} without a text: {type(error).__name__}>"


def error_text(error: BaseException) -> str:
    """Return the type and the text of an exception, as valid Unicode."""
    return valid_utf8(f"{type(error).__name__}: {text_of(error)}")


def _text_of_bytes(content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        return f"{len(content)} bytes, in base64: {base64.b64encode(content).decode()}"


def _has_parts(result: Sequence[object]) -> bool:
    return any(isinstance(part, Text | Image | Audio) for part in result) and all(
        isinstance(part, str | Text | Image | Audio) for part in result
    )


def _of_parts(parts: Iterable[object]) -> _Output:
    found = list(parts)
    texts = [part.text if isinstance(part, Text) else part for part in found if isinstance(part, str | Text)]
    return _Output("\n".join(texts), tuple(part for part in found if isinstance(part, Image | Audio)))


def result_of_run(
    call: OpenToolCall,
    status: ToolStatus,
    outcome: ToolOutcome,
    *,
    redact_mode: RedactMode,
    known: KnownValues,
    clip_bytes: int,
    put: PutBlob,
) -> ToolResult:
    """Return the result of a tool run: its text, redacted and clipped, then its media.

    The whole text is a blob if it was clipped. It is redacted first: half of a secret is not recognised as one.
    """
    full_text = redact(valid_utf8(outcome.text), redact_mode, known).text
    text, is_clipped = clip(full_text, clip_bytes)
    return msgspec.structs.replace(
        tool_result(call, status, (*((Text(text=text),) if text else ()), *outcome.media)),
        truncated=is_clipped,
        blob=put(full_text.encode(), "text/plain") if is_clipped else None,
    )


def write_result(
    session: SessionWriter,
    lease: Lease,
    call: OpenToolCall,
    status: ToolStatus,
    outcome: ToolOutcome,
    started: Entry | None = None,
) -> ToolResult:
    """Append the one result of a tool call and return it."""
    policy, put = session.policy, session.store.blobs.put
    result = result_of_run(
        call, status, outcome, redact_mode=policy.redact, known=session.known_secrets, clip_bytes=policy.clip, put=put
    )
    begun_ms = parse_ms(started.value.timestamp) if started is not None else None
    if begun_ms is not None:
        result = msgspec.structs.replace(result, duration_ms=max(0, session.clock.now_ms() - begun_ms))
    append_result(session, lease, result)
    return result


def append_result(session: SessionWriter, lease: Lease, result: ToolResult) -> None:
    """Append a result at the head, or after its reply if the head was moved to another branch meanwhile."""
    nodes = [node.id for node in session.branch().nodes]
    is_here = result.reply_id in nodes
    session.append(Message(message=result), at=None if is_here else result.reply_id, fork=not is_here, lease=lease)
