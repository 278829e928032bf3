"""ST-3: the time for which workers have run a session, without the time after a worker died."""

import pytest

from tests.older_rules import write_under_rules
from wakelog.log.content import Prompt, Reply, ToolResult
from wakelog.log.entry import RULES_VERSION, Activity, Custom, Message, ModelCall, Partial, Queued, Sent, ToolStarted
from wakelog.projections.overview import overview
from wakelog.projections.session_state import session_state
from wakelog.reading import read_active
from wakelog.session import Session
from wakelog.testing.builders import SessionBuilder


def at(seconds, day=1):
    return f"2026-01-{day:02}T{10 + seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}.000Z"


def told(*bodies, rules=RULES_VERSION):
    story = SessionBuilder()
    write_under_rules(story.session, rules)
    for body in bodies:
        story.session.append(body)
    return story


def seconds(*bodies):
    uptime_ms = session_state(told(*bodies).session.read().tree).uptime_ms
    assert uptime_ms is not None
    return uptime_ms / 1_000


def came(seconds, day=1):
    return Activity(holder="w", timestamp=at(seconds, day))


def left(seconds, day=1):
    return Activity(holder="w", event="left", timestamp=at(seconds, day))


WORK = [
    ModelCall(reply_id="r", timestamp=at(30)),
    Message(message=Reply(call_id="c"), timestamp=at(30)),
    ToolStarted(reply_id="r", tool_call_id="t", timestamp=at(30)),
    Message(message=ToolResult(tool_call_id="t"), timestamp=at(30)),
    Partial(reply_id="r", timestamp=at(30)),
    Sent(reply_id="r", timestamp=at(30)),
]
NOT_WORK = [
    Message(message=Prompt(content="hello?"), timestamp=at(50)),
    Message(message=Reply(), timestamp=at(50)),
    Queued(mode="cancel", timestamp=at(50)),
    Custom(custom_type="x", timestamp=at(50)),
    ModelCall(reply_id="again", purpose="rerun", timestamp=at(50)),
]


@pytest.mark.parametrize("last", WORK, ids=lambda body: body.type)
def test_a_killed_worker_counts_to_its_last_entry(last):
    """Killed after 30 s, woken the next day for 10 s: 40 s, not a day."""
    assert seconds(came(0), last, *NOT_WORK, came(0, day=2), left(10, day=2)) == 40
    assert seconds(came(0), last) == 30


def test_a_worker_that_did_nothing_counts_nothing():
    assert seconds(came(0), *NOT_WORK, came(0, day=2)) == 0
    assert seconds() == 0


def test_a_rerun_is_not_a_worker():
    """A person who has a tool run again writes a call and a reply that names it."""
    again = (ModelCall(id="c9", reply_id="r9", purpose="rerun"), Message(id="r9", message=Reply(call_id="c9")))
    assert seconds(came(0), WORK[0], *again, came(0, day=2), left(10, day=2)) == 40


def test_it_is_never_negative():
    """A clock that goes back subtracts nothing."""
    assert seconds(came(40), WORK[0], came(60), left(50), came(70), left(75)) == 5


def test_sums_of_older_compactions_are_computed_again():
    """The sum that a version with rules 1 carried is wrong; for a tail that has only that, uptime is unknown."""
    story = told(came(0), WORK[0], came(0, day=2), left(10, day=2), rules=1)
    story.user("go")
    story.reply("done")
    story.session.compact("so far")
    assert overview(story.session.read().tree).uptime_ms == 40_000
    tail = read_active(story.store, story.session.id)
    assert tail.tree.partial
    assert overview(tail.tree).uptime_ms is None
    again = Session(story.store, story.session.id, clock=story.session.clock)
    again.append(came(0, day=3))
    again.append(left(5, day=3))
    again.compact("and then")
    tail = read_active(story.store, story.session.id)
    assert tail.tree.partial
    assert overview(tail.tree).uptime_ms == 45_000
