"""Law 4, ST-6: calls to an unavailable store are retried for a limited time, and take effect once.

Every call of a whole run fails once, one after the other: before the store has done anything, or after it has done it
and the answer was lost. What is written is the same, byte for byte, as without any failure.
"""

import contextlib
import itertools
import threading

import pytest

from tests.faults.fake_time import FakeTimeLoop, FakeUptime, run_in
from tests.faults.figures import Figure
from tests.kernel.plays import Play
from wakelog.app.agent import Agent
from wakelog.channels.in_process import MemoryChannel
from wakelog.decide.policy import Policy
from wakelog.errors import Conflict, Damaged, LeaseLost, NoAccess, StoreError, Unavailable, WakelogError
from wakelog.log.content import decode_delta
from wakelog.ports.stores import Lease
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore
from wakelog.stores.retrying import RETRY_S, RetryingStore, with_retries
from wakelog.testing.builders import FixedClock
from wakelog.tools.function_tool import tool

ANSWER = "A reply in many pieces, each of which is displayed once."
REPLIES = {
    "Go.": [
        {"text": "I pay.", "toolCalls": [{"name": "pay", "input": {"amount": 7}}]},
        {"text": ANSWER, "deltaChars": 5},
    ]
}


class FaultyStore(MemoryStore):
    """A store in which the call of a given number fails, and the following ones if the outage lasts longer."""

    def __init__(self, uptime, fails_at, manner, outage_s=0.0):
        super().__init__(now=uptime.now)
        self._uptime, self._fails_at, self._manner, self._outage_s = uptime, fails_at, manner, outage_s
        self._over_at = 0.0
        self._thread = threading.get_ident()
        self.is_counting = False
        self.calls = self.taken_at = 0
        self.failed = []
        self.timeline = []

    def _call(self, act, *given, **named):
        """Count one call. Calls of the store to itself, and of the thread that watches the session, do not count."""
        if not self.is_counting or threading.get_ident() != self._thread:
            return act(*given, **named)
        self.is_counting = False
        self.calls += 1
        try:
            return self._as_planned(act, given, named)
        finally:
            self.is_counting = True

    def _as_planned(self, act, given, named):
        is_first = self.calls - 1 == self._fails_at
        if is_first:
            self._over_at = self._uptime.now() + self._outage_s
        if not is_first and self._uptime.now() >= self._over_at:
            return act(*given, **named)
        if is_first and self._manner == "after":
            act(*given, **named)
        self.failed.append(act.__name__)
        raise Unavailable("the server is away", hint="try again")

    def _journal(self, session, reply_id, piece, **more):
        self.timeline.append(("journaled", getattr(decode_delta(piece), "text", "")))
        super().journal(session, reply_id, piece, **more)

    def append(self, *given, **named):
        return self._call(super().append, *given, **named)

    def journal(self, *given, **named):
        return self._call(self._journal, *given, **named)

    def drop(self, *given, **named):
        return self._call(super().drop, *given, **named)

    def load(self, *given, **named):
        return self._call(super().load, *given, **named)

    def tail(self, *given, **named):
        return self._call(super().tail, *given, **named)

    def held(self, *given, **named):
        return self._call(super().held, *given, **named)

    def journals(self, *given, **named):
        return self._call(super().journals, *given, **named)

    def acquire(self, *given, **named):
        self.taken_at = self.calls
        return self._call(super().acquire, *given, **named)

    def release(self, *given, **named):
        return self._call(super().release, *given, **named)

    def name(self, *given, **named):
        return self._call(super().name, *given, **named)


class Shown(MemoryChannel):
    """A channel that records displayed text in the same timeline as the journal."""

    def __init__(self, store):
        super().__init__("outbox")
        self._store = store

    async def delta(self, reply_id, offset, text):
        self._store.timeline.append(("displayed", text))
        await super().delta(reply_id, offset, text)


class Run:
    """One run over a store that fails once."""

    def __init__(self, fails_at=None, manner="before", outage_s=0.0, lease_s=30.0):
        self.loop = FakeTimeLoop()
        self.uptime = FakeUptime(self.loop)
        self.store = FaultyStore(self.uptime, fails_at, manner, outage_s)
        self.paid = []
        self._lease_s = lease_s

    def go(self):
        @tool(replay="never")
        async def pay(amount: int) -> str:
            """Pays."""
            self.paid.append(amount)
            return f"paid {amount}"

        clock = FixedClock()
        session = Session.create(self.store, session_id="s", model="play", provider="scripted", clock=clock)
        Agent(model="scripted:play", tools=(pay,), policy=Policy(redact="off")).enter(session)
        session.say("Go.")
        runtime = LiveRuntime(
            self.store,
            tools=[pay],
            channels=[Shown(self.store)],
            provider=Play(REPLIES),
            holder="first",
            clock=clock,
            lease_s=self._lease_s,
        )
        self.store.is_counting = True
        try:
            run_in(self.loop, wake(runtime.with_changes(lease_clock=self.uptime), "s"))
        finally:
            self.store.is_counting = False
        return self

    @property
    def log(self):
        return b"\n".join(line.raw for line in self.store.load("s"))


def check_displayed(timeline):
    """Law 5: displayed text was journaled before; every piece of the reply is in the journal once."""
    journaled = displayed = ""
    for what, text in timeline:
        if what == "journaled":
            journaled += text
        elif text not in ("I pay.", ANSWER):
            displayed += text
            assert displayed in journaled, "displayed before it was journaled"
    assert journaled == "I pay." + ANSWER


def figure(planned, applied, wrong=0, control=""):
    """The figures of a number of runs, each with one failing call of the store."""
    ended, found = (applied, "runs"), (wrong, "that did not end with the same log")
    return Figure("n-th call of the store fails", "memory", planned, applied, ended, found, control)


@pytest.mark.parametrize("manner", ["before", "after"])
@pytest.mark.parametrize("outage_s", [0.0, 3.0])
def test_a_run_completes_whichever_call_fails_once(manner, outage_s, record):
    """Laws 4, 5 and 6: whichever call fails, the run completes, the tool runs once, and the log is the same."""
    plain = Run().go()
    assert plain.store.failed == []
    assert plain.store.calls > 40
    met, applied = set(), 0
    for at in range(plain.store.calls):
        run = Run(at, manner, outage_s).go()
        applied += bool(run.store.failed)
        met.add(run.store.failed[0])
        assert run.log == plain.log, (at, run.store.failed)
        assert run.paid == [7]
        assert run.store.journals("s") == {}
        check_displayed(run.store.timeline)
    assert met >= {"append", "_journal", "drop", "load", "held", "journals", "acquire", "release"}
    record(figure(plain.store.calls, applied))


def test_control_calls_that_are_not_retried(monkeypatch, record):
    """The test above can fail: without the retries, almost every failed call ends the run."""

    def give_up(store, error, act):
        raise error

    plain = Run().go()
    monkeypatch.setattr(RetryingStore, "retry", give_up)
    wrong = applied = 0
    for at in range(plain.store.calls):
        run = Run(at)
        with contextlib.suppress(WakelogError):
            run.go()
        applied += bool(run.store.failed)
        wrong += run.log != plain.log
    record(figure(plain.store.calls, applied, wrong, control="calls are not repeated"))


def test_an_outage_longer_than_the_lease_ends_the_run():
    """Law 6: wherever it begins, the run ends with `LeaseLost` before its lease is over, and writes nothing afterwards.

    The last calls are those with which the run leaves: when they fail it has nothing to stop.
    """
    plain = Run().go().store
    tried = range(plain.taken_at + 1, plain.calls - 6, 2)
    for at in tried:
        run = Run(at, "before", outage_s=1_000.0, lease_s=12.0)
        with pytest.raises(LeaseLost):
            run.go()
        assert run.store.failed, f"planned: call {at}; applied: none"
        assert run.store.held("s") is not None, "it stopped while it still held the lease"
        assert run.loop.time() < 12.0
    assert len(tried) > 10


# ── what is repeated, and for how long ───────────────────────────────────────────────────────────


class Clock:
    """A clock that only `sleep` moves forward."""

    def __init__(self):
        self.time = 0.0

    def now(self):
        return self.time

    def sleep(self, seconds):
        self.time += seconds


class Failing(MemoryStore):
    """A store whose appends raise these errors, one after the other."""

    def __init__(self, errors):
        super().__init__()
        self.errors = errors
        self.tries = 0

    def append(self, session, body, **more):
        self.tries += 1
        error = next(self.errors, None)
        if error is not None:
            raise error
        return super().append(session, body, **more)


def failing(*errors, forever=None):
    uptime = Clock()
    told: list[str] = []
    inner = Failing(itertools.chain(errors, itertools.repeat(forever) if forever else ()))
    Session.create(inner, session_id="s")
    return Session(with_retries(inner, uptime=uptime, notice=told.append), "s"), inner, uptime, told


def test_without_a_lease_retries_end_after_a_few_seconds():
    """ST-6: the error is the store's own, and the outage was announced once."""
    session, inner, uptime, told = failing(forever=Unavailable("nobody there"))
    with pytest.raises(Unavailable, match="nobody there"):
        session.say("Hello.")
    assert inner.tries > 5
    assert uptime.time <= RETRY_S
    assert told == [f"nobody there; trying again for {RETRY_S:.0f} s"]


def test_the_end_of_an_outage_is_reported():
    """ST-6: a notice says that the store is available again."""
    session, inner, _, told = failing(Unavailable("away"), Unavailable("still away"))
    session.say("Hello.")
    assert inner.tries == 3
    assert told == [f"away; trying again for {RETRY_S:.0f} s", "the store answers again"]


@pytest.mark.parametrize(
    "error", [StoreError("disk full"), Damaged("rotten"), NoAccess("forbidden"), LeaseLost("taken"), OSError(5, "EIO")]
)
def test_other_errors_are_not_retried(error):
    """ST-6: damage, a full disk, missing rights and a lost lease are raised at once."""
    session, inner, uptime, told = failing(error)
    with pytest.raises(type(error)):
        session.say("Hello.")
    assert (inner.tries, uptime.time, told) == (1, 0.0, [])


def test_a_conflict_is_not_retried_by_the_store():
    """LOG-10: another writer was faster; the session reads its entries at once."""
    session, inner, uptime, _ = failing(Conflict("moved on"))
    session.say("Hello.")
    assert (inner.tries, uptime.time) == (2, 0.0)


def test_reading_continues_where_the_outage_began():
    """ST-6: lines that were returned already are not returned again, in either direction."""

    class Cut(MemoryStore):
        cuts = 0

        def load(self, session, *, after=-1):
            return self._cut(list(super().load(session, after=after)))

        def tail(self, session):
            return self._cut(list(reversed(list(MemoryStore.load(self, session)))))

        def _cut(self, lines):
            for at, line in enumerate(lines):
                if at == 3 + 2 * self.cuts and self.cuts < 4:
                    self.cuts += 1
                    raise Unavailable("away")
                yield line

    inner = Cut()
    session = Session.create(inner, session_id="s")
    inner.cuts = 4
    for number in range(12):
        session.label("s", str(number))
    store = with_retries(inner, uptime=Clock(), notice=lambda _: None)
    whole = [line.raw for line in MemoryStore.load(inner, "s")]
    for read, expected in ((store.load, whole), (store.tail, whole[::-1])):
        inner.cuts = 0
        assert [line.raw for line in read("s")] == expected
        assert inner.cuts == 4


def test_nothing_is_written_once_the_lease_is_lost():
    """Law 6: no writing method of the store is called any more."""
    _, inner, uptime, _ = failing()
    store = with_retries(inner, uptime=uptime)
    store.mark_lease_lost(LeaseLost("too late"))
    for write in (
        lambda: store.append("s", b"{}", after=0),
        lambda: store.journal("s", "r", b"piece"),
        lambda: store.drop("s", "r"),
        lambda: store.blobs.put(b"content"),
        lambda: store.release(Lease("s", "first", 1)),
    ):
        with pytest.raises(LeaseLost, match="too late"):
            write()
    assert inner.tries == 0
    assert inner.journals("s") == {}
    assert list(inner.blobs.stored()) == []
