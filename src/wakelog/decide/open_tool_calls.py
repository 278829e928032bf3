"""Open tool calls: the rules of the decision table for one of them. The first rule that matches decides.

Rule 1 (law 6, never twice): where the log cannot prove that a tool has not started, it counts as started, and a tool
that may not be repeated is not run again.
Rule 2 (law 7, one result per open tool call): every rule leads to exactly one result, at once or after a person
decides.
Rule 3: a tool call from whose input redaction has removed a secret is not run: it would not do what was requested. One
in which the model quotes a mark that it has read runs only if the tool is declared to understand marks.
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
from wakelog.log.tree import Branch, Tree
from wakelog.projections.pending import OpenToolCall


def has_redaction_mark(value: Any) -> bool:
    """Whether a JSON value contains a redaction mark: used as it is, it would not do what was requested."""
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
        skipped = wording.SKIPPED_CANCELLED
    elif not open_call.is_own:
        skipped = wording.SKIPPED_FOREIGN
    elif any(isinstance(node.value, Message) and isinstance(node.value.message, Prompt) for node in after):
        skipped = wording.SKIPPED_NEW_MESSAGE
    else:
        return None
    return SettleToolCall(open_call, settle_unrun(snapshot.tree, snapshot.branch, open_call, skipped=skipped))


def settle_unrun(
    tree: Tree, branch: Branch, open_call: OpenToolCall, *, skipped: str, started: str = wording.UNKNOWN
) -> ToolResult:
    """Return the result of an open tool call that is not run any more, from the log alone.

    The runtime, the recovery of recorded sessions and forks use it, so the same log gives the same status. It is the
    result on another branch, or what a person has decided. Else it is `unknown` where entries after the call may be
    lost, and where the tool was started: only the process that stops a tool writes `interrupted`. It is `skipped`
    (with the text `skipped`) only if the log proves that the tool was not started.
    """
    decision = _decision(branch, open_call)
    known = _result_elsewhere(tree, open_call) or (_decided_result(decision, open_call) if decision else None)
    if known is not None:
        return known
    if _may_lack_entries(tree, branch, open_call):
        return _result(open_call, "unknown", wording.UNKNOWN_DAMAGED)
    if open_call.starts:
        return _result(open_call, "unknown", started)
    if open_call.child_session is not None:
        # Whatever settles the call cancels the sub-agent.
        return _result(open_call, "interrupted", wording.INTERRUPTED)
    if open_call.made_elsewhere:
        return _result(open_call, "unknown", wording.UNKNOWN_RECORDED)
    return _result(open_call, "skipped", skipped)


def settle_stopped(open_call: OpenToolCall) -> ToolResult:
    """Return the result of a tool call whose tool this process has stopped, with what it had put out."""
    return _result(open_call, "interrupted", wording.INTERRUPTED)


def settle_unknown(open_call: OpenToolCall, text: str) -> ToolResult:
    """Return the result of a tool call whose outcome is unknown, with what it had put out."""
    return _result(open_call, "unknown", text)


def _may_lack_entries(tree: Tree, branch: Branch, open_call: OpenToolCall) -> bool:
    """Whether an entry after the reply may be lost: the start of the tool, or its result."""
    if tree.is_inherited(open_call.reply_id):
        return any(hole.session for hole in branch.holes)
    return _is_damaged_after(tree, tree.nodes[open_call.reply_id])


def _is_damaged_after(tree: Tree, since: Entry) -> bool:
    """Whether the log from an entry on has lost lines or broken seals."""
    return since.offset < tree.last_loss_offset or not is_intact_from(tree.own_entries(), since.id)


def _result_elsewhere(tree: Tree, open_call: OpenToolCall) -> ToolResult | None:
    for node in tree.own_nodes():
        match node.value:
            case Message(
                message=ToolResult(reply_id=open_call.reply_id, tool_call_id=open_call.tool_call.id) as result
            ):
                return msgspec.structs.replace(result, status=result.effective_status, copied_from=node.id)
    return None


def _copied(snapshot: Snapshot, open_call: OpenToolCall) -> CallDecision:
    result = _result_elsewhere(snapshot.tree, open_call)
    return SettleToolCall(open_call, result) if result is not None else None


def _redacted(snapshot: Snapshot, open_call: OpenToolCall) -> CallDecision:
    call = open_call.tool_call
    if open_call.may_have_started:
        return None
    if call.redacted:
        return _settle(open_call, "denied", wording.REDACTED)
    if not snapshot.policy.redacts or not has_redaction_mark(call.input):
        return None
    accepts_marks = snapshot.tools.accepts_marks(snapshot.state.context, call.name)
    return None if accepts_marks else _settle(open_call, "denied", wording.QUOTED_MARK)


def _unapprovable(snapshot: Snapshot, open_call: OpenToolCall) -> CallDecision:
    if open_call.may_have_started:
        return None
    fault = snapshot.tools.approvals_fault(snapshot.state.context, snapshot.policy)
    return _settle(open_call, "denied", wording.UNKNOWN_APPROVALS.format(fault=fault)) if fault else None


def _decided(snapshot: Snapshot, open_call: OpenToolCall) -> CallDecision:
    decision = _decision(snapshot.branch, open_call)
    if decision is None:
        return None
    result = _decided_result(decision, open_call)
    if result is not None:
        return SettleToolCall(open_call, result)
    is_lost = _is_damaged_after(snapshot.tree, decision)
    return decide_unknown(open_call, snapshot.policy, wording.UNKNOWN_DAMAGED) if is_lost else RunTools((open_call,))


def _decision(branch: Branch, open_call: OpenToolCall) -> Entry | None:
    """Return the entry with a person's decision about a tool call; None if there is none."""
    return next((annotation for annotation in branch.annotations if annotation.id == open_call.decision_id), None)


def _decided_result(decision: Entry, open_call: OpenToolCall) -> ToolResult | None:
    """Return the result that a decision gives a tool call; None if the tool is to run."""
    assert isinstance(decision.value, AttentionResolved)
    if decision.value.result is not None:
        return tool_result(open_call, "ok", decision.value.result)
    match decision.value.decision:
        case "approve" | "run again":
            return None
        case "ran":
            return _result(open_call, "ok", wording.RAN)
        case "did not run":
            return _result(open_call, "skipped", wording.DID_NOT_RUN)
    return _result(open_call, "denied", wording.DENIED_BY_PERSON)


def _waiting(_: Snapshot, open_call: OpenToolCall) -> CallDecision:
    return "waits" if open_call.question_id is not None else None


def _child(_: Snapshot, open_call: OpenToolCall) -> CallDecision:
    return RunTools((open_call,)) if open_call.child_session is not None else None


def _unknown(snapshot: Snapshot, open_call: OpenToolCall) -> CallDecision:
    if _may_lack_entries(snapshot.tree, snapshot.branch, open_call):
        return decide_unknown(open_call, snapshot.policy, wording.UNKNOWN_DAMAGED)
    is_unknown = open_call.starts > 0 and open_call.replay == "never"
    return decide_unknown(open_call, snapshot.policy) if is_unknown else None


def decide_unknown(open_call: OpenToolCall, policy: Policy, text: str = wording.UNKNOWN) -> AskPerson | SettleToolCall:
    """Decide a tool call whose outcome is unknown and that may not run twice: ask a person, or settle as unknown."""
    if policy.unknown == "ask":
        return AskPerson(open_call, "unknown")
    return SettleToolCall(open_call, settle_unknown(open_call, text))


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
    return SettleToolCall(open_call, _result(open_call, status, text))


def _result(open_call: OpenToolCall, status: ToolStatus, text: str) -> ToolResult:
    """Return a result with a text of this program, followed by what the tool had put out."""
    full_text = text + wording.OUTPUT_SO_FAR.format(shown=open_call.output) if open_call.output else text
    result, output_blob = tool_result(open_call, status, (Text(text=full_text),)), open_call.output_blob
    return msgspec.structs.replace(result, truncated=output_blob is not None, blob=output_blob)


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
        "SettleToolCall: its result on another branch, or a person's decision; else skipped if the log proves that it "
        "was not started, interrupted if it has a child session, which is cancelled, else unknown; never run",
        _not_own,
    ),
    ToolCallRule("call copied", "has a result on another branch", "SettleToolCall with a copy of that result", _copied),
    ToolCallRule(
        "call redacted",
        "was not started, and a secret was redacted in its input, or the input quotes a redaction mark and the tool is "
        "not declared to accept marks",
        "SettleToolCall (denied); never run",
        _redacted,
    ),
    ToolCallRule(
        "call unapprovable",
        "was not started, and the policy names a tool in `approvals` that does not exist",
        "SettleToolCall (denied); the rule `approvals` then ends the turn",
        _unapprovable,
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
