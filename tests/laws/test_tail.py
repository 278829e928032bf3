"""Law 2: for every log and head, each projection of the tail equals that of the whole log."""

from collections import Counter

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.laws.logs import DAMAGE, MIXED_STORIES, STORIES, bytes_of, damaged, store_of, tell
from wakelog.errors import WakelogError
from wakelog.log.entry import Compaction
from wakelog.projections.context import build_context
from wakelog.projections.deliveries import deliveries
from wakelog.projections.overview import overview
from wakelog.projections.pending import pending
from wakelog.reading import read_active, read_log
from wakelog.session import Session

STRATEGIES = ["full", "window:3", "window:8", "budget:12", "budget:60"]


def _views(log):
    branch = log.tree.branch()
    return {
        "head": log.tree.head,
        "next": log.next_seq,
        "contexts": [build_context(branch, strategy) for strategy in STRATEGIES],
        "pending": pending(branch),
        "deliveries": deliveries(log.tree).pending(None),
        "overview": overview(log.tree),
    }


def _compare(raw, seen):
    store = store_of(raw)
    try:
        whole = read_log(store, "s", verify=True)
    except WakelogError as error:
        seen[type(error).__name__] += 1
        return
    active = read_active(store, "s")
    seen["partial" if active.tree.partial else "whole"] += 1
    seen["read past"] += active.tree.partial and bool(active.tree.queued_before)
    found, expected = _views(active), _views(whole)
    if found["overview"].uptime_ms is None:
        # The one thing that a tail may not know, and then says so.
        assert _last_compaction(active).state.rules == 1
        expected["overview"] = msgspec.structs.replace(expected["overview"], uptime_ms=None)
    assert found == expected


def _last_compaction(log):
    return [entry.value for entry in log.entries if isinstance(entry.value, Compaction)][-1]


def test_tail_equals_whole():
    """Every prefix of every session, undamaged."""
    seen: Counter[str] = Counter()

    @settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
    @given(STORIES, st.data())
    def check(steps, data):
        lines = bytes_of(tell(steps)).split(b"\n")[:-1]
        for length in {len(lines), data.draw(st.integers(1, len(lines))), data.draw(st.integers(1, len(lines)))}:
            _compare(b"".join(line + b"\n" for line in lines[:length]), seen)

    check()
    assert seen["partial"] > seen["whole"] / 10, seen


def test_tail_equals_whole_with_damage():
    """The same after damage: where the tail cannot be trusted, the whole log is read."""
    seen: Counter[str] = Counter()

    @settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
    @given(STORIES, DAMAGE)
    def check(steps, hurts):
        _compare(damaged(bytes_of(tell(steps)), hurts), seen)

    check()
    assert seen["partial"] > 20, seen


_QUEUED_ON_ANOTHER_BRANCH = [
    ("rules", 1),
    ("user", 0),
    ("user", 1),
    ("queued", 1),
    ("head", 0),
    ("user", 1),
    ("compact", None),
    ("user", 2),
]


def test_tail_equals_whole_where_versions_are_mixed():
    """RUN-22: compactions of rules 1 carry one branch's queue; queues of other branches are found before them."""
    seen: Counter[str] = Counter()

    @settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
    @given(MIXED_STORIES, st.one_of(st.just([]), DAMAGE))
    @example(_QUEUED_ON_ANOTHER_BRANCH, [])
    def check(steps, hurts):
        _compare(damaged(bytes_of(tell(steps)), hurts), seen)

    check()
    assert seen["partial"] > 20, seen
    assert seen["read past"] > 0, seen


def test_tail_after_a_noted_torn_tail():
    """A torn line that a later append has noted does not cause a read of the whole log."""
    story = tell([("user", 1), ("reply", 0), ("compact", None), ("user", 2)])
    store, session = story.store, story.session.id
    store.plant(session, b'{"v":1,"seq":5,"type":"mes')
    again = type(story.session)(store, session, clock=story.session.clock)
    again.say("after the crash")
    log = read_active(store, session)
    assert log.tree.partial
    assert _views(log) == _views(read_log(store, session))
    assert [hurt.kind for hurt in read_log(store, session).noted] == ["unreadable"]


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(STORIES, MIXED_STORIES), st.one_of(STORIES, MIXED_STORIES))
def test_a_session_object_in_use_equals_a_new_one(before, after):
    """Law 2: its state is a function of the log, also when it began with a tail and others wrote."""
    story = tell(before)
    reader = Session(story.store, story.session.id)
    story.session = Session(story.store, story.session.id, clock=story.session.clock)
    tell(after, story)
    whole = read_log(story.store, story.session.id)
    for session in (story.session, reader):
        assert session.tree.head == whole.tree.head
        found, expected = _views(session._log), _views(whole)
        if found["overview"].uptime_ms is None:
            expected["overview"] = msgspec.structs.replace(expected["overview"], uptime_ms=None)
        assert found == expected
