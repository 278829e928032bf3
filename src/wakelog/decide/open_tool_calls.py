"""Open tool calls: the rows of the decision table that judge one of them. The first row that matches decides.

Rule 1 (law 6, never twice): where the log cannot prove that a tool has not started, it counts as started, and a tool
that may not be repeated is not run again.
Rule 2 (law 7, one result per open tool call): every row leads to exactly one result, at once or after a person decides.
"""

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from wakelog.decide import wording as words
from wakelog.decide.decisions import Await, Decision, Inquire, Raise, Run, Settle
from wakelog.decide.policy import Policy
from wakelog.decide.redacted import holds_mark
from wakelog.decide.snapshot import Snapshot
from wakelog.log.content import Content, Prompt, Settlement, Text, ToolResult
from wakelog.log.entry import AttentionResolved, Cancelled, Entry, Message
from wakelog.log.proof import holds_from
from wakelog.log.tree import Branch
from wakelog.projections.pending import OpenCall

Judgement: TypeAlias = Decision | Literal["waits"] | None


class CallRow(msgspec.Struct, frozen=True):
    """A row that judges one open tool call: its name, the texts of its two cells, and its function."""

    name: str
    when: str
    then: str
    judge: Callable[[Snapshot, OpenCall], Judgement]


def judge_open_calls(snapshot: Snapshot) -> tuple[str, Decision] | None:
    """Return the row and decision for the open tool calls: wait only if none can proceed. None if none is open."""
    runs: list[tuple[str, OpenCall]] = []
    waits: list[str] = []
    for call in snapshot.open.open_calls:
        row, judgement = _judge(snapshot, call)
        if judgement == "waits":
            waits.append(call.waits or "")
        elif isinstance(judgement, Run):
            runs.append((row, call))
        elif judgement is not None:
            return row, judgement
    if runs:
        return runs[0][0], Run(tuple(call for _, call in runs))
    return ("call waits", Await(attention=tuple(waits))) if waits else None


def _judge(snapshot: Snapshot, call: OpenCall) -> tuple[str, Judgement]:
    for row in CALL_ROWS:
        judgement = row.judge(snapshot, call)
        if judgement is not None:
            return row.name, judgement
    raise AssertionError("the last row fits every open call")


def _not_ours(snapshot: Snapshot, call: OpenCall) -> Judgement:
    after = _nodes_after(snapshot.branch, call.reply_id)
    if any(isinstance(node.value, Cancelled) for node in after):
        why = words.SKIPPED_CANCELLED
    elif not call.ours:
        why = words.SKIPPED_FOREIGN
    elif any(isinstance(node.value, Message) and isinstance(node.value.message, Prompt) for node in after):
        why = words.SKIPPED_OVERTAKEN
    else:
        return None
    if call.started or call.child or (call.doubtful and snapshot.rules < 2):
        return _settle(call, "interrupted", words.INTERRUPTED)
    if snapshot.rules >= 2 and not _is_proven_unstarted(snapshot, call):
        return _settle(call, "unknown", words.UNKNOWN_RECORDED if call.recorded else words.UNKNOWN)
    return _settle(call, "skipped", why)


def _is_proven_unstarted(snapshot: Snapshot, call: OpenCall) -> bool:
    """Whether the log would show a start of the tool: a model call in it made the reply, and no entry after is lost."""
    if call.recorded or call.doubtful:
        return False
    if snapshot.tree.is_inherited(call.reply_id):
        return not any(hole.session for hole in snapshot.branch.holes)
    return not _may_have_begun(snapshot, snapshot.tree.nodes[call.reply_id])


def _result_elsewhere(snapshot: Snapshot, call: OpenCall) -> Judgement:
    for node in snapshot.tree.own_nodes():
        match node.value:
            case Message(message=ToolResult(reply_id=call.reply_id, tool_call_id=call.call.id) as result):
                return Settle(call, msgspec.structs.replace(result, status=result.settled, copied_from=node.id))
    return None


def _redacted(snapshot: Snapshot, call: OpenCall) -> Judgement:
    is_lost = snapshot.policy.redacts and not call.begun and holds_mark(call.call.input)
    return _settle(call, "denied", words.REDACTED) if is_lost else None


def _decided(snapshot: Snapshot, call: OpenCall) -> Judgement:
    entry = next((annotation for annotation in snapshot.branch.annotations if annotation.id == call.decided), None)
    annotation = entry.value if entry is not None else None
    if entry is None or not isinstance(annotation, AttentionResolved):
        return None
    if annotation.result is not None:
        return Settle(call, settled(call, "ok", annotation.result))
    match annotation.decision:
        case "approve" | "run again":
            return unknown(call, snapshot.policy) if _may_have_begun(snapshot, entry) else Run((call,))
        case "ran":
            return _settle(call, "ok", words.RAN)
        case "did not run":
            return _settle(call, "skipped", words.DID_NOT_RUN)
    return _settle(call, "denied", words.DENIED_BY_PERSON)


def _asked(_: Snapshot, call: OpenCall) -> Judgement:
    return "waits" if call.waits is not None else None


def _child(_: Snapshot, call: OpenCall) -> Judgement:
    return Run((call,)) if call.child is not None else None


def _unknown(snapshot: Snapshot, call: OpenCall) -> Judgement:
    reply = snapshot.tree.nodes[call.reply_id]
    if call.started:
        is_unknown = call.doubtful or call.replay == "never"
    else:
        is_unknown = call.doubtful or _may_have_begun(snapshot, reply)
    return unknown(call, snapshot.policy) if is_unknown else None


def _may_have_begun(snapshot: Snapshot, since: Entry) -> bool:
    """Whether a `tool_started` entry after `since` may be lost: the log from there on is damaged or its seals break."""
    return since.offset < snapshot.branch.last_loss_offset or not holds_from(snapshot.tree.own(), since.id)


def unknown(call: OpenCall, policy: Policy) -> Raise | Settle:
    """Decide a tool call whose outcome is unknown and that may not run twice: ask a person, or settle as unknown."""
    return Raise(call, "unknown") if policy.unknown == "ask" else _settle(call, "unknown", words.UNKNOWN)


def _receipt(_: Snapshot, call: OpenCall) -> Judgement:
    return Inquire(call) if call.started and call.replay == "receipt" else None


def _safe(snapshot: Snapshot, call: OpenCall) -> Judgement:
    if not call.started:
        return None
    if call.started >= snapshot.policy.attempts_max:
        return _settle(call, "error", words.TOO_OFTEN.format(attempts=call.started))
    return Run((call,))


def _new(snapshot: Snapshot, call: OpenCall) -> Judgement:
    agreed = snapshot.policy.approval_of(call.call.name)
    if agreed == "deny":
        return _settle(call, "denied", words.DENIED)
    return Raise(call, "approve") if agreed == "ask" or call.rerun else Run((call,))


def _settle(call: OpenCall, status: Settlement, text: str) -> Settle:
    said = text + words.SHOWN.format(shown=call.shown) if call.shown else text
    result, whole = settled(call, status, (Text(text=said),)), call.shown_blob
    return Settle(call, msgspec.structs.replace(result, truncated=whole is not None, blob=whole))


def settled(call: OpenCall, status: Settlement, content: Content) -> ToolResult:
    """Build the result of an open tool call."""
    return ToolResult(
        tool_call_id=call.call.id,
        tool_name=call.call.name,
        reply_id=call.reply_id,
        status=status,
        is_error=status != "ok",
        content=content,
    )


def _nodes_after(branch: Branch, node_id: str) -> tuple[Entry, ...]:
    for at in range(len(branch.nodes) - 1, -1, -1):
        if branch.nodes[at].id == node_id:
            return branch.nodes[at + 1 :]
    return ()


CALL_ROWS = (
    CallRow(
        "call not ours",
        "not made by a call of this session, or its turn was cancelled, or a later prompt stands after it",
        "Settle: begun → interrupted; the log proves that it never began → skipped; else unknown. It is never run",
        _not_ours,
    ),
    CallRow(
        "call copied", "its result stands on another branch", "Settle with a copy that names it", _result_elsewhere
    ),
    CallRow(
        "call redacted",
        "a secret was taken out of its input, and it is not begun",
        "Settle(denied); it is never run",
        _redacted,
    ),
    CallRow("call decided", "a person has decided about it", "Run, or Settle with what was decided", _decided),
    CallRow("call waits", "waits for a person", "wait", _asked),
    CallRow(
        "call child",
        "has a child session",
        "wake the child: at rest, its last reply is the result; waiting or held by another: wait",
        _child,
    ),
    CallRow(
        "call unknown",
        "begun, and may never be replayed; or damage lies behind it",
        "policy tell: Settle(unknown); policy ask: attention, and the decision becomes the one result",
        _unknown,
    ),
    CallRow(
        "call receipt",
        "begun, with receipts",
        "ask the tool: done → Settle with that; not begun → Run; cannot say → as one that may never be replayed",
        _receipt,
    ),
    CallRow("call safe", "begun, safe", "Run, one attempt more; above attempts_max Settle(error)", _safe),
    CallRow(
        "call new",
        "not begun",
        "policy deny: Settle(denied); ask: attention; auto: Run; no such tool: Settle(error)",
        _new,
    ),
)
