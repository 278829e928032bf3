"""Model requests: built from the log and its blobs.

The same function builds a request for the model and rebuilds one that was made earlier: everything it needs is in the
log and its blobs, and the digest in the `call` entry tells whether the two are the same (VIEW-9).
"""

import base64
from collections.abc import Mapping
from typing import Any

import msgspec

from wakelog.errors import Damaged
from wakelog.log.content import AnyPart, BlobRef, Media
from wakelog.log.entry import Call
from wakelog.log.tree import Branch, Tree
from wakelog.ports import Blobs, Request
from wakelog.projections.context import Context, ContextMessage, build_context
from wakelog.projections.state import branch_state


def request_of(
    context: Context, blobs: Blobs, *, answers: int = 0, prefill: str = "", purpose: str = "reply"
) -> Request:
    """Return the request for a provider, with the contents of all blobs included."""
    return Request(
        model=context.model or "",
        messages=tuple(_with_media(message, blobs) for message in context.messages),
        system=text_of(blobs, context.system),
        tools=tuple(declared_tools(blobs, context.tools)),
        params=context.params,
        injected=tuple(text_of(blobs, blob) for blob in context.injected),
        prefill=prefill,
        answers=answers,
        purpose="compaction" if purpose == "compaction" else "reply",
    )


def _with_media(message: ContextMessage, blobs: Blobs) -> ContextMessage:
    """Return a message with its images and audio inline: a provider has no access to blobs."""
    if not any(isinstance(part, Media) and part.blob is not None for part in message.content):
        return message
    return msgspec.structs.replace(message, content=tuple(_inline(part, blobs) for part in message.content))


def _inline(part: AnyPart, blobs: Blobs) -> AnyPart:
    if not isinstance(part, Media) or part.blob is None:
        return part
    data = base64.b64encode(blobs.get(part.blob)).decode()
    return msgspec.structs.replace(part, mime_type=part.mime_type or part.blob.media_type, blob=None, data=data)


def text_of(blobs: Blobs, ref: BlobRef | None) -> str:
    """Return the text of a blob; empty without a blob."""
    return blobs.get(ref).decode(errors="replace") if ref is not None else ""


def declared_tools(blobs: Blobs, ref: BlobRef | None) -> list[Mapping[str, Any]]:
    """Return the tool declarations in a blob; `Damaged` if they cannot be decoded."""
    if ref is None:
        return []
    try:
        tools: list[Mapping[str, Any]] = msgspec.json.decode(blobs.get(ref), type=list[dict[str, Any]])
    except msgspec.DecodeError as error:
        raise Damaged(f"the tools in {ref.digest} cannot be read: {error}") from None
    return tools


def context_at(tree: Tree, call: Call) -> tuple[Context, int]:
    """Return the context of a past model call and how many calls had ended before it, from the log alone."""
    branch = seen_by(tree, call)
    context = build_context(branch, call.strategy)
    if call.to_id is not None and call.to_id in context.entry_ids:
        context = context.until(context.entry_ids.index(call.to_id))
    return msgspec.structs.replace(context, injected=call.injected), branch_state(branch).answers


def seen_by(tree: Tree, call: Call) -> Branch:
    """Return the branch as it was when a model call was made, without annotations that were appended later."""
    branch = tree.branch(call.parent_id)
    return msgspec.structs.replace(
        branch, annotations=tuple(annotation for annotation in branch.annotations if annotation.seq < (call.seq or 0))
    )
