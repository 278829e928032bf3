"""The session is the only writer: stamps, parents, queueing, retries (LOG-10, LOG-15, TREE-2, TREE-3, ST-1, ST-7)."""

import pytest

from wakelog.decide.policy import QUEUE_MAX
from wakelog.errors import Conflict, Damaged, LeaseLost, NewerFormat, NotFound, StoreError, UsageError
from wakelog.identity import latest
from wakelog.log.content import Prompt, Reply, Text
from wakelog.log.entry import Label, Message, ModelCall, Setting
from wakelog.projections.context import active_part
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.memory import MemoryStore
from wakelog.testing.builders import FixedClock, SessionBuilder


@pytest.fixture(params=["memory", "jsonl"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else JsonlStore(str(tmp_path))


@pytest.fixture
def session(store):
    return Session.create(store, agent="crab", sender="user", clock=FixedClock())


def say(text):
    return Message(message=Prompt(content=(Text(text=text),)))


def test_the_first_line(store):
    """LOG-4: the first line has agent, sender, working directory, model and format version."""
    made = Session.create(store, agent="Crab", sender="tg:1", cwd="/repo", title="T", model="m", settings={"a": 1})
    card = made.read().header.value
    assert (card.agent, card.sender, card.number, card.cwd, card.version) == ("Crab", "tg:1", 1, "/repo", 1)
    assert (card.title, card.model, card.settings, card.app.split("/")[0]) == ("T", "m", {"a": 1}, "wakelog")
    assert made.id == card.id


def test_creating_is_idempotent(store):
    """ST-7: the same id twice is the same session."""
    one = Session.create(store, session_id="fixed")
    one.say("hi")
    two = Session.create(store, session_id="fixed")
    assert (two.id, two.name, len(two.read().entries)) == ("fixed", one.name, 2)


def test_turns(session):
    """LOG-15: every entry of a turn names the prompt that began it."""
    prompt = session.say("go")
    reply = session.append(Message(message=Reply(content="done")))
    annotation = session.append(ModelCall(call_id="c", reply_id="r"), at=prompt.id)
    other = session.say("more")
    assert {entry.value.turn_id for entry in (prompt, reply, annotation)} == {prompt.id}
    assert other.value.turn_id == other.id
    assert session.rename("T").value.turn_id is None


def test_a_clock_that_goes_back_changes_no_order(store):
    """LOG-3, law 3: entries are ordered by seq; an earlier timestamp moves nothing."""
    session = Session.create(store, clock=FixedClock(start_ms=1_800_000_000_000))
    session.say("one")
    session.say("two")
    earlier = Session(store, session.id, clock=FixedClock(start_ms=1_000_000_000_000))
    earlier.say("three")
    entries = session.read().entries
    assert [entry.seq for entry in entries] == [0, 1, 2, 3]
    assert entries[3].value.timestamp < entries[1].value.timestamp
    assert [node.value.message.text for node in session.branch().nodes[1:]] == ["one", "two", "three"]


def test_saying_at_the_head(session):
    """TREE-2, TREE-3: a message is appended below the head, wherever the head is."""
    first = session.say("one")
    session.say("two")
    session.move_head(first.id)
    third = session.say("three")
    assert third.value.parent_id == first.id
    assert [node.id for node in session.branch().nodes][1:] == [first.id, third.id]
    assert len(session.read().tree.leaves()) == 2


def test_appending_below_a_node_with_children_is_a_conflict(session):
    """TREE-2: two writers never branch by accident; a branch needs `fork=True`."""
    first = session.say("one")
    session.append(say("two"), at=first.id)
    before = len(session.read().entries)
    with pytest.raises(Conflict):
        session.append(say("three"), at=first.id)
    assert len(session.read().entries) == before
    session.append(say("three"), at=first.id, fork=True)
    with pytest.raises(NotFound):
        session.append(say("four"), at="nobody")


def test_two_session_objects_see_each_other(store, session):
    """LOG-10: a writer that was overtaken reads what the other wrote and continues from there."""
    other = Session(store, session.id)
    chain = [session.say("a"), other.say("b"), session.say("c"), other.say("d")]
    assert [entry.value.parent_id for entry in chain[1:]] == [entry.id for entry in chain[:-1]]
    assert [entry.seq for entry in session.read().entries] == [0, 1, 2, 3, 4]


def test_an_entry_with_an_id_is_appended_once(store, session):
    """Law 4: an append with an unknown outcome is tried again with the same id."""
    body = Message(id="mine", message=Prompt(content=(Text(text="once"),)))
    first = session.append(body)
    session.say("later")
    for writer in (session, Session(store, session.id)):
        again = writer.append(body)
        assert (again.seq, again.raw) == (first.seq, first.raw)
    with pytest.raises(Conflict, match="other content"):
        session.append(Message(id="mine", message=Prompt(content=(Text(text="twice"),))))
    assert len(session.read().entries) == 3


class DoubtfulStore(MemoryStore):
    """A store whose first append is written but not acknowledged."""

    fails = 1

    def append(self, *args, **given):
        sealed = super().append(*args, **given)
        if self.fails:
            self.fails -= 1
            raise StoreError("the sync failed")
        return sealed


def test_an_unacknowledged_append_is_written_once():
    """Law 4: after a failure the same entry is found by its id, and is in the log once."""
    session = Session.create(DoubtfulStore())
    body = Message(id="mine", message=Prompt(content="x"))
    with pytest.raises(StoreError):
        session.append(body)
    assert session.append(body).id == "mine"
    assert [entry.id for entry in session.read().entries[1:]] == ["mine"]


def test_messages_are_queued_while_the_agent_is_busy(store, session):
    """RUN-11: a message is queued while a lease is held or a call is open."""
    lease = session.acquire("worker", ttl_s=60)
    assert session.say("wait").type == "queued"
    with pytest.raises(Conflict):
        session.say(Reply(content="not a person"))
    session.release(lease)
    assert session.say("now").type == "message"
    story = SessionBuilder()
    reply = story.reply(calls=[("t1", "bash", {})])
    assert story.session.say("wait", mode="steer").value.mode == "steer"
    story.result(reply, "t1")
    assert story.session.say("now").type == "message"


def test_leases(store, session):
    """Law 6: the fence is the seq of the entry that took the lease; a lost lease cannot append."""
    other = Session(store, session.id)
    lease = session.acquire("one", ttl_s=60)
    assert session.read().entries[lease.fence].value.holder == "one"
    with pytest.raises(Conflict):
        other.acquire("two", ttl_s=60)
    session.release(lease)
    second = other.acquire("two", ttl_s=60)
    assert second.fence > lease.fence
    with pytest.raises(LeaseLost):
        session.append(say("stale"), lease=lease)
    session.release(lease)
    assert store.held(session.id).holder == "two"


def test_compacting(store, session):
    """VIEW-4: a compaction says from where it keeps, and nothing is deleted."""
    session.say("one")
    kept = session.say("two")
    before = [line.raw for line in store.load(session.id)]
    with pytest.raises(UsageError):
        session.compact("  ")
    with pytest.raises(UsageError):
        session.compact("sum", first_kept="nobody")
    compaction = session.compact("sum", first_kept=kept.id)
    assert compaction.value.state.head == kept.id
    assert [line.raw for line in store.load(session.id)][: len(before)] == before
    assert Session(store, session.id).tree.partial


def test_entries_before_a_compaction_can_be_used(store, session):
    """TREE-5: from a tail, old entries can still be named, branched from and labelled."""
    old = session.say("one")
    session.say("two")
    session.compact("sum")
    fresh = Session(store, session.id)
    assert fresh.tree.partial
    assert fresh.label(old.id, "here").value.parent_id == old.id
    with pytest.raises(Conflict):
        fresh.append(say("x"), at=old.id)
    fresh.move_head(old.id)
    assert fresh.say("again").value.parent_id == old.id
    assert [node.id for node in fresh.branch(old.id).nodes] == [session.id, old.id]


def test_torn_tails_are_noted(tmp_path):
    """LOG-9: the first append after a torn tail records it; from then on it is known."""
    store = JsonlStore(str(tmp_path))
    session = Session.create(store)
    session.say("one")
    with open(store.folder.log_path(session.name), "ab") as file:
        file.write(b'{"v":1,"seq":2,"type":"mess')
    two = Session(store, session.id).say("two")
    session.say("three")
    log = session.read()
    assert [entry.type for entry in log.entries] == ["session", "message", "damage", "message", "message"]
    assert log.entries[2].value.bytes == 27
    assert (log.damage, [hurt.size for hurt in log.noted]) == ((), [27])
    assert two.seq == 3


def test_an_unreadable_log_is_not_appended_to(tmp_path):
    """LOG-9: without a readable entry there is nothing to append to; the error says so."""
    (tmp_path / "x.jsonl").write_bytes(b"garbage\n")
    session = Session(JsonlStore(str(tmp_path)), "x")
    with pytest.raises(Damaged):
        session.say("hi")
    assert (tmp_path / "x.jsonl").read_bytes() == b"garbage\n"


def test_newer_logs_are_not_written_to(tmp_path):
    """LOG-7: a log of a newer format is not appended to."""
    store = JsonlStore(str(tmp_path))
    session = Session.create(store)
    path = store.folder.log_path(session.name)
    with open(path, "ab") as log:
        log.write(b'{"v":2,"seq":1,"type":"message","id":"m1","parentId":"x"}\n')
    with pytest.raises(NewerFormat, match="newer"):
        session.say("hi")
    with pytest.raises(NewerFormat):
        Session(store, session.id).say("hi")
    (tmp_path / "new.jsonl").write_bytes(b'{"type":"session","id":"n","version":2}\n')
    with pytest.raises(NewerFormat, match="format 2"):
        Session(store, "new")


def test_annotations_and_settings(session):
    """TREE-1: an annotation belongs to the node it describes and never moves the head."""
    first = session.say("one")
    setting = session.append(Setting(key="a", value=1))
    label = session.append(Label(target_id=first.id, label="x"), at=first.id)
    assert (setting.value.parent_id, label.value.parent_id) == (first.id, first.id)
    assert session.tree.head == setting.id


def test_a_compaction_may_keep_entries_before_an_earlier_one(store, session):
    """VIEW-4: a later compaction may keep more than an earlier one did."""
    old = session.say("one")
    session.compact("first")
    fresh = Session(store, session.id)
    assert fresh.tree.partial
    fresh.compact("second", first_kept=old.id)
    assert [node.id for node in active_part(fresh.branch()).nodes] == [old.id]
    assert [node.id for node in active_part(Session(store, session.id).branch()).nodes] == [old.id]


def test_the_queue_is_bounded(store):
    """RUN-11: a hundred messages may be queued; one more is refused, and nothing is lost."""
    session = Session.create(store, clock=FixedClock())
    session.acquire("somebody", ttl_s=60)
    for number in range(QUEUE_MAX):
        assert session.say(f"message {number}").type == "queued"
    before = session.last_seq
    with pytest.raises(Conflict, match="is full: 100 messages"):
        session.say("one more")
    assert session.last_seq == before


def test_two_senders_whose_names_contain_different_keys_stay_two(tmp_path):
    """ST-1 and law 14: a key in a sender's name is not written, and does not make two people one."""
    store = JsonlStore(str(tmp_path))
    keys = [f"sk-ant-api03-{letter * 40}" for letter in "ab"]
    sessions = [Session.create(store, agent="bot", sender=f"tg {key}") for key in keys]
    for key, session in zip(keys, sessions, strict=True):
        raw = b"".join(line.bytes for line in store.load(session.name))
        assert key.encode() not in raw
        assert key not in session.name
        assert latest(store, "bot", f"tg {key}") == session.name
    assert sessions[0].name != sessions[1].name
