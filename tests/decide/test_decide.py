"""The decision table: every case decides as it was written down by hand, however the log is read."""

import json
from pathlib import Path

import pytest

from tests.laws.logs import store_of
from wakelog.decide.decisions import (
    Ask,
    AskAboutDamage,
    Await,
    Cancel,
    Compact,
    Deliver,
    Fail,
    Inquire,
    Raise,
    RecoverReply,
    Rest,
    Run,
    Settle,
    TakeUp,
    TellDamage,
)
from wakelog.decide.open_tool_calls import CALL_ROWS
from wakelog.decide.table import ROWS, decide
from wakelog.log.times import parse_ms
from wakelog.reading import read_active, read_log

CASES = sorted((Path(__file__).parent.parent / "cases").glob("*.jsonl"))
ATTACHED = frozenset({"terminal"})


def _wait(decision, now_ms):
    if decision.until_ms is not None:
        return {"do": "Await", "delayMs": decision.until_ms - now_ms}
    return {"do": "Await", "attention": decision.attention[0]}


def _settle(decision):
    found = {"do": "Settle", "call": decision.call.call.id}
    if decision.result.copied_from:
        return {**found, "copy": decision.result.copied_from}
    if decision.call.decided:
        return {**found, "decided": decision.call.decided}
    return {**found, "status": decision.result.status}


def _run(decision):
    call = decision.calls[0]
    if call.child:
        return {"do": "WakeChild", "session": call.child}
    found = {"do": "Run", "call": call.call.id, "attempt": call.started + 1}
    also = [other.call.id for other in decision.calls[1:]]
    return {**found, "also": also} if also else found


def shown(decision, now_ms):
    """A decision in the short words of the case table."""
    match decision:
        case Rest(outcome):
            return {"do": "Rest", "failed": True} if outcome == "failed" else {"do": "Rest"}
        case Await():
            return _wait(decision, now_ms)
        case Settle():
            return _settle(decision)
        case Run():
            return _run(decision)
        case Deliver(reply, channel):
            return {"do": "Deliver", "reply": reply, "channel": channel}
        case TellDamage(losses, answer):
            found = {"do": "TellDamage", "tools": [tool.name for tool in losses.tools]}
            return found if answer is None else {**found, "decided": answer.decision}
        case AskAboutDamage(losses):
            return {"do": "AskAboutDamage", "tools": [tool.name for tool in losses.tools]}
        case Raise(call, reason):
            return {"do": "Raise", "call": call.call.id, "reason": reason}
        case Inquire(call):
            return {"do": "Inquire", "call": call.call.id}
        case TakeUp(queued) | Cancel(queued):
            return {"do": type(decision).__name__, "queued": queued.id}
        case RecoverReply(reply, strategy):
            return {"do": strategy.capitalize(), "reply": reply}
        case Compact(first_kept):
            return {"do": "Compact", "firstKept": first_kept}
        case Fail(reason):
            return {"do": "Fail", "reason": reason}
        case Ask(strategy):
            return {"do": "Ask"} if strategy == "full" else {"do": "Ask", "strategy": strategy}


def _expected(path):
    return json.loads(path.with_suffix(".json").read_text())["decision"]


def _decided(path, read):
    log = read(store_of(path.read_bytes()), "s")
    last = max((entry.value.timestamp for entry in log.entries), default="")
    now_ms = parse_ms(last) or 0
    return decide(log.tree, now_ms, ATTACHED), now_ms


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
@pytest.mark.parametrize("read", [read_log, read_active], ids=["whole", "tail"])
def test_case(path, read):
    """RUN-4, law 15: what is to be done next, from the log alone."""
    verdict, now_ms = _decided(path, read)
    assert shown(verdict.decision, now_ms) == _expected(path)


def test_every_row_has_a_case():
    """RUN-4: no row of the table stands there without a log that takes it."""
    taken = {_decided(path, read_log)[0].row for path in CASES}
    rows = {row.name for row in (*ROWS, *CALL_ROWS)} - {"open calls"}
    assert rows - taken == set()
