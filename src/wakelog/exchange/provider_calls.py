"""Calls that a provider ran itself, written as tool calls with results, for formats whose provider is another one.

Pure. A reply with such calls is divided: each part ends with calls, their results follow, and the rest of the reply is
behind them. The last part keeps the id, the usage and the stop reason of the reply.
"""

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from wakelog.exchange.writing import SessionToWrite, WrittenNode
from wakelog.log.content import AnyPart, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import Message
from wakelog.log.provider_calls import ProviderCall, provider_calls

KeepsCall: TypeAlias = Callable[[Message, ProviderCall], bool]
"""Whether the target takes a call of this reply back as the provider sent it."""

_NO_RESULT = "(the provider ran this call; what it returned is not recorded)"


def keeps_none(node: Message, call: ProviderCall) -> bool:  # noqa: ARG001 - the same for every call
    """Return False: the target takes no such call back."""
    return False


def with_tool_calls(session: SessionToWrite, keeps: KeepsCall) -> SessionToWrite:
    """Return a session in which these calls, except those that the target keeps, are tool calls with results."""
    nodes = tuple(written for node in session.nodes for written in _divided(node, keeps))
    return session if len(nodes) == len(session.nodes) else msgspec.structs.replace(session, nodes=nodes)


def _divided(node: WrittenNode, keeps: KeepsCall) -> Iterator[WrittenNode]:
    """Yield a node, or the parts that it is divided into."""
    if not isinstance(node, Message) or not isinstance(node.message, Reply):
        yield node
        return
    reply, parts = node.message, node.message.parts
    calls = provider_calls(parts)
    kept = {call.api for call in calls.values() if call is not None and keeps(node, call)}
    taken = {call.id for call in reply.tool_calls}
    parent, pending = node.parent_id, list[AnyPart]()
    is_divided = False
    for at, part in enumerate(parts):
        call = calls.get(at)
        # A part that only holds the outcome of a call is one of Anthropic's.
        if at not in calls or (call.api if call is not None else "anthropic") in kept:
            pending.append(part)
        elif call is not None:
            own = ToolCall(id=_free_id(call.id, taken), name=call.name, input=call.input)
            # Tool calls that wakelog ran stay in the last part, whose id their results name.
            shown = [each for each in pending if not isinstance(each, ToolCall)]
            pending = [each for each in pending if isinstance(each, ToolCall)]
            begun = Message(
                id=f"{node.id}:{at}",
                parent_id=parent,
                timestamp=node.timestamp,
                message=Reply(content=(*shown, own), model=reply.model, provider=reply.provider, stop_reason="tools"),
            )
            yield begun
            result = _result(begun, own, call)
            yield result
            parent, is_divided = result.id, True
    rest = msgspec.structs.replace(reply, content=tuple(pending)) if is_divided else reply
    yield msgspec.structs.replace(node, parent_id=parent, message=rest)


def _result(reply: Message, written: ToolCall, call: ProviderCall) -> Message:
    result = ToolResult(
        content=(Text(text=call.result or _NO_RESULT),),
        tool_call_id=written.id,
        tool_name=call.name,
        reply_id=reply.id,
        status=call.status,
        is_error=call.status != "ok",
    )
    return Message(id=f"{reply.id}:result", parent_id=reply.id, timestamp=reply.timestamp, message=result)


def _free_id(wanted: str, taken: set[str]) -> str:
    found, number = wanted, 1
    while found in taken:
        number += 1
        found = f"{wanted}_{number}"
    taken.add(found)
    return found
