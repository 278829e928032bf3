"""RUN-10, RUN-12: one watcher for each session; every subscription gets each entry and each piece once, in order."""

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernel.watching import until
from wakelog.errors import Unavailable
from wakelog.log.content import TextDelta, encode_delta
from wakelog.log.entry import Message, Partial, Queued, Resumed
from wakelog.runtime.waiting import wait_for_entry
from wakelog.session import Session
from wakelog.stores import open_store
from wakelog.stores.memory import MemoryStore
from wakelog.stores.retrying import with_retries
from wakelog.testing.builders import SessionBuilder
from wakelog.watcher import Subscription

PATIENCE_S = 60


@pytest.fixture(params=["memory", "files", "sqlite", "postgres"])
def store(request, tmp_path):
    urls = {"memory": "memory:", "files": str(tmp_path / "store"), "sqlite": f"sqlite:{tmp_path / 'own.db'}"}
    opened = open_store(urls.get(request.param) or request.getfixturevalue("postgres_url"))
    yield opened
    opened.close()


@pytest.fixture
def memory():
    return MemoryStore()


def watchers():
    return [thread for thread in threading.enumerate() if thread.name == "wakelog-watcher"]


def collect(subscription, is_enough):
    """Wait for news until there is enough; return entries and pieces in the order in which they came."""
    seen: list[Any] = []
    while not is_enough(seen):
        found = subscription.wait(PATIENCE_S)
        assert found, f"nothing came after {seen}"
        for news in found:
            seen += [*news.entries, *news.pieces]
    return seen


def say(store, name, reply_id, *texts):
    for text in texts:
        store.journal(name, reply_id, encode_delta(TextDelta(text)))


# ── order, and once ──────────────────────────────────────────────────────────────────────────────


STORES: dict[str, Callable[[Any], str]] = {
    "memory": lambda place: "memory:",
    "files": str,
    "sqlite": lambda place: f"sqlite:{place}/own.db",
}
numbers = itertools.count()


@pytest.mark.parametrize("kind", STORES)
@given(
    writers=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    pieces=st.integers(0, 8),
    starts=st.lists(st.integers(0, 12), min_size=1, max_size=4),
)
@settings(max_examples=25, deadline=None)
def test_every_subscription_gets_everything_once_and_in_order(kind, tmp_path_factory, writers, pieces, starts):
    """RUN-10: with several writers at once, wherever and whenever a subscription begins."""
    store = open_store(STORES[kind](tmp_path_factory.mktemp(f"store{next(numbers)}")))
    session = Session.create(store, session_id="s")
    name, last = session.name, sum(writers)
    barrier = threading.Barrier(1 + len(writers) + len(starts))

    def write(count):
        barrier.wait()
        for _ in range(count):
            Session(store, "s").say("word")

    def stream():
        barrier.wait()
        say(store, name, "r", *map(str, range(pieces)))

    def follow(start):
        barrier.wait()
        with Subscription(store, name, after=min(start, last) - 1, pieces={}) as subscription:
            return collect(
                subscription,
                lambda seen: [getattr(item, "seq", 0) for item in seen].count(last) and len(texts(seen)) == pieces,
            )

    def texts(seen):
        return [item.delta.text for item in seen if hasattr(item, "delta")]

    with ThreadPoolExecutor(1 + len(writers) + len(starts)) as pool:
        for count in writers:
            pool.submit(write, count)
        pool.submit(stream)
        for start, found in [(min(start, last), pool.submit(follow, start)) for start in starts]:
            seen = found.result(PATIENCE_S)
            assert [item.seq for item in seen if hasattr(item, "seq")] == list(range(start, last + 1))
            assert texts(seen) == list(map(str, range(pieces)))
    store.close()
    until(lambda: not watchers())


def test_a_journal_that_is_closed_and_not_dropped_yet_is_not_read_again(memory):
    """Law 5: between a `partial` entry and the end of its journal nothing in the journal is new."""
    story = SessionBuilder(memory)
    name = story.session.name
    story.call("r")
    with Subscription(memory, name, after=story.session.last_seq, pieces={}) as subscription:
        say(memory, name, "r", "a", "b")
        assert [item.delta.text for item in collect(subscription, lambda seen: len(seen) == 2)] == ["a", "b"]
        story.session.append(Partial(reply_id="r"))
        assert [item.type for item in collect(subscription, len)] == ["partial"]
        assert subscription.catch_up() == []
        memory.drop(name, "r")
        story.session.append(Resumed(reply_id="r"))
        say(memory, name, "r", "c")
        seen = collect(subscription, lambda seen: len(seen) == 2)
        assert (seen[0].type, seen[1].delta.text, seen[1].offset) == ("resumed", "c", 0)


def test_pieces_of_a_closed_journal_are_not_new(memory):
    """Law 5: a subscription that begins after a `partial` entry does not show the journal that it closes."""
    story = SessionBuilder(memory)
    story.call("r")
    say(memory, story.session.name, "r", "a")
    story.session.append(Partial(reply_id="r"))
    subscription = Subscription(memory, story.session.name, after=-1, pieces={})
    assert [news.pieces for news in subscription.catch_up()] == [()]


class HeldBack(MemoryStore):
    """A memory store that gives the result of a wait only when it is told to."""

    def __init__(self):
        super().__init__()
        self.found, self.released = threading.Event(), threading.Event()

    def follow(self, session, *, timeout_s, **more):
        result = super().follow(session, timeout_s=timeout_s, **more)
        if timeout_s and result.pieces:
            self.found.set()
            self.released.wait(PATIENCE_S)
        return result


def test_a_stale_result_is_not_given():
    """Law 5: pieces that the thread has read are old if an entry read meanwhile starts their journal again."""
    store = HeldBack()
    story = SessionBuilder(store)
    name = story.session.name
    story.call("r")
    with Subscription(store, name, after=story.session.last_seq, pieces={}) as subscription:
        say(store, name, "r", "old")
        assert store.found.wait(PATIENCE_S)
        assert [piece.delta.text for news in subscription.catch_up() for piece in news.pieces] == ["old"]
        story.session.append(Partial(reply_id="r"))
        store.drop(name, "r")
        story.session.append(Resumed(reply_id="r"))
        assert len([entry for news in subscription.catch_up() for entry in news.entries]) == 2
        say(store, name, "r", "new")
        store.released.set()
        assert [piece.delta.text for piece in collect(subscription, len)] == ["new"]


def test_a_subscription_that_does_not_fetch_loses_nothing(memory, monkeypatch):
    """A bound on everything: more news than a queue holds are read from the log later."""
    monkeypatch.setattr("wakelog.watcher._QUEUE_MAX", 2)
    session = Session.create(memory)
    with (
        Subscription(memory, session.name, after=0) as slow,
        Subscription(memory, session.name, after=0) as fast,
    ):
        for number in range(1, 10):
            session.say("word")
            collect(fast, lambda seen, number=number: seen and seen[-1].seq == number)
        assert [entry.seq for entry in collect(slow, lambda seen: seen and seen[-1].seq == 9)] == list(range(1, 10))


# ── one thread ───────────────────────────────────────────────────────────────────────────────────


def test_subscriptions_share_one_thread_that_ends_with_the_last(store):
    """RUN-10: also of a retrying store around the same store, with and without journals."""
    session = Session.create(store, session_id="s")
    first = Subscription(store, session.name, after=0)
    second = Subscription(with_retries(store), session.name, after=0, pieces={})
    first.start()
    second.start()
    assert len(watchers()) == 1
    session.say("word")
    assert [entry.seq for entry in collect(first, len)] == [1]
    first.close()
    say(store, session.name, "r", "a")
    assert [item.seq if hasattr(item, "seq") else item.offset for item in collect(second, lambda it: len(it) == 2)] == [
        1,
        0,
    ]
    second.close()
    until(lambda: not watchers())


def test_a_closed_subscription_keeps_its_position(memory):
    session = Session.create(memory)
    subscription = Subscription(memory, session.name, after=0)
    with subscription:
        session.say("one")
        until(lambda: subscription.has_news)
    session.say("two")
    assert [entry.seq for news in subscription.catch_up() for entry in news.entries] == [1, 2]
    with subscription:
        session.say("three")
        assert [entry.seq for entry in collect(subscription, len)] == [3]


# ── the end of the store, and outages ────────────────────────────────────────────────────────────


def test_closing_the_store_ends_a_generator(store):
    """A thread that follows a session ends with its store, and does not open it again."""
    session = Session.create(store, session_id="s")
    told = session.follow(after=-1)
    assert next(told).seq == 0
    with ThreadPoolExecutor(1) as pool:
        rest = pool.submit(list, told)
        store.close()
        assert rest.result(PATIENCE_S) == []
    until(lambda: not watchers())


class Outage(MemoryStore):
    """A memory store that is unavailable to followers for a number of calls."""

    failures = 0

    def follow(self, session, **more):
        if self.failures:
            self.failures -= 1
            raise Unavailable("the store is away")
        return super().follow(session, **more)


def test_an_outage_is_told_once_and_survived():
    """RUN-12: the thread tries again; the subscriber gets the error, and later everything it missed."""
    store = Outage()
    session = Session.create(store)
    subscription = Subscription(store, session.name, after=0)
    store.failures = 1
    with subscription:
        with pytest.raises(Unavailable):
            subscription.wait(PATIENCE_S)
        session.say("word")
        assert [entry.seq for entry in collect(subscription, len)] == [1]


def test_a_wait_for_a_cancel_survives_an_outage():
    """RUN-12: a store that is away for a moment does not end the wait, and does not block the event loop."""
    store = Outage()
    session = Session.create(store)
    store.failures = 2

    async def cancelled():
        waiting = asyncio.ensure_future(
            wait_for_entry(store, session.name, after=0, is_wanted=lambda entry: isinstance(entry.value, Queued))
        )
        await asyncio.to_thread(until, lambda: not store.failures)
        session.append(Queued(mode="cancel"))
        return (await waiting).value.mode

    assert asyncio.run(cancelled()) == "cancel"


def test_an_error_that_is_none_of_the_stores_reaches_the_subscriber():
    """A store is any code: its thread ends, and the subscriber raises what happened."""
    store = Outage()
    session = Session.create(store)
    store.follow = lambda *_, **__: 1 / 0  # type: ignore[method-assign]
    with Subscription(store, session.name, after=0) as subscription, pytest.raises(ZeroDivisionError):
        subscription.wait(PATIENCE_S)
    until(lambda: not watchers())


# ── the public generator ─────────────────────────────────────────────────────────────────────────


def test_a_session_is_followed_by_a_generator(store):
    """RUN-10: entries that another object appends, from a position, until it is closed."""
    session = Session.create(store, session_id="s")
    session.say("one")
    told = session.follow()
    Session(store, "s").say("two")
    assert next(told).seq == 2
    assert isinstance(next(session.follow(after=0)).value, Message | Queued)
    told.close()
    until(lambda: not watchers())


def test_a_generator_ends_after_its_timeout(memory):
    session = Session.create(memory)
    session.say("one")
    assert [entry.seq for entry in session.follow(after=-1, timeout_s=0.001)] == [0, 1]


def test_a_torn_tail_is_reported_once(memory):
    """Law 9: damage is told, and the thread does not read it again and again without a pause."""
    session = Session.create(memory)
    with Subscription(memory, session.name, after=0) as subscription:
        memory.plant(session.name, b'{"v":1,"type":"mess')
        (news,) = subscription.wait(PATIENCE_S)
        assert [item.kind for item in news.damage] == ["torn"]
        session.say("on")
        seen = collect(subscription, lambda seen: len(seen) == 2)
        assert [entry.type for entry in seen] == ["damage", "message"]
    with contextlib.closing(session.follow(after=0)) as told:
        assert [next(told).seq, next(told).seq] == [1, 2]
