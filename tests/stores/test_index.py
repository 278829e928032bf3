"""The derived index: fast, incremental, and never the truth (law 2, law 9; ST-4, ST-5)."""

import os
import random
import shutil
import sqlite3
import stat as modes
import subprocess
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.laws.logs import DAMAGE, STORIES, bytes_of, damaged, tell
from wakelog.errors import BadQuery, StoreError
from wakelog.forking import fork
from wakelog.log.entry import Custom
from wakelog.log.entry import Session as SessionEntry
from wakelog.reading import read_log
from wakelog.session import Session
from wakelog.stores.index import Index, index_path
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.memory import MemoryStore
from wakelog.testing.builders import FixedClock, Story
from wakelog.views.overview import overview
from wakelog.views.state import session_state

QUERIES = ("prompt", "reply", "fork*", "bash -forked", '"taken up"', "title", "summary", "queued", "done", "label")


class Counted(JsonlStore):
    """A file store that counts the lines it hands out."""

    def __init__(self, path):
        super().__init__(path)
        self.lines = 0

    def load(self, session, *, after=-1):
        for line in super().load(session, after=after):
            self.lines += 1
            yield line

    def tail(self, session):
        for line in super().tail(session):
            self.lines += 1
            yield line


class Bench:
    """A store in a folder with an index beside it, and what a new index would say."""

    def __init__(self, folder):
        self.folder = str(folder)
        self.store = Counted(os.path.join(self.folder, "store"))
        self.path = os.path.join(self.folder, "cache", "index.sqlite")
        self.index = Index(self.store, self.path)
        self.clock = FixedClock()

    def begin(self, *, agent="crab"):
        """A story of this store; all of them share one clock, so that no two ids are the same."""
        story = Story()
        story.store = self.store
        story.session = Session.create(self.store, agent=agent, cwd="/repo", clock=self.clock)
        return story

    def talk(self, turns, *, agent="crab"):
        """A story of some turns with a tool call each."""
        story = self.begin(agent=agent)
        for turn in range(turns):
            story.user(f"prompt {turn}")
            reply = story.reply("reply", calls=[("t", "bash", {"command": f"ls {turn}"})])
            story.result(reply, "t", "done")
            story.reply("reply done")
        return story

    def log(self, name):
        return os.path.join(self.folder, "store", f"{name}.jsonl")

    def read(self, name):
        with open(self.log(name), "rb") as file:
            return file.read()

    def write(self, name, raw):
        os.makedirs(os.path.dirname(self.log(name)), exist_ok=True)
        with open(self.log(name), "wb") as file:
            file.write(raw)

    def refreshed(self):
        """The answers after a refresh, and the lines it read."""
        before = self.store.lines
        self.index.refresh()
        return self.store.lines - before

    def answers(self):
        # As in a new process: what the store remembers of names is not what is tested here.
        self.store.close()
        self.index.refresh()
        return answers(self.index)

    def fresh_answers(self):
        """What an index says that has never seen this store before."""
        fresh = Index(JsonlStore(os.path.join(self.folder, "store")), ":memory:")
        fresh.refresh()
        said = answers(fresh)
        fresh.close()
        return said


def answers(index):
    """Everything an index can be asked."""
    rows = index.rows(archived=None)
    return {
        "rows": rows,
        "put away": index.rows(archived=True),
        "counts": (index.count(), index.count(archived=None), index.count(agent="crab", sender="user")),
        "found": [index.find(ref) for row in rows for ref in (row.id, row.name, row.id[:3], row.name[:6])],
        "hits": [index.search(query, limit=limit) for query in QUERIES for limit in (3, 50)],
    }


@pytest.fixture
def bench(tmp_path):
    bench = Bench(tmp_path)
    yield bench
    bench.index.close()


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A folder for examples that make their own place in it: hypothesis runs many in one test."""
    return tmp_path_factory.mktemp("index")


# ── what a row says ──────────────────────────────────────────────────────────────────────────────


def expected_row(store, name):
    """A row as the views of the whole log give it, worked out without the index."""
    log = read_log(store, name)
    card = overview(log.tree, damaged=bool(log.damage))
    own = log.session.value if log.session else SessionEntry()
    bodies = [entry.value for entry in log.entries]
    prompts = [" ".join(body.message.text.split()) for body in bodies if _is_prompt(body)]
    return {
        "name": name,
        "id": log.id,
        "agent": own.agent,
        "sender": own.sender,
        "number": own.number,
        "cwd": own.cwd,
        "title": card.title,
        "created": own.timestamp,
        "updated": bodies[-1].timestamp,
        "entries": card.entries,
        "messages": card.messages,
        "model": card.model,
        "archived": card.archived,
        "state": card.state,
        "damage": len(log.damage),
        "prompt": next(filter(None, prompts), "")[:200],
        "attached": session_state(log.tree).attached_at is not None,
    }


def _is_prompt(body):
    return body.type == "message" and hasattr(body, "message") and type(body.message).__name__ == "Prompt"


@settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))
@given(STORIES, DAMAGE)
def test_a_row_is_what_the_views_of_the_whole_log_say(shared, steps, hurts):
    """Law 2: the index derives; every field of a row is a view of the log."""
    bench = Bench(shared / os.urandom(8).hex())
    bench.write("crab_user_1", damaged(bytes_of(tell(steps)), hurts))
    bench.index.refresh()
    (row,) = bench.index.rows(archived=None)
    expected = expected_row(bench.store, "crab_user_1")
    assert {field: getattr(row, field) for field in expected} == expected
    assert row.size == os.path.getsize(bench.log("crab_user_1"))
    bench.index.close()


def test_rows_are_listed_newest_first_and_filtered(bench):
    """ST-4: title and archive state come from appended entries, the latest wins; lists filter and count."""
    first = bench.talk(1, agent="crab").session
    second = bench.talk(2, agent="lobster").session
    third = bench.talk(3, agent="crab").session
    first.rename("Old")
    first.rename("New")
    second.archive()
    third.archive()
    third.archive(archived=False)
    bench.index.refresh()
    rows = bench.index.rows()
    assert [row.name for row in rows] == [third.name, first.name]
    assert [row.title for row in rows] == [None, "New"]
    assert [row.name for row in bench.index.rows(archived=True)] == [second.name]
    assert [row.name for row in bench.index.rows(archived=None, limit=2)] == [third.name, second.name]
    assert bench.index.count(archived=None, agent="crab", cwd="/repo") == 2
    assert bench.index.rows(agent="cr\udcffab") == bench.index.rows(sender="nobody") == []


def test_find_prefers_the_exact(bench):
    """A name or id that is there wins alone, also where others begin with it."""
    sessions = [bench.talk(1).session for _ in range(11)]
    bench.index.refresh()
    assert [row.id for row in bench.index.find("crab_user_1")] == [sessions[0].id]
    assert [row.name for row in bench.index.find(sessions[4].id)] == ["crab_user_5"]
    assert {row.name for row in bench.index.find("crab_user_1")} == {"crab_user_1"}
    assert {row.name for row in bench.index.find("crab_user")} == {session.name for session in sessions}
    assert bench.index.find("nothing") == bench.index.find("%") == bench.index.find("' OR 1=1 --") == []


# ── search ───────────────────────────────────────────────────────────────────────────────────────


def test_what_can_be_found(bench):
    """ST-5: prompts, replies, tool names and inputs, results, summaries, titles, custom content; not thinking."""
    story = bench.begin()
    said = story.user("fix the naïve parser\nplease")
    reply = story.reply("certainly", calls=[("t", "grep", {"deep": [{"pattern": "needle"}, 4711]})])
    result = story.result(reply, "t", "haystack\0search")
    summary = story.session.compact("we spoke of parsers")
    custom = story.session.append(Custom(custom_type="x", content="extension words"))
    title = story.session.rename("Parser week")
    bench.index.refresh()
    found = {
        "naive": said,
        "please": said,
        "certainly": reply,
        "grep": reply,
        "needle": reply,
        "4711": reply,
        "haystack": result,
        "search": result,
        "spoke": summary,
        "extension": custom,
        "week": title,
    }
    for word, entry in found.items():
        (hit,) = bench.index.search(word)
        assert (hit.session, hit.name, hit.entry, hit.type) == (story.session.id, "crab_user_1", entry.id, entry.type)
        assert hit.timestamp == entry.value.timestamp
        assert "«" in hit.excerpt
        assert "\n" not in hit.excerpt
    assert bench.index.search("naive")[0].excerpt == "fix the «naïve» parser please"
    with pytest.raises(BadQuery):
        bench.index.search("-only")
    assert bench.index.search("parser", limit=0) == []


def test_equally_good_hits_stand_in_an_order_of_their_own(bench):
    """The order of hits does not tell in which order logs were met: newest first, then by name."""
    stories = random.Random(1).sample([bench.begin() for _ in range(12)], 12)
    for story in stories:
        story.user("the same words")
        bench.index.refresh()
    names = [story.session.name for story in reversed(stories)]
    for limit in (1, 2, 5, 11, 12, 13):
        assert [hit.name for hit in bench.index.search("same", limit=limit)] == names[:limit]
    assert bench.answers() == bench.fresh_answers()


# ── only what is new is read ─────────────────────────────────────────────────────────────────────


def test_nothing_is_read_twice(bench):
    """ST-5: a second refresh reads no line at all; after one append it reads that and the tail, never the log."""
    story = bench.talk(200)
    assert bench.refreshed() == 801
    assert bench.refreshed() == 0
    story.user("one more")
    assert bench.refreshed() <= 3
    story.reply("and an answer", calls=[("t", "bash", {})] * 3)
    assert bench.refreshed() <= 4
    story.session.label(story.session.tree.root, "an old entry")
    assert bench.refreshed() <= 5
    assert bench.refreshed() == 0
    assert bench.answers() == bench.fresh_answers()


def test_a_log_under_way_is_never_read_whole(bench):
    """ST-5: turn after turn, reading goes on near where it stopped."""
    story, read = bench.talk(50), []
    bench.refreshed()
    for turn in range(30):
        story.user(f"turn {turn}")
        reply = story.reply(calls=[("a", "bash", {}), ("b", "bash", {})])
        read.append(bench.refreshed())
        story.result(reply, "a")
        read.append(bench.refreshed())
        story.result(reply, "b")
        read.append(bench.refreshed())
    assert max(read) <= 8
    assert bench.answers() == bench.fresh_answers()


def test_a_log_that_was_changed_is_read_whole(bench):
    """Law 2: size and time are hints; where the bytes before the new ones are others, all is read again."""
    story = bench.talk(20)
    bench.refreshed()
    raw = bench.read("crab_user_1")
    other = raw.replace(b"prompt 3", b"prompt X")
    for changed in (other, other + raw[-40:], raw[: len(raw) // 2], raw + raw, b""):
        bench.write("crab_user_1", changed)
        assert bench.answers() == bench.fresh_answers()
    bench.write("crab_user_1", raw)
    assert bench.answers() == bench.fresh_answers()
    assert [hit.entry for hit in bench.index.search('"prompt 3"')] == [story.session.read().entries[13].id]


@settings(deadline=None, max_examples=120, suppress_health_check=list(HealthCheck))
@given(STORIES, DAMAGE, st.lists(st.integers(0, 30_000), max_size=6))
def test_growing_gives_what_building_anew_gives(shared, steps, hurts, cuts):
    """Law 2: however a log came to be what it is, the index says what a new one says."""
    bench = Bench(shared / os.urandom(8).hex())
    raw = damaged(bytes_of(tell(steps)), hurts)
    for cut in sorted(cut % (len(raw) + 1) for cut in cuts):
        # Mostly at the end of a line, as appends are; sometimes in the middle of one.
        bench.write("crab_user_1", raw[: cut if cut % 4 == 0 else raw.rfind(b"\n", 0, cut) + 1])
        bench.index.refresh()
    bench.write("crab_user_1", raw)
    assert bench.answers() == bench.fresh_answers()
    bench.index.close()


@pytest.mark.parametrize("seed", range(12))
def test_any_sequence_of_changes_gives_what_building_anew_gives(tmp_path, seed):
    """Law 2, over many sessions: appends, forks, renames, archives, vanished logs and damage by hand."""
    chance, bench = random.Random(seed), Bench(tmp_path)
    stories = [bench.talk(2) for _ in range(3)]
    for _ in range(25):
        change(bench, chance, stories)
        if chance.random() < 0.6:
            assert bench.answers() == bench.fresh_answers()
    assert bench.answers() == bench.fresh_answers()
    bench.index.close()


def change(bench, chance, stories):
    """One thing that may happen to a store."""
    story = chance.choice(stories)
    what = chance.choice(["say", "say", "ask", "rename", "archive", "head", "fork", "new", "hurt", "vanish", "copy"])
    try:
        session = Session(bench.store, story.session.name, clock=story.session.clock)
        links = list(session.tree.links)
        match what:
            case "say":
                session.say(f"prompt {chance.random()}")
            case "ask":
                story.session = session
                story.reply("reply", calls=[("t", "bash", {})])
            case "rename":
                session.rename(f"title {chance.random()}")
            case "archive":
                session.archive(archived=chance.random() < 0.5)
            case "head":
                session.move_head(chance.choice(links))
            case "fork":
                stories.append(Story(MemoryStore()))
                stories[-1].session = fork(session, chance.choice(links))
    except (StoreError, OSError, AssertionError, LookupError):
        return
    except Exception as error:
        if type(error).__name__ not in ("NotFound", "Damaged", "NewerFormat", "Conflict"):
            raise
        return
    path = bench.log(story.session.name)
    if what == "new":
        stories.append(bench.talk(1))
    elif what == "hurt" and os.path.exists(path):
        hurt = chance.choice(["garbage", "repeat", "flip", "drop", "cut", "glue", "foreign"])
        bench.write(story.session.name, damaged(bench.read(story.session.name), [(hurt, chance.randrange(60))]))
    elif what == "vanish" and len(stories) > 3:
        os.unlink(path)
        stories.remove(story)
    elif what == "copy":
        shutil.copyfile(path, bench.log(f"copy_user_{chance.randrange(3)}"))


def test_a_fork_is_looked_at_again_when_its_parent_changes(bench):
    """Law 2: what a fork inherits is part of its row, so a parent that vanishes or comes back shows there."""
    parent = bench.talk(3).session
    child = fork(parent)
    grandchild = fork(child)
    bench.index.refresh()
    raw = bench.read(parent.name)
    os.unlink(bench.log(parent.name))
    gone = bench.answers()
    assert {row.name for row in gone["rows"]} == {child.name, grandchild.name}
    assert [row.damage for row in gone["rows"] if row.name == child.name] == [1]
    assert gone == bench.fresh_answers()
    bench.write(parent.name, raw)
    assert {row.damage for row in bench.answers()["rows"]} == {0}
    assert bench.answers() == bench.fresh_answers()


def test_what_a_parent_says_later_is_no_reason_to_read_its_forks(bench):
    """ST-5: a parent that only grows costs its forks nothing."""
    parent = bench.talk(100).session
    for _ in range(5):
        fork(parent)
    bench.refreshed()
    parent.say("more")
    assert bench.refreshed() <= 3
    assert bench.answers() == bench.fresh_answers()


def test_a_log_that_cannot_be_opened_is_a_row_all_the_same(bench):
    """Law 9: damage is reported and the rest is served; when the log can be read again, it is."""
    bench.talk(1)
    bench.write("dots..in_it_1", b'{"type":"session","id":"x"}\n')
    rows = {row.name: row for row in bench.answers()["rows"]}
    assert (rows["dots..in_it_1"].state, rows["dots..in_it_1"].damage) == ("damaged", 1)
    assert rows["crab_user_1"].damage == 0
    assert bench.answers() == bench.fresh_answers()


# ── the file may be lost at any time ─────────────────────────────────────────────────────────────


def harm(path, chance):
    """One way of damaging the file of an index; says which."""
    how = chance.choice(["flip", "flip", "flip", "zero", "cut", "grow", "swap", "delete", "empty", "noise", "folder"])
    with open(path, "rb") as file:
        raw = bytearray(file.read())
    at = chance.randrange(len(raw))
    match how:
        case "flip":
            raw[at] ^= 1 << chance.randrange(8)
        case "zero":
            raw[at : at + 512] = bytes(len(raw[at : at + 512]))
        case "cut":
            del raw[at:]
        case "grow":
            raw += os.urandom(1000)
        case "swap":
            raw = raw[4096:8192] + raw[:4096] + raw[8192:]
        case "empty":
            raw = bytearray()
        case "noise":
            raw = bytearray(os.urandom(len(raw)))
        case "delete" | "folder":
            os.unlink(path)
    if how == "folder":
        os.mkdir(path)
    elif how != "delete":
        with open(path, "wb" if chance.random() < 0.5 else "r+b") as file:
            file.write(raw)
            file.truncate()
    return how


def test_damaging_or_deleting_the_index_changes_no_answer(bench):
    """Law 2: 200 ways of harming the file, and every answer stays what it was."""
    chance = random.Random(7)
    parent = bench.talk(4).session
    parent.rename("a title")
    fork(parent).archive()
    bench.talk(2)
    expected = bench.fresh_answers()
    for _ in range(200):
        assert bench.answers() == expected
        bench.index.close()
        how = harm(bench.path, chance)
        bench.index = Index(bench.store, bench.path)
        assert bench.answers() == expected, how
        if how == "folder":
            os.rmdir(bench.path)
            bench.index = Index(bench.store, bench.path)


def test_damage_under_an_open_index_is_met_too(bench):
    """Law 2: also an index that is in use may lose its file, and finds out at the next refresh."""
    bench.talk(3)
    expected, chance = bench.answers(), random.Random(3)
    for _ in range(20):
        if harm(bench.path, chance) == "folder":
            os.rmdir(bench.path)
        assert bench.answers() == expected


def test_a_question_to_a_broken_file_is_answered(bench):
    """Law 2: where damage only shows when a question is asked, the index is built anew and the answer given."""
    bench.talk(3)
    expected = bench.answers()
    bench.index._file.connection.execute("DROP TABLE sessions")
    assert answers(bench.index) == expected


def test_no_file_can_be_kept(tmp_path):
    """Law 2, law 9: where the cache cannot be written, the answers are the same and nothing is left behind."""
    (tmp_path / "cache").write_text("a file where a folder should be")
    bench = Bench(tmp_path)
    bench.talk(3)
    assert bench.answers() == bench.fresh_answers()
    assert bench.refreshed() == 0
    assert os.listdir(tmp_path) == ["cache", "store"] or os.listdir(tmp_path) == ["store", "cache"]
    bench.index.close()


def test_a_file_that_cannot_be_written_is_replaced(bench):
    """Law 2: what is in the way of the index is thrown away, since nothing in it is the only copy."""
    bench.talk(1)
    bench.index.refresh()
    bench.index.close()
    os.chmod(bench.path, 0o400)
    bench.talk(1)
    assert bench.answers() == bench.fresh_answers()


def test_another_version_is_built_anew(bench):
    """Law 2: an index of an older or newer wakelog is no reason to fail."""
    bench.talk(2)
    expected = bench.answers()
    bench.index._file.connection.execute("PRAGMA user_version = 4711")
    changed = os.stat(bench.path).st_mtime_ns
    bench.index.close()
    with sqlite3.connect(bench.path) as db:
        (stamp,) = db.execute("SELECT changed FROM stamp").fetchone()
    db.close()
    os.utime(bench.path, ns=(stamp, stamp))
    assert changed != stamp
    bench.index = Index(bench.store, bench.path)
    assert bench.answers() == expected
    assert bench.index._file.connection.execute("PRAGMA user_version").fetchone() != (4711,)


def test_the_file_is_private(bench):
    """Law 13: the index holds what the logs hold, so it is as private as they are."""
    bench.talk(1)
    bench.index.refresh()
    folder = os.path.dirname(bench.path)
    assert modes.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert {modes.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) for name in os.listdir(folder)} == {0o600}


def test_reading_leaves_the_store_as_it_was(bench):
    """Law 9: indexing writes nothing to a store, and takes none of its locks."""
    bench.talk(2)
    bench.write("torn_user_1", bench.read("crab_user_1")[:-20])
    before = {name: os.lstat(name).st_mtime_ns for name in everything(bench.folder + "/store")}
    bench.answers()
    assert {name: os.lstat(name).st_mtime_ns for name in everything(bench.folder + "/store")} == before


def everything(folder):
    return [os.path.join(place, name) for place, folders, files in os.walk(folder) for name in (*folders, *files)]


def test_where_the_index_is(monkeypatch, tmp_path):
    """One index a store, in the XDG cache, whichever way the store is named."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    path = index_path("sessions")
    assert path == index_path(f"jsonl:{tmp_path}/sessions") == index_path(f"{tmp_path}/x/../sessions/")
    assert path != index_path("others")
    assert os.path.dirname(path) == str(tmp_path / "wakelog")
    assert path.endswith(".sqlite")
    assert index_path("memory:") == ":memory:"
    monkeypatch.setenv("XDG_CACHE_HOME", "not/absolute")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert index_path("sessions").startswith(str(tmp_path / ".cache" / "wakelog"))


def test_a_store_in_memory_has_an_index_too():
    """Law 12: the index knows the port and nothing of files."""
    story = Story(MemoryStore())
    index = Index(story.store, ":memory:")
    story.user("prompt")
    index.refresh()
    story.reply("reply")
    index.refresh()
    assert [(row.messages, row.state) for row in index.rows()] == [(2, "rest")]
    assert len(index.search("reply")) == 1
    index.close()


# ── many at once ─────────────────────────────────────────────────────────────────────────────────

CHILD = """
import sys
from wakelog.stores.index import Index
from wakelog.stores.jsonl import JsonlStore
store, path, waits = sys.argv[1:]
def progress(done, total):
    if waits == "yes" and done == 20:
        print("half", flush=True)
        sys.stdin.read()
index = Index(JsonlStore(store), path)
index.refresh(progress=progress)
print(index.count(), len(index.search("prompt", limit=1000)))
"""


def child(bench, *, waits="no"):
    command = [sys.executable, "-c", CHILD, bench.folder + "/store", bench.path, waits]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_processes_refresh_at_once(bench):
    """Law 2: who builds the index, and with whom, makes no difference."""
    for _ in range(40):
        bench.talk(2)
    children = [child(bench) for _ in range(6)]
    assert [process.communicate()[0] for process in children] == ["40 80\n"] * 6
    assert [process.returncode for process in children] == [0] * 6
    assert bench.refreshed() == 0
    assert bench.answers() == bench.fresh_answers()


def test_a_killed_refresh_leaves_nothing_wrong(bench):
    """Law 2: kill -9 in the middle of building, and the next one to ask gets the right answers."""
    for _ in range(40):
        bench.talk(2)
    process = child(bench, waits="yes")
    assert process.stdout.readline() == "half\n"
    process.kill()
    process.communicate()
    assert bench.answers() == bench.fresh_answers()
    assert bench.refreshed() == 0
