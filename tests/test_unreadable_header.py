"""A log whose header is unreadable is still a session of its file or row (law 9)."""

import pytest

from tests.stores.postgres.rig import PostgresRig
from tests.stores.sqlite.test_store import SqliteRig
from wakelog import Session
from wakelog.errors import UnreadableHeader
from wakelog.log.entry import Message
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


@pytest.mark.parametrize(("old", "new"), FLIPS)
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
