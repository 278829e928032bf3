"""What `opencode import` (1.18.33) accepts, as types: it refuses a whole file if one field does not fit.

OpenCode skips fields that it does not know; here they are an error, as they would be lost without notice.
"""

from typing import Annotated, Any, Literal

import msgspec

_Ms = Annotated[int, msgspec.Meta(ge=0)]
_SessionId = Annotated[str, msgspec.Meta(pattern=r"^ses_[0-9a-f]{12}[0-9A-Za-z]{14}$")]
_MessageId = Annotated[str, msgspec.Meta(pattern=r"^msg_[0-9a-f]{12}[0-9A-Za-z]{14}$")]
_PartId = Annotated[str, msgspec.Meta(pattern=r"^prt_[0-9a-f]{12}[0-9A-Za-z]{14}$")]
_Object = dict[str, Any]


_OWNERS = ("session", "message", "call", "provider", "model", "parent", "project")


class _Strict(
    msgspec.Struct, forbid_unknown_fields=True, kw_only=True, rename={f"{name}_id": f"{name}ID" for name in _OWNERS}
):
    pass


class _Span(_Strict):
    start: _Ms
    end: _Ms


class _Started(_Strict):
    start: _Ms


class _Cache(_Strict):
    read: float
    write: float


class _Tokens(_Strict):
    input: float
    output: float
    reasoning: float
    cache: _Cache


class _Part(_Strict, tag_field="type"):
    id: _PartId
    session_id: _SessionId
    message_id: _MessageId


class _Text(_Part, tag="text"):
    text: str
    synthetic: bool = False
    ignored: bool = False
    metadata: _Object = {}


class _Reasoning(_Part, tag="reasoning"):
    text: str
    time: _Span
    metadata: _Object = {}


class _File(_Part, tag="file"):
    mime: str
    url: str
    filename: str = ""
    source: _Object = {}


class _State(_Strict, tag_field="status"):
    input: _Object


class _Running(_State, tag="running"):
    time: _Started


class _Completed(_State, tag="completed"):
    output: str
    title: str
    metadata: _Object
    time: _Span
    attachments: list[_File] = []


class _Error(_State, tag="error"):
    error: str
    metadata: _Object
    time: _Span


class _Tool(_Part, tag="tool"):
    call_id: str
    tool: str
    state: _Running | _Completed | _Error
    metadata: _Object = {}


class _StepStart(_Part, tag="step-start"):
    pass


class _StepFinish(_Part, tag="step-finish"):
    reason: str
    cost: float
    tokens: _Tokens


class _Compaction(_Part, tag="compaction"):
    auto: bool
    tail_start_id: _MessageId | None = None


class _Patch(_Part, tag="patch"):
    hash: str
    files: list[str]


class _Snapshot(_Part, tag="snapshot"):
    snapshot: str


class _Agent(_Part, tag="agent"):
    name: str
    source: _Object = {}


class _UserModel(_Strict):
    provider_id: str
    model_id: str


class _Created(_Strict):
    created: _Ms


class _Ended(_Strict):
    created: _Ms
    completed: _Ms


class _Path(_Strict):
    cwd: str
    root: str


class _Fault(_Strict):
    name: Literal[
        "ProviderAuthError",
        "UnknownError",
        "MessageOutputLengthError",
        "MessageAbortedError",
        "StructuredOutputError",
        "ContextOverflowError",
        "ContentFilterError",
        "APIError",
    ]
    data: _Object


class _Info(_Strict, tag_field="role"):
    id: _MessageId
    session_id: _SessionId


class _User(_Info, tag="user"):
    time: _Created
    agent: str
    model: _UserModel


class _Assistant(_Info, tag="assistant"):
    time: _Ended
    parent_id: _MessageId
    model_id: str
    provider_id: str
    mode: str
    agent: str
    path: _Path
    cost: float
    tokens: _Tokens
    summary: bool = False
    finish: str = ""
    error: _Fault | None = None


_AnyPart = _Text | _Reasoning | _File | _Tool | _StepStart | _StepFinish | _Compaction | _Patch | _Snapshot | _Agent


class _Message(_Strict):
    info: _User | _Assistant
    parts: list[_AnyPart]


class _SessionModel(_Strict):
    id: str
    provider_id: str


class _Updated(_Strict):
    created: _Ms
    updated: _Ms


class _Revert(_Strict):
    message_id: _MessageId


class _Session(_Strict):
    id: _SessionId
    slug: Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9-]+$")]
    project_id: str
    directory: str
    title: str
    version: str
    cost: float
    tokens: _Tokens
    time: _Updated
    model: _SessionModel | None = None
    revert: _Revert | None = None


class Export(_Strict):
    """A file for `opencode import`."""

    info: _Session
    messages: list[_Message]


_REQUIRED: dict[str, dict[str, type]] = {
    "APIError": {"message": str, "isRetryable": bool},
    "ProviderAuthError": {"message": str, "providerID": str},
    "StructuredOutputError": {"message": str, "retries": int},
    "MessageOutputLengthError": {},
}


def checked_export(content: bytes) -> Export:
    """Return a file for `opencode import` as it is decoded; fails if OpenCode would not take it, or would mix it up."""
    found = msgspec.json.decode(content, type=Export)
    stored = [(message.info.time.created, message.info.id) for message in found.messages]
    assert stored == sorted(stored), "OpenCode sorts messages by time and id"
    ids = [message.info.id for message in found.messages]
    for message in found.messages:
        parts = [part.id for part in message.parts]
        assert parts == sorted(parts), "OpenCode sorts parts by id"
        assert {part.message_id for part in message.parts} <= {message.info.id}
        ids += parts
        if isinstance(message.info, _Assistant):
            parent = next(each.info for each in found.messages if each.info.id == message.info.parent_id)
            assert isinstance(parent, _User)
            error = message.info.error
            for field, kind in _REQUIRED.get(error.name, {"message": str}).items() if error is not None else ():
                assert isinstance(error.data[field], kind), (error.name, field)
    assert len(ids) == len(set(ids))
    return found
