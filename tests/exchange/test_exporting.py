"""What a writer gets of a session (ST-9): every node with its media, forks with the history that they inherit."""

import base64

from wakelog.exchange.exporting import session_to_write
from wakelog.exchange.importing import import_session
from wakelog.exchange.sessions import ForeignSession, SessionOrigin, verbatim
from wakelog.log.content import Image, Prompt, Reply, Text
from wakelog.log.entry import Custom, Message
from wakelog.session import Session
from wakelog.stores.memory import MemoryStore


def texts(nodes):
    return [node.message.text for node in nodes if isinstance(node, Message)]


def test_media_are_inline_and_branches_are_complete():
    store = MemoryStore()
    session = Session.create(store, agent="crab", cwd="/project", title="A title", model="m", provider="p")
    data = base64.b64encode(b"pixels").decode()
    first = session.append(Message(message=Prompt(content=(Text(text="one"), Image(mime_type="image/png", data=data)))))
    session.append(Message(message=Reply(content="left")))
    session.move_head(first)
    last = session.append(Message(message=Reply(content="right")))
    session.label(last, "good")
    got = session_to_write(store, session.name)
    assert (got.cwd, got.title, got.model, got.provider) == ("/project", "A title", "m", "p")
    assert (texts(got.nodes), texts(got.branch)) == (["one", "left", "right"], ["one", "right"])
    assert got.nodes[0].parent_id == got.session
    assert got.nodes[0].message.content[1].data == data
    assert (got.head, dict(got.labels)) == (last.id, {last.id: "good"})


def test_a_fork_has_the_history_that_it_inherits():
    """LOG-7: the fork's header lies between both parts, and no node has it as its parent."""
    store = MemoryStore()
    session = Session.create(store)
    session.append(Message(message=Prompt(content="one")))
    fork = session.fork()
    fork.append(Message(message=Prompt(content="two")))
    got = session_to_write(store, fork.name)
    assert texts(got.branch) == ["one", "two"]
    assert [node.parent_id for node in got.nodes] == [got.session, got.nodes[0].id]


def test_a_large_record_is_written_with_its_data():
    """An import keeps it as text in a blob; the writer of its format gets it as it was."""
    data = {"text": "x" * (2 << 20)}
    items = [verbatim("pi", "big", data, key="b", parent_id=None, timestamp="2026-01-02T03:04:05.000Z")]
    foreign = ForeignSession(origin=SessionOrigin(tool="pi", id="p"), items=items, started_ms=1, agent="pi")
    store = MemoryStore()
    done = import_session(store, foreign)
    [node] = [
        node
        for node in session_to_write(store, done.session).nodes
        if isinstance(node, Custom) and node.custom_type == "pi:big"
    ]
    assert (node.data, node.content) == (data, ())
