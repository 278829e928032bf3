"""RUN-10: a watcher that waits reads nothing, however long it waits; a process with one can fork and can end."""

import asyncio
import re
import subprocess
import sys

import pytest

from tests.faults.processes import PATIENCE_S, command, environment
from tests.kernel.watching import Watched, until
from tests.watcher.children import BEGIN, END, LOOKS, REPLIES, begin, count_looks
from wakelog.log.entry import ModelCall, ToolStarted
from wakelog.providers.scripted import ScriptedProvider
from wakelog.reading import read_log
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.user_actions import request_cancel
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores import open_store
from wakelog.stores.followers import Follower
from wakelog.tools.function_tool import tool

CHILDREN = "tests.watcher.children"
# A prompt, two model calls and a tool; it was 211 when a five-second tool was polled for.
READS_MAX = 30
READS = "read,pread64,readv,preadv,openat,open,stat,newfstatat,statx"


def url_of(kind, tmp_path, request):
    own = {"files": str(tmp_path / "store"), "sqlite": f"sqlite:{tmp_path / 'store' / 'own.db'}", "memory": "memory:"}
    return own.get(kind) or request.getfixturevalue("postgres_url")


class CountingStore:
    """A store that counts the calls which read a log."""

    def __init__(self, store):
        self._store = store
        self.reads = 0

    def __getattr__(self, name):
        found = getattr(self._store, name)
        if name not in ("load", "tail", "follow"):
            return found

        def counted(*given, **more):
            self.reads += 1
            return found(*given, **more)

        return counted


# ── reads while a tool runs ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["memory", "files", "sqlite", "postgres"])
def test_reads_do_not_grow_with_the_length_of_a_tool(kind, tmp_path, request, monkeypatch):
    """RUN-12: a worker that waits for a cancel reads as often during a long tool as during a short one."""
    for name in ("wakelog.stores.jsonl.store._LOOK_S", "wakelog.stores.sqlite.tables._LOOK_S"):
        monkeypatch.setattr(name, 0.001)
    monkeypatch.setattr(Follower, "wait", Follower.wait)
    looks = count_looks()
    inner = open_store(url_of(kind, tmp_path, request))
    looks_again = kind in ("files", "sqlite")

    def reads(name, least_looks):
        """Run a session whose tool lasts for that many looks: reads while the watcher is idle, and in all."""
        store, during = CountingStore(inner), []

        @tool(name="hang")
        async def wait() -> str:
            begun = looks[0]
            await asyncio.to_thread(until, lambda: looks[0] > begun)
            first = store.reads
            if looks_again:
                await asyncio.to_thread(until, lambda: looks[0] > begun + least_looks)
            during.append(store.reads - first)
            return "waited"

        begin(inner, name)
        runtime = LiveRuntime(store, provider=lambda _, __: ScriptedProvider(REPLIES), tools=[wait])
        asyncio.run(wake(runtime, name))
        return during, store.reads

    (short, reads_of_short), (long, reads_of_long) = reads("s", 1), reads("t", 20 * LOOKS)
    assert (short, long) == ([0], [0])
    assert max(reads_of_short, reads_of_long) <= READS_MAX
    inner.close()


# ── an idle process ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("kind", ["files", "sqlite"])
def test_an_idle_watcher_reads_no_file_of_the_store(kind, tmp_path, request):
    """RUN-10: it was looked for news many times, and the system saw no read and no open of a file in the store."""
    url = url_of(kind, tmp_path, request)
    (tmp_path / "store").mkdir(mode=0o700)
    store = open_store(url)
    session = Session.create(store, session_id="s")
    session.say("word")
    store.journal(session.name, "r", b'{"text":"a"}')
    report = str(tmp_path / "calls")
    traced = ["strace", "-f", "-qq", "-y", "-o", report, "-e", f"trace={READS}", *command("idle", url, module=CHILDREN)]
    subprocess.run(traced, timeout=PATIENCE_S, env=environment(), check=True)
    with open(report, encoding="utf-8", errors="replace") as file:
        calls = file.read()
    idle = calls[calls.index(BEGIN) : calls.index(END)]
    # Folders are listed; files are not opened.
    touched = [line for line in idle.splitlines() if str(tmp_path / "store") in line and "O_DIRECTORY" not in line]
    assert [line for line in touched if re.search(r" (p?readv?(64)?|open(at)?)\(", line)] == []
    before = [line for line in calls[: calls.index(BEGIN)].splitlines() if str(tmp_path / "store") in line]
    assert any(re.search(r" p?read(64)?\(", line) for line in before)
    store.close()


def test_a_forked_process_watches_by_itself(tmp_path):
    """Threads do not survive a fork: the child starts its own, at the position of its subscription."""
    store = open_store(str(tmp_path))
    session = Session.create(store, session_id="s")
    with Watched("fork", str(tmp_path), module=CHILDREN) as child:
        assert child.end() == (0, {"seen": [1, 2, 3], "child": 0})
    assert next(session.follow(after=1)).seq == 2
    store.close()


@pytest.mark.parametrize("kind", ["files", "sqlite", "postgres"])
def test_a_process_ends_with_a_subscription_that_waits(kind, tmp_path, request):
    """Process exit never waits for a thread."""
    url = url_of(kind, tmp_path, request)
    store = open_store(url)
    Session.create(store, session_id="s")
    with Watched("exit", url, module=CHILDREN) as child:
        assert child.end() == (0, {"left": "with a thread"})
    store.close()


# ── cancels of another process ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("what", ["tool", "model"])
@pytest.mark.parametrize("kind", ["files", "sqlite", "postgres"])
def test_a_cancel_of_another_process_stops_what_runs(kind, what, tmp_path, request):
    """RUN-12: a running tool and a running model call, on every store that processes share."""
    url = url_of(kind, tmp_path, request)
    store = open_store(url)
    session = begin(store)
    wanted = ToolStarted if what == "tool" else ModelCall
    with Watched("run", url, what, module=CHILDREN) as worker:
        until(lambda: any(isinstance(entry.value, wanted) for entry in read_log(store, "s").entries))
        assert request_cancel(session) is not None
        assert worker.end() == (0, {"left": "cancelled"})
    store.close()


_READING_AT_EXIT = """
import sys, time
import wakelog.stores.sqlite.tables as tables
from wakelog import Session, open_store
from wakelog.watcher import Subscription
tables._LOOK_S = 0.0
store = open_store(sys.argv[1])
session = Session.create(store)
Subscription(store, session.name, after=session.last_seq, pieces={}).start()
time.sleep(0.05)
"""


@pytest.mark.parametrize("number", range(5))
def test_a_process_ends_while_its_watcher_reads_a_database(tmp_path, number):
    """ST-6: the connection is not closed while the thread uses it, which would crash the process."""
    words = [sys.executable, "-c", _READING_AT_EXIT, f"sqlite:{tmp_path}/{number}.db"]
    assert subprocess.run(words, timeout=PATIENCE_S, env=environment(), check=False).returncode == 0
