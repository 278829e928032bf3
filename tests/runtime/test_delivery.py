"""RUN-9, RUN-23: a channel that raises loses no reply, costs no model call, and delays nothing else."""

import asyncio

import pytest

from tests.kernel.plays import Play
from tests.laws.plays import Outside, Ticking
from tests.runtime.rigs import Flaky, Rig, asks
from wakelog.app.agent import Agent
from wakelog.channels.in_process import MemoryChannel
from wakelog.decide.decisions import Await, Idle
from wakelog.decide.policy import SENDS_MAX, HookSettings, Policy
from wakelog.errors import StoreError
from wakelog.log.content import Faulted, Finished, Reply, TextDelta
from wakelog.log.entry import Compaction, Failed, Message, ModelCall, SendFailed, Sent, Spawned, ToolStarted
from wakelog.log.timestamps import parse_ms
from wakelog.projections.overview import overview
from wakelog.projections.session_state import build_carried_state
from wakelog.reading import read_log
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.replay.verification import replay
from wakelog.runtime.user_actions import request_cancel
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores import open_store
from wakelog.stores.memory import MemoryStore
from wakelog.testing.crashing_store import SimulatedCrash
from wakelog.tools.subagent import SubagentTool

HELLO = {"Hi.": [{"text": "Hello there.", "deltaChars": 5}]}
TOOLS = {"Hi.": [asks(("look", 1)), {"text": "Done.", "deltaChars": 2}], "And?": [{"text": "More.", "deltaChars": 2}]}
PLACES = ("begin", "delta", "end")


def rigged(replies, *channels, **agreed):
    """A rig whose worker has these channels."""
    rig = Rig(replies, **agreed)
    attached = {channel.name: channel for channel in channels}
    runtime = rig.runtime
    rig.runtime = lambda store=None: runtime(store).with_changes(channels=attached)  # type: ignore[method-assign]
    return rig


def replies(rig):
    return [value for value in rig.values(Message) if isinstance(value.message, Reply)]


@pytest.fixture(params=["files", "sqlite", "postgresql"])
def store(request, tmp_path):
    """A store of each kind that outlives a process."""
    if request.param == "postgresql":
        url = request.getfixturevalue("postgres_url")
    else:
        url = f"jsonl:{tmp_path}/store" if request.param == "files" else f"sqlite:{tmp_path}/store.db"
    return open_store(url)


# ── one reply ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("place", PLACES)
def test_a_channel_that_raises_once_gets_the_reply_later(place):
    """RUN-23: the model is called once, the failure is an entry, and the whole reply is sent under its own id."""
    channel = Flaky(place=place, times=1)
    rig = rigged(HELLO, channel)
    report = rig.say("Hi.")
    (reply,) = replies(rig)
    assert (report.decision, report.text) == (Idle(), "Hello there.")
    assert len(rig.values(ModelCall)) == 1
    (failed,) = rig.values(SendFailed)
    assert (failed.reply_id, failed.channel, failed.attempt, failed.parent_id) == (reply.id, "outbox", 1, reply.id)
    assert (failed.error.kind, failed.error.message) == ("ConnectionResetError", "connection reset by peer")
    assert [sent.reply_id for sent in rig.values(Sent)] == [reply.id]
    assert (channel.replies, channel.ended) == ({reply.id: "Hello there."}, {reply.id})
    assert overview(rig.session.tree).state == "idle"


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("times", range(1, 2 * SENDS_MAX))
def test_a_channel_that_raises_is_retried_a_limited_number_of_times(place, times):
    """RUN-9, RUN-23: a limited number of attempts in one wake, more in the next; a sent reply is never sent again."""
    channel = Flaky(place=place, times=times)
    rig = rigged(HELLO, channel)
    wakes = 1 + times // SENDS_MAX
    reports = [rig.say("Hi."), *(rig.wake() for _ in range(wakes - 1))]
    assert [report.decision for report in reports] == [Idle()] * wakes
    assert len(rig.values(ModelCall)) == 1
    assert [failed.attempt for failed in rig.values(SendFailed)] == [at % SENDS_MAX + 1 for at in range(times)]
    (reply,) = replies(rig)
    assert {failed.reply_id for failed in rig.values(SendFailed)} == {reply.id}
    assert [sent.reply_id for sent in rig.values(Sent)] == [reply.id]
    assert channel.replies == {reply.id: "Hello there."}
    channel.asked.clear()
    assert rig.wake().rules == ("rest",)
    assert channel.asked == []


def test_a_channel_that_always_raises_leaves_the_reply_undelivered():
    """RUN-23: no reply is lost and the wake ends; the session state is `undelivered`."""
    rig = rigged(HELLO, Flaky(times=1_000))
    report = rig.say("Hi.")
    assert (report.decision, report.text) == (Idle(), "Hello there.")
    assert rig.wake().text == "Hello there."
    assert len(rig.values(SendFailed)) == 2 * SENDS_MAX
    assert len(rig.values(ModelCall)) == 1
    card = overview(rig.session.tree)
    assert (card.state, card.undelivered) == ("undelivered", 1)


def test_each_attempt_waits_longer():
    """RUN-23: the back-off between attempts grows."""
    rig = rigged(HELLO, Flaky(times=1_000))
    rig.say("Hi.")
    at = [parse_ms(failed.timestamp) or 0 for failed in rig.values(SendFailed)]
    assert 700 < at[1] - at[0] < at[2] - at[1] < 2_100


@pytest.mark.parametrize("place", [*PLACES, "reset"])
def test_a_failing_channel_does_not_affect_the_other(place):
    """RUN-23: of two channels one fails while streaming; the other gets every piece, and its `sent` comes first."""
    sound, broken = Flaky("sound"), Flaky("broken", place=place, times=1)
    rig = rigged(HELLO, broken, sound)
    assert rig.say("Hi.").decision == Idle()
    (reply,) = replies(rig)
    streamed = [where for where, _ in sound.asked]
    assert streamed.count("delta") == 5
    wanted = [("sent", "broken"), ("sent", "sound")]
    if place != "reset":
        wanted = [("send_failed", "broken"), ("sent", "sound"), ("sent", "broken")]
    assert [(value.type, value.channel) for value in rig.values(Sent, SendFailed)] == wanted
    assert sound.replies == broken.replies == {reply.id: "Hello there."}


def test_a_channel_that_raised_while_streaming_next_gets_the_whole_reply():
    """RUN-23: it gets no further pieces of the stream, then the complete reply."""
    channel = Flaky(place="delta", times=1)
    rig = rigged(HELLO, channel)
    rig.say("Hi.")
    assert [where for where, _ in channel.asked] == ["begin", "delta", "begin", "delta", "end"]


class Hanging(MemoryChannel):
    """A channel that once does not return from the method `place`."""

    timeout_s = 0.01

    def __init__(self, place):
        super().__init__("outbox")
        self._hangs_in = {place}

    async def _meet(self, place):
        if place in self._hangs_in:
            self._hangs_in.clear()
            await asyncio.Event().wait()

    async def begin(self, reply_id, attempt):
        await self._meet("begin")
        await super().begin(reply_id, attempt)

    async def delta(self, reply_id, offset, text):
        await self._meet("delta")
        await super().delta(reply_id, offset, text)

    async def end(self, reply_id):
        await self._meet("end")
        await super().end(reply_id)


@pytest.mark.parametrize("place", PLACES)
def test_a_channel_that_does_not_return_counts_as_one_that_raised(place):
    """RUN-23: it does not hold the session; the other channel has its reply, and this one gets it later."""
    hanging, other = Hanging(place), Flaky("other")
    rig = rigged(HELLO, hanging, other)
    report = rig.say("Hi.")
    (reply,) = replies(rig)
    (failed,) = rig.values(SendFailed)
    assert (failed.channel, failed.error.kind) == ("outbox", "TimeoutError")
    assert failed.error.message == "the channel did not return within 0.01 s"
    assert (report.decision, len(rig.values(ModelCall))) == (Idle(), 1)
    assert hanging.replies == other.replies == {reply.id: "Hello there."}
    assert asyncio.run(replay(rig.store, rig.session.name)).ok


def test_a_time_out_inside_a_channel_is_its_own_error():
    """RUN-23: the text of the error is that of the channel."""
    rig = rigged(HELLO, Flaky(times=1, error=TimeoutError("no answer of the mail server")))
    rig.say("Hi.")
    assert [failed.error.message for failed in rig.values(SendFailed)] == ["no answer of the mail server"]


def test_failures_of_one_stream_are_written_in_the_order_of_channels():
    """RUN-14, RUN-23: the order of entries does not depend on where in the stream each channel failed."""
    for first, second in (("begin", "delta"), ("delta", "begin"), ("end", "delta"), ("delta", "end"), ("end", "end")):
        one, other = Flaky("one", place=first, times=1), Flaky("other", place=second, times=2)
        rig = rigged(HELLO, one, other)
        rig.say("Hi.")
        assert one.replies == other.replies
        assert [sent.channel for sent in rig.values(Sent)] == ["one", "other"]
        if "end" not in (first, second):
            assert [failed.channel for failed in rig.values(SendFailed)][:2] == ["one", "other"]
        assert asyncio.run(replay(rig.store, "s")).ok


def test_a_method_that_raises_before_it_is_awaited():
    """RUN-23: a method that is not a coroutine function and raises counts as a failed send."""
    channel = Flaky()
    rig = rigged(HELLO, channel)
    channel.delta = lambda reply_id, offset, text: 1 // 0  # type: ignore[method-assign, assignment, return-value]
    assert rig.say("Hi.").decision == Idle()
    assert {failed.error.kind for failed in rig.values(SendFailed)} == {"ZeroDivisionError"}


def test_a_store_error_is_not_recorded_as_a_send_failure(monkeypatch):
    """An error of the store while sending is raised as it is."""
    channel = Flaky(place="end", times=1, error=KeyboardInterrupt())
    rig = rigged(HELLO, channel)
    with pytest.raises(KeyboardInterrupt):
        rig.say("Hi.")
    # A reply before the last compaction is read from the whole log.
    rig.session.append(
        Compaction(summary="They talked.", state=build_carried_state(rig.session.tree, rig.session.tree.head))
    )
    channel.asked.clear()
    with monkeypatch.context() as broken:
        broken.setattr(Session, "read", _gone)
        with pytest.raises(StoreError, match="disk is gone"):
            rig.wake()
    assert rig.values(SendFailed) == channel.asked == []
    assert rig.wake().decision == Idle()
    assert len(rig.values(Sent)) == 1


def _gone(_):
    raise StoreError("the disk is gone")


def test_the_text_of_an_error_is_redacted_and_truncated():
    """LOG-13: the message of a channel's exception may hold a key, and it may be long."""
    key = "gh" + "p_" + "0aB1" * 9
    rig = rigged(HELLO, Flaky(times=1, error=RuntimeError(f"401 for {key} " + "x" * 9_000 + "\udcff")))
    rig.say("Hi.")
    (failed,) = rig.values(SendFailed)
    assert key not in failed.error.message
    assert failed.error.message.startswith("401 for ")
    assert len(failed.error.message) == 1_000


@pytest.mark.parametrize("place", [*PLACES])
def test_a_cancelled_error_of_a_channel_is_a_send_failure(place):
    """RUN-23: it does not end the run; the reply is sent later, and the model is called once."""
    channel = Flaky(place=place, times=1, error=asyncio.CancelledError())
    rig = rigged(HELLO, channel)
    assert rig.say("Hi.").decision == Idle()
    (reply,) = replies(rig)
    assert [failed.error.kind for failed in rig.values(SendFailed)] == ["CancelledError"]
    assert (channel.replies, len(rig.values(ModelCall))) == ({reply.id: "Hello there."}, 1)
    assert asyncio.run(replay(rig.store, rig.session.name)).ok


class Greeting:
    """A model that says hello."""

    name, can_resume = "greeting", False

    async def stream(self, request):
        yield TextDelta("Hello there.")
        yield Finished()


def test_a_prompt_of_an_agent_with_two_channels_is_answered_on_both():
    """RUN-23: `Agent(channels=(a, b))` delivers each reply to both channels."""
    one, other = MemoryChannel("one"), MemoryChannel("other")
    store = MemoryStore()
    agent = Agent("greeting:x", channels=(one, other), provider=Greeting())
    session = asyncio.run(agent.run(store, "Hi.")).session
    assert [*one.replies.values()] == [*other.replies.values()] == ["Hello there."]
    assert asyncio.run(replay(store, session.name)).ok


class Cancelling(MemoryChannel):
    """A channel in whose first `end` the running task is cancelled."""

    is_due = True

    async def end(self, reply_id):
        task = asyncio.current_task()
        assert task is not None
        if self.is_due:
            self.is_due = False
            task.cancel()
        await asyncio.sleep(0)
        await super().end(reply_id)


@pytest.mark.parametrize(
    "channel", [Cancelling("outbox"), Flaky(place="end", times=1, error=KeyboardInterrupt())], ids=["cancel", "ctrl-c"]
)
def test_cancelling_the_worker_is_not_recorded_as_a_send_failure(channel):
    """A worker that is cancelled or interrupted while it sends ends, and writes no failure."""
    rig = rigged(HELLO, channel)
    with pytest.raises((asyncio.CancelledError, KeyboardInterrupt)):
        rig.say("Hi.")
    assert rig.values(SendFailed) == []
    assert rig.wake().decision == Idle()
    assert len(rig.values(Sent)) == 1


# ── other work ───────────────────────────────────────────────────────────────────────────────────


def _order(rig):
    return [value.type for value in rig.values(ModelCall, SendFailed, Sent, ToolStarted)]


def test_a_back_off_does_not_delay_the_turn():
    """RUN-23: tools run and the model is called while a reply waits; the channel still gets its replies in order."""
    channel = Flaky(place="end", times=1)
    rig = rigged(TOOLS, channel)
    assert rig.say("Hi.").text == "Done."
    assert _order(rig) == ["call", "send_failed", "tool_started", "call", "sent", "sent"]
    first, second = replies(rig)
    assert [sent.reply_id for sent in rig.values(Sent)] == [first.id, second.id]
    streamed = [reply_id for where, reply_id in channel.asked if where == "begin"]
    assert streamed == [first.id, first.id, first.id, second.id], "the second was not streamed ahead of the first"


def test_a_due_reply_is_sent_between_two_steps():
    """RUN-23: a reply is sent at the first step after its back-off, not at the end of the turn."""
    rig = rigged(TOOLS, Flaky(place="end", times=1))
    rig.outside.interrupt = lambda: setattr(rig.clock, "ms", rig.clock.ms + 5_000)
    rig.say("Hi.")
    assert _order(rig) == ["call", "send_failed", "tool_started", "sent", "call", "sent"]


def test_a_prompt_during_a_back_off_is_answered_before_it_ends():
    """RUN-23: the wait for a channel ends when there is other work."""
    rig = rigged(TOOLS, Flaky(place="end", times=2))
    runtime = rig.runtime
    said: list[int] = []

    async def pause(ms):
        if not said:
            said.append(rig.session.say("And?"))
            # The wait is cancelled as soon as the message is seen.
            await asyncio.sleep(20)
            raise AssertionError("the message was not noticed")
        await rig.clock.pause(ms)

    rig.runtime = lambda store=None: runtime(store).with_changes(sleep=pause)
    assert rig.say("Hi.").text == "More."
    assert len(rig.values(ModelCall)) == 3
    assert len(rig.values(Sent)) == 3
    calls = [value.type for value in rig.values(ModelCall, Sent)]
    assert calls == ["call", "call", "call", "sent", "sent", "sent"]


def test_a_reply_is_resent_while_the_session_waits_for_a_person():
    """RUN-23: an open question does not prevent another attempt to send a reply."""
    rig = rigged(TOOLS, Flaky(times=1), approval="ask")
    report = rig.say("Hi.")
    assert isinstance(report.decision, Await)
    assert report.decision.attention
    assert report.rules[-3:] == ("retry", "retry", "call waits")
    assert _order(rig) == ["call", "send_failed", "sent"]


def test_a_cancel_during_a_back_off_ends_the_turn():
    """RUN-12: a failing channel does not prevent a person from cancelling."""
    rig = rigged(TOOLS, Flaky(times=1), approval="ask")
    runtime = rig.runtime

    async def pause(ms):
        request_cancel(rig.session)
        await rig.clock.pause(ms)

    rig.runtime = lambda store=None: runtime(store).with_changes(sleep=pause)
    assert rig.say("Hi.").decision == Idle("cancelled")
    assert len(rig.values(Sent)) == 1


class Poisoned(Flaky):
    """A channel that always refuses some replies."""

    def __init__(self, refused):
        super().__init__()
        self.refused = refused

    async def end(self, reply_id):
        if self.replies[reply_id] in self.refused:
            raise ValueError("400: this message cannot be shown")
        await super().end(reply_id)


def test_a_reply_that_is_always_refused_does_not_block_later_ones():
    """RUN-23: after its last attempt a reply is passed over, and later ones are sent."""
    rig = rigged(TOOLS, Poisoned({"On it."}))
    rig.say("Hi.")
    first, second = replies(rig)
    assert [failed.reply_id for failed in rig.values(SendFailed)] == [first.id] * SENDS_MAX
    assert [sent.reply_id for sent in rig.values(Sent)] == [second.id]
    assert overview(rig.session.tree).state == "undelivered"


def test_a_channel_that_is_down_is_tried_once_for_each_further_reply():
    """RUN-23: the attempts of one wake are limited, however many replies there are."""
    rig = rigged(TOOLS, Flaky(times=1_000))
    rig.say("Hi.")
    rig.say("And?")
    first, second, third = (reply.id for reply in replies(rig))
    tried = [failed.reply_id for failed in rig.values(SendFailed)]
    assert tried == [first] * SENDS_MAX + [second] + [first] * SENDS_MAX + [second, third]
    assert len(rig.values(ModelCall)) == 3


# ── calls that end otherwise ─────────────────────────────────────────────────────────────────────


def test_a_channel_that_fails_during_a_failing_model_call():
    """RUN-23, RUN-25: the shown part of a reply that failed is reset, and a failed reset is repeated."""
    talk = {"Hi.": [{"text": "Hel", "fault": {"kind": "overload", "retryable": True}}, {"text": "Hello."}]}
    for place in ("begin", "delta", "reset"):
        channel = Flaky(place=place, times=1)
        rig = rigged(talk, channel)
        rig.provider = Faulty()
        assert rig.say("Hi.").text == "Hello."
        kinds = [value.type for value in rig.values(Failed, SendFailed, Sent)]
        assert kinds == ["failed", "send_failed", "sent", "sent"]
        assert [sent.interrupted for sent in rig.values(Sent)] == ["reset", None]
        assert [*channel.replies.values()] == ["", "Hello."]
        assert rig.values(SendFailed)[0].parent_id == rig.values(Failed)[0].id
        assert asyncio.run(replay(rig.store, "s")).ok


class Faulty:
    """A model whose first reply is cut off and whose next one has another text."""

    name, can_resume = "scripted", False

    def __init__(self, *, dies=False):
        self.dies, self.calls = dies, 0

    def __call__(self, provider, model):
        return self

    async def stream(self, request):
        self.calls += 1
        if self.calls == 1:
            yield TextDelta("Perhaps")
            if self.dies:
                raise SimulatedCrash
            yield Faulted("overload", "busy", retryable=True, delay_ms=3_000)
            return
        yield TextDelta("Hello.")
        yield Finished()


def test_a_slow_send_during_a_model_retry_wait_replays_in_order():
    """RUN-14: the action that is due first goes first, however late its entry is written; replay decides the same."""
    slow = Flaky(place="end", times=1)
    rig = rigged(TOOLS, slow)
    provider, fault = rig.provider, Faulty()

    class Second:
        name, can_resume = "scripted", False

        def stream(self, request):
            is_second = request.messages[-1].role == "toolResult" and fault.calls == 0
            return fault.stream(request) if is_second else provider.stream(request)

    rig.provider = lambda _, __: Second()
    begin = slow.begin

    async def slowly(reply_id, attempt):
        rig.clock.ms += 10_000 if rig.values(Failed) else 0
        await begin(reply_id, attempt)

    slow.begin = slowly  # type: ignore[method-assign]
    assert rig.say("Hi.").text == "Done."
    kinds = [value.type for value in rig.values(Failed, SendFailed, Sent, ModelCall)]
    assert kinds == ["call", "send_failed", "call", "failed", "sent", "sent", "call", "sent"]
    assert [sent.interrupted for sent in rig.values(Sent)] == [None, "reset", None]
    assert asyncio.run(replay(rig.store, "s")).ok


def test_a_model_call_delayed_by_hooks_replays():
    """RUN-14: hooks may take longer than a back-off; replay makes the decision that was made before it had passed."""
    rig = rigged(TOOLS, Flaky(place="end", times=1), hooks=(HookSettings(name="slow"),))
    runtime = rig.runtime

    async def slow(terms, occasion):
        rig.clock.ms += 10_000
        return ()

    rig.runtime = lambda store=None: runtime(store).with_changes(hook_texts=slow)
    rig.say("Hi.")
    assert _order(rig) == ["call", "send_failed", "tool_started", "call", "sent", "sent"]
    assert asyncio.run(replay(rig.store, "s")).ok


@pytest.mark.parametrize("place", ["begin", "reset"])
def test_a_channel_that_missed_a_restarted_reply_is_reset(place):
    """RUN-8, RUN-23: a channel that missed the restart drops its text and gets the whole reply."""
    channel = Flaky(place=place)
    rig = rigged(HELLO, channel)
    rig.provider = Faulty(dies=True)
    rig.session.say("Hi.")
    with pytest.raises(SimulatedCrash):
        rig.wake()
    assert list(channel.replies.values()) == ["Perhap"]
    rig.now += 1e9
    channel.times = 1
    assert rig.wake().text == "Hello."
    assert list(channel.replies.values()) == ["Hello."]
    assert len(rig.values(Sent)) == 1


def test_a_parent_resends_while_its_sub_agent_waits_for_a_person():
    """RUN-23: a turn that only waits for its sub-agent has no other work, so the reply is sent."""
    talk = {
        "Hi.": [{"text": "Sent out.", "toolCalls": [{"name": "agent", "input": {"prompt": "Pay."}}]}, {"text": "So."}],
        "Pay.": [asks(("pay", 1)), {"text": "Paid."}],
    }
    store, clock, outside, channel = MemoryStore(), Ticking(), Outside(), Flaky(times=2)
    tools = (*outside.tools, SubagentTool())
    agent = Agent(model="scripted:m", tools=tools, policy=Policy(approvals={"pay": "ask"}))
    session = Session.create(store, clock=clock, model="m", provider="scripted", session_id="s")
    agent.enter(session)
    runtime = LiveRuntime(store, tools=tools, channels=[channel], provider=Play(talk), clock=clock, holder="w")
    runtime = runtime.with_changes(sleep=clock.pause)
    session.say("Hi.")
    assert isinstance(asyncio.run(wake(runtime, "s")).decision, Await)
    values = [entry.value for entry in read_log(store, "s").entries]
    assert [value.type for value in values if isinstance(value, Spawned | SendFailed | Sent)] == [
        "send_failed",
        "spawned",
        "send_failed",
        "sent",
    ]


# ── deaths, stores, old rules ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("at", range(2, 24))
def test_a_crash_at_any_write_between_failures(place, at):
    """Laws 4, 5 and 11, RUN-9: after a worker crashed between failures the session wakes, delivers and replays."""
    channel = Flaky(place=place, times=2)
    rig = rigged(TOOLS, channel)
    rig.session.say("Hi.")
    rig.die(at)
    assert rig.wake().decision == Idle()
    first, second = replies(rig)
    assert [sent.reply_id for sent in rig.values(Sent)] == [first.id, second.id]
    assert channel.replies == {first.id: "On it.", second.id: "Done."}
    assert channel.ended == {first.id, second.id}
    assert asyncio.run(replay(rig.store, "s")).ok


def test_delivery_on_every_store(store):
    """RUN-23: undelivered after one wake, delivered by the next, one model call, replayed exactly."""
    clock, channel, provider = Ticking(), Flaky(place="delta", times=SENDS_MAX), Play(HELLO)
    session = Agent(model="scripted:m").begin(store, sender="ann")
    runtime = LiveRuntime(store, channels=[channel], provider=provider, clock=clock, holder="w")
    runtime = runtime.with_changes(sleep=clock.pause)
    session.say("Hi.")
    assert asyncio.run(wake(runtime, session.name)).decision == Idle()
    assert overview(read_log(store, session.name).tree).state == "undelivered"
    assert asyncio.run(wake(runtime, session.name)).rules == ("owed", "rest")
    values = [entry.value for entry in read_log(store, session.name).entries]
    assert sum(isinstance(value, ModelCall) for value in values) == 1
    assert [value.attempt for value in values if isinstance(value, SendFailed)] == [1, 2, 3]
    assert list(channel.replies.values()) == ["Hello there."]
    assert asyncio.run(replay(store, session.name)).ok
