"""A judge of requests, written from what the interface is known to refuse, and from the prefix its cache goes by.

It knows nothing of how requests are made: it is handed a body, what may be in it, and gives every complaint it has. The
SDK's own types are asked too.
"""

import re
from collections import Counter
from itertools import pairwise

import pydantic
from anthropic.types.message_create_params import MessageCreateParamsStreaming

_SHAPE = pydantic.TypeAdapter(MessageCreateParamsStreaming)
# The SDK has no name for it any more; the wire still has.
_KEYS = {*MessageCreateParamsStreaming.__annotations__, "max_tokens", "messages", "model", "stream", "temperature"}
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_BLOCK_KEYS = {
    "text": {"type", "text"},
    "image": {"type", "source"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input"},
    "tool_result": {"type", "tool_use_id", "content", "is_error"},
}
_MARKS_MAX = 4


def complaints(body, *, own=(), injected=()):
    """What is wrong with a body. `own` are the signatures and seals it may hold, `injected` the texts of this call."""
    messages = body.get("messages", [])
    return [
        *_of_shape(body),
        *_of_turns(messages),
        *_of_blocks(messages),
        *_of_pairs(messages),
        *_of_thoughts(messages, own),
        *_of_marks(body, [text for text in injected if text.strip()]),
    ]


def blocks_of(message, kind):
    return [block for block in message["content"] if block["type"] == kind]


def bare(block):
    """A block without its mark."""
    return {key: value for key, value in block.items() if key != "cache_control"}


def _of_shape(body):
    yield from (f"nobody knows the key {key}" for key in body.keys() - _KEYS)
    try:
        _SHAPE.validate_python(body)
    except pydantic.ValidationError as error:
        yield f"the SDK's types say: {error.errors()[0]['loc']} {error.errors()[0]['msg']}"


def _of_turns(messages):
    roles = [message["role"] for message in messages]
    if not roles:
        yield "nobody speaks"
        return
    yield from (f"two messages of {one} beside each other" for one, other in pairwise(roles) if one == other)
    if roles[0] != "user":
        yield "the user does not begin"
    if roles[-1] != "user":
        yield "a reply would have to be continued"


def _of_blocks(messages):
    for message in messages:
        if not message["content"]:
            yield "an empty message"
        for block in message["content"]:
            inner = block.get("content", []) if block["type"] == "tool_result" else []
            for each in [block, *inner]:
                if each["type"] == "text" and not each["text"].strip():
                    yield "text that shows nothing"
                if bare(each).keys() - _BLOCK_KEYS[each["type"]]:
                    yield f"a {each['type']} with more than it has"
            if block["type"] == "tool_result" and not inner:
                yield "a result that shows nothing"
            if block.get("is_error") and any(each["type"] != "text" for each in inner):
                yield "a failed result with more than text"


def _of_pairs(messages):
    """Every call answered in the next message, every result for a call of the one before, results first."""
    seen: Counter[str] = Counter()
    before: list[str] = []
    for message in messages:
        calls = blocks_of(message, "tool_use")
        results = [block["tool_use_id"] for block in blocks_of(message, "tool_result")]
        if Counter(results) != Counter(before):
            yield f"calls {before} are answered by {results}"
        kinds = [block["type"] == "tool_result" for block in message["content"]]
        if kinds != sorted(kinds, reverse=True):
            yield "something stands before a result"
        if (calls and message["role"] != "assistant") or (results and message["role"] != "user"):
            yield "a call or a result in the wrong mouth"
        before = [block["id"] for block in calls]
        seen.update(before)
        yield from (f"no id: {block['id']!r}" for block in calls if not _ID.fullmatch(block["id"]))
        yield from (f"no name: {block['name']!r}" for block in calls if not _NAME.fullmatch(block["name"]))
        yield from ("an input that is no object" for block in calls if not isinstance(block["input"], dict))
    if before:
        yield f"calls {before} are never answered"
    yield from (f"the id {call_id} twice" for call_id, times in seen.items() if times > 1)


def _of_thoughts(messages, own):
    for message in messages:
        thoughts = [block for block in message["content"] if "thinking" in block["type"]]
        if thoughts and message["role"] != "assistant":
            yield "a thought in the wrong mouth"
        if thoughts and message["content"][-1] is thoughts[-1]:
            yield "a message that ends in a thought"
        for block in thoughts:
            seal = block.get("signature") or block.get("data")
            if not seal or seal not in own:
                yield f"a thought of somebody else: {seal!r}"


def _of_marks(body, injected):
    """At most four, none on a thought, none behind what is stable."""
    said = [block for message in body.get("messages", []) for block in message["content"]]
    every = [*body.get("tools", []), *body.get("system", []), *said]
    if sum("cache_control" in block for block in every) > _MARKS_MAX:
        yield "too many marks"
    if any("cache_control" in block and "thinking" in block.get("type", "") for block in said):
        yield "a mark on a thought"
    tail = said[len(said) - len(injected) :] if injected else []
    if [block.get("text") for block in tail] != injected:
        yield "what is injected is not at the end"
    if any("cache_control" in block for block in tail):
        yield "a mark behind what is stable"
    # One block alone may be a word that stands for a conversation that has not begun.
    if len(said) - len(tail) > 1 and not any("cache_control" in block for block in said):
        yield "nothing that is said is marked"
