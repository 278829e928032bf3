"""Law 13, ST-6: a store that cannot do what was requested raises an error of one line with a hint.

Each case is met twice: by a program that uses the library, and by a person at the command line. No password is shown.
"""

import json
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.faults.processes import PATIENCE_S, environment, run
from tests.permissions import bound
from tests.servers.postgres import Server
from tests.stores.faults.children import LITTLE_BYTES, MODULE, cli
from tests.stores.faults.logs import body, check_kept, made, make
from wakelog.errors import NewerFormat, StoreError, WakelogError
from wakelog.stores import open_store

TINY_BYTES = 2 * LITTLE_BYTES


def said_by(url: str, act: Callable[..., object]) -> WakelogError:
    """The error of an action: one line that says what happened, and a hint."""
    store = open_store(url)
    with pytest.raises(WakelogError) as refused:
        act(store)
    store.close()
    check_lines(url, refused.value.message, refused.value.hint)
    return refused.value


def check_lines(url: str, *lines: str) -> None:
    """Assert that each is one line, and does not contain the password."""
    secret = urlsplit(url).password
    for line in lines:
        assert line.strip()
        assert "\n" not in line.strip()
        assert secret is None or secret not in line


def asked(url: str, *words: str, before: Sequence[str] = ()) -> "subprocess.CompletedProcess[str]":
    """Run the command line to its end."""
    return subprocess.run(
        [*before, *cli(url, *words)], capture_output=True, text=True, timeout=PATIENCE_S, env=environment(), check=False
    )


def check_refused(url: str, done: "subprocess.CompletedProcess[str]", word: str) -> None:
    """Assert that the command line failed with one line that says why, and a hint.

    Before it, a server that does not answer is tried again for some seconds, and a line says so.
    """
    assert (done.returncode, done.stdout) == (1, "")
    *notices, line = done.stderr.splitlines()
    check_lines(url, *notices, line)
    assert [notice.endswith("trying again for 5 s") for notice in notices] in ([], [True])
    assert line.startswith("wakelog: ")
    assert word in line
    assert "should not" not in done.stderr, "it is taken for a bug"


def read(store) -> object:
    """List all sessions."""
    return list(store.sessions())


def write(store) -> object:
    """Create a session."""
    return make(store, "s")


@pytest.fixture(autouse=True)
def _cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


# ── refused whatever is asked ────────────────────────────────────────────────────────────────────


def no_server(request) -> str:
    return "postgresql://somebody:secret-word@127.0.0.1:1/nothing"


def wrong_password(request) -> str:
    url: str = request.getfixturevalue("postgres_url")
    return url.replace(f":{urlsplit(url).password}@", ":secret-word@")


def missing_database(request) -> str:
    server: Server = request.getfixturevalue("postgres")
    return server.url("nowhere")


def newer_postgres(request) -> str:
    url = made(request.getfixturevalue("postgres_url"), "s")
    with psycopg.connect(url) as connection:
        connection.execute(
            "INSERT INTO wakelog.schema_version SELECT max(version) + 1, now() FROM wakelog.schema_version"
        )
    return url


def newer_sqlite(request) -> str:
    url = made(request.getfixturevalue("sqlite_url"), "s")
    changed(url, f"PRAGMA user_version = {1 + int(changed(url, 'PRAGMA user_version'))}")
    return url


def another_program(request) -> str:
    url: str = request.getfixturevalue("sqlite_url")
    changed(url, "CREATE TABLE bookmarks (url TEXT)")
    return url


def no_database(request) -> str:
    url: str = request.getfixturevalue("sqlite_url")
    with open(path_of(url), "w", encoding="utf-8") as file:
        file.write("Dear diary,\n" * 1_000)
    return url


def a_folder(request) -> str:
    url: str = request.getfixturevalue("sqlite_url")
    os.mkdir(path_of(url))
    return url


def changed(url: str, statement: str) -> Any:
    """Run a statement on a SQLite file without the store; return the first value, if there is one."""
    connection = sqlite3.connect(path_of(url))
    found = connection.execute(statement).fetchone()
    connection.commit()
    connection.close()
    return found and found[0]


def path_of(url: str) -> str:
    """The path of a local store."""
    return url.partition(":")[2]


CASES: list[tuple[Callable[..., str], type[WakelogError], str]] = [
    (no_server, StoreError, "cannot connect"),
    (wrong_password, StoreError, "password"),
    (missing_database, StoreError, "createdb"),
    (newer_postgres, NewerFormat, "upgrade wakelog"),
    (newer_sqlite, NewerFormat, "upgrade wakelog"),
    (another_program, StoreError, "another program"),
    (no_database, StoreError, "not a database"),
    (a_folder, StoreError, "not a file"),
]


@pytest.mark.parametrize(("case", "kind", "word"), CASES, ids=[case.__name__ for case, _, _ in CASES])
def test_an_unusable_store_is_an_error_with_a_hint(request, case, kind, word):
    """Law 13: reading and writing are refused alike, and the error says why."""
    url = case(request)
    for act in (read, write):
        error = said_by(url, act)
        assert isinstance(error, kind)
        assert word in f"{error.message}; {error.hint}"
    for words in (("ls",), ("new",), ("append", "s", "hello")):
        check_refused(url, asked(url, *words), word)


# ── refused while something is the matter ────────────────────────────────────────────────────────


def test_a_store_works_again_after_an_outage(own_postgres: Server):
    """ST-6, law 4: during the outage every call is refused; afterwards the same store object works."""
    url = made(own_postgres.new_database(), "s")
    store = open_store(url)
    store.append("s", body("before"), after=0)
    own_postgres.stop()
    for act in (read, lambda store: store.append("s", body("after"), after=1)):
        with pytest.raises(StoreError) as refused:
            act(store)
        check_lines(url, refused.value.message, refused.value.hint)
        assert "server is running" in refused.value.hint
    for words in (("ls",), ("new",), ("append", "s", "hello")):
        check_refused(url, asked(url, *words), "server is running")
    own_postgres.start()
    store.append("s", body("after"), after=1)
    store.close()
    check_kept(url, "s", [("before", 1), ("after", 2)])


@pytest.mark.parametrize("locked", ["file", "folder"])
def test_a_read_only_sqlite_file_can_be_read(sqlite_url, tmp_path, locked):
    """ST-6, law 9: also one in a read-only folder; a write is refused."""
    made(sqlite_url, "s")
    place, mode = (path_of(sqlite_url), 0o400) if locked == "file" else (str(tmp_path), 0o500)
    check_only_read(sqlite_url, place, mode)


def test_a_read_only_folder_can_be_read(tmp_path):
    """ST-6, law 9: the same for a file store."""
    url = made(f"jsonl:{tmp_path}/store", "s")
    check_only_read(url, path_of(url), 0o500)


def check_only_read(url: str, place: str, mode: int) -> None:
    """Assert that a process with these permissions can read the store and gets an error for writes."""
    before = os.stat(place).st_mode
    os.chmod(place, mode)
    try:
        listed = asked(url, "ls", "--all", before=bound())
        attempts = [asked(url, *words, before=bound()) for words in (("new",), ("append", "s", "hello"))]
        tried = run("attempt", url, before=bound(), module=MODULE)
    finally:
        os.chmod(place, before)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert listed.stdout.startswith("crab_user_1")
    for done in attempts:
        check_refused(url, done, "permissions")
    assert (tried.returncode, tried.stderr) == (0, "")
    seen, *errors = map(json.loads, tried.stdout.splitlines())
    assert (seen, len(errors)) == (1, 2)
    for error in errors:
        assert error["error"] == "NoAccess"
        check_lines(url, error["message"], error["hint"])
    check_kept(url, "s", [])


def tiny_disk(folder: str) -> list[str]:
    """The command that starts a child on a small file system of its own; empty where mounting is not allowed."""
    unshare, mount = shutil.which("unshare"), shutil.which("mount")
    if unshare is None or mount is None:
        return []
    os.makedirs(folder)
    # The mount lives in the child's own namespace and goes away with it.
    script = f'{mount} -t tmpfs -o size={TINY_BYTES} none "$0" && exec "$@"'
    before = [unshare, "--mount", "sh", "-c", script, folder]
    probe = subprocess.run([*before, "true"], capture_output=True, check=False)
    return before if probe.returncode == 0 else []


@pytest.mark.parametrize("limit", ["disk", "limit"])
@pytest.mark.parametrize("store", ["jsonl:{}/store", "sqlite:{}/store.db"])
def test_a_full_disk_loses_no_acknowledged_entry(tmp_path, store, limit):
    """Law 4, ST-6: entries that do not fit are refused, acknowledged ones exist, and with space it continues."""
    folder = str(tmp_path / "tiny")
    before = tiny_disk(folder) if limit == "disk" else []
    url = store.format(folder if before else tmp_path)
    done = run("fill", url, "disk" if before else "limit", before=before, module=MODULE)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr[-2_000:]
    said = [line.split(" ", 1) for line in done.stdout.splitlines()]
    assert [word for word, _ in said] == ["failed", "cli", "found"]
    error, (code, printed, complaint), (kept, found, damaged, broken) = (json.loads(text) for _, text in said)
    assert error["error"] == "StoreError"
    check_lines(url, error["message"], error["hint"])
    assert (code, printed) == (1, "")
    check_lines(url, complaint)
    assert len(kept) > 10
    assert [entry for entry in found if entry in kept] == kept
    assert (damaged, broken) == (0, [])


def test_reading_a_read_only_file_creates_no_file_beside_it(sqlite_url):
    """Law 9: a reader creates no file, so that the owner can write again afterwards."""
    made(sqlite_url, "s")
    path = sqlite_url.partition(":")[2]
    before = sorted(os.listdir(os.path.dirname(path)))
    os.chmod(path, 0o400)
    listed = asked(sqlite_url, "ls", "--all", "--json", before=bound())
    assert (listed.returncode, listed.stderr) == (0, "")
    assert '"state"' in listed.stdout
    assert sorted(os.listdir(os.path.dirname(path))) == before
    os.chmod(path, 0o600)
    assert asked(sqlite_url, "new", before=bound()).returncode == 0
