"""PostgreSQL outages during a run (laws 4, 5 and 6): short ones are waited out, long ones stop the run in time.

The server is really stopped and started, the worker is a process of its own, its tool another one. What the tool did
stands in a ledger outside of the log.
"""

import contextlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.faults.figures import Figure
from tests.faults.outage_worker import ServerPlace
from tests.faults.switch import Switch
from tests.kernel.holder import LOST, SESSION, TALK
from tests.kernel.judging import judge
from tests.kernel.outside import held
from tests.kernel.watching import Watched, in_group, until
from tests.patience import PATIENCE_S
from wakelog.decide.decisions import Idle
from wakelog.log.content import ToolResult
from wakelog.log.entry import Activity, Message
from wakelog.reading import read_log
from wakelog.session import Session
from wakelog.stores import open_store, retrying
from wakelog.stores.retrying import with_retries

LEASE_S = 24


class Scene:
    """One session on a server, and the worker that runs it."""

    def __init__(self, folder, url):
        self.url = url
        self.folder = str(folder)
        self.place = ServerPlace(folder, url)
        self._notices = self.place.path("notices")

    def close(self):
        self.place.store.close()

    @contextlib.contextmanager
    def worker(self, url, *more, lease_s=LEASE_S):
        with (
            open(self._notices, "wb") as notices,
            Watched(self.folder, url, lease_s, *more, module="tests.faults.outage_worker", stderr=notices) as worker,
        ):
            yield worker

    @property
    def notices(self):
        with open(self._notices, encoding="utf-8") as file:
            return file.read()

    def said(self, words):
        return lambda: words in self.notices

    def open_gate(self):
        with open(self.place.path("gate"), "wb"):
            pass

    def log(self):
        return read_log(self.place.store, SESSION)

    def has(self, words):
        """Return a function that tells whether the log holds these bytes."""
        return lambda: any(words in line.raw for line in self.place.store.load(SESSION))

    def workers(self):
        return [entry.value.event for entry in self.log().entries if isinstance(entry.value, Activity)]

    def statuses(self):
        said = [entry.value.message for entry in self.log().entries if isinstance(entry.value, Message)]
        return [message.status for message in said if isinstance(message, ToolResult)]


@pytest.fixture
def scene(tmp_path, own_postgres):
    made = Scene(tmp_path, own_postgres.new_database())
    yield made
    made.close()


def restart_fast(server, scene):
    server.restart()


def restart_at_once(server, scene):
    server.restart(immediate=True)


def stay_away_for_a_renewal(server, scene):
    """Keep the server down until the worker has failed to renew its lease."""
    server.stop()
    until(scene.said("could not be renewed"), "no renewal failed")
    server.start()
    until(scene.said("was renewed again"), "no renewal succeeded")


OUTAGES = [restart_fast, restart_at_once, stay_away_for_a_renewal]


def figure(planned, applied, checked=1, wrong=0, control=""):
    """The figures of outages shorter than the lease. A restarted server has another pid."""
    kept, found = (checked, "runs and appends"), (wrong, "ended by the outage")
    return Figure("server away for less than a lease", "PostgreSQL", planned, applied, kept, found, control)


@pytest.mark.parametrize("outage", OUTAGES)
def test_an_outage_while_a_tool_runs(scene, own_postgres, outage, record):
    """Law 6: the run continues, its tool has run once, and no other worker wrote."""
    scene.place.begin("Pay.")
    with scene.worker(scene.url, "pay begun") as worker:
        until(scene.has(b'"tool_started"'))
        server = own_postgres.pid()
        outage(own_postgres, scene)
        scene.open_gate()
        code, said = worker.end()
    assert (code, said) == (0, {"left": "done"}), scene.notices
    assert len(scene.place.outside.ledger) == 1
    assert scene.statuses() == ["ok"]
    assert scene.workers() == ["attached", "left"]
    judge(scene.place.store, scene.place.outside)
    record(figure(1, int(own_postgres.pid() != server)))


def test_control_a_worker_that_retries_no_call(scene, own_postgres, record):
    """The test above can fail: without the retries, a call during the outage ends the run."""
    scene.place.begin("Pay.")
    with scene.worker(scene.url, "pay begun", "impatient") as worker:
        until(scene.has(b'"tool_started"'))
        server = own_postgres.pid()
        own_postgres.stop()
        scene.open_gate()
        code, _ = worker.end()
        own_postgres.start()
    record(figure(1, int(own_postgres.pid() != server), wrong=int(code != 0), control="calls are not repeated"))


def test_an_outage_while_a_reply_is_streamed(scene, own_postgres, record):
    """Law 5: the display waits for the journal; then the reply continues where it was, and is displayed once."""
    scene.place.begin("Talk.")
    with scene.worker(scene.url, "talking") as worker:
        until(lambda: len("".join(held(scene.place.outside.events).values())) >= 25)
        server = own_postgres.pid()
        own_postgres.stop()
        scene.open_gate()
        until(scene.said("trying again"), "the outage was not reported")
        assert list(held(scene.place.outside.events).values()) == [TALK[:25]], "displayed, and not in the journal"
        own_postgres.start()
        code, said = worker.end()
    assert (code, said) == (0, {"left": "done"}), scene.notices
    assert "answers again" in scene.notices
    assert list(held(scene.place.outside.events).values()) == [TALK]
    assert scene.place.store.journals(SESSION) == {}
    assert scene.workers() == ["attached", "left"]
    judge(scene.place.store, scene.place.outside)
    record(figure(1, int(own_postgres.pid() != server)))


def test_restarts_between_appends(scene, own_postgres, monkeypatch, record):
    """Law 4: a writer without a lease waits out restarts too; every append is there once, in order."""
    # The limit is raised so that a slow restart on a busy machine does not fail the test.
    monkeypatch.setattr(retrying, "RETRY_S", 100.0)
    scene.place.begin("Pay.")
    is_over, servers = threading.Event(), {own_postgres.pid()}
    told: list[str] = []

    def write():
        session = Session(with_retries(open_store(scene.url), notice=told.append), SESSION)
        kept: list[str] = []
        while not is_over.is_set():
            kept.append(session.label("u1", str(len(kept))).id)
        session.store.close()
        return kept

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write)
        try:
            for immediate in (False, True, False):
                before = scene.log().entries[-1].seq
                until(lambda before=before: scene.log().entries[-1].seq > before + 5)
                own_postgres.restart(immediate=immediate)
                servers.add(own_postgres.pid())
        finally:
            is_over.set()
        kept = writer.result(PATIENCE_S)
    labels = [entry.id for entry in scene.log().entries if entry.id in {*kept}]
    assert labels == kept
    assert len(kept) > 15
    assert told.count("the store answers again") == len(told) / 2
    record(figure(3, len(servers) - 1, len(kept)))


# ── an outage that is longer than the lease ──────────────────────────────────────────────────────


def lease_free_while_tool_runs(scene):
    """Wait until the lease can be taken; return whether the tool is still alive then."""
    group = int(until(lambda: _read(scene.place.path("group"))))
    assert in_group(group)
    while scene.place.store.held(SESSION) is not None:
        pass
    return bool(in_group(group))


def _read(path):
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


@pytest.fixture
def shared_scene(tmp_path, postgres_url):
    made = Scene(tmp_path, postgres_url)
    yield made
    made.close()


def cut_off(switch, is_overtaken, control=""):
    """The figures of a worker that was cut off from its server for longer than its lease."""
    tools, found = (1, "tools"), (int(is_overtaken), "that ran when the lease was free")
    return Figure("worker cut off from the server", "PostgreSQL", 1, int(bool(switch.applied)), tools, found, control)


@pytest.mark.parametrize("mode", ["off", "frozen"])
def test_the_tool_is_stopped_before_another_worker_can_take_the_lease(shared_scene, postgres_url, mode, record):
    """Law 6: a worker that is cut off, or gets no answer, stops its tool while it still holds the lease."""
    scene = shared_scene
    scene.place.begin("Run.")
    with Switch(postgres_url) as switch, scene.worker(switch.url, lease_s=LEASE_S) as worker:
        until(lambda: os.path.exists(scene.place.path("ready")))
        switch.mode = mode
        is_overtaken = lease_free_while_tool_runs(scene)
        code, said = worker.end()
        record(cut_off(switch, is_overtaken))
    assert code == LOST, scene.notices
    assert "lease" in said["lost"]
    assert "could not be renewed" in scene.notices or "did not answer" in scene.notices
    # The second worker continues. The outcome of the tool is unknown, and it is not run again.
    before = _read(scene.place.path("group"))
    assert scene.place.wake().decision == Idle()
    assert _read(scene.place.path("group")) == before
    assert scene.workers() == ["attached", "attached", "left"]
    assert scene.statuses() == ["unknown"]


@pytest.mark.faults
def test_control_a_worker_that_stops_renewing_is_overtaken(shared_scene, postgres_url, record):
    """The test above can fail: where one failed renewal ends all renewals, the lease is free while the tool runs."""
    scene = shared_scene
    scene.place.begin("Run.")
    with Switch(postgres_url) as switch, scene.worker(switch.url, "none", "old", lease_s=LEASE_S):
        until(lambda: os.path.exists(scene.place.path("ready")))
        switch.mode = "off"
        record(cut_off(switch, lease_free_while_tool_runs(scene), control="a failed renewal ends renewing"))
