"""The decision table: every case decides what was written down by hand, read as a whole and from its end."""

import json
from pathlib import Path

import pytest

from tests.laws.logs import store_of
from wakelog.decide.decisions import (
    AskAboutDamage,
    AskPerson,
    Await,
    CallModel,
    CancelTurn,
    CheckReceipt,
    Compact,
    Deliver,
    FailTurn,
    Idle,
    RecoverReply,
    ReportDamage,
    ReportOutcomes,
    RunTools,
    SettleToolCall,
    TakeQueued,
)
from wakelog.decide.open_tool_calls import TOOL_CALL_RULES
from wakelog.decide.table import DECISION_RULES, decide
from wakelog.log.timestamps import parse_ms
from wakelog.reading import read_active, read_log
from wakelog.runtime.tool_declarations import ToolDeclarations
from wakelog.stores.memory import MemoryStore

CASES = sorted((Path(__file__).parent.parent / "cases").glob("*.jsonl"))
ATTACHED = frozenset({"terminal"})


def _wait(decision, now_ms):
    if decision.until_ms is not None:
        return {"do": "Await", "delayMs": decision.until_ms - now_ms}
    return {"do": "Await", "attention": decision.attention[0]}


def _settle(decision):
    found = {"do": "SettleToolCall", "call": decision.open_call.tool_call.id}
    if decision.result.copied_from:
        return {**found, "copy": decision.result.copied_from}
    if decision.open_call.decision_id:
        return {**found, "decided": decision.open_call.decision_id}
    return {**found, "status": decision.result.status}


def _run(decision):
    call = decision.open_calls[0]
    if call.child_session:
        return {"do": "WakeChild", "session": call.child_session}
    found = {"do": "RunTools", "call": call.tool_call.id, "attempt": call.starts + 1}
    also = [other.tool_call.id for other in decision.open_calls[1:]]
    return {**found, "also": also} if also else found


def shown(decision, now_ms):
    """Return a decision in the short form of the case table."""
    match decision:
        case Idle(outcome):
            return {"do": "Idle", "failed": True} if outcome == "failed" else {"do": "Idle"}
        case Await():
            return _wait(decision, now_ms)
        case SettleToolCall():
            return _settle(decision)
        case RunTools():
            return _run(decision)
        case Deliver(reply, channel):
            return {"do": "Deliver", "reply": reply, "channel": channel}
        case ReportDamage(losses, answer):
            found = {"do": "ReportDamage", "tools": [tool.name for tool in losses.tools]}
            return found if answer is None else {**found, "decided": answer.decision}
        case AskAboutDamage(losses):
            return {"do": "AskAboutDamage", "tools": [tool.name for tool in losses.tools]}
        case ReportOutcomes(answered):
            return {"do": "ReportOutcomes", "answers": [outcome.answer_id for outcome in answered]}
        case AskPerson(call, reason):
            return {"do": "AskPerson", "call": call.tool_call.id, "reason": reason}
        case CheckReceipt(call):
            return {"do": "CheckReceipt", "call": call.tool_call.id}
        case TakeQueued(queued) | CancelTurn(queued):
            return {"do": type(decision).__name__, "queued": queued.id}
        case RecoverReply(reply, strategy):
            return {"do": strategy.capitalize(), "reply": reply}
        case Compact(first_kept):
            return {"do": "Compact", "firstKept": first_kept}
        case FailTurn(reason):
            return {"do": "FailTurn", "reason": reason}
        case CallModel(strategy):
            return {"do": "CallModel"} if strategy == "full" else {"do": "CallModel", "strategy": strategy}


def _expected(path):
    return json.loads(path.with_suffix(".json").read_text())["decision"]


class _NamedTools(ToolDeclarations):
    """The tools that a case names: its log has no blob with declarations. A case without the key declares none."""

    def __init__(self, path):
        super().__init__(MemoryStore().blobs)
        self._declared = json.loads(path.with_suffix(".json").read_text()).get("tools")

    def of(self, context):
        return self._declared or []

    def approvals_fault(self, context, policy):
        return "" if self._declared is None else super().approvals_fault(context, policy)


def _decided(path, read):
    log = read(store_of(path.read_bytes()), "s")
    last = max((entry.value.timestamp for entry in log.entries), default="")
    now_ms = parse_ms(last) or 0
    return decide(log.tree, now_ms, ATTACHED, tools=_NamedTools(path)), now_ms


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
@pytest.mark.parametrize("read", [read_log, read_active], ids=["whole", "tail"])
def test_case(path, read):
    """RUN-4, law 15: the next action, from the log alone."""
    verdict, now_ms = _decided(path, read)
    assert shown(verdict.decision, now_ms) == _expected(path)


def test_every_row_has_a_case():
    """RUN-4: every row of the table is used by the log of a case."""
    taken = {_decided(path, read_log)[0].rule for path in CASES}
    rows = {row.name for row in (*DECISION_RULES, *TOOL_CALL_RULES)} - {"open calls"}
    assert rows - taken == set()
