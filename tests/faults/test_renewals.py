"""Law 6: when renewals of a lease fail, it is renewed in time, or the tool is stopped before the lease ends.

Real runs over a store in memory, in fake time. Every pattern of renewals up to a length is tried: each renewal
succeeds, succeeds with a late answer or with none, fails at once or slowly; after it all succeed, or all fail.
A second worker looks for the lease all the time, and takes it as soon as the store lets it.
"""

import asyncio
import itertools

import pytest

from tests.faults.fake_time import FakeTimeLoop, FakeUptime, run_in
from tests.faults.figures import Figure
from tests.kernel.plays import Play
from wakelog.app.agent import Agent
from wakelog.decide import timing
from wakelog.errors import Conflict, LeaseLost, StoreError, Unavailable
from wakelog.log.content import ToolResult
from wakelog.log.entry import Activity, Message
from wakelog.reading import read_log
from wakelog.runtime.lease import LeaseRenewer
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.locking import earliest_stop
from wakelog.stores.memory import MemoryStore
from wakelog.tools.function_tool import tool

LEASE_S = 12.0
GRACE_S = 2.0
LONG_S = 40.0
SLOW_S = 1.5
SHORT, LONG = 2, 3
OUTCOMES = ("ok", "late", "refused", "slow", "unheard", "broken")


class FaultyRenewals(MemoryStore):
    """A store whose renewals succeed or fail as planned; `applied` records what happened."""

    def __init__(self, uptime, pattern, rest):
        super().__init__(now=uptime.now)
        self._uptime, self._left, self._rest = uptime, list(pattern), rest
        self.applied = []

    def renew(self, lease, *, ttl_s):
        outcome = self._left.pop(0) if self._left else self._rest
        self.applied.append(outcome)
        if outcome in ("ok", "late", "unheard"):
            super().renew(lease, ttl_s=ttl_s)
        if outcome in ("late", "slow"):
            self._uptime.sleep(SLOW_S)
        if outcome == "broken":
            raise StoreError("input/output error")
        if outcome not in ("ok", "late"):
            raise Unavailable("no answer")


class Run:
    """A run with one long tool, a second worker beside it, and a timeline of events."""

    def __init__(self, pattern, rest, tools=1):
        self._calls = [{"name": "work", "input": {}} for _ in range(tools)]
        self.loop = FakeTimeLoop()
        self.uptime = FakeUptime(self.loop)
        self.store = FaultyRenewals(self.uptime, pattern, rest)
        self.ledger = []
        self.notices = []
        self.error = None

    def note(self, what):
        self.ledger.append((what, self.loop.time()))

    def tool(self):
        @tool(replay="never")
        async def work() -> str:
            """Run for a long time, and take some time to stop."""
            self.note("begun")
            try:
                await asyncio.sleep(LONG_S)
            except asyncio.CancelledError:
                await asyncio.sleep(GRACE_S)
                self.note("stopped")
                raise
            self.note("done")
            return "worked"

        return work

    def go(self):
        replies = {"Go.": [{"toolCalls": self._calls}, {"text": "Done."}]}
        session = Session.create(self.store, session_id="s", model="play", provider="scripted")
        Agent(model="scripted:play", tools=(self.tool(),)).enter(session)
        session.say("Go.")
        runtime = LiveRuntime(self.store, tools=[self.tool()], provider=Play(replies), holder="first", lease_s=LEASE_S)
        runtime = runtime.with_changes(lease_clock=self.uptime)
        run_in(self.loop, self._both(runtime))
        return self

    async def _both(self, runtime):
        second = asyncio.ensure_future(self._second())
        try:
            await wake(runtime, "s")
            self.note("completed")
        except LeaseLost as error:
            self.error = error
            self.note("lost")
            await second
        finally:
            second.cancel()

    async def _second(self):
        """Take the lease as soon as possible once the tool runs."""
        session = Session(self.store, "s")
        while True:
            await asyncio.sleep(0.2)
            if self.ledger and self.ledger[-1][0] != "completed":
                try:
                    session.acquire("second", ttl_s=600)
                except Conflict:
                    continue
                self.note("taken")
                return

    @property
    def words(self):
        return [what for what, _ in self.ledger]


def check(run, planned):
    """Assert what must hold for every pattern."""
    # The run may end before the whole plan was applied; what was applied is a prefix of the plan.
    assert run.store.applied[: len(planned)] == planned[: len(run.store.applied)]
    assert len(run.store.applied) >= len(planned) or run.words[-2:] == ["lost", "taken"]
    assert run.words in (["begun", "done", "completed"], ["begun", "stopped", "lost", "taken"])
    results = [entry.value for entry in read_log(run.store, "s").entries if isinstance(entry.value, Message)]
    assert [value.message.status for value in results if isinstance(value.message, ToolResult)] == (
        ["ok"] if "done" in run.words else []
    )
    assert earliest_stop() is None


def patterns(length):
    """All patterns up to a length."""
    return [pattern for size in range(length + 1) for pattern in itertools.product(OUTCOMES, repeat=size)]


def figure(planned, applied, renewals, wrong=0, control=""):
    """The figures of a number of patterns; renewals are counted by the store."""
    asked, found = (renewals, "renewals"), (wrong, "tools that ran without the lease")
    return Figure("renewals of a lease that fail", "memory", planned, applied, asked, found, control)


def check_all(length, rest, record):
    """Try all patterns up to a length. `rest` decides how they end: all patterns together have both ends."""
    planned = sum(len(OUTCOMES) ** size for size in range(length + 1))
    applied = renewals = 0
    for pattern in patterns(length):
        run = Run(pattern, rest).go()
        check(run, list(pattern))
        assert run.words[-1] == ("completed" if rest == "ok" else "taken")
        applied += 1
        renewals += len(run.store.applied)
    record(figure(planned, applied, renewals))


@pytest.mark.parametrize("rest", ["ok", "refused", "broken"])
def test_every_short_pattern_of_renewals(rest, record):
    """Law 6: the tool ran to its end under the lease, or was stopped before a second worker could take it."""
    check_all(SHORT, rest, record)


@pytest.mark.faults
@pytest.mark.parametrize("rest", ["ok", "refused", "broken"])
def test_every_long_pattern_of_renewals(rest, record):
    """Law 6: the same for longer patterns; this takes minutes."""
    check_all(LONG, rest, record)


def test_the_term_is_counted_from_before_the_request():
    """Law 6: for a slow renewal the worker's term ends before the store's, never after it."""
    term = timing.LeaseTerm(ttl_s=30, renewed_at=100.0)
    assert term.renew_at == 110.0
    assert term.stop_at == 122.5
    assert term.after_renewal(sent=105.0).stop_at == 127.5
    late = term.after_failure(now=122.48)
    assert late.renew_at == late.stop_at
    assert late.must_stop(122.5)
    assert not term.must_stop(1_000.0), "a worker that comes late, and knows of no failure, asks the store first"


def test_a_wall_clock_that_jumps_changes_nothing(monkeypatch):
    """Law 3: the lease is measured by a monotonic clock: setting the wall clock has no effect."""
    monkeypatch.setattr("time.time", itertools.cycle([0.0, 4e9]).__next__)
    run = Run(("refused", "refused"), "ok").go()
    check(run, ["refused", "refused"])
    assert run.words[-1] == "completed"


def test_a_failed_renewal_is_reported(caplog):
    """A failed renewal and the next successful one are each reported once."""
    Run(("ok", "refused", "refused", "refused"), "ok").go()
    said = [record.getMessage() for record in caplog.records if record.name == "wakelog"]
    assert len(said) == 2, said
    assert "could not be renewed (no answer); trying again for" in said[0]
    assert "renewed again" in said[1]


def test_the_error_of_a_lost_lease_has_a_reason_and_a_hint():
    """The error is `LeaseLost`."""
    run = Run((), "refused").go()
    assert run.error.message == "the lease of s could not be renewed in time"
    assert "wake the session again" in run.error.hint


def test_several_tools_are_stopped_at_the_same_time():
    """Law 6: stopped one after the other they would take longer than the lease lasts."""
    run = Run((), "refused", tools=4).go()
    assert run.words == ["begun"] * 4 + ["stopped"] * 4 + ["lost", "taken"]


# ── controls: the rig can fail ───────────────────────────────────────────────────────────────────


async def _die_at_the_first_error(keeper):
    """Control: any error but `LeaseLost` ends renewing silently."""
    while True:
        await asyncio.sleep(LEASE_S / 3)
        keeper._store.inner.renew(keeper._lease, ttl_s=LEASE_S)


def test_control_renewing_that_ends_silently(monkeypatch, record):
    """One failed renewal lets a second worker in while the tool runs; the rig detects that."""
    monkeypatch.setattr(LeaseRenewer, "run", _die_at_the_first_error)
    run = Run(("ok", "refused"), "ok").go()
    assert run.store.applied == ["ok", "refused"]
    with pytest.raises(AssertionError):
        check(run, ["ok", "refused"])
    assert run.words[:2] == ["begun", "taken"]
    record(figure(1, 1, len(run.store.applied), 1, control="a failed renewal ends renewing"))


def test_control_no_time_left_for_stopping(monkeypatch, record):
    """Without a margin the tool is still being stopped when the second worker comes; the rig detects that."""
    monkeypatch.setattr(timing, "STOPPING_SHARE", 0.0)
    run = Run((), "refused").go()
    with pytest.raises(AssertionError):
        check(run, [])
    assert run.words.index("taken") < run.words.index("stopped")
    record(figure(1, 1, len(run.store.applied), 1, control="no time is left for stopping"))


def test_failed_renewals_leave_no_entries():
    """The log shows one worker that attached and left."""
    run = Run(("refused", "unheard", "slow"), "ok").go()
    events = [entry.value.event for entry in read_log(run.store, "s").entries if isinstance(entry.value, Activity)]
    assert events == ["attached", "left"]
