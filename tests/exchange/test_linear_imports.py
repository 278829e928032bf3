"""ST-9: sessions of efferent, crabtalk and the source documents, from disk into a store, and again when grown."""

import json
import sqlite3

import pytest

from tests.exchange import test_efferent as efferent_rows
from tests.exchange.crabtalk_files import (
    HANDLE,
    META,
    filled_database,
    folder_of,
    memory_bytes,
    run,
    session_puts,
    store_bytes,
)
from tests.exchange.samples import jsonl
from tests.exchange.test_seed_logs import EVENTS, RECORDS
from wakelog import open_store
from wakelog.exchange.crabtalk import reader as crabtalk
from wakelog.exchange.efferent import reader as efferent
from wakelog.exchange.files import DiskDatabase, DiskFile
from wakelog.exchange.importing import import_session
from wakelog.exchange.seed_logs import event_sourced, session_structures
from wakelog.exchange.sessions import session_id
from wakelog.log.content import Reply
from wakelog.log.entry import Compaction, Message
from wakelog.reading import read_log

FIRST, SECOND = run(1), run(2, call=True)


def saved(tmp_path, name, source):
    """Save a database in memory as a file, and return its path."""
    path = str(tmp_path / name)
    source.commit()
    with sqlite3.connect(path) as target:
        source.backup(target)
    target.close()
    return path


def efferent_file(tmp_path, *, grown):
    database = efferent_rows.tree()
    if grown:
        database.say("user", "Go on", at=50)
    path = saved(tmp_path, f"efferent-{grown}.db", database.connection)
    return efferent, DiskDatabase(path)


def database_file(tmp_path, *, grown):
    runs = (FIRST, SECOND) if grown else (FIRST,)
    messages, events = ([line for each in runs for line in each[part]] for part in (0, 1))
    path = saved(tmp_path, f"crabtalk-{grown}.db", filled_database(messages, events))
    return crabtalk, DiskDatabase(path)


def folder_file(tmp_path, *, grown):
    lines = [*FIRST[0], *FIRST[1], {"archive_name": "n-1", "archived_at": "x"}, *(SECOND[0] if grown else ())]
    folder = tmp_path / "sessions" / HANDLE
    folder.mkdir(parents=True, exist_ok=True)
    (tmp_path / "memory.db").write_bytes(memory_bytes({"n-1": "Sum"}))
    (folder / "meta").write_bytes(json.dumps(META).encode())
    for file in folder_of(lines).list_beside("."):
        (folder / file.path.rpartition("/")[2]).write_bytes(file.content())
    return crabtalk, DiskFile(str(folder / "meta")).below(up=2)


def store_file(tmp_path, *, grown):
    runs = (FIRST, SECOND) if grown else (FIRST,)
    messages, events = ([line for each in runs for line in each[part]] for part in (0, 1))
    path = tmp_path / "store.crmem"
    path.write_bytes(store_bytes(session_puts(messages, events), snapshot_after=3))
    return crabtalk, DiskFile(str(path))


def lines_file(module, lines):
    def made(tmp_path, *, grown):
        path = tmp_path / "log.jsonl"
        path.write_bytes(jsonl(*lines[: None if grown else 10]))
        return module, DiskFile(str(path))

    return made


SOURCES = {
    "efferent": efferent_file,
    "crabtalk database": database_file,
    "crabtalk folder": folder_file,
    "crabtalk store": store_file,
    "crabtalk file": lines_file(crabtalk, [META, *FIRST[0], *FIRST[1], *SECOND[0], *SECOND[1]]),
    "records": lines_file(session_structures, RECORDS),
    "events": lines_file(event_sourced, EVENTS),
}


def imported(store, tmp_path, form, *, grown):
    module, source = SOURCES[form](tmp_path, grown=grown)
    done = [import_session(store, session) for session in module.read_sessions(source)]
    if isinstance(source, DiskDatabase):
        source.__exit__(None, None, None)
    return done


@pytest.mark.parametrize("form", SOURCES)
def test_importing_again_adds_only_what_is_new(tmp_path, form):
    store = open_store("memory:")
    first = imported(store, tmp_path, form, grown=False)
    assert all(done.is_new and done.added for done in first)
    assert sum(done.added for done in imported(store, tmp_path, form, grown=False)) == 0
    second = imported(store, tmp_path, form, grown=True)
    assert sum(done.added for done in second) > 0
    whole = open_store("memory:")
    assert {done.session for done in imported(whole, tmp_path, form, grown=True)} == {done.session for done in second}
    for done in second:
        log = read_log(store, done.session)
        assert log.damage == ()
        at_once = read_log(whole, done.session)
        shown = [entry.id for entry in log.tree.branch().nodes if isinstance(entry.value, Message)]
        assert shown == [entry.id for entry in at_once.tree.branch().nodes if isinstance(entry.value, Message)]


def test_a_sub_agent_is_attached_to_its_parent(tmp_path):
    store = open_store("memory:")
    imported(store, tmp_path, "efferent", grown=False)
    child = read_log(store, session_id("efferent", efferent_rows.NODE))
    header = child.entries[0].value
    assert (header.parent.session, header.parent.kind) == (session_id("efferent", efferent_rows.ROOT), "subagent")


def test_the_summary_of_a_folder_is_found_on_disk(tmp_path):
    store = open_store("memory:")
    [done] = imported(store, tmp_path, "crabtalk folder", grown=True)
    values = [entry.value for entry in read_log(store, done.session).entries]
    assert [value.summary for value in values if isinstance(value, Compaction)] == ["Sum"]
    replies = [value.message for value in values if isinstance(value, Message) and isinstance(value.message, Reply)]
    assert [reply.model for reply in replies] == ["m", None, None]
