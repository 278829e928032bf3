"""The file store passes the suite; what is its own (files, links, modes) is shown below it."""

import errno
import os
import stat

import pytest

from wakelog.errors import Conflict, StoreError
from wakelog.log.lines import Reader
from wakelog.ports import Append, Sealed
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.jsonl.syncing import ThreadSyncs
from wakelog.testing.store_suite import StoreSuite, body, make


class JsonlRig:
    def __init__(self, path, sync="file"):
        self.now = 1000.0
        self.path = str(path)
        self.sync = sync
        self.store = self.again()

    def again(self):
        return JsonlStore(self.path, now=lambda: self.now, sync=self.sync)

    def advance(self, seconds):
        self.now += seconds

    def plant(self, session, raw):
        with open(self.store.folder.log_path(self.store.name(session)), "ab") as file:
            file.write(raw)

    def hurt(self, session, old, new):
        with open(self.store.folder.log_path(self.store.name(session)), "r+b") as file:
            at = file.read().index(old)
            file.seek(at)
            file.write(new)


class TestJsonlStore(StoreSuite):
    @pytest.fixture
    def rig(self, tmp_path):
        return JsonlRig(tmp_path / "store")


class TestSyncedAsAWhole(StoreSuite):
    @pytest.fixture
    def rig(self, tmp_path):
        return JsonlRig(tmp_path / "store", sync="filesystem")


def test_names_and_modes(tmp_path):
    """ST-2: `{agent}_{sender}_{n}.jsonl`, 0600 in folders 0700, and by-id beside it."""
    store = JsonlStore(str(tmp_path / "store"))
    make(store)
    store.append("s", body("m1"), after=0)
    for folder, _, files in os.walk(tmp_path / "store"):
        assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
        for file in files:
            found = os.lstat(os.path.join(folder, file))
            assert stat.S_ISLNK(found.st_mode) or stat.S_IMODE(found.st_mode) == 0o600
    assert (tmp_path / "store" / "crab_user_1.jsonl").is_file()
    assert os.readlink(tmp_path / "store" / "by-id" / "s") == "../crab_user_1.jsonl"


def test_titles_are_links(tmp_path):
    """ST-2: a title is browsable as a file name, the log keeps its own, and only the last title stands."""
    store = JsonlStore(str(tmp_path))
    make(store)
    store.entitle("s", "First, try!")
    store.entitle("s", "Fix the /tests/ ☃")
    assert os.listdir(tmp_path / "by-title") == ["fix-the-tests--crab_user_1.jsonl"]
    assert (tmp_path / "by-title" / "fix-the-tests--crab_user_1.jsonl").read_bytes() == b"".join(
        line.bytes for line in store.load("s")
    )


def test_by_id_is_only_a_hint(tmp_path):
    """Law 2: without by-id, or with a wrong one, every session is still found."""
    store = JsonlStore(str(tmp_path))
    make(store, "a")
    make(store, "b")
    os.unlink(tmp_path / "by-id" / "a")
    os.unlink(tmp_path / "by-id" / "b")
    os.symlink("../crab_user_1.jsonl", tmp_path / "by-id" / "b")
    fresh = JsonlStore(str(tmp_path))
    assert (fresh.name("a"), fresh.name("b")) == ("crab_user_1", "crab_user_2")


def test_a_replaced_file_is_opened_anew(tmp_path):
    """Law 4: an append never goes into a file that nobody can find any more."""
    store = JsonlStore(str(tmp_path))
    make(store)
    store.append("s", body("m1"), after=0)
    path = tmp_path / "crab_user_1.jsonl"
    copy = path.read_bytes()
    path.unlink()
    path.write_bytes(copy)
    store.append("s", body("m2"), after=1)
    assert b'"m2"' in path.read_bytes()


def test_many_open_logs(tmp_path):
    """A bound on everything: more sessions than descriptors we keep open."""
    store = JsonlStore(str(tmp_path))
    for number in range(150):
        make(store, f"s{number}")
        store.append(f"s{number}", body("m1"), after=0)
    assert len(store._logs._logs) <= 128
    assert all(store.append(f"s{number}", body("m2"), after=1).seq == 2 for number in range(150))


def test_syncs_of_many_logs_fail_one_by_one(tmp_path, monkeypatch):
    """Law 4: of appends that are made durable together, those whose sync failed are in doubt, and only those."""
    store = JsonlStore(str(tmp_path))
    store._syncs = ThreadSyncs()
    for name in "abc":
        make(store, name, sender=name)
    synced, sync = [], os.fdatasync

    def failing(descriptor):
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        synced.append(name)
        if name == "crab_b_1.jsonl":
            raise OSError(errno.EIO, "lost")
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", failing)
    answers = store.append_all([Append(name, body(f"m-{name}"), 0) for name in "abc"] + [Append("b", body("n"), 7)])
    assert [type(answer) for answer in answers] == [Sealed, StoreError, Sealed, Conflict]
    assert sorted(synced) == ["crab_a_1.jsonl", "crab_b_1.jsonl", "crab_c_1.jsonl"]
    monkeypatch.setattr(os, "fdatasync", sync)
    assert store.append("b", body("m-b"), after=0).seq == 1
    assert [entry.id for entry in Reader().feed_all(store.load("b"))] == ["b", "m-b"]


def test_what_needs_no_sync_gets_none(tmp_path, monkeypatch):
    """Decision 008: entries that can be told again are written and not synced, together too."""
    store = JsonlStore(str(tmp_path))
    make(store, "a", sender="a")
    make(store, "b", sender="b")
    synced = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    store.append_all([Append("a", body("m1"), 0, durable=False), Append("b", body("m1"), 0, durable=False)])
    assert synced == []
    store.append_all([Append("a", body("m2"), 1, durable=False), Append("b", body("m2"), 1)])
    assert len(synced) == 1
