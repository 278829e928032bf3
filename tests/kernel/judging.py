"""What must hold for every session of a store at the end, however often its worker was killed."""

import asyncio
from collections import Counter

from tests.kernel.outside import held
from wakelog.decide.decisions import Idle
from wakelog.decide.table import decide
from wakelog.log.content import Reply, ToolResult
from wakelog.log.entry import Message, Sent
from wakelog.log.integrity import verify_seals
from wakelog.projections.pending import open_tool_calls
from wakelog.reading import read_log
from wakelog.runtime.replay.verification import replay


def judge(store, outside, acknowledged=(), *, channel="outbox", delivered=("s",)):
    """Assert all of it; `delivered` are the sessions whose replies go to the channel."""
    everything = set()
    for stat in list(store.sessions()):
        log = read_log(store, stat.name)
        everything |= {entry.id for entry in log.entries}
        assert log.damage == (), log.damage
        proof = verify_seals(store.load(stat.name))
        assert not proof.broken
        assert not proof.unsealed
        assert isinstance(decide(log.tree, 1 << 45, frozenset({channel})).decision, Idle)
        _each_call_has_one_result(log)
        if log.id in delivered:
            _every_reply_was_delivered(log, outside, channel)
    _every_shown_reply_was_closed(outside)
    lost = set(acknowledged) - everything
    assert not lost, f"acknowledged and lost: {lost}"
    _tools_ran_as_they_may(store, outside)
    for stat in list(store.sessions()):
        again = asyncio.run(replay(store, stat.name))
        assert again.ok, (
            stat.name,
            again.reason,
            again.divergence and (again.divergence.recorded, again.divergence.written),
        )


def _each_call_has_one_result(log):
    for leaf in (log.tree.head, *log.tree.leaves()):
        branch = log.tree.branch(leaf)
        results = Counter(
            (node.value.message.reply_id, node.value.message.tool_call_id)
            for node in branch.nodes
            if isinstance(node.value, Message) and isinstance(node.value.message, ToolResult)
        )
        assert all(count == 1 for count in results.values()), results
    assert open_tool_calls(log.tree.branch()) == ()


def _every_reply_was_delivered(log, outside, channel):
    texts = held(outside.events)
    ended = {event["end"] for event in outside.events if "end" in event}
    values = [entry.value for entry in log.entries if isinstance(entry.value, Sent)]
    sent = {value.reply_id for value in values if value.interrupted is None}
    for entry in log.entries:
        if isinstance(entry.value, Message) and isinstance(entry.value.message, Reply):
            assert entry.id in sent
            assert entry.id in ended
            assert texts[entry.id] == entry.value.message.text
    assert not sent - {entry.id for entry in log.entries}


def _every_shown_reply_was_closed(outside):
    left_open = set()
    for event in outside.events:
        if "begin" in event or "delta" in event:
            left_open.add(event.get("begin") or event["delta"])
        elif "end" in event or "reset" in event:
            left_open.discard(event.get("end") or event["reset"])
    assert not left_open, f"shown, and neither ended nor reset: {left_open}"


def _tools_ran_as_they_may(store, outside):
    paid = Counter(line[1:] for line in outside.ledger if line[0] == "pay")
    assert all(count == 1 for count in paid.values()), f"a tool that may not run twice did: {paid}"
    for stat in list(store.sessions()):
        for entry in read_log(store, stat.name).entries:
            if not isinstance(entry.value, Message) or not isinstance(entry.value.message, ToolResult):
                continue
            result = entry.value.message
            key = (result.reply_id, result.tool_call_id)
            if result.tool_name == "pay" and result.status == "ok":
                assert paid[key] == 1, "a result without its effect"
            is_told = result.status in ("skipped", "interrupted", "unknown")
            if result.tool_name == "book" and not is_told:
                assert (result.status, result.text) == ("ok", "booked 4a")
                assert outside.bookings.count(f"{key[0]}-{key[1]}") == 1
