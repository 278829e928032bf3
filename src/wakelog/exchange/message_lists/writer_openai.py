"""Write a session as the messages of a Chat Completions request: a JSON document with `messages`.

The functions that build wakelog's own requests build it, from the context that the model would be given: a compaction
is applied, and every tool call has its result behind it.
"""

import msgspec

from wakelog.exchange.message_lists.context import (
    count_bound,
    count_inputs,
    count_media,
    count_renamed,
    count_thinking,
    request_context,
    written,
)
from wakelog.exchange.message_lists.shapes import OPENAI
from wakelog.exchange.writing import Losses, SessionToWrite, WrittenSession
from wakelog.log.content import Media, Text
from wakelog.projections.context import ContextMessage
from wakelog.recording.requests import openai_chat_messages


def write_session(session: SessionToWrite) -> WrittenSession:
    """Return the messages of a request that continues the session."""
    losses = Losses()
    context = request_context(session, OPENAI, losses)
    # An imported list does not say which model replied. It is the same one for the whole list.
    named = [msgspec.structs.replace(message, model=message.model or "") for message in context.messages]
    messages = openai_chat_messages(named, model=None, system=context.system)
    count_thinking(
        context.messages, sum("reasoning_content" in each or "reasoning" in each for each in messages), losses
    )
    # Recordings are taken by models with audio in their name only, and which model it will be is not known.
    count_media(context.messages, losses, audio=False)
    count_bound(context.messages, 0, losses)
    calls = [call for message in messages for call in message.get("tool_calls", ())]
    count_inputs(context.messages, losses, free=sum(call["type"] == "custom" for call in calls))
    count_renamed(context.messages, [(call["id"], call[call["type"]]["name"]) for call in calls], losses)
    _count_results(context.messages, losses)
    return written(session, OPENAI, {**context.fields, "messages": messages}, losses)


def _count_results(messages: tuple[ContextMessage, ...], losses: Losses) -> None:
    for message in messages:
        texts = [part.text for part in message.content if isinstance(part, Text)]
        media = sum(isinstance(part, Media) for part in message.content)
        if message.role == "toolResult":
            if message.is_error:
                losses.add("failed result", "Chat Completions has no mark for it")
            if media:
                losses.add("image", "a result holds text only: it follows in a message of the user", media)
        if message.role != "user" and (len(texts) > 1 or any(not text for text in texts)):
            losses.add("text", "the texts of a message are joined")
