"""ST-9, law 12: a log of wakelog itself is imported as itself: the same id, byte for byte, with its blobs."""

import json
import shutil

import pytest
import zstandard

from wakelog import Session, open_store
from wakelog.errors import Conflict, NotASession, NotFound
from wakelog.exchange.own_logs import import_own_log, is_own_log, is_own_log_file
from wakelog.log.codec import LINE_MAX_BYTES
from wakelog.log.content import Image, Prompt, Text
from wakelog.log.lines import split_lines
from wakelog.projections.session_state import is_dormant
from wakelog.reading import read_log


def log_of(store, session):
    return b"".join(line.bytes for line in store.load(session))


@pytest.fixture
def there(tmp_path):
    """Another store, in a folder."""
    store = open_store(tmp_path / "there")
    yield store
    store.close()


@pytest.fixture(params=["memory", "jsonl", "sqlite"])
def here(request, tmp_path):
    store = open_store("memory:" if request.param == "memory" else f"{request.param}:{tmp_path / 'here'}")
    yield store
    store.close()


@pytest.fixture
def session(there):
    made = Session.create(there, agent="crab", sender="user", title="First")
    made.say("one")
    return made


def file_of(there, session):
    return f"{there.folder.path}/{session.name}.jsonl"


def exported(tmp_path, raw, name="export.jsonl"):
    path = tmp_path / name
    path.write_bytes(raw)
    return str(path)


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        ({"type": "session", "id": "s", "seq": 0}, True),
        ({"type": "session", "id": "s", "v": 1}, True),
        ({"type": "session", "id": "s", "version": 3}, False),
        ({"type": "message", "id": "s", "seq": 0}, False),
    ],
)
def test_a_log_is_recognised_by_its_header(first, expected):
    assert is_own_log([first]) is expected
    assert not is_own_log([])


def test_a_file_is_recognised_by_its_first_line(there, session, tmp_path):
    assert is_own_log_file(file_of(there, session))
    for raw in (b"", b"SQLite format 3\0", b'{"type":"session","id":"s","seq":0}', b"[1]\n", b"{\n"):
        assert not is_own_log_file(exported(tmp_path, raw))


def test_a_log_is_imported_as_itself(there, here, session):
    [done] = import_own_log(here, file_of(there, session))
    assert (done.error, done.session, done.name, done.is_new, done.added) == (None, session.id, session.name, True, 2)
    assert (done.origin.tool, done.account.read) == ("wakelog", 2)
    assert log_of(here, session.id) == log_of(there, session.id)
    [again] = import_own_log(here, file_of(there, session))
    assert (again.is_new, again.added, again.error) == (False, 0, None)


def test_a_grown_log_adds_its_new_lines(there, here, session):
    list(import_own_log(here, file_of(there, session)))
    session.say("two")
    session.say("three")
    [done] = import_own_log(here, file_of(there, session))
    assert (done.is_new, done.added, done.account.read) == (False, 2, 4)
    assert log_of(here, session.id) == log_of(there, session.id)
    assert read_log(here, session.id).damage == ()


def test_work_that_a_grown_log_brings_is_left_unattended(there, here, session):
    """ST-9: also if the log was idle when it was first imported; a session that was continued here stays as it is."""
    path = file_of(there, session)
    list(import_own_log(here, path, unattended=True))
    session.say("run it")
    for _ in range(2):
        list(import_own_log(here, path, unattended=True))
        assert is_dormant(Session(here, session.id).tree)
    Session(here, session.id).say("now")
    list(import_own_log(here, path, unattended=True))
    assert not is_dormant(Session(here, session.id).tree)


def test_an_exported_file_needs_no_store(there, here, session, tmp_path):
    """Its name is made of the header, whatever the file is called."""
    raw = log_of(there, session.id)
    [done] = import_own_log(here, exported(tmp_path, raw, "my export (1).jsonl"))
    assert (done.name, done.added) == (session.name, 2)
    assert log_of(here, session.id) == raw
    Session(here, session.id).say("continued here")


def test_a_compressed_file_is_imported(there, here, session, tmp_path):
    raw = log_of(there, session.id)
    path = exported(tmp_path, zstandard.ZstdCompressor().compress(raw), "export.jsonl.zst")
    assert is_own_log_file(path)
    [done] = import_own_log(here, path)
    assert (done.added, log_of(here, session.id)) == (2, raw)


def test_a_line_of_any_size_is_copied(there, session, tmp_path):
    """Law 12: what is too long to be an entry is copied in slices."""
    here = open_store("memory:")
    raw = log_of(there, session.id) + b"x" * (LINE_MAX_BYTES + 5) + b"\n"
    path = exported(tmp_path, raw)
    [done] = import_own_log(here, path)
    assert (done.error, log_of(here, session.id) == raw) == (None, True)
    Session(here, session.id).say("continued here")
    [again] = import_own_log(here, path)
    assert (again.error, again.added) == (None, 0)


def test_the_name_of_another_session_is_not_taken(there, here, session, tmp_path):
    other = Session.create(here, agent="crab", sender="user")
    [done] = import_own_log(here, exported(tmp_path, log_of(there, session.id)))
    assert other.name == session.name
    assert done.name == "crab_user_2"


def test_a_log_that_differs_is_refused(there, here, session, tmp_path):
    """One clear line, and nothing is changed."""
    raw = log_of(there, session.id)
    list(import_own_log(here, exported(tmp_path, raw)))
    changed = raw.replace(b'"one"', b'"two"')
    [done] = import_own_log(here, exported(tmp_path, changed))
    assert isinstance(done.error, Conflict)
    assert "is a different log in the target store" in done.error.message
    assert (done.added, log_of(here, session.id)) == (0, raw)
    Session(here, session.id).say("continued here")
    [done] = import_own_log(here, exported(tmp_path, changed))
    assert isinstance(done.error, Conflict)


def test_an_older_copy_changes_nothing(there, here, session, tmp_path):
    """The session was continued here: its beginning is nothing new."""
    raw = log_of(there, session.id)
    list(import_own_log(here, exported(tmp_path, raw)))
    Session(here, session.id).say("continued here")
    before = log_of(here, session.id)
    [done] = import_own_log(here, exported(tmp_path, raw))
    assert (done.error, done.added, done.name) == (None, 0, session.name)
    assert log_of(here, session.id) == before
    session.say("and there")
    [done] = import_own_log(here, file_of(there, session))
    assert isinstance(done.error, Conflict)
    assert log_of(here, session.id) == before


def with_image(session):
    session.say(Prompt(content=(Text(text="see"), Image(mime_type="image/png", data="iVBORw0KGgo="))))
    [ref] = [blob.digest for blob in session.store.blobs.stored()]
    return ref


def test_blobs_come_from_the_folder_of_the_store(there, here, session):
    digest = with_image(session)
    [done] = import_own_log(here, file_of(there, session))
    assert done.account.skipped == {}
    assert [blob.digest for blob in here.blobs.stored()] == [digest]


def test_missing_blobs_of_an_exported_file_are_reported(there, here, session, tmp_path):
    digest = with_image(session)
    [done] = import_own_log(here, exported(tmp_path, log_of(there, session.id)))
    [(kind, reason)] = done.account.skipped
    assert kind == "missing"
    assert reason.startswith(f"{digest}: ")


def test_a_fork_brings_the_session_that_it_inherits_from(there, here, session):
    child = session.fork()
    child.say("other way")
    done = list(import_own_log(here, file_of(there, child)))
    assert [each.session for each in done] == [session.id, child.id]
    assert log_of(here, child.id) == log_of(there, child.id)


def test_a_dry_run_writes_nothing(there, here, session):
    [done] = import_own_log(here, file_of(there, session), dry_run=True)
    assert (done.is_new, done.added, done.name) == (True, 2, None)
    with pytest.raises(NotFound):
        here.name(session.id)


def test_damage_is_copied_and_reported(there, here, session, tmp_path):
    """LOG-9: the bytes stay for repair."""
    raw = log_of(there, session.id) + b'{"type":"mess\n'
    [done] = import_own_log(here, exported(tmp_path, raw))
    assert log_of(here, session.id) == raw
    assert [bad.line for bad in done.account.bad] == [3]


@pytest.mark.parametrize(
    "raw", [b"", b"\n", b"no\n", b'{"type":"message","id":"a","seq":0}\n', b'{"type":"session"}\n']
)
def test_a_file_without_a_header_is_refused(here, tmp_path, raw):
    with pytest.raises(NotASession):
        list(import_own_log(here, exported(tmp_path, raw)))


@pytest.mark.parametrize("identity", ["../../x", "a/b", "", "x" * 200])
def test_an_id_that_leads_elsewhere_is_refused(there, here, session, tmp_path, identity):
    first, *rest = split_lines([log_of(there, session.id)])
    header = json.dumps({**json.loads(first.raw), "id": identity}).encode() + b"\n"
    with pytest.raises(NotASession):
        list(import_own_log(here, exported(tmp_path, header + b"".join(line.bytes for line in rest))))


def test_importing_a_file_of_the_same_store_changes_nothing(there, session):
    before = log_of(there, session.id)
    [done] = import_own_log(there, file_of(there, session))
    assert (done.error, done.added, done.is_new) == (None, 0, False)
    assert log_of(there, session.id) == before


def test_a_copied_folder_is_a_store(there, here, session, tmp_path):
    digest = with_image(session)
    shutil.copytree(there.folder.path, tmp_path / "copy", symlinks=True)
    [done] = import_own_log(here, str(tmp_path / "copy" / f"{session.name}.jsonl"))
    assert done.added == 3
    assert [blob.digest for blob in here.blobs.stored()] == [digest]
