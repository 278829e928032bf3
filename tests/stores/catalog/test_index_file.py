"""Laws 2 and 9: the file of the index may be lost, damaged or shared at any time; no answer changes."""

import os
import random
import sqlite3
import stat as modes
import subprocess
import sys

from tests.stores.catalog.rigs import Rig, answers
from wakelog.forking import fork
from wakelog.stores.catalog.index import Index
from wakelog.stores.catalog.index_file import IndexTables


def harm(path, chance):
    """Damage the file of an index in one way; return its name."""
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


def test_damaging_or_deleting_the_index_changes_no_answer(index_rig):
    """Law 2: after 200 ways of damaging the file every answer is the same."""
    chance = random.Random(7)
    parent = index_rig.talk(4).session
    parent.rename("a title")
    fork(parent).archive()
    index_rig.talk(2)
    expected = index_rig.fresh_answers()
    for _ in range(200):
        assert index_rig.answers() == expected
        index_rig.index.close()
        how = harm(index_rig.path, chance)
        index_rig.index = Index(index_rig.store, IndexTables(index_rig.path))
        assert index_rig.answers() == expected, how
        if how == "folder":
            os.rmdir(index_rig.path)
            index_rig.index = Index(index_rig.store, IndexTables(index_rig.path))


def test_damage_under_an_open_index_is_noticed(index_rig):
    """Law 2: an index that is in use may lose its file too, and notices at the next refresh."""
    index_rig.talk(3)
    expected, chance = index_rig.answers(), random.Random(3)
    for _ in range(20):
        if harm(index_rig.path, chance) == "folder":
            os.rmdir(index_rig.path)
        assert index_rig.answers() == expected


def test_a_query_on_a_broken_file_is_answered(index_rig):
    """Law 2: where damage shows only in a query, the index is rebuilt and the query answered."""
    index_rig.talk(3)
    expected = index_rig.answers()
    index_rig.index._tables.file.connection.execute("DROP TABLE sessions")
    assert answers(index_rig.index) == expected


def test_without_a_writable_cache_the_answers_are_the_same(tmp_path):
    """Laws 2 and 9: no file is left behind."""
    (tmp_path / "cache").write_text("a file where a folder should be")
    index_rig = Rig(tmp_path)
    index_rig.talk(3)
    assert index_rig.answers() == index_rig.fresh_answers()
    assert index_rig.refreshed() == 0
    assert os.listdir(tmp_path) == ["cache", "store"] or os.listdir(tmp_path) == ["store", "cache"]
    index_rig.index.close()


def test_a_file_that_cannot_be_written_is_replaced(index_rig):
    """Law 2: a read-only index file is deleted, since nothing in it is the only copy."""
    index_rig.talk(1)
    index_rig.index.refresh()
    index_rig.index.close()
    os.chmod(index_rig.path, 0o400)
    index_rig.talk(1)
    assert index_rig.answers() == index_rig.fresh_answers()


def test_an_index_of_another_version_is_rebuilt(index_rig):
    """Law 2: an index of an older or newer wakelog is not an error."""
    index_rig.talk(2)
    expected = index_rig.answers()
    index_rig.index._tables.file.connection.execute("PRAGMA user_version = 4711")
    changed = os.stat(index_rig.path).st_mtime_ns
    index_rig.index.close()
    with sqlite3.connect(index_rig.path) as db:
        (stamp,) = db.execute("SELECT changed FROM stamp").fetchone()
    db.close()
    os.utime(index_rig.path, ns=(stamp, stamp))
    assert changed != stamp
    index_rig.index = Index(index_rig.store, IndexTables(index_rig.path))
    assert index_rig.answers() == expected
    assert index_rig.index._tables.file.connection.execute("PRAGMA user_version").fetchone() != (4711,)


def test_a_file_that_another_process_replaced_is_used(index_rig):
    """Law 2: two processes that build an index at one path end up with one file, and neither reads a log twice."""
    story = index_rig.talk(2)
    index_rig.index.refresh()
    os.unlink(index_rig.path)
    other = Index(index_rig.store, IndexTables(index_rig.path))
    other.refresh()
    story.user("prompt")
    index_rig.index.refresh()
    before = index_rig.store.lines
    other.refresh()
    assert index_rig.store.lines == before
    assert answers(other) == index_rig.answers() == index_rig.fresh_answers()
    other.close()


def test_the_file_is_private(index_rig):
    """Law 13: the index holds text of the logs, so it has their file mode."""
    index_rig.talk(1)
    index_rig.index.refresh()
    folder = os.path.dirname(index_rig.path)
    assert modes.S_IMODE(os.stat(folder).st_mode) == 0o700
    assert {modes.S_IMODE(os.stat(os.path.join(folder, name)).st_mode) for name in os.listdir(folder)} == {0o600}


def test_reading_leaves_the_store_as_it_was(index_rig):
    """Law 9: indexing writes nothing to a store, and takes none of its locks."""
    index_rig.talk(2)
    index_rig.write("torn_user_1", index_rig.read("crab_user_1")[:-20])
    before = {name: os.lstat(name).st_mtime_ns for name in everything(index_rig.folder + "/store")}
    index_rig.answers()
    assert {name: os.lstat(name).st_mtime_ns for name in everything(index_rig.folder + "/store")} == before


def everything(folder):
    return [os.path.join(place, name) for place, folders, files in os.walk(folder) for name in (*folders, *files)]


# ── many at once ─────────────────────────────────────────────────────────────────────────────────

CHILD = """
import sys
from tests.stores.catalog.rigs import Counted
from wakelog.stores.catalog.index import Index
from wakelog.stores.catalog.index_file import IndexTables
store, path, waits = sys.argv[1:]
def progress(done, total):
    if waits == "yes" and done == 20:
        print("half", flush=True)
        sys.stdin.read()
store = Counted(store)
index = Index(store, IndexTables(path))
index.refresh(progress=progress)
print(index.count(), len(index.search("prompt", limit=1000)), store.lines)
"""


def child(index_rig, *, waits="no"):
    command = [sys.executable, "-c", CHILD, index_rig.folder + "/store", index_rig.path, waits]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def test_concurrent_processes_refresh_the_index_together(index_rig):
    """Law 2: the answers are the same; each log is read by one of them."""
    for _ in range(40):
        index_rig.talk(2)
    children = [child(index_rig) for _ in range(6)]
    said = [process.communicate()[0].split() for process in children]
    assert [process.returncode for process in children] == [0] * 6
    assert [(count, hits) for count, hits, _ in said] == [("40", "80")] * 6
    assert sum(int(lines) for _, _, lines in said) == 40 * 9
    assert index_rig.refreshed() == 0
    assert index_rig.answers() == index_rig.fresh_answers()


def test_after_a_killed_refresh_the_answers_are_right(index_rig):
    """Law 2: kill -9 in the middle of building; the next query gives the right answers."""
    for _ in range(40):
        index_rig.talk(2)
    process = child(index_rig, waits="yes")
    assert process.stdout.readline() == "half\n"
    process.kill()
    process.communicate()
    assert index_rig.answers() == index_rig.fresh_answers()
    assert index_rig.refreshed() == 0
