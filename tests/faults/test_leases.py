"""Leases when processes stop, crash and continue (law 6).

A lease is a record that expires, judged by the store's clock since boot. A stopped holder is overtaken and
cannot append one more entry; a dead one's lease is void at once. The control with the fence check taken out
shows that these tests can fail.
"""

import signal
import time

import msgspec
import pytest

from tests.faults.figures import Figure
from tests.faults.processes import PATIENCE_S, Child
from tests.faults.samples import NAME, Ticks, proof_of, read, small_log
from wakelog.clock import SystemClock
from wakelog.errors import Conflict, LeaseLost
from wakelog.log.content import Prompt
from wakelog.log.entry import Activity, Message
from wakelog.ports.stores import Lease
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore


def wait_until_free(folder: str) -> None:
    """Read the lease until it is free."""
    deadline = time.monotonic() + PATIENCE_S
    while JsonlStore(folder).held(NAME) is not None:
        assert time.monotonic() < deadline, "the lease of a stopped process never expired"


def overtaken(folder: str, what: str) -> tuple[str, Lease]:
    """Stop a holder, let its lease expire, take over, continue the holder; return the result of its next append."""
    with Child(what, folder, "zombie", "0.5") as zombie:
        assert zombie.hear().startswith("holds")
        zombie.tell("append")
        assert zombie.hear().startswith("kept"), "a lease in force must be good for something"
        zombie.stop()
        wait_until_free(folder)
        session = Session(JsonlStore(folder), NAME)
        lease = session.acquire("successor", ttl_s=600)
        session.append(Message(message=Prompt(content="by successor")), lease=lease)
        zombie.signal(signal.SIGCONT)
        zombie.tell("append")
        return zombie.hear(), lease


def stale_entries(folder: str, lease: Lease) -> list[str]:
    """Entries that the overtaken holder wrote after the entry that overtook it."""
    said = [entry for entry in read(folder).entries if isinstance(entry.value, Message)]
    return [entry.id for entry in said if entry.value.message.text == "by zombie" and entry.seq > lease.fence]


def figure(answer: str, stale: list[str], control: str = "") -> Figure:
    """The figures of one worker that was stopped and overtaken."""
    tries, found = (1, "appends under the old lease"), (len(stale), "stale entries")
    return Figure("worker stopped past the end of its lease", "files", 1, int(bool(answer)), tries, found, control)


def test_a_stopped_holder_that_comes_back_cannot_append(tmp_path, record):
    """Law 6: SIGSTOP past the end of the lease, takeover, SIGCONT: LeaseLost, and not one stale entry."""
    folder = str(tmp_path)
    small_log(folder, entries=2)
    answer, lease = overtaken(folder, "hold")
    assert answer == "LeaseLost"
    record(figure(answer, stale_entries(folder, lease)))
    assert proof_of(folder).broken == ()


def test_control_without_the_fence_check_it_appends(tmp_path, record):
    """The test above can fail: without the check, the same process appends after its successor."""
    folder = str(tmp_path)
    small_log(folder, entries=2)
    answer, lease = overtaken(folder, "hold_unfenced")
    assert answer.startswith("kept")
    assert len(stale_entries(folder, lease)) == 1
    record(figure(answer, stale_entries(folder, lease), control="no fence check"))


def test_a_killed_holder_has_no_lease(tmp_path):
    """Law 15: waking after a crash never waits for an expiry, not even while the killed process is a zombie."""
    folder = str(tmp_path)
    small_log(folder, entries=2)
    with Child("hold", folder, "doomed", "100000") as holder:
        assert holder.hear().startswith("holds")
        with pytest.raises(Conflict):
            Session(JsonlStore(folder), NAME).acquire("impatient", ttl_s=1)
        assert JsonlStore(folder).held(NAME) is not None
        holder.kill()
        assert holder.process.returncode is None, "its exit status was not collected: it is a zombie"
        assert JsonlStore(folder).held(NAME) is None
        lease = Session(JsonlStore(folder), NAME).acquire("heir", ttl_s=600)
    assert JsonlStore(folder).held(NAME) == msgspec.structs.replace(lease, session=NAME)


def test_a_reused_pid_is_not_its_predecessor(tmp_path):
    """Law 6: a process is identified by its pid and its start time."""
    folder = str(tmp_path)
    session = small_log(folder, entries=2)
    session.acquire("me", ttl_s=600)
    store = JsonlStore(folder)
    assert store.held(NAME) is not None
    rewrite(store, born="1")
    assert store.held(NAME) is None


def test_a_process_of_another_container_is_not_taken_for_dead(tmp_path):
    """Law 6: containers share the boot of the machine but not the process table: neither sees the other's pids."""
    folder = str(tmp_path)
    session = small_log(folder, entries=2)
    session.acquire("me", ttl_s=600)
    store = JsonlStore(folder)
    rewrite(store, pids="pid:[1]", born="1")
    assert store.held(NAME) is not None


def rewrite(store: JsonlStore, expires: float | None = None, **process: object) -> None:
    """Change the record of the lease without the store."""
    record = store._leases.read(NAME)
    assert record is not None
    changed = msgspec.structs.replace(
        record,
        expires=record.expires if expires is None else expires,
        process=msgspec.structs.replace(record.process, **process),
    )
    store.folder.replace_small(msgspec.json.encode(changed), ".locks", f"{NAME}.lease")


def test_a_lease_is_written_in_place(tmp_path):
    """LOG-10: renaming a new file over the old one would wait for the disk each time a session is taken and left."""
    folder = str(tmp_path)
    session = small_log(folder, entries=2)
    session.release(session.acquire("me", ttl_s=600))
    path = tmp_path / ".locks" / f"{NAME}.lease"
    before = path.stat()
    lease = session.acquire("me again, under a longer name", ttl_s=600)
    assert (path.stat().st_ino, path.stat().st_size) == (before.st_ino, before.st_size)
    held = JsonlStore(folder).held(NAME)
    assert held is not None
    assert (held.holder, held.fence) == (lease.holder, lease.fence)


def test_a_lease_that_does_not_fit_into_the_old_one_replaces_it(tmp_path):
    """LOG-10: the holder is any text, and a record of an earlier version is shorter."""
    folder = str(tmp_path)
    session = small_log(folder, entries=2)
    session.release(session.acquire("me", ttl_s=600))
    for holder in ("h" * 2_000, "me"):
        lease = session.acquire(holder, ttl_s=600)
        held = JsonlStore(folder).held(NAME)
        assert held is not None
        assert (held.holder, held.fence) == (holder, lease.fence)
        session.release(lease)
    assert JsonlStore(folder).held(NAME) is None


def test_a_lease_that_is_being_written_is_read_again(tmp_path, monkeypatch):
    """LOG-10: a reader without the append lock may find new bytes before old ones."""
    folder = str(tmp_path)
    small_log(folder, entries=2).acquire("me", ttl_s=600)
    store = JsonlStore(folder)
    whole = store.folder.read_small(".locks", f"{NAME}.lease")
    assert whole is not None
    found = [b'{"holder":"other"' + whole[12:], whole]
    monkeypatch.setattr(store.folder, "read_small", lambda *_: found.pop(0))
    held = store.held(NAME)
    assert held is not None
    assert held.holder == "me"


def test_a_lease_from_another_boot_is_void(tmp_path):
    """Law 15: seconds since boot mean nothing after the next boot."""
    folder = str(tmp_path)
    session = small_log(folder, entries=2)
    session.acquire("me", ttl_s=600)
    store = JsonlStore(folder)
    rewrite(store, boot="11111111-2222-3333-4444-555555555555", expires=10.0**9)
    assert store.held(NAME) is None
    assert Session(store, NAME).acquire("after the boot", ttl_s=600).fence > 2


@pytest.mark.parametrize("jump_s", [-400 * 86_400, 400 * 86_400])
def test_a_clock_jump_does_not_matter(tmp_path, monkeypatch, jump_s):
    """Law 3: setting the wall clock by a year neither ends a lease nor extends one."""
    folder = str(tmp_path)
    session = small_log(folder, entries=2)
    lease = session.acquire("me", ttl_s=600)
    true_time, true_ns = time.time, time.time_ns
    monkeypatch.setattr(time, "time", lambda: true_time() + jump_s)
    monkeypatch.setattr(time, "time_ns", lambda: true_ns() + jump_s * 10**9)
    jumped = Session(JsonlStore(folder), NAME, clock=SystemClock())
    with pytest.raises(Conflict):
        jumped.acquire("thief", ttl_s=600)
    later = session.append(Message(message=Prompt(content="still mine")), lease=lease)
    assert later.seq == lease.fence + 1
    session.store.release(lease)
    assert jumped.acquire("next", ttl_s=600).fence > later.seq
    assert read(folder).damage == ()


def test_a_lease_ends_by_the_clock_since_boot(tmp_path):
    """Law 6: it ends when its time is up, not earlier; a holder whose lease ended may append until it is overtaken."""
    folder = str(tmp_path)
    small_log(folder, entries=2)
    now = [1_000.0]
    store = JsonlStore(folder, now=lambda: now[0])
    session = Session(store, NAME, clock=Ticks(500))
    lease = session.acquire("me", ttl_s=10)
    now[0] += 9.9
    assert store.held(NAME) is not None
    now[0] += 0.2
    assert store.held(NAME) is None
    session.append(Message(message=Prompt(content="nobody has overtaken me")), lease=lease)
    successor = Session(store, NAME, clock=Ticks(900))
    successor.acquire("you", ttl_s=10)
    with pytest.raises(LeaseLost):
        session.append(Message(message=Prompt(content="too late")), lease=lease)


@pytest.mark.parametrize(
    "record", [b"", b"{", b"\xff", b"[]", b"null", b'{"holder":1}', b'{"a":' * 100_000, b"\x00" * 4_096]
)
def test_an_unreadable_lease_is_free(tmp_path, record):
    """Law 13: a broken record raises no exception; its holder must take the lease again, and fences still grow."""
    folder = str(tmp_path)
    session = small_log(folder, entries=2)
    lease = session.acquire("me", ttl_s=600)
    JsonlStore(folder).folder.replace_small(record, ".locks", f"{NAME}.lease")
    assert JsonlStore(folder).held(NAME) is None
    with pytest.raises(LeaseLost):
        session.append(Message(message=Prompt(content="by whose right?")), lease=lease)
    assert session.acquire("me", ttl_s=600).fence > lease.fence
    fences = [entry.seq for entry in read(folder).entries if isinstance(entry.value, Activity)]
    assert fences == sorted(set(fences))
