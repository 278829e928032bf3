"""The file store passes the suite; the tests below it are about files, links and modes."""

import errno
import os
import shutil
import stat
import subprocess
import sys
import threading

import pytest

from tests.stores.groups import append_in_one_group
from wakelog.errors import StoreError
from wakelog.identity import latest
from wakelog.log.lines import EntryReader
from wakelog.ports.stores import SealedLine
from wakelog.stores.database.tables import AppendRequest
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.jsonl.file_sync import ThreadSync
from wakelog.testing.store_rig import body, first_line, make
from wakelog.testing.store_suite import StoreSuite


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

    def files(self, session):
        name, folder = self.store.name(session), self.store.folder.path
        beside = (".locks", f".locks/{name}.lock", f".locks/{name}.lease", ".journals", f".journals/{name}", "by-id")
        return [folder, *(os.path.join(folder, path) for path in (*beside, f".journals/{name}/r1", f"{name}.jsonl"))]

    def corrupt(self, session, old, new):
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
    """ST-2: a title is visible as a file name, the log keeps its own name, and only the last title has a link."""
    store = JsonlStore(str(tmp_path))
    make(store)
    store.set_title("s", "First, try!")
    store.set_title("s", "Fix the /tests/ ☃")
    assert os.listdir(tmp_path / "by-title") == ["fix-the-tests--crab_user_1.jsonl"]
    assert (tmp_path / "by-title" / "fix-the-tests--crab_user_1.jsonl").read_bytes() == b"".join(
        line.bytes for line in store.load("s")
    )


@pytest.mark.parametrize(
    ("title", "link"),
    [("修复测试", "修复测试"), ("إصلاح الاختبار", "إصلاح-الاختبار"), ("🎉", "🎉"), ("A/../B\u202e", "a-b")],
)
def test_titles_of_any_script_are_links(tmp_path, title, link):
    """ST-2: a title of any script can be read in the name of its link."""
    store = JsonlStore(str(tmp_path))
    make(store)
    store.set_title("s", "another")
    store.set_title("s", title)
    assert os.listdir(tmp_path / "by-title") == [f"{link}--crab_user_1.jsonl"]
    assert os.path.samefile(tmp_path / "by-title" / f"{link}--crab_user_1.jsonl", tmp_path / "crab_user_1.jsonl")


def test_two_threads_title_two_sessions(tmp_path, monkeypatch):
    """ST-2: a thread that links a title removes no link of a concurrent thread."""
    store, replace = JsonlStore(str(tmp_path)), os.replace
    others: list[threading.Thread] = []
    make(store, "a")
    make(store, "b")

    def replace_after_the_other(source, target):
        if not others:
            others.append(threading.Thread(target=store.set_title, args=("b", "Second")))
            others[0].start()
            others[0].join()
        replace(source, target)

    monkeypatch.setattr(os, "replace", replace_after_the_other)
    store.set_title("a", "First")
    links = {name: os.readlink(tmp_path / "by-title" / name) for name in os.listdir(tmp_path / "by-title")}
    assert links == {
        "first--crab_user_1.jsonl": "../crab_user_1.jsonl",
        "second--crab_user_2.jsonl": "../crab_user_2.jsonl",
    }


def test_a_title_removes_no_link_of_another_log(tmp_path):
    """ST-2: a log whose name ends like another log's name keeps its link."""
    store = JsonlStore(str(tmp_path))
    for name in ("b_c_1", "a--b_c_1"):
        store.adopt(f"id-{name}", name, b'{"type":"session","id":"id-%s"}\n' % name.encode())
    store.set_title("a--b_c_1", "One")
    store.set_title("b_c_1", "Two")
    assert sorted(os.listdir(tmp_path / "by-title")) == ["one--a--b_c_1.jsonl", "two--b_c_1.jsonl"]


def test_missing_links_are_recreated(tmp_path):
    """ST-2, law 2: links are derived; existing ones are not touched."""
    store = JsonlStore(str(tmp_path))
    for at, session in enumerate("abc", 1):
        make(store, session)
        store.set_title(session, f"Title {at}")
    titles = {f"crab_user_{at}": f"Title {at}" for at in (1, 2, 3)}
    assert store.relink(titles) == []
    os.unlink(tmp_path / "by-id" / "b")
    os.unlink(tmp_path / "by-title" / "title-2--crab_user_2.jsonl")
    os.rename(tmp_path / "by-title" / "title-3--crab_user_3.jsonl", tmp_path / "by-title" / "x--crab_user_3.jsonl")
    assert sorted(store.relink(titles)) == [
        "by-id/b",
        "by-title/title-2--crab_user_2.jsonl",
        "by-title/title-3--crab_user_3.jsonl",
    ]
    assert sorted(os.listdir(tmp_path / "by-title")) == [f"title-{at}--crab_user_{at}.jsonl" for at in (1, 2, 3)]
    for folder in ("by-id", "by-title"):
        shutil.rmtree(tmp_path / folder)
    assert len(JsonlStore(str(tmp_path)).relink(titles)) == 6
    assert os.readlink(tmp_path / "by-id" / "b") == "../crab_user_2.jsonl"


def test_two_logs_with_one_id_share_a_link(tmp_path):
    """Law 2: a copy of a log in the same folder does not change the link at each access."""
    store = JsonlStore(str(tmp_path))
    make(store, "a")
    shutil.copy(tmp_path / "crab_user_1.jsonl", tmp_path / "copy.jsonl")
    assert store.relink({}) == []
    assert os.readlink(tmp_path / "by-id" / "a") == "../crab_user_1.jsonl"


def test_a_first_line_of_any_length_is_read(tmp_path):
    """ST-1: also one that is longer than the first read, or begins with a byte order mark."""
    store = JsonlStore(str(tmp_path))
    for number, start in ((1, b""), (2, b"\xef\xbb\xbf")):
        line = b'{"type":"session","id":"l%d","title":"%s","agent":"bot","sender":"X"}' % (number, b"t" * 300_000)
        (tmp_path / f"bot_x_{number}.jsonl").write_bytes(start + line + b"\n")
        assert latest(store, "bot", "X") == f"bot_x_{number}"
    assert latest(store, "bot", "x") is None


def test_a_locale_that_cannot_encode_a_name_is_an_error(tmp_path):
    """ST-2: one clear error with a hint, and nothing is created."""
    program = (
        "import sys; from wakelog import Session, open_store\n"
        "from wakelog.errors import StoreError\n"
        "try: Session.create(open_store(sys.argv[1]), sender='\\u738b')\n"
        "except StoreError as error: print(ascii(str(error)), error.hint)\n"
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "s")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    assert "cannot encode the file name" in done.stdout
    assert "UTF-8" in done.stdout
    assert [path.name for path in (tmp_path / "s").rglob("*")] == ["by-id"]


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


def test_a_replaced_file_is_reopened(tmp_path):
    """Law 4: an append never goes into a file that has no name any more."""
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
    """Law 4: more sessions than descriptors that the store keeps open."""
    store = JsonlStore(str(tmp_path))
    for number in range(150):
        make(store, f"s{number}")
        store.append(f"s{number}", body("m1"), after=0)
    assert len(store._logs._logs) <= 128
    assert all(store.append(f"s{number}", body("m2"), after=1).seq == 2 for number in range(150))


def test_only_logs_with_a_failed_sync_are_in_doubt(tmp_path, monkeypatch):
    """Law 4: of appends that are made durable together."""
    store = JsonlStore(str(tmp_path))
    store._syncs = ThreadSync()
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
    answers = append_in_one_group(store, [AppendRequest(name, body(f"m-{name}"), 0) for name in "abc"])
    assert [type(answer) for answer in answers] == [SealedLine, StoreError, SealedLine]
    assert sorted(synced) == ["crab_a_1.jsonl", "crab_b_1.jsonl", "crab_c_1.jsonl"]
    monkeypatch.setattr(os, "fdatasync", sync)
    assert store.append("b", body("m-b"), after=0).seq == 1
    assert [entry.id for entry in EntryReader().feed_all(store.load("b"))] == ["b", "m-b"]


def test_entries_that_need_no_sync_are_not_synced(tmp_path, monkeypatch):
    """Decision 008: entries that can be written again are not synced."""
    store = JsonlStore(str(tmp_path))
    make(store, "a", sender="a")
    make(store, "b", sender="b")
    synced: list[int] = []
    monkeypatch.setattr(os, "fdatasync", synced.append)
    for name in "ab":
        store.append(name, body("m1"), after=0, durable=False)
    assert synced == []
    store.append("b", body("m2"), after=1)
    assert len(synced) == 1


def test_a_number_that_is_taken_while_the_first_line_is_made(tmp_path):
    """LOG-10: the link to the name decides; a file that was put there meanwhile, by any program, is not replaced."""
    store, other = JsonlStore(str(tmp_path)), tmp_path / "crab_user_1.jsonl"

    def line(number: int) -> bytes:
        if number == 1:
            other.write_bytes(b"another log")
        return first_line("slower")(number)

    assert store.create("slower", "crab", "user", line) == "crab_user_2"
    assert (other.read_bytes(), store.name("slower")) == (b"another log", "crab_user_2")
