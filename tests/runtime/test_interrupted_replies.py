"""RUN-25: every reply id that a channel was shown ends in `end` or `reset`, after a failed reset and a crash too."""

import asyncio

import pytest

from tests.laws.plays import Ticking
from tests.runtime.rigs import Flaky, Rig
from wakelog.app.agent import Agent
from wakelog.channels.in_process import MemoryChannel
from wakelog.decide.decisions import Idle
from wakelog.decide.policy import SENDS_MAX
from wakelog.log.content import BaseMessage, Faulted, Finished, TextDelta
from wakelog.log.entry import Cancelled, Compaction, Failed, Head, ModelCall, SendFailed, Sent
from wakelog.log.tree import Tree
from wakelog.projections.deliveries import deliveries
from wakelog.projections.overview import overview
from wakelog.projections.session_state import build_carried_state, session_state
from wakelog.reading import read_active, read_log
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.replay.verification import replay
from wakelog.runtime.user_actions import request_cancel
from wakelog.runtime.wake import wake
from wakelog.stores import open_store
from wakelog.testing.crashing_store import SimulatedCrash


class Breaking:
    """A model whose first replies show `Perhaps` and then fail or die; the next one says `Hello.`"""

    name, can_resume = "scripted", False

    def __init__(self, *ends):
        self.ends = [*ends]

    def __call__(self, provider, model):
        return self

    async def stream(self, request):
        if not self.ends:
            yield TextDelta("Hello.")
            yield Finished()
            return
        end = self.ends.pop(0)
        if end is not NO_TEXT:
            yield TextDelta("Perhaps")
        if end is DIES:
            raise SimulatedCrash
        if end is HANGS:
            await asyncio.Event().wait()
        yield FATAL if end is FATAL else BUSY


BUSY = Faulted("overload", "busy", retryable=True, delay_ms=0)
FATAL = Faulted("refused", "no", retryable=False)
NO_TEXT, DIES, HANGS = object(), object(), object()


class Shown(Flaky):
    """A channel that keeps every id that it was shown, and whether it is closed."""

    def __init__(self, name="outbox", place="", times=0, **more):
        super().__init__(name, place, times, **more)
        self.is_open = {}
        self.cancels = None

    async def begin(self, reply_id, attempt):
        await super().begin(reply_id, attempt)
        self.is_open[reply_id] = True

    async def delta(self, reply_id, offset, text):
        self.is_open[reply_id] = True
        await super().delta(reply_id, offset, text)
        if self.cancels is not None:
            request_cancel(self.cancels)

    async def reset(self, reply_id):
        await super().reset(reply_id)
        self.is_open[reply_id] = False

    async def end(self, reply_id):
        await super().end(reply_id)
        self.is_open[reply_id] = False


def rigged(model, *channels, **agreed):
    """A rig with this model and these channels; its policy does not redact, so that no text is held back."""
    rig = Rig({}, redact="off", **agreed)
    rig.provider = model
    attach(rig, *channels)
    return rig


def attach(rig, *channels):
    """Let the next workers of a rig have these channels."""
    attached = {channel.name: channel for channel in channels}
    rig.runtime = lambda store=None: Rig.runtime(rig, store).with_changes(channels=attached)


def killed(rig):
    """Wake the session with a worker that dies in mid-stream."""
    with pytest.raises(SimulatedCrash):
        rig.wake()
    rig.now += 1e9


def closed(*channels):
    """Whether each reply shown is ended or reset."""
    return all(channel.is_open and not any(channel.is_open.values()) for channel in channels)


def replayed(rig):
    return asyncio.run(replay(rig.store, "s")).ok


# ── model calls that fail ────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("fault", [BUSY, FATAL], ids=["busy", "fatal"])
@pytest.mark.parametrize("times", range(SENDS_MAX + 1))
def test_a_failed_reset_is_repeated(fault, times):
    """The model fails in mid-stream and `reset` raises: the old id is reset later, by this worker or the next one."""
    channel = Shown(place="reset", times=times)
    rig = rigged(Breaking(fault), channel)
    rig.say("Hi.")
    if times == SENDS_MAX:
        assert overview(rig.session.tree).undelivered == 1
        rig.wake()
    assert closed(channel)
    assert [failed.attempt for failed in rig.values(SendFailed)] == [*range(1, times + 1)]
    assert [sent.interrupted for sent in rig.values(Sent)].count("reset") == 1
    assert overview(rig.session.tree).undelivered == 0
    assert read_log(rig.store, "s").damage == ()
    assert replayed(rig)


def test_the_other_channel_goes_on_while_one_is_not_reset():
    """One of two channels cannot be reset: the other gets the new reply at once, the first one after its reset."""
    sound, broken = Shown("sound"), Shown("broken", place="reset", times=2)
    rig = rigged(Breaking(BUSY), broken, sound)
    assert rig.say("Hi.").text == "Hello."
    assert closed(sound, broken)
    assert [*sound.replies.values()] == [*broken.replies.values()] == ["", "Hello."]
    closings = [(sent.channel, sent.interrupted) for sent in rig.values(Sent)]
    assert closings == [("sound", "reset"), ("sound", None), ("broken", "reset"), ("broken", None)]
    assert replayed(rig)


def test_a_call_that_fails_without_text_shows_nothing():
    """A channel is told of a reply with its first text, so a call that fails before that leaves nothing to close."""
    channel = Shown()
    rig = rigged(Breaking(NO_TEXT), channel)
    rig.say("Hi.")
    (reply_id,) = channel.is_open
    assert [sent.reply_id for sent in rig.values(Sent)] == [reply_id]
    assert closed(channel)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("at", range(14))
def test_a_worker_that_dies_at_any_write_leaves_nothing_open(at, after):
    """Killed between the fault and the reset, or anywhere else: the next worker closes what was shown."""
    channel = Shown()
    rig = rigged(Breaking(BUSY), channel)
    rig.session.say("Hi.")
    rig.die(at, after=after)
    assert rig.wake().decision == Idle()
    assert closed(channel)
    assert [text for text in channel.replies.values() if text] == ["Hello."]
    assert replayed(rig)


# ── workers that stop ────────────────────────────────────────────────────────────────────────────


def test_a_reply_that_is_not_continued_is_reset():
    """A worker dies in mid-stream and `faults_max` is reached: the turn fails, and the shown part is reset."""
    channel = Shown()
    rig = rigged(Breaking(DIES), channel, faults_max=1)
    rig.session.say("Hi.")
    killed(rig)
    assert rig.wake().decision == Idle("failed")
    assert [failed.reason for failed in rig.values(Failed)] == ["faults"]
    assert closed(channel)
    assert replayed(rig)


def test_a_head_that_is_moved_away_leaves_nothing_open():
    """An interrupted reply on a branch that was left is reset; back there, it is continued under its own id."""
    channel = Shown()
    rig = rigged(Breaking(DIES), channel)
    rig.session.say("Hi.")
    killed(rig)
    prompt = rig.session.tree.head
    rig.session.append(Head(target_id=rig.session.tree.parent(prompt)))
    assert overview(rig.session.tree).undelivered == 1
    assert rig.wake().decision == Idle()
    assert closed(channel)
    assert len(rig.values(ModelCall)) == 1
    rig.session.append(Head(target_id=prompt))
    assert rig.wake().text == "Hello."
    assert closed(channel)
    assert [*channel.replies.values()] == ["Hello."]
    assert replayed(rig)


def test_a_reply_on_a_branch_that_was_left_is_sent():
    """A reply is complete, its worker dies before it is sent, and the head is moved away: the channel gets its end."""
    channel = Shown(place="end", times=1, error=KeyboardInterrupt())
    rig = rigged(Breaking(), channel)
    with pytest.raises(KeyboardInterrupt):
        rig.say("Hi.")
    rig.session.append(Head(target_id=rig.session.tree.root))
    assert rig.wake().decision == Idle()
    assert (closed(channel), [*channel.replies.values()]) == (True, ["Hello."])
    assert replayed(rig)


def test_a_fork_closes_nothing_of_its_parent():
    """The messages of a parent are its own: a fork sends and resets none of them."""
    channel = Shown()
    rig = rigged(Breaking(DIES), channel)
    rig.session.say("Hi.")
    killed(rig)
    fork = rig.session.fork(at=rig.session.tree.head)
    channel.asked.clear()
    assert deliveries(fork.tree).pending(None).undelivered == ()
    fork_runtime = rig.runtime()
    asyncio.run(wake(fork_runtime, fork.name))
    (new_id,) = {reply_id for _, reply_id in channel.asked}
    assert new_id not in {call.reply_id for call in rig.values(ModelCall)}
    rig.wake()
    assert closed(channel)


def test_a_channel_that_is_gone_is_closed_when_it_is_back():
    """A channel that was removed from the configuration: its reply stays undelivered until it is attached again."""
    gone, other = Shown("gone"), Shown("other")
    rig = rigged(Breaking(DIES), gone, other)
    rig.session.say("Hi.")
    killed(rig)
    attach(rig, other)
    assert rig.wake().text == "Hello."
    assert (closed(other), any(gone.is_open.values())) == (True, True)
    assert overview(rig.session.tree).undelivered == 1
    attach(rig, gone, other)
    rig.wake()
    assert closed(gone, other)
    assert gone.replies == other.replies
    assert replayed(rig)


def test_a_compaction_carries_what_is_to_be_closed():
    """A reset that is due is still due after a compaction, also where only the tail of the log is read."""
    channel = Shown(place="reset", times=SENDS_MAX)
    rig = rigged(Breaking(FATAL), channel)
    rig.say("Hi.")
    state = build_carried_state(rig.session.tree, rig.session.tree.head)
    rig.session.append(Compaction(summary="They talked.", state=state))
    tail = read_active(rig.store, "s").tree
    assert tail.partial
    pending = deliveries(tail).pending(None)
    assert [(reply.channel, reply.interrupted) for reply in pending.undelivered] == [("outbox", "reset")]
    rig.wake()
    assert closed(channel)
    assert replayed(rig)


# ── replies that a person cancels ────────────────────────────────────────────────────────────────


def test_a_cancelled_reply_ends_with_its_words():
    """The channel gets `end`, and holds the words that the log and the model's next request hold."""
    channel = Shown()
    rig = rigged(Breaking(HANGS), channel)
    channel.cancels = rig.session
    assert rig.say("Hi.").decision == Idle("cancelled")
    (cancelled,) = rig.values(Cancelled)
    assert channel.replies == {cancelled.reply_id: "Perhaps"}
    assert (channel.ended, [sent.interrupted for sent in rig.values(Sent)]) == ({cancelled.reply_id}, ["ended"])
    assert replayed(rig)


@pytest.mark.parametrize("compacted", [False, True])
def test_a_reply_that_is_cancelled_after_a_crash_ends_with_its_words(compacted):
    """The next worker ends it with the text from the journal, also if a compaction comes between."""
    channel, other = Shown(), Shown("other")
    rig = rigged(Breaking(DIES), channel)
    rig.session.say("Hi.")
    killed(rig)
    request_cancel(rig.session)
    attach(rig, other)
    assert rig.wake().decision == Idle("cancelled")
    if compacted:
        state = build_carried_state(rig.session.tree, rig.session.tree.head)
        rig.session.append(Compaction(summary="They talked.", state=state))
    attach(rig, channel)
    rig.wake()
    assert (closed(channel), [*channel.replies.values()], len(channel.ended)) == (True, ["Perhaps"], 1)
    (cancelled,) = rig.values(Cancelled)
    assert BaseMessage(content=cancelled.content).text == "Perhaps"
    assert replayed(rig)


# ── stores, states ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["files", "sqlite", "postgresql"])
def store(request, tmp_path):
    """A store of each kind that outlives a process."""
    if request.param == "postgresql":
        return open_store(request.getfixturevalue("postgres_url"))
    return open_store(f"jsonl:{tmp_path}/store" if request.param == "files" else f"sqlite:{tmp_path}/store.db")


def test_every_store_says_what_is_to_be_closed(store):
    """A reset that failed in one wake is done in the next, in every store, and the log replays."""
    channel, clock = Shown(place="reset", times=SENDS_MAX), Ticking()
    session = Agent(model="scripted:m").begin(store, sender="ann")
    runtime = LiveRuntime(store, channels=[channel], provider=Breaking(FATAL), clock=clock, holder="w")
    runtime = runtime.with_changes(sleep=clock.pause)
    session.say("Hi.")
    asyncio.run(wake(runtime, session.name))
    assert overview(read_log(store, session.name).tree).undelivered == 1
    asyncio.run(wake(runtime, session.name))
    assert closed(channel)
    assert asyncio.run(replay(store, session.name)).ok


def test_the_state_of_the_session_holds_the_same_deliveries():
    """What every step folds from a few new entries equals the fold over all entries, from any of them on."""
    rig = rigged(Breaking(BUSY, DIES), Shown(place="reset", times=SENDS_MAX), MemoryChannel("other"))
    rig.session.say("Hi.")
    killed(rig)
    growing = Tree()
    for at, entry in enumerate(rig.entries):
        growing.add(entry)
        found = deliveries(growing)
        assert found == deliveries(Tree().add_all(rig.entries[: at + 1])) == session_state(growing).deliveries
    assert found.pending(None).undelivered
