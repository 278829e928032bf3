"""Open tool calls: the rules of the decision table for one of them. The first rule that matches decides.

Rule 1 (law 6, never twice): where the log cannot prove that a tool has not started, it counts as started, and a tool
that may not be repeated is not run again.
Rule 2 (law 7, one result per open tool call): every rule leads to exactly one result, at once or after a person
decides.
Rule 3: a tool call from whose input redaction has removed a secret is not run: it would not do what was requested.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from wakelog.decide import wording
from wakelog.decide.decisions import AskPerson, Await, CheckReceipt, Decision, RunTools, SettleToolCall, Snapshot
from wakelog.decide.policy import Policy
from wakelog.log.content import Content, Prompt, Text, ToolResult, ToolStatus
from wakelog.log.entry import AttentionResolved, Cancelled, Entry, Message
from wakelog.log.integrity import is_intact_from
from wakelog.log.redaction_marks import REDACTION_MARK
from wakelog.log.tree import Branch
from wakelog.projections.pending import OpenToolCall


def has_redaction_mark(value: Any) -> bool:
    """Whether a tool input contains a redaction mark: running the tool with it would not do what was requested."""
    match value:
        case str():
            return REDACTION_MARK.search(value) is not None
        case dict():
            return any(has_redaction_mark(key) or has_redaction_mark(each) for key, each in value.items())
        case list() | tuple():
            return any(map(has_redaction_mark, value))
    return False


CallDecision: TypeAlias = Decision | Literal["waits"] | None


class ToolCallRule(msgspec.Struct, frozen=True):
    """A rule for one open tool call: its name, the texts of its two cells, and its function."""

    name: str
    when: str
    then: str
    decide: Callable[[Snapshot, OpenToolCall], CallDecision]


def decide_open_tool_calls(snapshot: Snapshot) -> tuple[str, Decision] | None:
    """Return rule name and decision for the open tool calls: wait only if none can proceed. None if none is open."""
    runs: list[tuple[str, OpenToolCall]] = []
    waits: list[str] = []
    for call in snapshot.pending.open_tool_calls:
        row, judgement = _decide_call(snapshot, call)
        if judgement == "waits":
            waits.append(call.question_id or "")
        elif isinstance(judgement, RunTools):
            runs.append((row, call))
        elif judgement is not None:
            return row, judgement
    if runs:
        return runs[0][0], RunTools(tuple(call for _, call in runs))
    return ("call waits", Await(attention=tuple(waits))) if waits else None


def _decide_call(snapshot: Snapshot, open_call: OpenToolCall) -> tuple[str, CallDecision]:
    for row in TOOL_CALL_RULES:
        judgement = row.decide(snapshot, open_call)
        if judgement is not None:
            return row.name, judgement
    raise AssertionError("the last rule matches every open tool call")


def _not_own(snapshot: Snapshot, open_call: OpenToolCall) -> CallDecision:
    after = _nodes_after(snapshot.branch, open_call.reply_id)
    if any(isinstance(node.value, Cancelled) for node in after):
        why = wording.SKIPPED_CANCELLED
    elif not open_call.is_own:
        why = wording.SKIPPED_FOREIGN
    elif any(isinstance(node.value, Message) and isinstance(node.value.message, Prompt) for node in after):
        why = wording.SKIPPED_NEW_MESSAGE
    else:
        return None
    if open_call.starts or open_call.child_session:
        return _settle(open_call, "interrupted", wording.INTERRUPTED)
    if not _is_proven_unstarted(snapshot, open_call):
        return _settle(open_call, "unknown", wording.UNKNOWN_RECORDED if open_call.made_elsewhere else wording.UNKNOWN)
    return _settle(open_call, "skipped", why)


def _is_proven_unstarted(snapshot: Snapshot, open_call: OpenToolCall) -> bool:
    """Whether the log would show a start of the tool: a model call in it made the reply, and no entry after is lost."""
    if open_call.made_elsewhere or open_call.start_may_be_lost:
        return False
    if snapshot.tree.is_inherited(open_call.reply_id):
        return not any(hole.session for hole in snapshot.branch.holes)
    return not _start_may_be_lost(snapshot, snapshot.tree.nodes[open_call.reply_id])


def settle_unrun(snapshot: Snapshot, open_call: OpenToolCall) -> ToolResult:
    """Return the result of an open tool call of a program that stopped. Nothing is run and no person is asked.

    A result on another branch is copied. A tool that was started is `interrupted`. One that was not is `skipped` only
    if the log proves it, else `unknown`.
    """
    copied = _result_elsewhere(snapshot, open_call)
    if isinstance(copied, SettleToolCall):
        return copied.result
    if open_call.starts or open_call.child_session:
        settled = _settle(open_call, "interrupted", wording.INTERRUPTED)
    elif not _is_proven_unstarted(snapshot, open_call):
        why = wording.UNKNOWN_RECORDED if open_call.made_elsewhere else wording.UNKNOWN
        settled = _settle(open_call, "unknown", why)
    else:
        settled = _settle(open_call, "skipped", wording.NOT_BEGUN_BEFORE_STOP)
    return settled.result


def settle_unknown(open_call: OpenToolCall, text: str) -> ToolResult:
    """Return the result of a tool call whose outcome is unknown, with what it had put out."""
    return _settle(open_call, "unknown", text).result


def _result_elsewhere(snapshot: Snapshot, open_call: OpenToolCall) -> CallDecision:
    for node in snapshot.tree.own_nodes():
        match node.value:
            case Message(
                message=ToolResult(reply_id=open_call.reply_id, tool_call_id=open_call.tool_call.id) as result
            ):
                return SettleToolCall(
                    open_call, msgspec.structs.replace(result, status=result.effective_status, copied_from=node.id)
                )
    return None


def _redacted(snapshot: Snapshot, open_call: OpenToolCall) -> CallDecision:
    is_lost = (
        snapshot.policy.redacts and not open_call.may_have_started and has_redaction_mark(open_call.tool_call.input)
    )
    return _settle(open_call, "denied", wording.REDACTED) if is_lost else None


def _decided(snapshot: Snapshot, open_call: OpenToolCall) -> CallDecision:
    entry = next(
        (annotation for annotation in snapshot.branch.annotations if annotation.id == open_call.decision_id), None
    )
    annotation = entry.value if entry is not None else None
    if entry is None or not isinstance(annotation, AttentionResolved):
        return None
    if annotation.result is not None:
        return SettleToolCall(open_call, tool_result(open_call, "ok", annotation.result))
    match annotation.decision:
        case "approve" | "run again":
            return (
                decide_unknown(open_call, snapshot.policy)
                if _start_may_be_lost(snapshot, entry)
                else RunTools((open_call,))
            )
        case "ran":
            return _settle(open_call, "ok", wording.RAN)
        case "did not run":
            return _settle(open_call, "skipped", wording.DID_NOT_RUN)
    return _settle(open_call, "denied", wording.DENIED_BY_PERSON)


def _waiting(_: Snapshot, open_call: OpenToolCall) -> CallDecision:
    return "waits" if open_call.question_id is not None else None


def _child(_: Snapshot, open_call: OpenToolCall) -> CallDecision:
    return RunTools((open_call,)) if open_call.child_session is not None else None


def _unknown(snapshot: Snapshot, open_call: OpenToolCall) -> CallDecision:
    reply = snapshot.tree.nodes[open_call.reply_id]
    if open_call.starts:
        is_unknown = open_call.start_may_be_lost or open_call.replay == "never"
    else:
        is_unknown = open_call.start_may_be_lost or _start_may_be_lost(snapshot, reply)
    return decide_unknown(open_call, snapshot.policy) if is_unknown else None


def _start_may_be_lost(snapshot: Snapshot, since: Entry) -> bool:
    """Whether a `tool_started` entry after `since` may be lost: the log from there on is damaged or its seals break."""
    return since.offset < snapshot.branch.last_loss_offset or not is_intact_from(snapshot.tree.own_entries(), since.id)


def decide_unknown(open_call: OpenToolCall, policy: Policy) -> AskPerson | SettleToolCall:
    """Decide a tool call whose outcome is unknown and that may not run twice: ask a person, or settle as unknown."""
    return (
        AskPerson(open_call, "unknown") if policy.unknown == "ask" else _settle(open_call, "unknown", wording.UNKNOWN)
    )


def _receipt(_: Snapshot, open_call: OpenToolCall) -> CallDecision:
    return CheckReceipt(open_call) if open_call.starts and open_call.replay == "receipt" else None


def _safe(snapshot: Snapshot, open_call: OpenToolCall) -> CallDecision:
    if not open_call.starts:
        return None
    if open_call.starts >= snapshot.policy.attempts_max:
        return _settle(open_call, "error", wording.TOO_MANY_ATTEMPTS.format(attempts=open_call.starts))
    return RunTools((open_call,))


def _not_started(snapshot: Snapshot, open_call: OpenToolCall) -> CallDecision:
    agreed = snapshot.policy.approval_of(open_call.tool_call.name)
    if agreed == "deny":
        return _settle(open_call, "denied", wording.DENIED)
    return AskPerson(open_call, "approve") if agreed == "ask" or open_call.rerun else RunTools((open_call,))


def _settle(open_call: OpenToolCall, status: ToolStatus, text: str) -> SettleToolCall:
    full_text = text + wording.OUTPUT_SO_FAR.format(shown=open_call.output) if open_call.output else text
    result, output_blob = tool_result(open_call, status, (Text(text=full_text),)), open_call.output_blob
    return SettleToolCall(
        open_call, msgspec.structs.replace(result, truncated=output_blob is not None, blob=output_blob)
    )


def tool_result(open_call: OpenToolCall, status: ToolStatus, content: Content) -> ToolResult:
    """Build the result of an open tool call."""
    return ToolResult(
        tool_call_id=open_call.tool_call.id,
        tool_name=open_call.tool_call.name,
        reply_id=open_call.reply_id,
        status=status,
        is_error=status != "ok",
        content=content,
    )


def _nodes_after(branch: Branch, node_id: str) -> tuple[Entry, ...]:
    for at in range(len(branch.nodes) - 1, -1, -1):
        if branch.nodes[at].id == node_id:
            return branch.nodes[at + 1 :]
    return ()


TOOL_CALL_RULES = (
    ToolCallRule(
        "call not ours",
        "no model call of this session made it, or its turn was cancelled, or a later prompt follows it",
        "SettleToolCall: interrupted if started, skipped if the log proves that it was not, else unknown; never run",
        _not_own,
    ),
    ToolCallRule(
        "call copied", "has a result on another branch", "SettleToolCall with a copy of that result", _result_elsewhere
    ),
    ToolCallRule(
        "call redacted",
        "a secret was redacted in its input, and it was not started",
        "SettleToolCall (denied); never run",
        _redacted,
    ),
    ToolCallRule(
        "call decided", "a person has decided about it", "RunTools, or SettleToolCall with the decision", _decided
    ),
    ToolCallRule("call waits", "has an open question to a person", "wait", _waiting),
    ToolCallRule(
        "call child",
        "has a child session",
        "RunTools wakes the child; the result is its last reply; wait while it waits or another worker runs it",
        _child,
    ),
    ToolCallRule(
        "call unknown",
        "was started and may not run twice; or the log after it is damaged",
        "unknown = tell: SettleToolCall (unknown); unknown = ask: AskPerson, whose decision becomes the result",
        _unknown,
    ),
    ToolCallRule(
        "call receipt",
        "was started, and its tool has receipts",
        "CheckReceipt: done → its result; not started → RunTools; not known → as a call that may not run twice",
        _receipt,
    ),
    ToolCallRule(
        "call safe",
        "was started, and may be repeated",
        "RunTools again; after attempts_max starts SettleToolCall (error)",
        _safe,
    ),
    ToolCallRule(
        "call new",
        "was not started",
        "approval deny: SettleToolCall (denied); ask: AskPerson; auto: RunTools; unknown tool: SettleToolCall (error)",
        _not_started,
    ),
)
