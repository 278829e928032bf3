"""A log whose header is unreadable is still a session of its file or row (law 9)."""

import contextlib

import pytest

from tests.cli.conftest import shell  # noqa: F401
from tests.stores.postgres.rig import PostgresRig
from tests.stores.sqlite.test_store import SqliteRig
from wakelog import Session
from wakelog.errors import UnreadableHeader
from wakelog.forking import fork
from wakelog.log.entry import ContextEntry, Message
from wakelog.log.recovered_header import HeaderRecovery
from wakelog.reading import read_identity
from wakelog.stores.jsonl import JsonlStore


class FileRig:
    def __init__(self, path):
        self.path = path
        self.store = self.again()

    def again(self):
        return JsonlStore(str(self.path))

    def corrupt(self, session, old, new):
        for file in self.path.glob("*.jsonl"):
            file.write_bytes(file.read_bytes().replace(old, new))


@pytest.fixture(params=["files", "sqlite", "postgres"])
def rig(request, tmp_path):
    if request.param == "postgres":
        on_server = PostgresRig(request.getfixturevalue("postgres_url"))
        yield on_server
        on_server.close()
        return
    made = FileRig(tmp_path / "store") if request.param == "files" else SqliteRig(tmp_path / "store.db")
    yield made
    made.store.close()


# The bytes before and after: not JSON, another type, another agent, another sender, another key.
FLIPS = [
    (b'"type":"session"', b'"type:"session""'),
    (b'"type":"session"', b'"type":"sessiom"'),
    (b'"agent":"crab"', b'"agent":"crac"'),
    (b'"sender":"ada"', b'"sender":"ade"'),
    (b'"agent":"crab"', b'"agenu":"crab"'),
]
# Another version of the format: the pair can be read, so `open` finds the session.
VERSIONS = [(b'"version":1', b'"version":3'), (b'{"v":1,"seq":0', b'{"v":5,"seq":0')]


@pytest.mark.parametrize(("old", "new"), FLIPS)
def test_open_says_that_a_header_cannot_be_read(rig, old, new):
    """Law 9: `open` stops at the damaged session of the pair instead of returning a new empty one."""
    session = Session.create(rig.store, agent="crab", sender="ada")
    session.say("Where did we leave off?")
    rig.corrupt(session.id, old, new)
    store = rig.again()
    with pytest.raises(UnreadableHeader, match=session.name) as caught:
        Session.open(store, agent="crab", sender="ada")
    assert session.name in caught.value.hint
    assert [stat.name for stat in store.sessions()] == [session.name]


@pytest.mark.parametrize(("old", "new"), FLIPS + VERSIONS)
def test_a_session_with_an_unreadable_header_is_continued_by_name(rig, old, new):
    """Law 9: every other line is read, and the session goes on when it is named."""
    session = Session.create(rig.store, agent="crab", sender="ada")
    session.say("Where did we leave off?")
    rig.corrupt(session.id, old, new)
    with Session.get(rig.again(), session.name) as named:
        named.assistant("At the header.")
        named.user("Go on.")
    again = Session.get(rig.again(), session.name)
    texts = [node.value.message.text for node in again.branch().nodes if isinstance(node.value, Message)]
    assert texts == ["Where did we leave off?", "At the header.", "Go on."]
    assert again.read().damage


def test_a_newer_session_is_opened(rig):
    """Law 9: a damaged older session does not keep a newer one of the pair from being opened."""
    damaged = Session.create(rig.store, agent="crab", sender="ada")
    rig.corrupt(damaged.id, b'"type":"session"', b'"type:"session""')
    newer = Session.create(rig.again(), agent="crab", sender="ada")
    assert Session.open(rig.again(), agent="crab", sender="ada").name == newer.name


def _recorded(store):
    session = Session.create(store, agent="crab", sender="ada", cwd="/repo", model="m", provider="p")
    session.append(ContextEntry(environment={"cwd": "/repo"}))
    session.say("Where did we leave off?")
    return session


def _texts(session):
    return [node.value.message.text for node in session.branch().nodes if isinstance(node.value, Message)]


def test_one_flipped_bit_anywhere_in_the_header_loses_nothing(rig):
    """Laws 9 and 10: the session is found by name and id and read whole, and opening it makes no other one."""
    session = _recorded(rig.store)
    header = next(iter(rig.store.load(session.name))).raw
    for place in range(0, len(header), 5):
        flipped = bytearray(header)
        flipped[place] ^= 1 << place % 7
        rig.corrupt(session.id, header, bytes(flipped))
        store, sample = rig.again(), (place, bytes(flipped))
        assert [stat.name for stat in store.sessions()] == [session.name], sample
        for named in (session.name, session.id):
            found = Session.get(store, named)
            assert _texts(found) == ["Where did we leave off?"], sample
            assert found.id == session.id, sample
            known = found.tree.header
            assert (known.id, known.agent, known.sender, known.cwd) == (session.id, "crab", "ada", "/repo"), sample
        assert read_identity(store, session.name).is_of("crab", "ada"), sample
        with contextlib.suppress(UnreadableHeader):
            assert Session.open(store, agent="crab", sender="ada").name == session.name, sample
        assert [stat.name for stat in store.sessions()] == [session.name], sample
        rig.corrupt(session.id, bytes(flipped), header)
    assert Session.open(rig.again(), agent="crab", sender="ada").name == session.name


@pytest.mark.parametrize(("old", "new"), FLIPS + VERSIONS)
def test_a_fork_of_a_session_with_an_unreadable_header_belongs_to_the_same_pair(rig, old, new):
    """Law 9: agent, sender and folder come from the name and the `context` entry, and history is inherited by id."""
    session = _recorded(rig.store)
    rig.corrupt(session.id, old, new)
    with Session.get(rig.again(), session.id) as found:
        found.assistant("At the header.")
        child = fork(found)
    assert (child.name, child.tree.header.cwd) == ("crab_ada_2", "/repo")
    assert child.tree.header.parent.session == session.id
    assert _texts(Session.get(rig.again(), child.name)) == ["Where did we leave off?", "At the header."]


def test_an_id_is_found_without_its_link(tmp_path):
    """Law 2: links are derived; an unreadable header is not the only line that has the id of the session."""
    rig = FileRig(tmp_path / "store")
    session = _recorded(rig.store)
    rig.corrupt(session.id, b'"type":"session"', b'"type:"session""')
    (tmp_path / "store" / "by-id" / session.id).unlink()
    assert Session.get(rig.again(), session.id).name == session.name


@pytest.mark.parametrize(("old", "new"), FLIPS + VERSIONS)
def test_commands_know_a_session_with_an_unreadable_header(shell, old, new):  # noqa: F811
    """Law 9: `ls` lists it as damaged under its pair and folder; it is shown, verified, exported and handed on."""
    rig = FileRig(shell.store)
    session = _recorded(rig.store)
    rig.corrupt(session.id, old, new)
    (row,) = shell("ls", "--agent", "crab", "--json").rows
    assert (row["id"], row["sender"], row["number"], row["cwd"]) == (session.id, "ada", 1, "/repo")
    assert row["state"] == "damaged"
    assert "Where did we leave off?" in shell("show", session.id).out
    assert shell("verify", session.id).code == 4
    assert "Where did we leave off?" in shell("export", session.id, "--to", "openai").out
    assert shell("append", session.id, "Go on.").code == 0


def test_a_header_without_other_entries_is_known_by_its_name():
    """The name alone has the pair and the number; the id is the name then."""
    known = HeaderRecovery().header("crab_ada_7")
    assert (known.id, known.agent, known.sender, known.number) == ("crab_ada_7", "crab", "ada", 7)
    assert HeaderRecovery().header("notes").agent == ""
