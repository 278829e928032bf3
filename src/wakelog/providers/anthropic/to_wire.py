"""Request bodies for the Messages API, as a pure function.

Rule 1: stable content comes first and is marked for the cache; injected text comes last and is never marked.
Rule 2: reasoning is sent back only to the provider and the model that produced it. Everything else of a reply is sent
to any model.
Rule 3: no reply is resumed. An interrupted reply is requested again from its beginning, so a conversation always ends
with the user.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from wakelog.log.content import JsonObject
from wakelog.ports import Request
from wakelog.projections.context import ContextMessage
from wakelog.providers.anthropic.blocks import is_thought, text_blocks
from wakelog.providers.anthropic.conversation import conversation
from wakelog.providers.anthropic.models import has_budget, reply_tokens, thinking_asked
from wakelog.providers.params import Params, merged

PROVIDER = "anthropic"
_MARK = {"cache_control": {"type": "ephemeral"}}
# The API takes four marks: the last tool, the system prompt, and these.
_MARKED_MESSAGES = 2
_GO_ON = "(Go on.)"


def to_wire(request: Request, params: Params) -> JsonObject:
    """Return the body of a request."""
    stable = conversation(request.messages, is_own=lambda said: _is_own(said, request, params))
    max_tokens = params.max_tokens or reply_tokens(request.model)
    body: JsonObject = {"model": request.model, "max_tokens": max_tokens}
    body |= _tools(request)
    if request.system.strip():
        body["system"] = [{"type": "text", "text": request.system, **_MARK}]
    body["messages"] = _with_tail(_marked(stable), request.injected)
    if params.temperature is not None:
        body["temperature"] = params.temperature
    if not (has_budget(request.model) and _is_amid_calls(stable)):
        body |= thinking_asked(request.model, params, max_tokens)
    return {**merged(body, params.extra), "stream": True}


def _is_own(said: ContextMessage, request: Request, params: Params) -> bool:
    return params.thinking == "keep" and said.provider == PROVIDER and said.model == request.model


def _tools(request: Request) -> JsonObject:
    """Return the tools as declared. A compaction needs them, because the history holds calls, but may call none."""
    if not request.tools:
        return {}
    tools = [_tool(tool) for tool in request.tools]
    tools[-1] |= _MARK
    choice = {"tool_choice": {"type": "none"}} if request.purpose == "compaction" else {}
    return {"tools": tools, **choice}


def _tool(tool: Mapping[str, Any]) -> JsonObject:
    described = {"description": tool["description"]} if tool.get("description") else {}
    return {"name": tool["name"], **described, "input_schema": {"type": "object", **tool.get("schema", {})}}


def _marked(stable: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the conversation with marks at the ends of the last two user messages.

    The previous request ended at the first of the two and was marked there, so the cache has that position, however
    many calls a reply makes at once; from a mark it looks back over only about twenty blocks.
    """
    users = [at for at, message in enumerate(stable) if message["role"] == "user"][-_MARKED_MESSAGES:]
    marked = list(stable)
    for at in users:
        *before, last = stable[at]["content"]
        marked[at] = {"role": "user", "content": [*before, {**last, **_MARK}]}
    return marked


def _with_tail(marked: list[JsonObject], injected: Sequence[str]) -> list[JsonObject]:
    """Append what belongs to this request alone, after everything that the next one repeats."""
    tail = [block for text in injected for block in text_blocks(text)]
    if marked and marked[-1]["role"] == "user":
        *before, last = marked
        return [*before, {"role": "user", "content": [*last["content"], *tail]}]
    return [*marked, {"role": "user", "content": tail or text_blocks(_GO_ON)}]


def _is_amid_calls(stable: Sequence[JsonObject]) -> bool:
    """Return whether calls were made without reasoning and the results are in.

    The API refuses a request for reasoning there with older models; once the turn is over it accepts one.
    """
    if len(stable) < 2 or stable[-1]["content"][0]["type"] != "tool_result":
        return False
    return not is_thought(stable[-2]["content"][0])
