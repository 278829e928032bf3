"""ST-9: files are detected by content, imported, and imported again: the samples, renamed files, and refused ones."""

import contextlib
import json
import os
import shutil
import sqlite3

import pytest

from tests.exchange.samples import SAMPLES, jsonl, needs_samples
from wakelog.errors import NotASession, UsageError
from wakelog.exchange import detection, sync, sync_index
from wakelog.exchange.detection import detect
from wakelog.exchange.files import DiskFile
from wakelog.exchange.places import session_files, usual_files
from wakelog.exchange.sync import import_files
from wakelog.exchange.sync_index import SyncIndex
from wakelog.projections.session_state import session_state
from wakelog.session import Session
from wakelog.stores import open_store

TOOLS = (
    *("claude-code", "codex", "pi", "opencode", "openclaw"),
    *("gemini-cli", "goose", "aider", "efferent", "crabtalk"),
)
FOLDERS = (*TOOLS, "made-here") if SAMPLES is not None else ()
FILES = [path for folder in FOLDERS for path in session_files([str(SAMPLES / folder)])] if SAMPLES is not None else []
CODEX = [
    {
        "timestamp": "2026-01-01T00:00:00.000Z",
        "type": "session_meta",
        "payload": {"id": "019cc1e9-6537-70a3-a8cd-d2957e043dd4", "cwd": "/"},
    },
    {
        "timestamp": "2026-01-01T00:00:01.000Z",
        "type": "response_item",
        "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
    },
]


@pytest.fixture
def store(tmp_path):
    opened = open_store(str(tmp_path / "store"))
    yield opened
    opened.close()


@needs_samples
def test_every_sample_is_imported_once(store, tmp_path):
    """No traceback; each session verifies; the second import finds nothing to add, with the index and without it."""
    with SyncIndex(str(tmp_path / "cache"), "store") as index:
        done = list(import_files(store, FILES, index))
        sessions = [each for file in done for each in file.sessions]
        assert len(sessions) > 50
        assert [each.error for each in sessions if each.error is not None] == []
        assert {file.tool for file in done if file.tool} == set(TOOLS)
        for each in sessions:
            assert Session(store, each.session).verify().ok, each.origin
            assert Session(store, each.session).read().damage == ()
        again = list(import_files(store, FILES, index))
        assert {file.status for file in again} <= {"unchanged", "no session", "failed"}
    anew = list(import_files(store, FILES))
    assert [(each.origin.path, each.added) for file in anew for each in file.sessions if each.added] == []


@needs_samples
def test_imported_sessions_can_be_sent_to_a_model(store):
    """Every imported session gives a request in which each call has one result, or none and is the last."""
    for file in import_files(store, FILES):
        for each in file.sessions:
            session = Session(store, each.session)
            session.to_anthropic()
            session.to_openai_chat()
            session.transcript()


def test_content_decides_and_not_the_name(tmp_path):
    path = tmp_path / "opencode.db"
    path.write_bytes(jsonl(*CODEX))
    with detect(str(path)) as source:
        assert source.tool == "codex"


@pytest.mark.parametrize("content", [b"", b"\n\n", b"hello", b"{}", b"[]", b'{"a":1}\n{"b":2}\n', b"\x00" * 100])
def test_what_is_no_session_is_refused(tmp_path, content):
    path = tmp_path / "session.jsonl"
    path.write_bytes(content)
    with pytest.raises(NotASession):
        detect(str(path))


def test_the_other_opencode_is_refused_by_name(tmp_path):
    path = str(tmp_path / "opencode.db")
    with sqlite3.connect(path) as db:
        for table in ("goose_db_version", "files", "messages", "sessions"):
            db.execute(f"CREATE TABLE {table} (id TEXT)")
    db.close()
    with pytest.raises(UsageError, match="opencode-ai/opencode"):
        detect(path)


def test_one_bad_file_does_not_stop_the_others(store, tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"no json")
    (tmp_path / "b.jsonl").write_bytes(jsonl(*CODEX))
    found = import_files(store, [str(tmp_path / "absent"), str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl")])
    assert [file.status for file in found] == ["failed", "no session", "imported"]


def test_a_moved_file_is_the_same_session(store, tmp_path):
    (tmp_path / "one").mkdir()
    path = tmp_path / "one" / "rollout-a.jsonl"
    path.write_bytes(jsonl(*CODEX))
    (first,) = import_files(store, [str(path)])
    shutil.move(path, tmp_path / "renamed.jsonl")
    (second,) = import_files(store, [str(tmp_path / "renamed.jsonl")])
    assert first.sessions[0].session == second.sessions[0].session
    assert second.sessions[0].added == 0


def test_a_session_that_was_removed_from_the_store_is_imported_again(tmp_path):
    """The index only saves time: what it says is checked against the store."""
    path = tmp_path / "rollout-a.jsonl"
    path.write_bytes(jsonl(*CODEX))
    with SyncIndex(str(tmp_path / "cache"), "store") as index:
        list(import_files(open_store("memory:"), [str(path)], index))
        (again,) = import_files(open_store("memory:"), [str(path)], index)
    assert (again.status, again.sessions[0].is_new) == ("imported", True)


def test_usual_places_follow_the_variables(tmp_path):
    path = tmp_path / "elsewhere" / "sessions" / "2026" / "01" / "01" / "rollout-x.jsonl"
    path.parent.mkdir(parents=True)
    path.write_bytes(jsonl(*CODEX))
    found = usual_files({"HOME": str(tmp_path), "CODEX_HOME": str(tmp_path / "elsewhere")})
    assert found == {"codex": [str(path)]}


def test_titles_that_codex_keeps_beside_its_rollouts(store, tmp_path):
    """ST-9: from the index, else from the newest state database; a title in the rollout counts more."""
    folder = tmp_path / "sessions" / "2026" / "01" / "01"
    folder.mkdir(parents=True)
    session = json.loads(json.dumps(CODEX[0]))["payload"]["id"]
    (folder / "rollout-a.jsonl").write_bytes(jsonl(*CODEX))
    for number, title in ((3, "Old"), (10, "From the database")):
        with contextlib.closing(sqlite3.connect(tmp_path / f"state_{number}.sqlite")) as database, database:
            database.execute(
                "CREATE TABLE threads (id TEXT, name TEXT, title TEXT, first_user_message TEXT, archived INT)"
            )
            database.execute("INSERT INTO threads VALUES (?, ?, '', '', 0)", (session, title))
    (first,) = import_files(store, [str(folder / "rollout-a.jsonl")])
    assert session_state(Session(store, first.sessions[0].session).tree).title == "From the database"
    (tmp_path / "session_index.jsonl").write_bytes(jsonl({"id": session, "thread_name": "From the index"}))
    list(import_files(store, [str(folder / "rollout-a.jsonl")]))
    assert session_state(Session(store, first.sessions[0].session).tree).title == "From the index"


# ── files and folders ────────────────────────────────────────────────────────────────────────────


def test_a_file_without_a_session_is_read_once(store, tmp_path):
    """The index remembers that, until the file changes; a doctor that counts files does not count it."""
    path = tmp_path / "settings.json"
    path.write_text('{"theme": "dark"}')
    with SyncIndex(str(tmp_path / "cache"), "store") as index:
        assert [done.status for done in import_files(store, [str(path)], index)] == ["no session"]
        assert index.unchanged(str(path)) == []
        assert [done.status for done in import_files(store, [str(path)], index)] == ["no session"]
        path.write_bytes(jsonl(*CODEX))
        assert [done.status for done in import_files(store, [str(path)], index)] == ["imported"]


def test_the_index_of_another_version_is_not_used(store, tmp_path, monkeypatch):
    """A newer wakelog may read more of a file."""
    path = tmp_path / "rollout-a.jsonl"
    path.write_bytes(jsonl(*CODEX))
    for version, status in (("1", "imported"), ("1", "unchanged"), ("2", "imported")):
        monkeypatch.setattr(sync_index, "VERSION", version)
        with SyncIndex(str(tmp_path / "cache"), "store") as index:
            assert [done.status for done in import_files(store, [str(path)], index)] == [status]


def test_a_name_that_is_not_text(store, tmp_path):
    name = os.fsdecode(os.fsencode(tmp_path) + b"/rollout-\xff.jsonl")
    with open(name, "wb") as file:
        file.write(jsonl(*CODEX))
    with SyncIndex(str(tmp_path / "cache"), "store") as index:
        assert [done.status for done in import_files(store, [name], index)] == ["imported"]
        assert [done.status for done in import_files(store, [name], index)] == ["unchanged"]


def test_a_defect_of_a_reader_does_not_stop_the_other_files(store, tmp_path, monkeypatch):
    first, second = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    for path in (first, second):
        path.write_bytes(jsonl(*CODEX))
    broken = {"once": True}

    def detecting(path):
        if broken.pop("once", False):
            raise KeyError("no reader has thought of this")
        return detect(path)

    monkeypatch.setattr(sync, "detect", detecting)
    failed, done = import_files(store, [str(first), str(second)])
    assert (failed.status, "KeyError" in str(failed.error), done.status) == ("failed", True, "imported")


def test_links_in_usual_places_are_not_followed(tmp_path):
    folder = tmp_path / ".codex" / "sessions" / "2026"
    folder.mkdir(parents=True)
    (folder / "rollout-a.jsonl").write_bytes(jsonl(*CODEX))
    (folder / "loop").symlink_to("..")
    (folder / "rollout-b.jsonl").symlink_to("rollout-a.jsonl")
    assert usual_files({"HOME": str(tmp_path)}) == {"codex": [str(folder / "rollout-a.jsonl")]}


def test_the_folder_of_a_relative_path_is_known(store, tmp_path, monkeypatch):
    """OpenCode keeps messages two folders above its sessions, wherever the command is run."""
    storage = tmp_path / "storage"
    session = {"id": "ses_1", "title": "T", "directory": "/w", "version": "1", "time": {"created": 1, "updated": 2}}
    message = {"id": "msg_1", "sessionID": "ses_1", "role": "user", "time": {"created": 1}}
    part = {"id": "prt_1", "messageID": "msg_1", "sessionID": "ses_1", "type": "text", "text": "Hi"}
    for name, value in (("session/p/ses_1", session), ("message/ses_1/msg_1", message), ("part/msg_1/prt_1", part)):
        path = storage / f"{name}.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(value))
    monkeypatch.chdir(storage / "session" / "p")
    (done,) = import_files(store, ["ses_1.json"])
    assert [message.text for message in Session(store, done.sessions[0].session).messages()] == ["Hi"]


def test_few_long_lines_are_read_to_recognise_a_file(tmp_path, monkeypatch):
    """Memory: a file of long lines is not decoded to its twentieth record before it is known."""
    monkeypatch.setattr(detection, "_HEAD_RECORDS_BYTES", 10_000)
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(*[{"x": "y" * 6_000}] * 30))
    assert len(list(detection._first_lines(DiskFile(str(path))))) == 2


def test_a_document_that_is_too_large_is_named_as_such(tmp_path, monkeypatch):
    monkeypatch.setattr(detection, "LINE_BYTES_MAX", 1_000)
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"sessionId": "s", "projectHash": "h", "messages": ["x" * 2_000]}, indent=1))
    with pytest.raises(NotASession, match="more than the 0 MB"):
        detect(str(path))
