"""A program whose workers are killed while replies stream.

    python -m tests.kernel.streams points FOLDER CUT FIRST STRIDE   kills at each delta of a reply of 500
    python -m tests.kernel.streams chain FOLDER CUT                 a kill at every delta of a reply of 40, in a row

Every kill that happened is a line of JSON. The model that ends a reply cuts its words otherwise than the one that
began it: where a stream is cut is nothing to rely on.
"""

import asyncio
import json
import os
import shutil
import sys

from tests.kernel.judging import judge
from tests.kernel.killing import KILLED, Deadly, in_child
from tests.kernel.outside import Outside, held
from tests.kernel.plays import Play
from wakelog.app.agent import Agent
from wakelog.decide.policy import Policy
from wakelog.log.content import Prompt, Reply
from wakelog.log.entry import Message, Partial
from wakelog.reading import read_log
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore

SESSION = "s"
SIZE, DELTAS, CHAIN = 4, 500, 40
# The distance between two kills of one session, in deltas.
APART = 50
# Characters of two, three and four bytes, combining characters, and one of several code points.
_SIGNS = 'Größe 日本語 👩\u200d👩\u200d👧 e\u0301 🇫🇷 \u2028\t"quoted" \\ '
WHOLE = "".join(f"{at}:{_SIGNS}" for at in range(DELTAS))[: SIZE * DELTAS]
SHORT = WHOLE[: SIZE * CHAIN]


def begin(store, cut):
    """A session with an unanswered prompt."""
    session = Session.create(store, session_id=SESSION, agent="crab", model="play", provider="scripted")
    # Without redaction no text is held back, so that every kill is at exactly the planned delta.
    policy = Policy(cut=cut, faults_max=1_000, redact="off")
    Agent(model="scripted:play", name="crab", policy=policy).enter(session)
    session.append(Message(id="u1", message=Prompt(content="Go.")))
    return session


def work(place, text, *, size=SIZE, chars=None):
    """A worker that answers, and is killed once a number of characters is displayed."""
    outside = Outside(os.path.join(place, "outside"))
    channel = outside.channel() if chars is None else Deadly(outside.channel(), chars)
    play = Play({"Go.": [{"text": text, "deltaChars": size}]}, can_resume=True)
    runtime = LiveRuntime(JsonlStore(os.path.join(place, "store")), channels=[channel], provider=play)
    asyncio.run(wake(runtime, SESSION))


def partials(store):
    """The recovered texts of the reply, in order."""
    entries = read_log(store, SESSION).entries
    return [Prompt(content=entry.value.content).text for entry in entries if isinstance(entry.value, Partial)]


def reply(store):
    """The id and the text of the one reply."""
    entries = read_log(store, SESSION).entries
    found = [entry for entry in entries if isinstance(entry.value, Message) and isinstance(entry.value.message, Reply)]
    assert len(found) == 1
    return found[0].id, found[0].value.message.text


def displayed(outside):
    """The text of the reply that was displayed."""
    return "".join(held(outside.events).values())


# ── at each of 500 deltas ────────────────────────────────────────────────────────────────────────


def points(folder, cut, first, stride):
    """Kills at each delta: under `resume` ten in one session, which continues; under `replace` one in a session."""
    for start in range(first, APART + 1, stride):
        place = os.path.join(folder, str(start))
        begin(JsonlStore(os.path.join(place, "store")), cut)
        planned = range(start, DELTAS + 1, APART) if cut == "resume" else [start * DELTAS // APART]
        seen = [_killed_at(place, point) for point in planned]
        for line in _recovered(place, planned, seen):
            print(json.dumps(line), flush=True)
        shutil.rmtree(place)


def _killed_at(place, point):
    """Kill a worker at a delta; return the text displayed by then."""
    status = in_child(lambda: work(place, WHOLE, chars=point * SIZE))
    assert status == KILLED, f"planned {point}, and it ended with {status}"
    return displayed(Outside(os.path.join(place, "outside")))


def _recovered(place, planned, seen):
    """Let a last worker complete the reply; print for each kill what was displayed and what was recovered."""
    store, outside = JsonlStore(os.path.join(place, "store")), Outside(os.path.join(place, "outside"))
    work(place, WHOLE, size=700)
    judge(store, outside)
    assert reply(store)[1] == WHOLE
    found = partials(store)
    assert len(found) == len(seen), "each kill left one partial: text is journaled before a channel begins the reply"
    for point, text, told in zip(planned, seen, [*found, ""], strict=False):
        assert told.encode().startswith(text.encode()), f"displayed {text[-40:]!r}, recovered {told[-40:]!r}"
        yield {"planned": point, "displayed": len(text), "recovered": len(told)}


# ── one kill after the other ─────────────────────────────────────────────────────────────────────


def chain(folder, cut):
    """A session that is killed at every delta of its reply, once more after each wake, and then completes."""
    store = JsonlStore(os.path.join(folder, "store"))
    outside = Outside(os.path.join(folder, "outside"))
    begin(store, cut)
    for delta in range(1, CHAIN + 1):
        seen = displayed(outside)
        status = in_child(lambda chars=delta * SIZE: work(folder, SHORT, chars=chars))
        if cut == "resume":
            assert displayed(outside).startswith(seen)
        assert status == KILLED, f"planned {delta}, and it ended with {status}"
        print(json.dumps({"planned": delta}), flush=True)
    work(folder, SHORT)
    judge(store, outside)
    assert reply(store)[1] == SHORT


if __name__ == "__main__":
    if sys.argv[1] == "points":
        points(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
    else:
        chain(sys.argv[2], sys.argv[3])
