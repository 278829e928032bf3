"""Hostile names and links (laws 9 and 13): refused on read and on write, and nothing is created outside of the store.

A store is one folder. No id, name, link or file in it may lead out of it, and looking at it changes nothing.
"""

import os
import shutil
import stat
import threading

import pytest

from tests.faults.figures import Figure
from tests.faults.processes import run
from tests.faults.samples import NAME, bytes_of, log_path, put, small_log
from tests.patience import PATIENCE_S
from wakelog.errors import StoreError, WakelogError
from wakelog.log.session_names import PART_MAX_BYTES
from wakelog.reading import read_active, read_log
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore
from wakelog.testing.store_rig import journals_of

NAMES = [
    "../outside/secret",
    "..",
    ".",
    "",
    "/etc/passwd",
    "a/b",
    "a\x00b",
    "\x00",
    "a\nb",
    "a..b/../c",
    "-rf",
    ".hidden",
    "x" * 129,
    "x" * 5_000,
    "é",
    "a b",
    "a\\b",
    "agent_user_1.jsonl/../agent_user_1",
]


def listing(root: str) -> dict[str, tuple[int, int, int]]:
    """Every file, folder and link below a place, with its mode, size and time of change."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files, "."):
            at = os.lstat(os.path.join(folder, name))
            found[os.path.relpath(os.path.join(folder, name), root)] = (at.st_mode, at.st_size, at.st_mtime_ns)
    return found


@pytest.fixture
def place(tmp_path) -> str:
    """A folder that holds a store and, beside it, a file that the store must not touch."""
    small_log(str(tmp_path / "store"), entries=4)
    session = Session(JsonlStore(str(tmp_path / "store")), NAME)
    session.release(session.acquire("me", ttl_s=600))
    os.makedirs(tmp_path / "outside")
    shutil.copyfile(log_path(str(tmp_path / "store")), tmp_path / "outside" / "secret.jsonl")
    return str(tmp_path)


def store_of(place: str) -> JsonlStore:
    return JsonlStore(os.path.join(place, "store"))


WAYS_TO_READ = {
    "load": lambda store, name: list(store.load(name)),
    "tail": lambda store, name: list(store.tail(name)),
    "name": lambda store, name: store.name(name),
    "held": lambda store, name: store.held(name),
    "follow": lambda store, name: store.follow(name, after=-1, pieces={}, timeout_s=0),
    "journals": lambda store, name: store.journals(name),
    "read_log": read_log,
    "read_active": read_active,
    "Session": Session,
}
WAYS_TO_WRITE = {
    "append": lambda store, name: store.append(name, b'{"type":"x","id":"y"}', after=-1),
    "journal": lambda store, name: store.journal(name, "r", b"{}"),
    "drop": lambda store, name: store.drop(name, "r"),
    "entitle": lambda store, name: store.set_title(name, "t"),
    "acquire": lambda store, name: store.acquire(name, b"{}", after=-1, holder="h", ttl_s=1),
    "create": lambda store, name: Session.create(store, session_id=name or "/"),
}


def figure(planned: int, refused: int, outside: int = 0, control: str = "") -> Figure:
    """The figures of a number of accesses by a hostile name or link."""
    asked, found = (planned, "calls"), (outside, "that read or wrote outside of the store")
    return Figure("name or link that leads out of the store", "files", planned, refused, asked, found, control)


@pytest.mark.parametrize("name", NAMES)
def test_invalid_names_are_refused(place, name, record):
    """Law 13: refused with a wakelog error in every method of a store, and no file is created anywhere."""
    before = listing(place)
    for way in (*WAYS_TO_READ.values(), *WAYS_TO_WRITE.values()):
        with pytest.raises(WakelogError):
            way(store_of(place), name)
    for reply in (name, name + "/r"):
        with pytest.raises(WakelogError):
            store_of(place).journal(NAME, reply, b"{}")
        with pytest.raises(WakelogError):
            store_of(place).drop(NAME, reply)
    after = {path: at[0] for path, at in listing(place).items() if not path.startswith("store/.journals")}
    assert after == {path: at[0] for path, at in before.items()}
    calls = len(WAYS_TO_READ) + len(WAYS_TO_WRITE)
    record(figure(calls, calls))


def test_control_names_that_are_not_checked(place, monkeypatch, record):
    """The test above can fail: without the check of names, a file outside of the store is read."""
    monkeypatch.setattr("wakelog.stores.jsonl.folder.checked_name", lambda name: name)
    monkeypatch.setattr(JsonlStore, "name", lambda _, name: name)
    lines = list(store_of(place).load("../outside/secret"))
    assert lines
    record(figure(1, 1, 1, control="names are not checked"))


@pytest.mark.parametrize(
    "hostile", ["../../outside/evil", "/tmp/evil", "a/../../evil", "tg:1/../..", "\x00", "x" * 9_999, "", "☃"]
)
def test_agents_and_senders_become_safe_names(place, hostile):
    """ST-1, law 13: whatever an agent or sender is called, its file is in the folder and its name is short."""
    made = Session.create(store_of(place), agent=hostile, sender=hostile, title=hostile or "t")
    assert os.path.dirname(os.path.realpath(log_path(os.path.join(place, "store"), made.name))) == f"{place}/store"
    assert len(made.name.encode()) <= 2 * PART_MAX_BYTES + 3
    assert made.say("works").seq == 1
    assert sorted(os.listdir(place)) == ["outside", "store"]
    for folder in ("by-id", "by-title"):
        for link in os.listdir(os.path.join(place, "store", folder)):
            target = os.path.join(place, "store", folder, os.readlink(os.path.join(place, "store", folder, link)))
            assert os.path.dirname(os.path.normpath(target)) == f"{place}/store"


def test_a_log_that_is_a_link_is_refused(place, record):
    """Law 13: also a link to a valid log; it is neither read nor written, and not listed."""
    os.symlink(os.path.join(place, "outside", "secret.jsonl"), log_path(os.path.join(place, "store"), "linked"))
    before = listing(place)
    ways = (*WAYS_TO_READ.values(), WAYS_TO_WRITE["append"], WAYS_TO_WRITE["journal"])
    for way in ways:
        with pytest.raises(StoreError):
            way(store_of(place), "linked")
    record(figure(len(ways), len(ways)))
    assert [each.name for each in store_of(place).sessions()] == [NAME]
    assert listing(place) == before


@pytest.mark.parametrize("kind", ["folder", "fifo", "socket"])
def test_a_log_that_is_not_a_regular_file_is_refused(place, kind):
    """Law 13: refused at once when it is named; opening a pipe does not block."""
    path = log_path(os.path.join(place, "store"), "odd")
    if kind == "folder":
        os.mkdir(path)
    else:
        os.mknod(path, (stat.S_IFIFO if kind == "fifo" else stat.S_IFSOCK) | 0o600)
    refused: list[str] = []

    def ask() -> None:
        for name, way in (*WAYS_TO_READ.items(), ("append", WAYS_TO_WRITE["append"])):
            try:
                way(store_of(place), "odd")
            except StoreError:
                refused.append(name)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(PATIENCE_S)
    assert refused == [*WAYS_TO_READ, "append"]
    assert [each.name for each in store_of(place).sessions()] == [NAME]


@pytest.mark.parametrize(
    "target",
    ["../../outside/secret.jsonl", "/etc/passwd", "../agent_user_2.jsonl", "..", "../.locks/x", "../missing.jsonl"],
)
def test_a_wrong_id_link_is_ignored(place, target):
    """Laws 2 and 13: a link outside, to another session or to nothing only costs time; the right log is found."""
    other = Session.create(store_of(place), session_id="other")
    assert other.name == "agent_user_2"
    os.unlink(os.path.join(place, "store", "by-id", "s"))
    os.symlink(target, os.path.join(place, "store", "by-id", "s"))
    outside = listing(os.path.join(place, "outside"))
    assert store_of(place).name("s") == NAME
    said = Session(store_of(place), "s").say("to the right one")
    assert said.raw in bytes_of(os.path.join(place, "store"))
    assert listing(os.path.join(place, "outside")) == outside


@pytest.mark.parametrize("part", [".locks", ".journals", f".journals/{NAME}", "by-id", "by-title"])
def test_a_folder_of_the_store_that_is_a_link_is_refused(place, part):
    """Law 13: nothing is written or read through a link that leads out of the store."""
    folder, outside = os.path.join(place, "store"), os.path.join(place, "outside")
    at = os.path.join(folder, part)
    shutil.rmtree(at, ignore_errors=True)
    os.makedirs(os.path.dirname(at), exist_ok=True)
    # The target has the layout of a store.
    os.makedirs(os.path.join(outside, NAME))
    for planted in ("r1", f"{NAME}.lease", f"{NAME}.lock", os.path.join(NAME, "r1")):
        with open(os.path.join(outside, planted), "w", encoding="utf-8") as file:
            file.write("planted\n")
    os.symlink(os.path.join(outside, NAME) if part.endswith(NAME) else outside, at)
    before = listing(outside)
    attempts = {
        ".locks": lambda store: store.append(NAME, b'{"type":"x","id":"y"}', after=5),
        "lease": lambda store: Session(store, NAME).acquire("h", ttl_s=1),
        ".journals": lambda store: store.journal(NAME, "r1", b"{}"),
        "drop": lambda store: store.drop(NAME, "r1"),
        "by-id": lambda store: Session.create(store, session_id="fresh"),
        "by-title": lambda store: store.set_title(NAME, "a title"),
    }
    wanted = {".locks": (".locks", "lease"), "by-id": ("by-id",), "by-title": ("by-title",)}
    for attempt in wanted.get(part, (".journals", "drop")):
        with pytest.raises(StoreError) as refused:
            attempts[attempt](store_of(place))
        assert refused.value.hint
    assert listing(outside) == before
    if part.startswith(".journals"):
        with pytest.raises(StoreError):
            store_of(place).journals(NAME)
    assert read_log(store_of(place), NAME).entries, "what can be read is still served"


def test_files_beside_the_log_that_are_links_are_refused(place):
    """Law 13: a lock, a lease or a journal that is a link is neither followed nor replaced through."""
    folder, secret = os.path.join(place, "store"), os.path.join(place, "outside", "secret.jsonl")
    os.makedirs(os.path.join(folder, ".journals", NAME), mode=0o700)
    for part in (f".locks/{NAME}.lock", f".locks/{NAME}.lease", f".journals/{NAME}/r1"):
        path = os.path.join(folder, part)
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(secret, path)
    before = listing(os.path.join(place, "outside"))
    for attempt in (
        lambda: store_of(place).append(NAME, b'{"type":"x","id":"y"}', after=5),
        lambda: store_of(place).held(NAME),
        lambda: store_of(place).journal(NAME, "r1", b"{}"),
        lambda: journals_of(store_of(place), NAME),
        lambda: Session(store_of(place), NAME).acquire("h", ttl_s=1),
    ):
        with pytest.raises(StoreError):
            attempt()
    assert listing(os.path.join(place, "outside")) == before


def test_a_folder_of_another_user_is_not_written_to(place):
    """Law 13: the owner of a folder controls its content; reading it is allowed, writing to it is not."""
    folder = os.path.join(place, "store")
    if os.geteuid() != 0:
        # Only root can change the owner of a folder; for other users, the root folder belongs to another user.
        with pytest.raises(StoreError):
            Session.create(JsonlStore("/"))
        return
    os.chown(folder, 12_345, 12_345)
    before = listing(place)
    for attempt in (
        lambda: Session.create(store_of(place)),
        lambda: store_of(place).append(NAME, b'{"type":"x","id":"y"}', after=5),
        lambda: Session(store_of(place), NAME).say("hello"),
    ):
        with pytest.raises(StoreError) as refused:
            attempt()
        assert "another user" in refused.value.message
        assert refused.value.hint
    assert listing(place) == before
    assert len(read_log(store_of(place), NAME).entries) == 6


def test_modes_are_private_whatever_the_umask(tmp_path):
    """ST-2, law 13: all files are 0600 in folders 0700, also under a permissive umask."""
    before = os.umask(0)
    try:
        session = small_log(str(tmp_path / "deep" / "store"), entries=3)
        session.rename("A title")
        session.release(session.acquire("me", ttl_s=600))
        session.store.journal(NAME, "r1", b"{}")
    finally:
        os.umask(before)
    seen = set()
    for folder, folders, files in os.walk(tmp_path / "deep" / "store"):
        for name in (*folders, *files, "."):
            mode = os.lstat(os.path.join(folder, name)).st_mode
            if not stat.S_ISLNK(mode):
                assert stat.S_IMODE(mode) == (0o700 if stat.S_ISDIR(mode) else 0o600), os.path.join(folder, name)
                seen.add(name)
    assert {".journals", ".locks", "by-id", "by-title", NAME, "r1", f"{NAME}.lock", f"{NAME}.lease"} <= seen


# ── reading changes nothing ──────────────────────────────────────────────────────────────────────


def read_everything(store: JsonlStore) -> None:
    for way in WAYS_TO_READ.values():
        way(store, NAME)
        way(store, "s")
    assert len(list(store.sessions())) == 1


@pytest.mark.parametrize("tail", [b"", b'{"v":1,"seq":6,"type":"mess', b"\x00\x00"])
def test_reading_makes_no_file(place, tail):
    """Law 9: whole or torn, with lock files or without, reading a store leaves every byte and time unchanged."""
    folder = os.path.join(place, "store")
    put(folder, bytes_of(folder) + tail)
    for beside in ((), (".locks", "by-id")):
        for name in beside:
            shutil.rmtree(os.path.join(folder, name))
        before = listing(place)
        read_everything(store_of(place))
        assert listing(place) == before


def test_reading_a_missing_store_creates_nothing(tmp_path):
    """Law 9: not even the folder."""
    store = JsonlStore(str(tmp_path / "nowhere"))
    assert list(store.sessions()) == []
    for way in WAYS_TO_READ.values():
        with pytest.raises(WakelogError):
            way(store, NAME)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("tail", [b"", b'{"v":1,"seq":6,"type":"mess'])
def test_reading_a_folder_that_cannot_be_written(place, tail):
    """Law 9: on a read-only file system, or in a folder without write permission, reading works."""
    folder = os.path.join(place, "store")
    put(folder, bytes_of(folder) + tail)
    before = listing(place)
    unshare, mount = shutil.which("unshare"), shutil.which("mount")
    script = f'{mount} --bind "$0" "$0" && {mount} -o remount,bind,ro "$0" && exec "$@"'
    done = run("look", folder, before=[str(unshare), "--mount", "sh", "-c", script, folder])
    if done.returncode != 0 and "wakelog" not in done.stderr:
        # Mounting is not allowed here: remove the write permission instead.
        os.chmod(folder, 0o500)
        done = run("look", folder)
        os.chmod(folder, 0o700)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["6", "6", "StoreError"]
    assert listing(place) == before
