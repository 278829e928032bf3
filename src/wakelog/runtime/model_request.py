"""Model requests and the streams of their replies.

The same function builds a request for the model and rebuilds one that was made earlier: everything it needs is in the
log and its blobs, and the digest in the `call` entry tells whether the two are the same (VIEW-9).
The stream of a reply is limited to what one entry can hold, filtered by `Policy.reasoning`, and always closed. Deltas
are filtered before they are journaled: reasoning that is left out reaches no journal, no display and no entry (LOG-18).
An exception that a provider should not raise becomes a fault of its type (RUN-12: a failure is an entry).
Replay does not filter, because the log holds filtered content only.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

import msgspec

from wakelog.decide.policy import ReasoningMode
from wakelog.errors import Damaged, UsageError, WakelogError
from wakelog.large_content import messages_with_media, read_blob
from wakelog.log.codec import BRACKETS_MAX, LINE_MAX_BYTES, NESTING_MAX, count_brackets
from wakelog.log.content import (
    BlobRef,
    ContentDelta,
    Delta,
    Faulted,
    Finished,
    ThinkingDelta,
    ToolCallDelta,
    encode_delta,
)
from wakelog.log.entry import ModelCall
from wakelog.log.tree import Branch, Tree
from wakelog.ports.runtime import ModelRequest, Provider
from wakelog.ports.stores import Blobs
from wakelog.projections.branch_state import branch_state
from wakelog.projections.context import Context, build_context


def build_request(
    context: Context, blobs: Blobs, *, call_id: str = "", answers: int = 0, prefill: str = "", purpose: str = "reply"
) -> ModelRequest:
    """Return the request for a provider, with the contents of all blobs included.

    `call_id` is the entry of a past call whose request is rebuilt.
    """
    return ModelRequest(
        model=context.model or "",
        messages=messages_with_media(context, blobs),
        system=blob_text(blobs, context.system, context.settings_id),
        tools=tuple(declared_tools(blobs, context.tools, context.settings_id)),
        params=context.params,
        injected=tuple(blob_text(blobs, blob, call_id) for blob in context.injected),
        prefill=prefill,
        answers=answers,
        purpose="compaction" if purpose == "compaction" else "reply",
    )


def blob_text(blobs: Blobs, ref: BlobRef | None, entry_id: str) -> str:
    """Return the text of a blob that an entry refers to; empty without a blob."""
    return read_blob(blobs, ref, entry_id).decode(errors="replace") if ref is not None else ""


def declared_tools(blobs: Blobs, ref: BlobRef | None, entry_id: str) -> list[Mapping[str, Any]]:
    """Return the tool declarations in a blob of a `context` entry; `Damaged` if they cannot be decoded."""
    if ref is None:
        return []
    try:
        tools: list[Mapping[str, Any]] = msgspec.json.decode(read_blob(blobs, ref, entry_id), type=list[dict[str, Any]])
    except msgspec.DecodeError as error:
        raise Damaged(f"the tools in {ref.digest} cannot be read: {error}") from None
    return tools


def context_of_call(tree: Tree, call: ModelCall) -> tuple[Context, int]:
    """Return the context of a past model call and how many calls had ended before it, from the log alone."""
    branch = branch_at_call(tree, call)
    context = build_context(branch, call.strategy)
    if call.to_id is not None and call.to_id in context.entry_ids:
        context = context.first_messages(context.entry_ids.index(call.to_id))
    return msgspec.structs.replace(context, injected=call.injected), branch_state(branch).answers


def branch_at_call(tree: Tree, call: ModelCall) -> Branch:
    """Return the branch as it was when a model call was made, without annotations that were appended later."""
    branch = tree.branch(call.parent_id)
    return msgspec.structs.replace(
        branch, annotations=tuple(annotation for annotation in branch.annotations if annotation.seq < (call.seq or 0))
    )


def check_reasoning(provider: str, *, needs_back: bool, reasoning: ReasoningMode, params: Mapping[str, Any]) -> None:
    """Raise `UsageError` if the policy leaves out reasoning that the provider must get back unchanged."""
    if reasoning == "keep" or not needs_back or params.get("thinking") == "drop":
        return
    raise UsageError(
        f"reasoning = {reasoning!r} does not work with {provider}, which needs signed reasoning back unchanged",
        hint='use reasoning = "keep"; or set thinking = "drop" as well, so that no reasoning is requested or sent back',
    )


class ReasoningFilter:
    """Filters the deltas of one reply."""

    def __init__(self, mode: ReasoningMode) -> None:
        self._mode = mode
        self._reset()

    def _reset(self) -> None:
        self._has_text = self._lacks_text = False

    def add(self, delta: Delta) -> list[Delta]:
        """Return the deltas to store and display for the next delta; an empty list if it is left out."""
        if not isinstance(delta, ThinkingDelta):
            self._reset()
            return [delta]
        if self._mode == "keep":
            return [delta]
        return self._summary(delta) if self._mode == "summary" else []

    def _summary(self, delta: ThinkingDelta) -> list[Delta]:
        """Keep summary text, and signatures and provider data unless text that they cover is left out."""
        is_shown = delta.summary and (self._has_text or bool(delta.thinking.strip()))
        text = delta.thinking if is_shown else ""
        self._has_text |= bool(text)
        self._lacks_text |= bool(delta.thinking.strip()) and not delta.summary
        if delta.signature is None and delta.bound is None:
            return [delta] if text else []
        has_text, lacks_text = self._has_text, self._lacks_text
        self._reset()
        if not lacks_text:
            return [ThinkingDelta(text, delta.signature, delta.bound, summary=delta.summary)]
        # The signature covers text that is left out, so it is dropped; an empty `bound` still ends the thinking block.
        return [ThinkingDelta(text, bound={}, summary=delta.summary)] if has_text else []


# Half a line: a reply becomes one entry or one `partial`, which has other fields too.
REPLY_MAX_BYTES = LINE_MAX_BYTES // 2
# Lists and objects of the entry itself: its usage, its message, its text parts.
_ENTRY_BRACKETS = 100
TOO_LONG = Faulted("reply_too_long", f"the reply was stopped when it had grown beyond {REPLY_MAX_BYTES:,} bytes")
TOO_NESTED = Faulted(
    "reply_too_nested",
    f"the reply was stopped: it is nested deeper than {NESTING_MAX} levels "
    f"or made of more than {BRACKETS_MAX:,} lists and objects",
)


def start_stream(provider: Provider, request: ModelRequest) -> AsyncIterator[Delta]:
    """Return the stream of a reply in which every unexpected exception of the provider is a fault.

    An error of wakelog, such as a missing key, is raised: the caller has to fix it.
    """
    try:
        return _with_faults(provider.stream(request))
    except WakelogError:
        raise
    except Exception as error:  # noqa: BLE001 - a provider may be any code, and raise anything
        return _only(_provider_fault(error))


async def _with_faults(reply: AsyncIterator[Delta]) -> AsyncGenerator[Delta, None]:
    async with _closing(reply):
        try:
            async for delta in reply:
                yield delta
        except WakelogError:
            raise
        except asyncio.CancelledError as error:
            if is_being_cancelled():
                raise
            yield _provider_fault(error)
        except Exception as error:  # noqa: BLE001 - a provider may be any code, and raise anything
            yield _provider_fault(error)


async def _only(fault: Faulted) -> AsyncGenerator[Delta, None]:
    yield fault


def _provider_fault(error: BaseException) -> Faulted:
    """Return the fault of an exception. Failures of the network may be retried; other exceptions are mistakes."""
    return Faulted(type(error).__name__, f"the provider raised {error!r}", retryable=isinstance(error, OSError))


def is_being_cancelled() -> bool:
    """Return whether the current task was cancelled: else a `CancelledError` comes from the code it called."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def limited_stream(
    reply: AsyncIterator[Delta], prior: str = "", *, reasoning: ReasoningMode = "keep", is_recorded: bool = False
) -> AsyncGenerator[Delta, None]:
    """Yield the deltas of a reply that continues `prior`; end with a fault if the reply would not fit into one entry.

    `reasoning` says how much of the model's reasoning is kept. A reply that `is_recorded` is not limited: its end is in
    the log.
    """
    room = _EntryCapacity(prior)
    kept = ReasoningFilter(reasoning)
    async with _closing(reply):
        async for delta in reply:
            if not isinstance(delta, Finished | Faulted) and not is_recorded:
                fault = room.add(delta)
                if fault is not None:
                    yield fault
                    return
            for kept_delta in kept.add(delta):
                yield kept_delta


class _EntryCapacity:
    """The remaining capacity of the entry that will hold the reply."""

    def __init__(self, prior: str) -> None:
        self._bytes = REPLY_MAX_BYTES - len(prior.encode())
        self._brackets = BRACKETS_MAX - _ENTRY_BRACKETS
        self._last: type[ContentDelta] | None = None

    def add(self, delta: ContentDelta) -> Faulted | None:
        """Subtract the size of a delta; return a fault if it does not fit."""
        piece = encode_delta(delta)
        self._bytes -= len(piece)
        if self._bytes < 0:
            return TOO_LONG
        is_plain = not isinstance(delta, ToolCallDelta) and delta.bound is None
        # Consecutive deltas of one kind make one part.
        brackets, is_too_deep = (int(type(delta) is not self._last), False) if is_plain else count_brackets(piece)
        self._brackets -= brackets
        self._last = type(delta)
        return TOO_NESTED if is_too_deep or self._brackets < 0 else None


@contextlib.asynccontextmanager
async def _closing(reply: AsyncIterator[Delta]) -> AsyncIterator[None]:
    """Close the stream when reading stops, so that the model does not generate (and cost) until garbage collection."""
    try:
        yield
    finally:
        if isinstance(reply, AsyncGenerator):
            await reply.aclose()
