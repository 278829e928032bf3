"""What a request with a session's history holds, for the writers of message lists, and what it cannot hold."""

import json
from typing import Any

import msgspec

from wakelog.exchange.message_lists.shapes import RESPONSES_REQUEST
from wakelog.exchange.writing import (
    Losses,
    SessionToWrite,
    WrittenFile,
    WrittenNode,
    WrittenSession,
    kind_of,
    written_uuid,
)
from wakelog.log.content import Audio, Image, JsonObject, Note, Reply, Text, Thinking, ToolCall, ToolResult, UnknownPart
from wakelog.log.entry import Cancelled, Compaction, Custom, Entry, Message
from wakelog.log.tree import Branch
from wakelog.projections.branch_state import BranchState
from wakelog.projections.context import ContextMessage, active_part, build_context
from wakelog.providers.requests import IMAGE_TYPES, media_type_of

_NOTHING_LIKE_IT = "a list of messages has nothing like it"
_AS_USER = "it is a message of the user"
_SYSTEM_SEPARATOR = "\n\n"
_OTHER_FIELDS = "it is one of Responses, and the list is for Chat Completions"
_SHARED_FIELDS = frozenset(
    (
        "metadata",
        "model",
        "parallel_tool_calls",
        "prompt_cache_key",
        "safety_identifier",
        "service_tier",
        "store",
        "stream",
        "temperature",
        "top_logprobs",
        "top_p",
        "user",
    )
)
# What the data bound to a text says besides the text: a block or item of another type, and sources.
_BOUND_CONTENT = ("type", "item", "citations", "annotations")


class RequestContext(msgspec.Struct, frozen=True):
    """The messages that the model would be given, and the system prompt and other fields of an imported request."""

    messages: tuple[ContextMessage, ...]
    system: str
    fields: JsonObject


def request_context(session: SessionToWrite, tool: str, losses: Losses) -> RequestContext:
    """Return the context of a session's active branch, as for a model call; count what is not in it."""
    branch = session.branch
    entries = tuple(Entry(raw=b"", value=node, seq=at) for at, node in enumerate(branch))
    context = build_context(Branch(nodes=entries), state=BranchState())
    _count_session(session, branch, losses)
    sent = frozenset(context.entry_ids)
    active = frozenset(entry.id for entry in active_part(Branch(nodes=entries)).nodes)
    fields: JsonObject = {}
    has_begun = False
    for node in branch:
        if (found := _fields(node, tool)) is not None:
            if fields:
                losses.add(kind_of(node), "it replaces the settings of an earlier request")
            fields = found
        elif node.id in sent:
            has_begun = True
            _count_sent(node, losses)
        elif _system_text(node):
            if has_begun:
                losses.add("system message", "it is at the beginning, before what was said before it")
        else:
            is_replaced = node.id not in active
            losses.add(kind_of(node), "a compaction replaced it" if is_replaced else _NOTHING_LIKE_IT)
    _count_open_calls(branch, sent, losses)
    system = [text for node in branch if (text := _system_text(node))]
    instructions, fields = _of_chat(fields, losses) if "input" in fields else ("", fields)
    return RequestContext(context.messages, _SYSTEM_SEPARATOR.join(filter(None, (instructions, *system))), fields)


def written(session: SessionToWrite, tool: str, document: JsonObject, losses: Losses) -> WrittenSession:
    """Return a session as one JSON document."""
    name = written_uuid(session.session, session.head).replace("-", "")[:12]
    content = json.dumps(document, ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n"
    return WrittenSession(tool=tool, id="", files=(WrittenFile(f"{tool}-{name}.json", content),), losses=tuple(losses))


# ── what an imported list had besides messages ───────────────────────────────────────────────────


def _system_text(node: WrittenNode) -> str:
    """Return the text of a system message that was imported; empty for any other node."""
    if not isinstance(node, Custom) or not node.custom_type.endswith("-messages:system"):
        return ""
    content = node.data.get("content") if isinstance(node.data, dict) else None
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))


def _fields(node: WrittenNode, tool: str) -> JsonObject | None:
    """Return the other fields of an imported request for the same API: the model, tools, settings.

    Those of a Responses request have `input` among them.
    """
    if not isinstance(node, Custom) or not isinstance(node.data, dict):
        return None
    if node.custom_type == f"{tool}:{RESPONSES_REQUEST}":
        return {**node.data, "input": None}
    return node.data if node.custom_type == f"{tool}:request" else None


def _of_chat(fields: JsonObject, losses: Losses) -> tuple[str, JsonObject]:
    """Return the instructions of a Responses request, and the fields that Chat Completions takes as well."""
    given = {key: value for key, value in fields.items() if key != "input" and value is not None}
    instructions, tools = given.pop("instructions", ""), given.pop("tools", [])
    if not isinstance(instructions, str):
        given["instructions"], instructions = instructions, ""
    taken = {key: value for key, value in given.items() if _is_shared(key, value)}
    for key in (key for key in given if key not in taken):
        losses.add(f"field {key} of a request", _OTHER_FIELDS)
    if not isinstance(tools, list):
        losses.add("field tools of a request", _OTHER_FIELDS)
        return instructions, taken
    functions = [tool for tool in tools if isinstance(tool, dict) and tool.get("type") == "function"]
    if len(functions) < len(tools):
        losses.add("tool of a request", "Chat Completions has functions only", len(tools) - len(functions))
    chat = [{"type": "function", "function": {key: tool[key] for key in tool if key != "type"}} for tool in functions]
    return instructions, {**taken, **({"tools": chat} if chat else {})}


def _is_shared(key: str, value: Any) -> bool:
    return key in _SHARED_FIELDS or (key == "tool_choice" and isinstance(value, str))


# ── losses ───────────────────────────────────────────────────────────────────────────────────────


def _count_session(session: SessionToWrite, branch: tuple[WrittenNode, ...], losses: Losses) -> None:
    if session.title:
        losses.add("title", _NOTHING_LIKE_IT)
    if session.labels:
        losses.add("label", _NOTHING_LIKE_IT, len(session.labels))
    if others := len(session.nodes) - len(branch):
        losses.add("other branches", _NOTHING_LIKE_IT, others)
    losses.add("timestamp", _NOTHING_LIKE_IT, len(branch))


def _count_sent(node: WrittenNode, losses: Losses) -> None:
    """Count what a message of the list does not say about the node it is made of."""
    kind = kind_of(node)
    match node:
        case Message(message=Note()) | Compaction() | Custom():
            losses.add(kind, _AS_USER)
        case Cancelled():
            losses.add(kind, "what was displayed is a message of the model")
        case Message(message=Reply() as reply):
            if reply.model or reply.provider:
                losses.add("model", "a list of messages does not say which model replied")
            if reply.usage is not None:
                losses.add("usage", "a list of messages has no usage")
            if reply.request_id or reply.stop_reason:
                losses.add(kind, "a list of messages has neither ids of requests nor reasons why a reply ended")
    if isinstance(node, Message):
        unknown = sum(isinstance(part, UnknownPart) for part in node.message.parts)
        if unknown:
            losses.add(f"part of a {kind}", "its type is not known", unknown)


def _count_open_calls(branch: tuple[WrittenNode, ...], sent: frozenset[str], losses: Losses) -> None:
    answered: set[tuple[str | None, str]] = set()
    for node in branch:
        if isinstance(node, Message) and isinstance(node.message, ToolResult):
            answered |= {(node.message.reply_id, node.message.tool_call_id), (None, node.message.tool_call_id)}
    for node in branch:
        if isinstance(node, Message) and isinstance(node.message, Reply) and node.id in sent:
            for call in node.message.tool_calls:
                if (node.id, call.id) not in answered:
                    losses.add("open tool call", "a result is added that says that there is no record of one")


def count_media(messages: tuple[ContextMessage, ...], losses: Losses, *, audio: bool) -> None:
    """Count images and recordings that become text because the API does not take them."""
    for message in messages:
        for part in message.content:
            if isinstance(part, Image) and not (part.data and (media_type_of(part) or "image/png") in IMAGE_TYPES):
                losses.add("image", "the API does not take its type: text says that it was there")
            if isinstance(part, Audio) and not audio:
                losses.add("audio", "the API does not take it: text says that it was there")


def count_thinking(messages: tuple[ContextMessage, ...], kept: int, losses: Losses) -> None:
    """Count reasoning that is not sent, given how much is."""
    parts = sum(isinstance(part, Thinking) for message in messages for part in message.content)
    if parts > kept:
        losses.add("thinking", "only the model that made it, of this API, takes it back", parts - kept)


def count_inputs(messages: tuple[ContextMessage, ...], losses: Losses, *, free: int = 0) -> None:
    """Count inputs of calls that are not objects, except those that are sent as free text."""
    calls = [part for message in messages for part in message.content if isinstance(part, ToolCall)]
    wrapped = sum(not isinstance(call.input, dict) for call in calls) - free
    if wrapped > 0:
        losses.add("tool call", "the API takes objects only: the input is wrapped in one", wrapped)


def count_renamed(messages: tuple[ContextMessage, ...], wire: list[tuple[Any, Any]], losses: Losses) -> None:
    """Count calls whose id or name is another one on the wire. Only replies have calls there."""
    replies = [message for message in messages if message.role == "assistant"]
    calls = [part for message in replies for part in message.content if isinstance(part, ToolCall)]
    for call, (wire_id, wire_name) in zip(calls, wire, strict=False):
        if call.id != wire_id:
            losses.add("id of a tool call", "the API takes ids once, and of certain characters only")
        if call.name != wire_name:
            losses.add("name of a tool", "the API takes names of certain characters only")
    others = sum(isinstance(part, ToolCall) for message in messages for part in message.content) - len(calls)
    if others:
        losses.add("tool call", "it is not in a reply", others)


def count_bound(messages: tuple[ContextMessage, ...], sent: int, losses: Losses) -> None:
    """Count what is bound to texts and not sent, such as a search or the sources of a text, given how much is sent."""
    bound = sum(
        isinstance(part, Text) and any((part.bound or {}).get(key) for key in _BOUND_CONTENT)
        for message in messages
        for part in message.content
    )
    if bound > sent:
        losses.add("part of a reply", "only the model that made it, of this API, takes it back", bound - sent)


def visible(text: str) -> bool:
    """Return whether there is something to see in a text."""
    return bool(text.strip())


def count_blank(messages: tuple[ContextMessage, ...], losses: Losses) -> None:
    """Count texts without anything to see, which an API refuses."""
    blank = sum(
        isinstance(part, Text) and not visible(part.text) and not part.bound
        for message in messages
        for part in message.content
    )
    if blank:
        losses.add("text", "the API takes no text without anything to see in it", blank)
