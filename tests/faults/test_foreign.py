"""Law 13: no agent runs on files that another user owns or may write to, for every change of every file of a store.

Owners are changed by root only; without root the table has the modes alone, and tests that are about owners are not run
(mark `faults`).
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.faults.figures import Figure
from tests.faults.foreign import (
    CHANGES,
    IS_ROOT,
    STRANGER,
    STRANGERS,
    files_of_database,
    files_of_folder,
    runnable_session,
)
from wakelog.app.agent import Agent
from wakelog.errors import Untrusted, UsageError
from wakelog.forking import fork
from wakelog.runtime.checks import check_files, check_store_files
from wakelog.runtime.live import LiveRuntime
from wakelog.runtime.wake import wake
from wakelog.session import Session
from wakelog.stores.files import make_private_folders
from wakelog.stores.jsonl import JsonlStore
from wakelog.stores.ownership import OwnershipChecks, TrustedOwners
from wakelog.stores.sqlite import SqliteStore
from wakelog.testing.store_rig import log_bytes

LocalStore = JsonlStore | SqliteStore
STORES: dict[str, tuple[Callable[..., LocalStore], Callable[[Any, str], Iterator[str]]]] = {
    "files": (lambda folder, **more: JsonlStore(f"{folder}/store", **more), files_of_folder),
    "SQLite": (lambda folder, **more: SqliteStore(f"{folder}/store.db", **more), files_of_database),
}


@pytest.fixture
def place(tmp_path):
    """A folder of its own for the store, so that the folder above it can be changed."""
    folder = tmp_path / "above"
    folder.mkdir(mode=0o700)
    return folder


def woken(store, session):
    return asyncio.run(wake(LiveRuntime(store), session.name))


def data_path(store: LocalStore, name: str) -> str:
    """The file that holds the entries of a session: its log, or the database."""
    return store.folder.log_path(name) if isinstance(store, JsonlStore) else store.file.path


def refusal(session):
    """The reason why a session is not run; None if it would be."""
    try:
        check_files(session)
    except Untrusted as error:
        return error
    return None


def figure(kind, planned, applied, is_run=0, control=""):
    """The figures of changes that let others write to a file, or give it to another user."""
    looked_at, found = (applied, "files judged"), (is_run, "sessions that would be run")
    return Figure("file that others own or may write to", kind, planned, applied, looked_at, found, control)


@pytest.mark.parametrize("kind", STORES)
def test_every_file_that_is_not_private_is_reported(place, tmp_path, kind, record):
    """Law 13: for each file, owner and mode, the session is neither run nor written to."""
    opened, files = STORES[kind]
    store, marker = opened(place), str(tmp_path / "marker")
    session = runnable_session(store, marker)
    store.journal(session.name, "r1", b"{}")
    before, paths = log_bytes(store, session.name), list(files(store, session.name))
    planned = {(path, change.name) for path in paths for change in CHANGES if change.exposes}
    applied, spared, exposed = set(), 0, 0
    for path in paths:
        for change in CHANGES:
            undo = change.apply(path)
            exposed += change.exposes
            refused = refusal(session)
            undo()
            if refused is None:
                spared += 1
                continue
            applied.add((path, change.name))
            assert path in refused.message
            assert "trusted_owners" in refused.hint
    record(figure(kind, len(planned), exposed, len(planned - applied)))
    assert applied == planned
    # Control: the number of changes that expose nothing.
    assert spared == len(paths) * sum(not change.exposes for change in CHANGES)
    assert log_bytes(store, session.name) == before
    woken(store, session)
    assert os.path.exists(marker)


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.parametrize("change", [change for change in CHANGES if change.exposes], ids=lambda change: change.name)
def test_a_wake_is_refused_before_anything_is_written(place, tmp_path, kind, change, record):
    """Law 13: with the data of another user no tool runs and no byte changes; undone, the same session runs."""
    opened, _ = STORES[kind]
    store, marker = opened(place), str(tmp_path / "marker")
    session = runnable_session(store, marker)
    path = data_path(store, session.name)
    before = log_bytes(store, session.name)
    undo = change.apply(path)
    with pytest.raises(Untrusted):
        woken(store, session)
    assert (os.path.exists(marker), log_bytes(store, session.name)) == (False, before)
    record(figure(kind, 1, 1, int(os.path.exists(marker))))
    undo()
    woken(store, session)
    assert os.path.exists(marker)


@pytest.mark.parametrize("kind", STORES)
def test_without_the_check_the_log_is_run(place, tmp_path, kind, monkeypatch, record):
    """Control: without the check the tool runs."""
    opened, _ = STORES[kind]
    store, marker = opened(place), str(tmp_path / "marker")
    session = runnable_session(store, marker)
    path = data_path(store, session.name)
    os.chmod(path, 0o666)
    monkeypatch.setattr(type(store), "custody", lambda *_, **__: ())
    woken(store, session)
    record(figure(kind, 1, 1, int(os.path.exists(marker)), control="owners and modes are not checked"))


@pytest.mark.parametrize("kind", STORES)
@pytest.mark.faults
@pytest.mark.skipif(not IS_ROOT, reason="root is missing: only root can give files away")
def test_a_trusted_user_id_may_own_the_store(place, tmp_path, kind):
    """Everything belongs to another user id: refused by default, run and written to where that user is trusted."""
    opened, files = STORES[kind]
    store, marker = opened(place), str(tmp_path / "marker")
    session = runnable_session(store, marker)
    store.close()
    for path in (*files(store, session.name), *(place / "store").glob("by-*/*")):
        os.chown(path, STRANGER, STRANGERS, follow_symlinks=False) if os.path.lexists(path) else None
    with pytest.raises(Untrusted) as refused:
        woken(opened(place), session)
    assert f"uid {STRANGER}" in refused.value.message
    for owners in (("nobody",), (f"gid:{STRANGERS}",), (f"uid:{STRANGERS}",)):
        with pytest.raises(Untrusted):
            woken(opened(place, trusted_owners=owners), session)
    trusting = opened(place, trusted_owners=(f"uid:{STRANGER}",))
    woken(trusting, session)
    assert os.path.exists(marker)
    Session.create(trusting, agent="another").say("hello")


@pytest.mark.parametrize("kind", STORES)
def test_a_trusted_group_may_write_to_the_store(place, tmp_path, kind):
    """Files that a trusted group may write to are run; files that all users may write to are not."""
    opened, files = STORES[kind]
    store, marker = opened(place), str(tmp_path / "marker")
    session = runnable_session(store, marker)
    gid = os.stat(place).st_gid
    for path in files(store, session.name):
        os.chmod(path, os.stat(path).st_mode | 0o020)
    with pytest.raises(Untrusted, match="can be written by the group"):
        woken(store, session)
    trusting = opened(place, trusted_owners=(f"gid:{gid}",))
    os.chmod(data_path(store, session.name), 0o666)
    with pytest.raises(Untrusted, match="can be written by all users"):
        woken(trusting, session)
    woken(opened(place, trusted_owners=("everyone",)), session)
    assert os.path.exists(marker)


# ── what a session reads besides its own files ───────────────────────────────────────────────────


def test_a_fork_is_checked_together_with_its_parents(place, tmp_path):
    """A private fork of a log that others may write to is not run either."""
    store = JsonlStore(str(place / "store"))
    session = runnable_session(store, str(tmp_path / "marker"))
    child = fork(fork(session))
    check_files(child)
    os.chmod(store.folder.log_path(session.name), 0o622)
    with pytest.raises(Untrusted, match=session.name):
        check_files(child)


def test_a_new_session_in_a_store_that_others_may_write(place, tmp_path):
    """No session is created in such a store, and nothing is appended to an existing one."""
    store = JsonlStore(str(place / "store"))
    session = runnable_session(store, str(tmp_path / "marker"))
    before = log_bytes(store, session.name)
    os.chmod(place / "store", 0o777)
    for known in (None, session):
        with pytest.raises(Untrusted):
            asyncio.run(Agent(model="demo").run(store, "hello", session=known))
    assert [stat.name for stat in store.sessions()] == [session.name]
    assert log_bytes(store, session.name) == before


def test_links_to_logs_are_refused_and_links_to_stores_are_checked_at_their_target(place, tmp_path):
    """A link in the place of a log is not followed; a store that is a link is checked at its target."""
    elsewhere = JsonlStore(str(tmp_path / "elsewhere"))
    session = runnable_session(elsewhere, str(tmp_path / "marker"))
    os.symlink(elsewhere.folder.path, place / "store")
    linked = JsonlStore(str(place / "store"))
    check_files(Session(linked, session.name))
    log = elsewhere.folder.log_path(session.name)
    os.chmod(log, 0o622)
    with pytest.raises(Untrusted):
        check_files(Session(linked, session.name))
    os.chmod(log, 0o600)
    os.rename(log, tmp_path / "aside.jsonl")
    os.symlink(tmp_path / "aside.jsonl", log)
    assert [stat.name for stat in linked.sessions()] == []


def test_the_files_of_a_linked_database_are_checked_at_its_target(place, tmp_path):
    """SQLite keeps its own files beside the real database."""
    real = SqliteStore(str(tmp_path / "real.db"))
    session = runnable_session(real, str(tmp_path / "marker"))
    os.symlink(tmp_path / "real.db", place / "store.db")
    linked = SqliteStore(str(place / "store.db"))
    check_files(Session(linked, session.name))
    for ending in ("", "-wal", "-shm"):
        os.chmod(str(tmp_path / "real.db") + ending, 0o622)
        with pytest.raises(Untrusted):
            check_files(Session(linked, session.name))
        os.chmod(str(tmp_path / "real.db") + ending, 0o600)


# ── folders above the store ──────────────────────────────────────────────────────────────────────


def test_folders_above_the_store(place):
    """A folder that others may write to lets them replace the store, unless it has the sticky bit."""
    store = JsonlStore(str(place / "deep" / "store"))
    for mode, is_refused in ((0o755, False), (0o757, True), (0o1777, False), (0o777, True), (0o700, False)):
        os.chmod(place, mode)
        if is_refused:
            with pytest.raises(Untrusted, match="no session can be created"):
                check_store_files(store)
        else:
            check_store_files(store)


@pytest.mark.faults
@pytest.mark.skipif(not IS_ROOT, reason="root is missing: only root can give folders away")
def test_owners_of_folders_above_the_store(place):
    """Each must be this user's or root's, sticky or not; a group counts unless it is the user's own."""
    store = JsonlStore(str(place / "deep" / "store"))
    os.chmod(place, 0o775)
    check_store_files(store)
    os.chown(place, 0, STRANGERS)
    with pytest.raises(Untrusted, match=f"written by the group gid {STRANGERS}"):
        check_store_files(store)
    check_store_files(JsonlStore(store.folder.path, trusted_owners=[f"gid:{STRANGERS}"]))
    os.chown(place, STRANGER, 0)
    os.chmod(place, 0o1755)
    with pytest.raises(Untrusted, match=f"owned by uid {STRANGER}"):
        check_store_files(store)
    check_store_files(JsonlStore(store.folder.path, trusted_owners=[f"uid:{STRANGER}"]))


def test_the_folders_of_a_link_to_the_store_are_checked(place, tmp_path):
    """Both paths count: the folder that holds the link, and the folders of its target."""
    (tmp_path / "real").mkdir()
    os.symlink(tmp_path / "real", place / "link")
    store = JsonlStore(str(place / "link" / "store"))
    check_store_files(store)
    for folder in (place, tmp_path / "real"):
        os.chmod(folder, 0o777)
        assert str(folder) in [exposure.path for exposure in store.custody()]
        with pytest.raises(Untrusted):
            check_store_files(store)
        os.chmod(folder, 0o700)


# ── other users, for real ────────────────────────────────────────────────────────────────────────


@pytest.fixture
def open_folder():
    """A folder that every user may read: those of pytest are private."""
    with tempfile.TemporaryDirectory(prefix="wakelog-") as folder:
        os.chmod(folder, 0o755)
        yield folder


def opened_to_readers(path):
    """Let every user read all files and folders under a path."""
    for folder, _, files in os.walk(path):
        os.chmod(folder, 0o755)
        for file in (os.path.join(folder, name) for name in files):
            if not os.path.islink(file):
                os.chmod(file, 0o644)


@pytest.mark.faults
@pytest.mark.skipif(not IS_ROOT, reason="root is missing: only root can become another user")
def test_another_user_does_not_run_what_root_wrote(open_folder):
    """Root is another user too: its readable log is read with a warning and refused for running."""
    store, marker, home = (os.path.join(open_folder, name) for name in ("store", "marker", "home"))
    runnable_session(JsonlStore(store), marker)
    os.mkdir(home)
    os.chown(home, STRANGER, STRANGERS)
    opened_to_readers(store)
    environment = {"HOME": home, "PATH": os.environ["PATH"], "WAKELOG_STORE": store}
    become = ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGERS}", "--clear-groups"]

    def run(*words):
        command = [*become, sys.executable, "-m", "wakelog", *words]
        return subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, check=False)

    read = run("show", "agent_user_1")
    assert (read.returncode, read.stderr.count("\n")) == (0, 1), read.stderr
    assert "is owned by root (uid 0)" in read.stderr
    woken = run("wake", "agent_user_1")
    assert woken.returncode == 7, woken.stderr
    assert not os.path.exists(marker)


# ── whom to trust ────────────────────────────────────────────────────────────────────────────────


def test_trusted_owners_are_names_and_ids():
    """Names and ids of users and groups; an unknown one is an error of one line."""
    assert TrustedOwners.of(["root", "uid:1000", "7", "gid:12", "group:root", "group:9"]) == TrustedOwners(
        frozenset({0, 1000, 7}), frozenset({12, 0, 9})
    )
    assert TrustedOwners.of(["everyone"]).everyone
    for word in (
        "nobody-has-this-name",
        "group:nobody-has-this-name",
        "uid:",
        "uid:x",
        "gid:-1",
        "uid:99999999999",
        "a:b",
    ):
        with pytest.raises(UsageError, match="trusted_owners: ") as mistaken:
            TrustedOwners.of([word])
        assert mistaken.value.hint
    with pytest.raises(UsageError, match="must be a list"):
        TrustedOwners.of("ada")


def test_owners_are_looked_up_when_they_are_needed(tmp_path):
    """The configuration is read only where a file is not private."""
    asked: list[str] = []

    def trusted_owners():
        asked.append("asked")
        return ("root",)

    custody = OwnershipChecks(trusted_owners)
    (tmp_path / "file").touch(0o600)
    assert custody.exposure("file", os.stat(tmp_path / "file")) is None
    assert asked == []
    os.chmod(tmp_path / "file", 0o602)
    assert custody.exposure("file", os.stat(tmp_path / "file")) is not None
    assert asked == ["asked"]


# ── what is created ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("umask", [0, 0o002, 0o022, 0o077])
@pytest.mark.parametrize("kind", STORES)
def test_folders_are_created_private_whatever_the_umask(tmp_path, umask, kind):
    """Also missing folders above a store. Existing ones keep their mode."""
    (tmp_path / "there").mkdir(mode=0o750)
    opened, _ = STORES[kind]
    before = os.umask(umask)
    try:
        store = opened(tmp_path / "there" / "data" / "wakelog")
        Session.create(store)
    finally:
        os.umask(before)
    assert os.stat(tmp_path / "there").st_mode & 0o777 == 0o750
    for folder, folders, _ in os.walk(tmp_path / "there"):
        for name in folders:
            assert os.stat(os.path.join(folder, name)).st_mode & 0o777 == 0o700, name
    store.close()
    shutil.rmtree(tmp_path / "there")


@pytest.mark.parametrize("umask", [0o177, 0o277, 0o700, 0o777])
def test_folders_keep_the_rights_of_their_owner(tmp_path, umask):
    """Under a umask that takes rights from the owner, folders are still usable."""
    before = os.umask(umask)
    try:
        make_private_folders(str(tmp_path / "one" / "two"))
    finally:
        os.umask(before)
    assert {os.stat(tmp_path / path).st_mode & 0o777 for path in ("one", "one/two")} == {0o700}
