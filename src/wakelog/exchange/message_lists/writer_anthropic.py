"""Write a session as the messages of an Anthropic request: a JSON document with `messages`, and `system` if known.

The functions that build wakelog's own requests build it, from the context that the model would be given: a compaction
is applied, roles alternate, and every tool call has its result in the next message.
"""

from wakelog.exchange.message_lists.context import (
    count_blank,
    count_bound,
    count_inputs,
    count_media,
    count_renamed,
    count_thinking,
    request_context,
    written,
)
from wakelog.exchange.message_lists.shapes import ANTHROPIC
from wakelog.exchange.provider_calls import with_tool_calls
from wakelog.exchange.writing import Losses, SessionToWrite, WrittenSession
from wakelog.log.content import JsonObject, Media
from wakelog.projections.context import ContextMessage
from wakelog.providers.anthropic.messages_request import PLAIN_BLOCKS
from wakelog.recording.requests import anthropic_messages

_REASONING = ("thinking", "redacted_thinking")
_COMMON = (*PLAIN_BLOCKS, "tool_result", "image")


def write_session(session: SessionToWrite) -> WrittenSession:
    """Return the messages of a request that continues the session."""
    losses = Losses()
    session = with_tool_calls(session, lambda _, call: call.api == "anthropic")
    context = request_context(session, ANTHROPIC, losses)
    messages = anthropic_messages(context.messages, model=None, cache=False)
    blocks = [block for message in messages for block in message["content"]]
    count_thinking(context.messages, sum(block["type"] in _REASONING for block in blocks), losses)
    count_media(context.messages, losses, audio=False)
    count_inputs(context.messages, losses)
    count_blank(context.messages, losses)
    is_bound = [block["type"] not in _COMMON or bool(block.get("citations")) for block in blocks]
    count_bound(context.messages, sum(is_bound), losses)
    calls = [(block.get("id"), block.get("name")) for block in blocks if block["type"] == "tool_use"]
    count_renamed(context.messages, calls, losses)
    _count_joined(context.messages, losses)
    document: JsonObject = {**context.fields, "messages": messages}
    if context.system:
        document["system"] = context.system
    return written(session, ANTHROPIC, document, losses)


def _count_joined(messages: tuple[ContextMessage, ...], losses: Losses) -> None:
    before = ""
    for message in messages:
        role = "assistant" if message.role == "assistant" else "user"
        if role == before and message.role != "toolResult":
            losses.add("message", "roles alternate: it is joined with the one before it")
        before = role
        if message.is_error and any(isinstance(part, Media) for part in message.content):
            losses.add("image", "a failed result holds text only: text says that it was there")
    if messages and messages[0].role == "assistant":
        losses.add("message", "the user begins: a message says that the beginning is left out")
