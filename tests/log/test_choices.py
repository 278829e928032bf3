"""LOG-17: a choice that recovery depends on is in the line, never left to a default."""

import json

import pytest

from wakelog.log.codec import decode, encode
from wakelog.log.entry import (
    Activity,
    CarriedState,
    Compaction,
    KnownBody,
    ModelCall,
    Origin,
    Queued,
    Resumed,
    SessionHeader,
    ToolStarted,
)

WRITTEN: dict[str, tuple[KnownBody, dict[str, object]]] = {
    "call": (ModelCall(id="c", reply_id="r"), {"purpose": "reply", "strategy": "full"}),
    "resumed": (Resumed(id="c", reply_id="r"), {"strategy": "replace"}),
    "tool_started": (ToolStarted(id="c", reply_id="r", tool_call_id="t"), {"replay": "never", "attempt": 1}),
    "queued": (Queued(id="c"), {"mode": "followUp"}),
    "activity": (Activity(id="c"), {"event": "attached"}),
    "compaction": (Compaction(id="c", summary="so far"), {"trigger": "manual"}),
}


@pytest.mark.parametrize("tag", WRITTEN)
def test_a_choice_is_written_where_it_is_the_default(tag):
    """LOG-17, and what its absence means in lines written under rules 1."""
    value, choices = WRITTEN[tag]
    line = json.loads(encode(value))
    assert {key: line[key] for key in choices} == choices
    older = {key: field for key, field in line.items() if key not in choices}
    assert decode(json.dumps(older).encode()) == value == decode(encode(value))


def test_the_kind_of_an_origin_is_written():
    """LOG-17: a session header says whether it is a fork, a sub-agent or an import."""
    header = SessionHeader(id="s", version=1, parent=Origin(session="p", entry="e"))
    assert json.loads(encode(header))["parent"]["kind"] == "fork"


def test_the_carried_state_of_a_compaction_follows_the_same_rule():
    """LOG-17: a queued message inside the carried state says its mode."""
    carried = CarriedState(head="h", queue=(Queued(id="q"),))
    compaction = Compaction(id="c", summary="so far", state=carried)
    assert json.loads(encode(compaction))["state"]["queue"][0]["mode"] == "followUp"
