"""The lease of a recording program: who holds it, and when it ends (LOG-10; law 6: no running tool is settled).

The programs are real processes (`tests/recording/recorder.py`).
"""

import itertools
import os
import signal
import threading
import time

import pytest

from tests.faults.processes import PATIENCE_S, Child
from wakelog.errors import Conflict, LeaseLost, UsageError
from wakelog.log.entry import Activity
from wakelog.recording import held_lease
from wakelog.session import Session
from wakelog.stores import open_store
from wakelog.stores.memory import MemoryStore

RECORDER = "tests.recording.recorder"


@pytest.fixture(params=["files", "sqlite", "postgresql"])
def url(request, tmp_path):
    if request.param == "postgresql":
        return request.getfixturevalue("postgres_url")
    return f"{tmp_path}/sessions" if request.param == "files" else f"sqlite:{tmp_path}/s.db"


@pytest.fixture
def session(url):
    """The session that the program records, as another process sees it."""
    store = open_store(url)

    def opened() -> Session:
        return Session.open(store, agent="bot", sender="ada")

    yield opened
    store.close()


def events(session: Session) -> list[str]:
    return [entry.value.event for entry in session.entries() if isinstance(entry.value, Activity)]


def test_a_program_that_runs_keeps_others_out(url, session):
    with Child(url, "wait", module=RECORDER) as child:
        assert child.hear() == "recorded"
        with pytest.raises(Conflict, match="is being run by"):
            session().assistant("me too")
        child.tell("end")
        child.rest()
    with session() as found:
        assert events(found) == ["attached", "left"]
        found.assistant("now I may")


@pytest.mark.parametrize(("what", "written"), [("exception", ["attached", "left"]), ("killed", ["attached"])])
def test_a_program_that_ended_holds_nothing(url, session, what, written):
    """At process end the lease is released; that of a killed process is void at once on the same machine."""
    with Child(url, what, module=RECORDER) as child:
        assert child.rest()[:1] == ["recorded"]
    with session() as found:
        assert events(found) == written
        found.assistant("next")


def test_a_session_object_that_is_garbage_releases_its_lease(url, session):
    """The thread that renews leases releases it, never the finalizer itself: that may run inside the store."""
    with Child(url, "forget", module=RECORDER) as child:
        assert child.hear() == "recorded"
        found = session()
        while events(found)[-1] != "left":
            found.store.follow(found.name, after=found.tree.last_seq, pieces={}, timeout_s=1.0)
        # The child still waits for this word, so its thread has written the entry.
        child.tell("end")
        child.rest()
    assert events(found) == ["attached", "left"]


def test_a_forked_child_does_not_inherit_the_lease(url, session):
    """Rule 1: the child is refused, and its end does not release the lease of its parent.

    A session that the child opens itself works: its message is queued, because the parent records the session.
    """
    with Child(url, "fork", module=RECORDER) as child:
        assert child.rest() == ["recorded", *["refused"] * 5]
    entries = [entry.value for entry in session().entries()]
    texts = [each.message.text for each in entries if each.type in ("message", "queued")]
    assert texts == ["go", "ok", "from the child", "from the parent"]
    assert session().verify().ok


def refused_in_child(act) -> bool:
    """Fork, and return whether the child gets a `UsageError` that says what to do."""
    pid = os.fork()
    if pid == 0:
        code = 1
        signal.alarm(PATIENCE_S)
        try:
            act()
        except UsageError as error:
            code = 0 if error.hint else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_a_child_that_is_forked_while_a_thread_appends(tmp_path, kind):
    """LOG-10: the child gets an error; it does not wait for a thread that it does not have."""
    store = open_store(f"{tmp_path}/sessions" if kind == "files" else f"sqlite:{tmp_path}/s.db")
    session, held, done = Session.create(store), threading.Event(), threading.Event()

    def hold() -> None:
        with session.mutex:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    assert refused_in_child(lambda: session.say("from the child"))
    done.set()
    thread.join()
    session.say("from the parent")
    assert session.verify().ok
    store.close()


def test_a_memory_store_in_a_forked_child():
    """Law 4: the child has a copy that ends with it, so its writes are refused, not lost."""
    store = MemoryStore()
    session = Session.create(store)
    assert refused_in_child(lambda: Session.get(store, session.name).say("lost"))
    assert refused_in_child(lambda: Session.create(store))


# ── renewal ──────────────────────────────────────────────────────────────────────────────────────


class Counting(MemoryStore):
    """A store that counts renewals and may refuse them."""

    def __init__(self) -> None:
        super().__init__()
        self.renewed = 0
        self.refusals: list[Exception] = []

    def renew(self, lease, *, ttl_s):
        if self.refusals:
            raise self.refusals.pop()
        self.renewed += 1
        super().renew(lease, ttl_s=ttl_s)


@pytest.fixture
def quick(monkeypatch):
    """Renewals are due at once."""
    monkeypatch.setattr(held_lease, "_RENEW_EVERY_S", 0.0)
    monkeypatch.setattr(held_lease, "_RETRY_AFTER_S", 0.0)


def until(holds) -> None:
    """Wait until something holds; a test that waits in vain is stopped by its runner."""
    for _ in itertools.takewhile(lambda _: not holds(), itertools.count()):
        time.sleep(0)


@pytest.mark.usefixtures("quick")
def test_the_lease_is_renewed_by_a_thread():
    store = Counting()
    with Session.create(store) as session:
        session.user("go")
        session.assistant("ok")
        until(lambda: store.renewed > 3)
    renewed = store.renewed
    session.user("more")
    assert store.renewed <= renewed + 1


@pytest.mark.usefixtures("quick")
def test_a_lost_lease_is_not_taken_back_silently():
    """Rule 2: after another process may have settled open calls, only `recover` continues."""
    store = Counting()
    session = Session.create(store)
    session.user("go")
    store.refusals = [LeaseLost("another worker has it")]
    session.assistant("ok")
    until(lambda: session._held is not None and not session._held.is_valid)
    with pytest.raises(LeaseLost, match=r"was lost.*recover"):
        session.assistant("more")
    store.release(session._held.lease)
    session.recover()
    session.assistant("more")
    session.close()
