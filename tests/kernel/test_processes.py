"""Several processes, one session: messages of people reach the worker that holds it.

At most one worker holds it.
"""

import asyncio
import json
import os
import signal
import subprocess

import pytest

from tests.kernel import long_session
from tests.kernel.holder import LOST, OTHER, SESSION, TALK, Place
from tests.kernel.judging import judge
from tests.kernel.likeness import likeness
from tests.kernel.long_session import drive
from tests.kernel.outside import Outside, held
from tests.kernel.watching import Watched, in_group, left_in, until
from wakelog.clock import SystemClock
from wakelog.decide.decisions import Idle
from wakelog.log.content import Prompt, Reply, ToolResult
from wakelog.log.entry import Cancelled, Message, ModelCall, Partial, Queued
from wakelog.providers.scripted import ScriptedProvider
from wakelog.reading import read_log
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.user_actions import request_cancel
from wakelog.runtime.wake import WakeReport, wake
from wakelog.stores.jsonl import JsonlStore


def _values(place, kind):
    return [entry.value for entry in read_log(place.store, SESSION).entries if isinstance(entry.value, kind)]


def _said(place, kind):
    return [value.message for value in _values(place, Message) if isinstance(value.message, kind)]


def _open_gate(place):
    with open(place.path("gate"), "w", encoding="utf-8"):
        pass


def _talking(place):
    return lambda: len("".join(held(place.outside.events).values())) >= 25


def _paying(place):
    return lambda: place.outside.ledger


def _number(place, name):
    with open(place.path(name), encoding="utf-8") as file:
        return int(file.read())


# ── cancel ───────────────────────────────────────────────────────────────────────────────────────


def test_a_cancel_reaches_the_holder_while_it_streams(tmp_path):
    """RUN-12: requested in another process, the turn ends, and the displayed text is kept."""
    place = Place(tmp_path)
    session = place.begin("Talk.")
    with Watched(tmp_path, "talking", "gate") as holder:
        until(_talking(place))
        asked = request_cancel(session)
        code, said = holder.end()
    assert (code, said["left"]) == (0, "cancelled")
    assert [value.queued_id for value in _values(place, Cancelled)] == [asked.id]
    (partial,) = _values(place, Partial)
    assert [Prompt(content=partial.content).text] == list(held(place.outside.events).values()) == [TALK[:25]]
    assert place.store.journals(SESSION) == {}
    judge(place.store, place.outside)


def test_a_cancel_ends_a_running_command(tmp_path):
    """RUN-12: no process of the command's group outlives the turn; its output is kept."""
    place = Place(tmp_path)
    session = place.begin("Run.")
    with Watched(tmp_path) as holder:
        until(lambda: os.path.exists(place.path("ready")))
        group, sleeper = _number(place, "group"), _number(place, "sleeper")
        assert {group, sleeper} <= set(in_group(group))
        assert request_cancel(session) is not None
        code, said = holder.end()
    assert (code, said["left"]) == (0, "cancelled")
    assert left_in(group) == []
    (result,) = _said(place, ToolResult)
    assert result.status == "interrupted"
    assert "begun" in result.text
    judge(place.store, place.outside)


def test_a_cancelled_session_stays_usable(tmp_path):
    """RUN-12: after a cancel the next message is answered like any other."""
    place = Place(tmp_path)
    session = place.begin("Talk.")
    with Watched(tmp_path, "talking", "gate") as holder:
        until(_talking(place))
        request_cancel(session)
        assert holder.end()[0] == 0
    session.say("Hurry.")
    assert place.wake().decision == Idle()
    assert [reply.text for reply in _said(place, Reply)] == ["At once."]
    judge(place.store, place.outside)


@pytest.mark.parametrize(("prompt", "halts"), [("Talk.", "talking"), ("Pay.", "paid")])
def test_a_cancel_survives_a_crash(tmp_path, prompt, halts):
    """RUN-12, law 4: the holder is killed before it can see the cancel; the next wake applies it."""
    place = Place(tmp_path)
    session = place.begin(prompt)
    with Watched(tmp_path, halts, "gate") as holder:
        until(_talking(place) if halts == "talking" else _paying(place))
        holder.stop()
        asked = request_cancel(session)
        holder.kill()
    calls = len(_values(place, ModelCall))
    assert place.wake().decision == Idle("cancelled")
    assert len(_values(place, ModelCall)) == calls == 1, "the model is not called for a cancelled turn"
    assert [value.queued_id for value in _values(place, Cancelled)] == [asked.id]
    assert [result.status for result in _said(place, ToolResult)] == (["unknown"] if halts == "paid" else [])
    assert len(place.outside.ledger) == (1 if halts == "paid" else 0)
    judge(place.store, place.outside)


def test_a_command_does_not_outlive_a_holder_that_is_killed(tmp_path):
    """RUN-12, law 6: with a cancel in the log and the holder killed, its command has ended and is not run again."""
    place = Place(tmp_path)
    session = place.begin("Run.")
    with Watched(tmp_path) as holder:
        until(lambda: os.path.exists(place.path("ready")))
        holder.stop()
        request_cancel(session)
        holder.kill()
    until(lambda: not in_group(_number(place, "group")), "the command outlives its harness")
    os.unlink(place.path("ready"))
    assert place.wake().decision == Idle("cancelled")
    assert not os.path.exists(place.path("ready"))
    judge(place.store, place.outside)


# ── steer ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("prompt", "halts"), [("Talk.", "talking"), ("Pay.", "paid")])
@pytest.mark.parametrize("crash", [False, True], ids=["alive", "killed"])
def test_a_steer_reaches_the_holder(tmp_path, prompt, halts, crash):
    """RUN-11: written in another process while the holder is busy, it is queued in the log, and used."""
    place = Place(tmp_path)
    session = place.begin(prompt)
    with Watched(tmp_path, halts, "gate") as holder:
        until(_talking(place) if halts == "talking" else _paying(place))
        if crash:
            holder.stop()
        queued = session.say("Hurry.", mode="steer")
        assert isinstance(queued.value, Queued), "the agent is busy: this waits"
        if crash:
            holder.kill()
        _open_gate(place)
        if not crash:
            assert holder.end()[0] == 0
    assert place.wake().decision == Idle()
    assert [said.queued_id for said in _said(place, Prompt)] == [None, queued.id]
    replies = [reply.text for reply in _said(place, Reply)]
    # An interrupted reply is completed before the steer is used; a tool result comes before the steer.
    assert replies == ([TALK, "At once."] if halts == "talking" else ["I pay.", "At once."])
    assert len(place.outside.ledger) == (1 if halts == "paid" else 0)
    judge(place.store, place.outside)


# ── overtaken ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("prompt", "halts", "status"),
    [
        ("Talk.", "talking", []),
        ("Pay.", "before pay", ["ok"]),
        ("Pay.", "pay begun", ["unknown"]),
        ("Pay.", "paid", ["unknown"]),
    ],
)
def test_a_stopped_worker_that_was_overtaken_cannot_write(tmp_path, prompt, halts, status):
    """Law 6: after its lease another worker continues; when the first one runs again it cannot write one more entry.

    It stops in the middle of its reply, before its tool is begun, in its tool, and behind the effect; the tool,
    which may never run twice, has run once.
    """
    place = Place(tmp_path)
    place.begin(prompt)
    with Watched(tmp_path, halts, "stop", 0.4) as holder:
        holder.stopped()
        until(lambda: place.store.held(SESSION) is None, "the lease never ends")
        assert place.wake().decision == Idle()
        log = place.path(f"store/{place.store.name(SESSION)}.jsonl")
        with open(log, "rb") as file:
            before = file.read()
        holder.signal(signal.SIGCONT)
        code, _ = holder.end()
    assert code == LOST
    with open(log, "rb") as file:
        assert file.read() == before, "the log grew by the hand of one who had lost it"
    assert [result.status for result in _said(place, ToolResult)] == status
    assert len(place.outside.ledger) == len(status)
    judge(place.store, place.outside)


def test_a_stopped_worker_leaves_the_journal_alone(tmp_path):
    """Law 5: overtaken in mid-reply by a worker with another reply, it adds nothing to the journal of that reply."""
    place = Place(tmp_path)
    place.begin("Talk.")
    with Watched(tmp_path, "talking", "stop", 0.4) as stopped:
        stopped.stopped()
        until(lambda: place.store.held(SESSION) is None, "the lease never ends")
        with Watched(tmp_path, "talking", "gate", 30, OTHER) as holder:
            until(lambda: OTHER[:25] in held(place.outside.events).values())
            stopped.signal(signal.SIGCONT)
            assert stopped.end()[0] == LOST
            holder.kill()
    place.wake()
    told = [Prompt(content=partial.content).text for partial in _values(place, Partial)]
    assert told == [TALK[:25], OTHER[:25]]
    judge(place.store, place.outside)


# ── no history ───────────────────────────────────────────────────────────────────────────────────


class _InTurns:
    """Replaces `wake`: each step is taken by a new process, of two worker programs in turn."""

    def __init__(self, workers):
        self.steps = 0
        self._workers = workers

    async def __call__(self, runtime, session_id):
        rows = []
        while True:
            worker = self._workers[self.steps % 2].process
            worker.stdin.write("step\n")
            worker.stdin.flush()
            told = json.loads(worker.stdout.readline())
            assert len(told["rows"]) == 1, "a step is one decision"
            rows += told["rows"]
            self.steps += 1
            if told["idle"]:
                return WakeReport(session_id, Idle(), tuple(rows))


def test_no_state_is_kept_between_steps(tmp_path, monkeypatch):
    """RUN-1, law 2: each step in a new process, of two programs in turn, gives the log of one process."""
    one, many = (tmp_path / name for name in ("one", "many"))
    for folder in (one, many):
        folder.mkdir()
    stores = [JsonlStore(str(folder / "store")) for folder in (one, many)]
    outsides = [Outside(str(folder / "outside")) for folder in (one, many)]
    drive(stores[0], outsides[0])
    piped = {"module": "tests.kernel.stepper", "stdin": subprocess.PIPE}
    with Watched(many, "left", cwd=one, **piped) as left, Watched(many, "right", cwd=many, **piped) as right:
        in_turns = _InTurns((left, right))
        monkeypatch.setattr(long_session, "wake", in_turns)
        drive(stores[1], outsides[1])
        for worker in (left, right):
            worker.process.stdin.close()
            assert worker.process.wait() == 0
    assert in_turns.steps > 40
    assert likeness(stores[0]) == likeness(stores[1])
    for store, outside in zip(stores, outsides, strict=True):
        judge(store, outside)


class _Ahead(SystemClock):
    """A clock that a wait moves forward at once."""

    ahead_ms = 0

    def now_ms(self):
        return super().now_ms() + self.ahead_ms

    async def pause(self, ms):
        self.ahead_ms += ms


def test_a_wait_counts_as_a_step(tmp_path):
    """RUN-1: the limit on the number of steps includes a step that only waits."""
    place = Place(tmp_path)
    place.begin("Talk.")
    fault = {"error": {"kind": "overload", "retryable": True, "delayMs": 3_000_000}}
    provider, clock = ScriptedProvider([fault, {"text": "Now."}]), _Ahead()
    channels = [place.outside.channel()]
    runtime = LiveRuntime(place.store, channels=channels, provider=lambda _, __: provider, clock=clock)
    runtime = runtime.with_changes(sleep=clock.pause)
    rows = [asyncio.run(wake(runtime, SESSION, steps=2)).rules for _ in range(3)]
    assert rows == [("answer", "fault"), ("fault", "owed"), ("rest",)]
    judge(place.store, place.outside)
