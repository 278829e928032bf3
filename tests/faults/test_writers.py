"""Several writers of one session (laws 3 and 4; LOG-3, LOG-10): no entry twice, none lost, none between two others.

The writers are real processes that start together. What one of them has printed was acknowledged to it. The
place of every entry is worked out again here, from the log alone and with no code of the product.
"""

import fcntl
import itertools
import os
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.figures import Figure
from tests.faults.processes import Child, together
from tests.faults.samples import NAME, proof_of, read, small_log
from tests.patience import PATIENCE_S
from wakelog.log.entry import NODE_TYPES, Head, Queued
from wakelog.log.lines import EntryReader
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.jsonl.log_locks import OpenLog

SAID = 200


def heads_and_parents(folder: str) -> list[tuple[str, str | None, str | None]]:
    """Each node after the first with its parent and the head at the time it was appended."""
    head: str | None = None
    placed: list[tuple[str, str | None, str | None]] = []
    for entry in read(folder).entries:
        value = entry.value
        if isinstance(value, Head):
            head = value.target_id
        elif value.type in NODE_TYPES:
            if head is not None:
                placed.append((entry.id, value.parent_id, head))
            head = entry.id if head is None or value.parent_id == head else head
    return placed


def check_log(folder: str, acknowledged: list[tuple[str, int]]) -> None:
    """Assert that every acknowledged entry exists once at its position, and seqs, seals and parents are right."""
    log = read(folder)
    places: dict[str, list[int]] = {}
    for entry in log.entries:
        places.setdefault(entry.id, []).append(entry.seq)
    assert {entry_id: places.get(entry_id) for entry_id, _ in acknowledged} == {
        entry_id: [seq] for entry_id, seq in acknowledged
    }
    assert [entry.seq for entry in log.entries] == list(range(len(log.entries)))
    proof = proof_of(folder)
    assert (log.damage, proof.broken, proof.unsealed) == ((), (), 0)
    assert all(parent == head for _, parent, head in heads_and_parents(folder))


def figure(rig: str, planned: int, applied: int, acknowledged: int, wrong: int = 0, control: str = "") -> Figure:
    """The figures of a log that was checked."""
    checked, found = (acknowledged, "acknowledged appends"), (wrong, "lost, there twice or out of place")
    return Figure(rig, "files", planned, applied, checked, found, control)


def acknowledged_by(child: Child) -> list[tuple[str, int]]:
    """The entries that were acknowledged to a child."""
    lines = [line.split() for line in child.rest()]
    assert child.process.returncode == 0
    return [(entry_id, int(seq)) for entry_id, seq, _ in lines]


def test_messages_of_two_writers_while_a_third_moves_the_head(tmp_path, record):
    """LOG-10, law 3, TREE-3: every message at the head is on the branch that was active at that moment."""
    folder = str(tmp_path)
    small_log(folder, entries=8)
    speakers = [("say", folder, "one", str(SAID)), ("say", folder, "two", str(SAID))]
    # Each pipe is read in a thread of its own, so that no writer blocks on a full pipe.
    with together(*speakers, ("wander", folder, "three", "60")) as children, ThreadPoolExecutor(3) as pool:
        acknowledged = [each for child in pool.map(acknowledged_by, children) for each in child]
    assert len(acknowledged) == len({entry_id for entry_id, _ in acknowledged}) == 2 * SAID + 60
    check_log(folder, acknowledged)
    moved = sum(isinstance(entry.value, Head) for entry in read(folder).entries)
    assert moved == 60
    record(figure("writers of one session at once", 3, len(children), len(acknowledged)))


def test_control_the_writers_write_at_the_same_time(tmp_path):
    """The test above can fail: the seqs of its writers interleave."""
    folder = str(tmp_path)
    small_log(folder, entries=2)
    speakers = [("say", folder, "one", str(SAID)), ("say", folder, "two", str(SAID))]
    with together(*speakers) as children, ThreadPoolExecutor(2) as pool:
        one, two = pool.map(acknowledged_by, children)
    check_log(folder, one + two)
    owner = {seq: "one" for _, seq in one} | {seq: "two" for _, seq in two}
    order = [owner[seq] for seq in sorted(owner)]
    assert sum(before != after for before, after in itertools.pairwise(order)) > 1


def test_eight_threads_on_one_store(tmp_path):
    """LOG-10: threads share a store and its descriptors; each has a session object of its own."""
    folder = str(tmp_path)
    small_log(folder, entries=2)
    store = JsonlStore(folder)
    start = threading.Barrier(8)

    def speak(number: int) -> list[tuple[str, int]]:
        session = Session(store, NAME)
        start.wait(PATIENCE_S)
        return [(entry.id, entry.seq) for entry in (session.say(f"{number} {at}") for at in range(40))]

    with ThreadPoolExecutor(8) as pool:
        acknowledged = [each for told in pool.map(speak, range(8)) for each in told]
    assert len(acknowledged) == 320
    check_log(folder, acknowledged)


def test_more_sessions_than_open_files_in_many_threads(tmp_path):
    """LOG-10: a descriptor that is closed to make room is never one that another thread is about to write to."""
    store = JsonlStore(str(tmp_path))
    names = [Session.create(store, session_id=f"s{number}").name for number in range(100)]

    def speak(worker: int) -> None:
        for round_ in range(3):
            for at, name in enumerate(names):
                if (at + worker) % 2:
                    Session(store, name).say(f"{name} {worker} {round_}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(speak, range(8)))
    for name in names:
        entries = EntryReader().feed_all(store.load(name))
        texts = [entry.value.message.text for entry in entries[1:]]
        assert len(texts) == len(set(texts)) == 12
        assert all(text.startswith(f"{name} ") for text in texts), "an entry went into another session's file"


def test_a_thread_that_waited_for_a_closed_log_opens_it_anew(tmp_path):
    """LOG-10: a failed sync closes the log; its descriptor number may mean another file for the next thread."""
    store = JsonlStore(str(tmp_path))
    names = [Session.create(store, session_id=f"s{number}").name for number in range(8)]
    waiting, session = threading.Event(), Session(store, names[0])
    look_up = store._logs.look_up

    def looked_up(name: str) -> OpenLog:
        log = look_up(name)
        if threading.current_thread() is not threading.main_thread():
            waiting.set()
        return log

    with ThreadPoolExecutor(1) as pool:
        with store._logs.append_lock(names[0]) as log:
            store._logs.look_up = looked_up  # type: ignore[method-assign]
            said = pool.submit(session.say, "at last")
            assert waiting.wait(PATIENCE_S)
            log.close()
            for other in names[1:]:
                Session(store, other).say("in between")
        assert said.result(PATIENCE_S).seq == 1
    for number, name in enumerate(names):
        texts = [entry.value.message.text for entry in EntryReader().feed_all(store.load(name))[1:]]
        assert texts == ["in between" if number else "at last"]


def test_a_forked_child_takes_its_own_lock(tmp_path):
    """LOG-10: a lock belongs to an open file; a process that inherited the descriptor does not hold the lock."""
    folder = str(tmp_path)
    session = Session(small_log(folder, entries=2).store, NAME)
    session.say("before the fork")
    children = []
    for number in range(2):
        child = os.fork()
        if child == 0:
            # The forked child must never return into the test runner.
            try:
                own = Session(session.store, NAME)
                for at in range(100):
                    own.say(f"child {number} {at}")
            except BaseException:  # noqa: BLE001 - the parent is told by the exit code
                os._exit(1)
            os._exit(0)
        children.append(child)
    for at in range(100):
        session.say(f"parent {at}")
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children] == [0, 0]
    log = read(folder)
    assert [entry.seq for entry in log.entries] == list(range(len(log.entries)))
    assert (len(log.entries), log.damage, proof_of(folder).broken) == (2 + 1 + 300, (), ())


def test_entries_of_another_writer_can_be_referenced_at_once(tmp_path):
    """Law 2: an older session object knows every entry of the log."""
    folder = str(tmp_path)
    mine = Session(small_log(folder, entries=3).store, NAME)
    theirs = [Session(JsonlStore(folder), NAME).say(f"{number}").id for number in range(2)]
    assert mine.move_head(theirs[0]).value.target_id == theirs[0]
    theirs.append(Session(JsonlStore(folder), NAME).say("under the first").id)
    assert mine.label(theirs[2], "third").value.target_id == theirs[2]
    check_log(folder, [])


def test_control_writers_without_a_lock(tmp_path, monkeypatch, record):
    """The tests above can fail: without the lock, a second writer takes the same position."""
    folder = str(tmp_path)
    small_log(folder, entries=2)
    first, second = JsonlStore(folder), JsonlStore(folder)
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    write, told = os.write, []

    def overtaken(descriptor: int, content: bytes) -> int:
        monkeypatch.setattr(os, "write", write)
        told.append(second.append(NAME, b'{"type":"custom","id":"two","customType":"x"}', after=1).seq)
        return write(descriptor, content)

    monkeypatch.setattr(os, "write", overtaken)
    told.append(first.append(NAME, b'{"type":"custom","id":"one","customType":"x"}', after=1).seq)
    assert told == [2, 2]
    with pytest.raises(AssertionError):
        check_log(folder, [("one", 2), ("two", 2)])
    record(figure("writers of one session at once", 2, len(told), 2, 1, control="no lock"))


def test_a_killed_writer_loses_no_acknowledged_entry(tmp_path, record):
    """Law 4: after kill -9 in the middle of a run every reported acknowledgement is in the log, once."""
    folder = str(tmp_path)
    small_log(folder, entries=2)
    for _ in range(3):
        with together(("say", folder, "doomed", "100000")) as (child,):
            lines = [child.hear() for _ in range(50)]
            child.kill()
            lines += child.rest()
        # The last line may have been cut off in the pipe; what is whole was acknowledged.
        told = [line.split() for line in lines if len(line.split()) == 3 and line.endswith(("message", "queued"))]
        assert len(told) >= 50
        Session(JsonlStore(folder), NAME).say("the next one")
        check_log(folder, [(entry_id, int(seq)) for entry_id, seq, _ in told])
        record(figure("kill -9 of a writer", 1, int(child.process.returncode == -signal.SIGKILL), len(told)))


def test_messages_are_queued_while_another_process_holds_the_lease(tmp_path):
    """RUN-11: an append needs no lease; the message is queued, and becomes a message entry afterwards."""
    folder = str(tmp_path)
    small_log(folder, entries=2)
    with Child("hold", folder, "worker", "600") as holder:
        assert holder.hear().startswith("holds")
        said = Session(JsonlStore(folder), NAME).say("while you work")
        assert isinstance(said.value, Queued)
        holder.tell("append")
        assert holder.hear().startswith("kept")
    assert Session(JsonlStore(folder), NAME).say("now it is free").type == "message"
    check_log(folder, [(said.id, said.seq)])


def test_four_processes_ensure_the_same_sessions(tmp_path):
    """ST-7: concurrent creation is idempotent too: one log and one name for each id."""
    folder = str(tmp_path)
    with together(*[("ensure", folder, "20")] * 4) as children, ThreadPoolExecutor(4) as pool:
        names = list(pool.map(Child.rest, children))
    assert all(each == names[0] for each in names)
    assert len(set(names[0])) == 20
    assert sorted(os.listdir(folder)) == sorted(["by-id", *(f"{name}.jsonl" for name in names[0])])


def test_an_id_stays_taken_when_the_links_are_gone(tmp_path):
    """Law 2, ST-7: `by-id` is derived; without it the same session is found, not created again."""
    folder = str(tmp_path)
    for number in range(3):
        Session.create(JsonlStore(folder), session_id=f"s{number}")
    shutil.rmtree(tmp_path / "by-id")
    store = JsonlStore(folder)
    assert Session.create(store, session_id="s1").name == "agent_user_2"
    assert Session.create(store, session_id="s9").name == "agent_user_4"
    assert len(list(store.sessions())) == 4
