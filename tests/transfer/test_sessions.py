"""Which sessions are copied: the requested ones.

Before them those they need. Leases and journals are not copied.
"""

import os

import pytest

from tests.transfer.rigs import KINDS, Between, first, holding, log_of
from wakelog.errors import NotFound
from wakelog.forking import fork
from wakelog.log.entry import Origin, Spawned
from wakelog.reading import read_log
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.memory import MemoryStore
from wakelog.transfer import MissingItem, copy


def session_in(store, name, **more):
    """A session with a message."""
    made = Session.create(store, agent="crab", session_id=name, **more)
    made.say(f"hello from {name}")
    return made


def send_out(parent, child):
    """The annotation that a sub-agent was started."""
    reply = parent.tree.head
    parent.append(Spawned(child_session=child, reply_id=reply, tool_call_id="t"), at=reply)
    return Origin(session=parent.id, entry=reply, kind="subagent")


def told(rows):
    """The copied sessions in order, each with the session that needs it."""
    return [(row.session, row.needed_by) for row in rows if row.status == "copied"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_fork_is_copied_with_its_ancestors(stores, kind):
    """TREE-4, law 12: the ancestors are copied first, and the copy reads the same."""
    source, target = MemoryStore(), stores.new(kind)
    session_in(source, "other")
    grandparent = session_in(source, "a")
    parent = fork(grandparent)
    parent.say("more")
    child = fork(parent)
    rows = list(copy(source, target, [child.name]))
    assert told(rows) == [("a", parent.name), (parent.id, child.name), (child.id, None)]
    here, there = read_log(source, child.id), read_log(target, child.id)
    assert there.damage == ()
    assert list(there.tree.nodes) == list(here.tree.nodes)
    assert len(there.tree.nodes) == 5
    with pytest.raises(NotFound):
        target.name("other")


def test_a_missing_parent_is_reported(stores):
    """Law 9: the fork is copied as it is."""
    source = holding(first("f", parent=b',"parent":{"session":"gone","entry":"e"}') + b"one\n")
    (done,) = copy(source, stores.new("jsonl"))
    assert done.status == "copied"
    assert done.lost == (MissingItem("gone", "the parent session gone does not exist"),)


def test_sub_agents_are_copied_before_their_parent():
    """Law 6, RUN-14: a wake of the copy finds them, and does not start them again."""
    source, target = MemoryStore(), MemoryStore()
    parent = session_in(source, "p")
    child = session_in(source, "c", parent=send_out(parent, "c"))
    session_in(source, "grandchild", parent=send_out(child, "grandchild"))
    send_out(parent, "not-begun-yet")
    rows = list(copy(source, target, ["p"]))
    assert told(rows) == [("grandchild", child.name), ("c", parent.name), ("p", None)]
    assert all(row.lost == () for row in rows)


def test_a_sub_agent_is_copied_without_its_parent():
    """RUN-14: it inherits no history."""
    source, target = MemoryStore(), MemoryStore()
    parent = session_in(source, "p")
    session_in(source, "c", parent=send_out(parent, "c"))
    assert told(copy(source, target, ["c"])) == [("c", None)]


def test_a_changed_sub_agent_of_an_unchanged_session_is_copied():
    """LOG-11."""
    source, target = MemoryStore(), MemoryStore()
    parent = session_in(source, "p")
    child = session_in(source, "c", parent=send_out(parent, "c"))
    list(copy(source, target, ["p"]))
    child.say("and on")
    rows = list(copy(source, target, ["p"]))
    assert [(row.session, row.status) for row in rows] == [("c", "copied"), ("p", "unchanged")]


def test_a_child_started_during_the_copy_is_left_for_the_next():
    """LOG-10, law 6: the log is copied up to its length when its children were collected."""
    source, inner = MemoryStore(), MemoryStore()
    parent = session_in(source, "p")
    seen = log_of(source, "p")

    def adopt(real, *given, **more):
        if not parent.read().damage and len(watched.seen) == 1:
            session_in(source, "late", parent=send_out(parent, "late"))
        return real(*given, **more)

    watched = Between(inner, adopt=adopt)
    assert told(copy(source, watched, ["p"])) == [("p", None)]
    assert log_of(inner, "p") == seen
    assert told(copy(source, inner, ["p"])) == [("late", parent.name), ("p", None)]


def test_sessions_that_name_each_other_are_copied_once():
    """Law 13: parents that form a cycle."""
    source = holding(first("a", parent=b',"parent":{"session":"b","entry":"e"}'), session="a")
    source.replace("b", "crab_user_2", first("b", parent=b',"parent":{"session":"a","entry":"e"}'))
    source.replace("c", "crab_user_3", first("c", parent=b',"parent":{"session":"c","entry":"e"}'))
    assert sorted(row.session for row in copy(source, MemoryStore())) == ["a", "b", "c"]


def test_a_thousand_ancestors_are_copied():
    """Law 13: no stack overflows."""
    source = MemoryStore()
    for at in range(1_200):
        origin = b',"parent":{"session":"s%d","entry":"e"}' % (at + 1)
        source.replace(f"s{at}", f"crab_user_{at}", first(f"s{at}", parent=origin))
    source.replace("s1200", "crab_user_1200", first("s1200"))
    rows = told(copy(source, MemoryStore(), ["s0"]))
    assert [session for session, _ in rows] == [f"s{at}" for at in range(1_200, -1, -1)]


def test_all_sessions_are_copied_once_parents_first(stores):
    """LOG-11."""
    source, target = MemoryStore(), stores.new("jsonl")
    later = session_in(source, "z")
    early = fork(later)
    Session.create(source, agent="zeta", session_id="child", parent=send_out(later, "child"))
    for number in range(5):
        session_in(source, f"s{number}")
    rows = list(copy(source, target))
    assert sorted(row.session for row in rows) == sorted(
        [early.id, "z", "child", *(f"s{number}" for number in range(5))]
    )
    assert all(row.needed_by is None for row in rows)
    order = [row.session for row in rows]
    assert order.index("z") < order.index(early.id)
    assert all(row.status == "unchanged" for row in copy(source, target))


def test_a_session_named_by_id_and_by_name_is_copied_once():
    """By id and by name: it is one session."""
    source = holding(first())
    assert len(list(copy(source, MemoryStore(), ["s", "crab_user_1", "s"]))) == 1


def test_an_unknown_session_is_refused_before_anything_is_copied():
    """A caller's mistake, met before anything is copied."""
    source, target = holding(first()), MemoryStore()
    with pytest.raises(NotFound):
        list(copy(source, target, ["s", "nobody"]))
    assert list(target.sessions()) == []


def test_copying_an_empty_store_creates_nothing(tmp_path):
    """Law 9."""
    assert list(copy(JsonlStore(str(tmp_path / "a")), JsonlStore(str(tmp_path / "b")))) == []
    assert list(tmp_path.iterdir()) == []


def test_titles_are_linked_in_the_target(tmp_path):
    """ST-2: the last title is linked; a removed one is not."""
    source, target = MemoryStore(), JsonlStore(str(tmp_path))
    named = session_in(source, "a", title="First")
    named.rename("Second try")
    bare = session_in(source, "b", title="Only for a while")
    list(copy(source, target))
    assert sorted(os.listdir(tmp_path / "by-title")) == [
        "only-for-a-while--crab_user_2.jsonl",
        "second-try--crab_user_1.jsonl",
    ]
    bare.rename("")
    named.say("no new title")
    list(copy(source, target))
    assert os.listdir(tmp_path / "by-title") == ["second-try--crab_user_1.jsonl"]


@pytest.mark.parametrize("kind", KINDS)
def test_leases_and_journals_are_not_copied(stores, kind):
    """Law 5: a running session is copied up to its last entry; journals are counted, not copied."""
    source, target = stores.new(kind), stores.new(kind)
    session = session_in(source, "s")
    lease = session.acquire("worker", ttl_s=60)
    source.journal("s", "r1", b'{"text":"half a"}', fence=lease.fence)
    source.journal("s", "r1", b'{"text":" reply"}', fence=lease.fence)
    (done,) = copy(source, target)
    assert (done.status, done.journals) == ("copied", 1)
    assert target.held("s") is None
    assert target.journals("s") == {}
    assert source.held("s") is not None
    assert log_of(target, "s") == log_of(source, "s")


def test_a_newer_format_is_copied_unchanged():
    """Law 10: bytes that this version cannot read are copied as bytes."""
    raw = b'{"v":99,"type":"session","id":"s","version":99,"parent":{"session":"x","entry":"e"}}\n{"v":99}\n'
    target = MemoryStore()
    (done,) = copy(holding(raw), target)
    assert (done.session, done.status) == ("s", "copied")
    assert log_of(target, "s") == raw


def test_without_a_first_line_a_session_is_known_by_its_name():
    """Law 9: another entry that is first now is not a session header, and its id is not the session's."""
    source, target = holding(b'{"type":"message","id":"m1"}\none\n'), MemoryStore()
    source.replace("t", "crab_user_2", b'{"type":"message","id":"m1"}\ntwo\n')
    assert [(row.session, row.status) for row in copy(source, target)] == [
        ("crab_user_1", "copied"),
        ("crab_user_2", "copied"),
    ]
    assert log_of(target, "crab_user_2") == log_of(source, "t")


def test_an_ancestor_with_a_lost_first_line_is_copied(stores):
    """Law 9: under the id that its fork names."""
    source, target = MemoryStore(), stores.new("sqlite")
    parent = session_in(source, "p")
    child = fork(parent)
    source.replace("p", parent.name, b"rubbish" + log_of(source, "p")[7:])
    rows = list(copy(source, target, [child.id]))
    assert told(rows) == [("p", child.name), (child.id, None)]
    assert log_of(target, "p") == log_of(source, "p")
