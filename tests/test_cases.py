"""The case table: logs and their expected results, both written by hand and never computed.

Each case is two files: `NN-name.jsonl`, the bytes of a log, and `NN-name.json`, what they mean. Projections and
decisions must satisfy all of them; a bug that is found becomes a case.
"""

import json
from pathlib import Path

import pytest

from tests.laws.logs import store_of
from wakelog.log.content import Text, ToolCall
from wakelog.projections.context import build_context, summaries
from wakelog.projections.deliveries import deliveries
from wakelog.projections.overview import overview
from wakelog.projections.pending import pending
from wakelog.projections.transcript import transcript
from wakelog.reading import read_active, read_log

CASES = sorted(Path(__file__).parent.glob("cases/*.jsonl"))
FIELDS = {"about", "defends", "head", "branch", "context", "pending", "damage", "noted", "decision"}
EXTRAS = {
    "leaves",
    "memory",
    "model",
    "provider",
    "settings",
    "title",
    "archived",
    "uptimeMs",
    "state",
    "queue",
    "tools",
}


def _expected(path):
    return json.loads(path.with_suffix(".json").read_text())


def _text(message):
    shown = []
    for part in message.content:
        if isinstance(part, Text):
            shown.append(part.text)
        elif isinstance(part, ToolCall):
            shown.append(f"call:{part.id}:{part.name}")
    said = " ".join(shown)
    return f"{message.tool_call_id}:{said}" if message.role == "toolResult" else said


def _open_call(call):
    found = {"reply": call.reply_id, "call": call.tool_call.id, "ours": call.is_own}
    named = {
        "started": call.starts,
        "doubtful": call.start_may_be_lost,
        "waits": call.question_id,
        "decided": call.decision_id,
        "child": call.child_session,
    }
    return {**found, **{name: value for name, value in named.items() if value}}


def _pending(tree, branch):
    open_work = pending(branch)
    undelivered = deliveries(tree).pending(open_work.interrupted).undelivered
    found = {
        "open": [_open_call(call) for call in open_work.open_tool_calls],
        "owed": [[debt.reply_id, debt.channel] for debt in undelivered],
        "cut": open_work.interrupted,
        "queue": [queued.id for queued in open_work.queue],
        "attention": [raised.id for raised in open_work.attention],
    }
    return {name: value for name, value in found.items() if value}


def test_there_are_enough_cases():
    """At least forty cases, each with both files and every field."""
    assert len(CASES) >= 40
    for path in CASES:
        expected = _expected(path)
        assert set(expected) >= FIELDS
        assert set(expected) <= FIELDS | EXTRAS, path
        assert expected["decision"], path


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
@pytest.mark.parametrize("read", [read_log, read_active], ids=["whole", "tail"])
def test_case(path, read):
    """LOG, TREE, VIEW and RUN rows: the meaning of each log, read as a whole and from its end."""
    expected = _expected(path)
    log = read(store_of(path.read_bytes()), "s")
    branch = log.tree.branch()
    assert log.tree.head == expected["head"]
    assert [node.id for node in branch.nodes] == expected["branch"]
    assert [[message.role, _text(message)] for message in build_context(branch).messages] == expected["context"]
    assert _pending(log.tree, branch) == expected["pending"]
    assert transcript(branch)
    card = overview(log.tree)
    found = {
        "leaves": list(log.tree.leaves()),
        "memory": list(summaries(branch)),
        "model": card.model,
        "provider": card.provider,
        "settings": card.settings,
        "title": card.title,
        "archived": card.archived,
        "uptimeMs": card.uptime_ms,
        "state": card.state,
        "queue": [queued.id for queued in card.queue],
        # What the log cannot hold: its declarations are in a blob. Only decisions depend on them.
        "tools": expected.get("tools"),
    }
    assert {name: found[name] for name in EXTRAS & set(expected)} == {
        name: expected[name] for name in EXTRAS & set(expected)
    }


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_damage_of_case(path):
    """LOG-9, law 9: every damaged place is reported, and nothing else is."""
    expected = _expected(path)
    raw = path.read_bytes()
    store = store_of(raw)
    log = read_log(store, "s")
    assert [hurt.kind for hurt in log.damage] == expected["damage"], log.damage
    assert [hurt.kind for hurt in log.noted] == expected["noted"]
    assert b"".join(line.bytes for line in store.load("s")) == raw
