"""Parts of OpenCode messages as content of ours: text, reasoning, media, tool calls, results, usage and faults."""

from collections.abc import Iterable, Sequence

import msgspec

from wakelog.exchange.opencode.records import StoredPart, list_of, object_of, text_of, time_text
from wakelog.log.content import AnyPart, Audio, Image, JsonObject, Text, Thinking, ToolCall, ToolResult
from wakelog.log.entry import Cancelled, Failed, FaultReport
from wakelog.log.timestamps import elapsed_ms
from wakelog.providers.openai.responses_request import SUMMARY_SEPARATOR

_STOP_REASONS = {"tool-calls": "tools", "content-filter": "filtered"}
DENIED = "The user rejected permission to use this specific tool call"
_ABORTED = "MessageAbortedError"
STEP_TYPES = ("step-start", "step-finish")
# Texts of one summary that are joined: each of them copies those before it.
_SUMMARY_TEXTS_MAX = 1_000


class Call(msgspec.Struct, frozen=True):
    """A tool call of a reply: its id there, and the part that it was stored in."""

    id: str
    part: StoredPart


class Content(msgspec.Struct):
    """What the parts of one model step become: content of a reply, and the parts that have no place in it."""

    parts: list[AnyPart] = []
    keys: list[str] = []
    """Ids of the stored parts that are in `parts`."""
    calls: list[Call] = []
    call_ids: set[str] = set()
    records: int = 0
    others: list[StoredPart] = []
    growing: int = 0
    """Records of parts that are not final yet, or that stand behind results which are still to come."""


def media_of(part: JsonObject) -> Image | Audio | None:
    """Return an image or a recording that is stored inline; None for any other file."""
    mime, url = text_of(part.get("mime")), text_of(part.get("url"))
    head, comma, data = url.partition(",")
    if not (comma and head.startswith("data:") and head.endswith(";base64")):
        return None
    if mime.startswith("image/"):
        return Image(mime_type=mime, data=data)
    return Audio(mime_type=mime, data=data) if mime.startswith("audio/") else None


def stop_reason_of(info: JsonObject, steps: Iterable[StoredPart], *, is_last: bool) -> str | None:
    """Return why a step ended; the message says it for its last step."""
    if is_last and object_of(info.get("error")):
        return "aborted" if is_aborted(info) else "error"
    said = [text_of(step.value.get("reason")) for step in steps if step.value.get("type") == "step-finish"]
    reason = (text_of(info.get("finish")) if is_last else "") or next((each for each in said if each), "")
    return _STOP_REASONS.get(reason, reason) or None


def is_aborted(info: JsonObject) -> bool:
    """Return whether a person ended the reply."""
    return object_of(info.get("error")).get("name") == _ABORTED


def fault_of(info: JsonObject) -> Failed | Cancelled | None:
    """Return how a message failed; None if it did not."""
    error = object_of(info.get("error"))
    if not error:
        return None
    data = object_of(error.get("data"))
    name = text_of(error.get("name")) or text_of(error.get("type")) or "error"
    message = text_of(data.get("message")) or text_of(error.get("message"))
    if is_aborted(info):
        return Cancelled(reason=name)
    return Failed(reason=name, error=FaultReport(kind=name, message=message, retryable=data.get("isRetryable") is True))


# ── replies ──────────────────────────────────────────────────────────────────────────────────────


def reply_content(parts: Sequence[StoredPart], *, is_open: bool) -> Content:
    """Return what the parts of a step become. Parts of an open message that may still change are left out."""
    found = Content()
    thought: str | None = None
    for part in parts:
        if is_open and _is_growing(part.value):
            found.growing += part.records
            continue
        value, kind = part.value, part.value.get("type")
        if kind in STEP_TYPES:
            found.records += part.records
        elif kind == "text" and isinstance(value.get("text"), str):
            found.records += part.records
            if value["text"]:
                _keep(found, part, Text(text=value["text"], bound=_bound(value, thought)))
        elif kind == "reasoning" and isinstance(value.get("text"), str):
            found.records += part.records
            thought = _keep_thinking(found, part) or thought
        elif kind == "tool" and isinstance(value.get("tool"), str) and isinstance(value.get("state"), dict):
            found.records += part.records
            call = Call(_call_id(found, part), part)
            found.calls.append(call)
            found.call_ids.add(call.id)
            _keep(found, part, _tool_call(call, thought))
        elif kind == "file" and (media := media_of(value)) is not None:
            found.records += part.records
            _keep(found, part, media)
        elif is_open:
            found.growing += part.records
        else:
            found.others.append(part)
    return found


def _keep(found: Content, part: StoredPart, content: AnyPart) -> None:
    found.parts.append(content)
    found.keys.append(part.id)


def _is_growing(value: JsonObject) -> bool:
    """Return whether OpenCode is still writing a part: text without an end, or a tool call without its whole input."""
    time = object_of(value.get("time"))
    if value.get("type") in ("text", "reasoning"):
        return "start" in time and not time.get("end")
    return value.get("type") == "tool" and object_of(value.get("state")).get("status") == "pending"


def is_timeless(value: JsonObject) -> bool:
    """Return whether a part is a text of a version or a program that does not write down when texts begin and end."""
    return value.get("type") == "text" and bool(value.get("text")) and "start" not in object_of(value.get("time"))


def _call_id(found: Content, part: StoredPart) -> str:
    own = text_of(part.value.get("callID")) or part.id
    return part.id if own in found.call_ids else own


def _tool_call(call: Call, thought: str | None) -> ToolCall:
    value = call.part.value
    state = value["state"]
    given = state.get("input")
    raw = state.get("raw")
    known = given if given or not isinstance(raw, str) or not raw else raw
    return ToolCall(id=call.id, name=value["tool"], input={} if known is None else known, bound=_bound(value, thought))


def _bound(value: JsonObject, thought: str | None) -> JsonObject | None:
    """Return the data that the vendor wants back with a text or a call: the ids of OpenAI items, else what is there."""
    metadata = _by_vendor(value)
    item = metadata.get("openai", {}).get("itemId")
    if isinstance(item, str):
        return {"id": item} if thought is None else {"id": item, "after": thought}
    return metadata or None


def _by_vendor(value: JsonObject) -> JsonObject:
    return {key: each for key, each in object_of(value.get("metadata")).items() if isinstance(each, dict)}


def unbound(value: JsonObject) -> JsonObject:
    """Return what the metadata of a text, a thought or a call has beside the data that is bound to it."""
    metadata = object_of(value.get("metadata"))
    for vendor, mark, *others in _MAPPED_THOUGHTS if value.get("type") == "reasoning" else _MAPPED:
        data = object_of(metadata.get(vendor))
        if isinstance(data.get(mark), str):
            rest = {key: each for key, each in data.items() if key not in (mark, *others) and each is not None}
            found = {key: each for key, each in metadata.items() if key != vendor}
            return {**found, vendor: rest} if rest else found
    return {key: each for key, each in metadata.items() if not isinstance(each, dict)}


# The name of the vendor, the field that tells how its data are bound, and a field that is bound with it.
_MAPPED = (("openai", "itemId"),)
_MAPPED_THOUGHTS = (
    ("openai", "itemId", "reasoningEncryptedContent"),
    ("anthropic", "redactedData"),
    ("anthropic", "signature"),
)


def _keep_thinking(found: Content, part: StoredPart) -> str | None:
    """Add reasoning; return the id of its OpenAI item. Parts of one summary are one `Thinking` with several texts."""
    text = part.value["text"]
    metadata = object_of(part.value.get("metadata"))
    openai, anthropic = object_of(metadata.get("openai")), object_of(metadata.get("anthropic"))
    item, sealed = openai.get("itemId"), openai.get("reasoningEncryptedContent")
    if isinstance(item, str):
        last = found.parts[-1] if found.parts else None
        signature = sealed if isinstance(sealed, str) else None
        before = last.bound if isinstance(last, Thinking) and last.bound is not None else {}
        if isinstance(last, Thinking) and before.get("id") == item and len(before["summary"]) < _SUMMARY_TEXTS_MAX:
            sizes = [*before["summary"], len(text)]
            joined = f"{last.thinking}{SUMMARY_SEPARATOR}{text}" if before["summary"] else text
            found.parts[-1] = Thinking(
                thinking=joined, signature=signature or last.signature, bound={"id": item, "summary": sizes}
            )
            found.keys.append(part.id)
        else:
            bound = {"id": item, "summary": [len(text)] if text else []}
            _keep(found, part, Thinking(thinking=text, signature=signature, bound=bound))
        return item
    redacted, signed = anthropic.get("redactedData"), anthropic.get("signature")
    if isinstance(redacted, str):
        _keep(found, part, Thinking(thinking=text, bound={"type": "redacted_thinking", "data": redacted}))
        return None
    signature = signed if isinstance(signed, str) else None
    other = None if signature is not None else _bound(part.value, None)
    if text or signature is not None or other is not None:
        _keep(found, part, Thinking(thinking=text, signature=signature, bound=other))
    return None


# ── tool results ─────────────────────────────────────────────────────────────────────────────────


def result_of(call: Call, reply_id: str) -> ToolResult | None:
    """Return the result of a tool call; None if the part does not hold one.

    The output is kept also where OpenCode has pruned it from its context (`time.compacted`).
    """
    state = call.part.value["state"]
    match state.get("status"):
        case "completed":
            is_error = False
        case "error":
            is_error = True
        case "pending" | "running":
            return None
        case _ if isinstance(state.get("output"), str) or isinstance(state.get("error"), str):
            is_error = isinstance(state.get("error"), str)
        case _:
            return None
    error, metadata = text_of(state.get("error")), object_of(state.get("metadata"))
    is_interrupted = is_error and metadata.get("interrupted") is True
    output = text_of(state.get("output")) or (text_of(metadata.get("output")) if is_interrupted else "")
    texts = [text for text in (output, error if is_error else "") if text]
    files = [media_of(object_of(file)) for file in list_of(state.get("attachments"))]
    time = object_of(state.get("time"))
    start, end = time_text(time.get("start")), time_text(time.get("end"))
    status = "interrupted" if is_interrupted else "denied" if error.startswith(DENIED) else "error"
    return ToolResult(
        tool_call_id=call.id,
        tool_name=call.part.value["tool"],
        reply_id=reply_id,
        status=status if is_error else "ok",  # type: ignore[arg-type]
        is_error=is_error,
        content=(*(Text(text=text) for text in texts), *(file for file in files if file is not None)),
        duration_ms=elapsed_ms(start, end) if start and end else None,
        truncated=metadata.get("truncated") is True,
    )


def ended_at(call: Call, default: str) -> str:
    """Return when a tool ended; `default` if its part does not say so."""
    return time_text(object_of(call.part.value["state"].get("time")).get("end"), default)


def child_of(part: StoredPart) -> str:
    """Return the id of the session that a tool call started; empty if it started none."""
    state = object_of(part.value.get("state"))
    return text_of(object_of(state.get("metadata")).get("sessionId")) if part.value.get("type") == "tool" else ""
