"""ST-9: importing sessions of other agents: once, completely, in order, into every store, and again when they grow."""

import asyncio

import pytest

from wakelog import Agent, Session, open_store
from wakelog.errors import Conflict
from wakelog.exchange.importing import import_session
from wakelog.exchange.records import BadRecord
from wakelog.exchange.sessions import (
    ForeignSession,
    ImportedEntry,
    SessionOrigin,
    SkippedRecords,
    entry_id,
    session_id,
    verbatim,
)
from wakelog.identity import latest
from wakelog.log.content import Image, Prompt, Reply, Text, ToolCall, ToolResult
from wakelog.log.entry import Compaction, Custom, Message, SessionRenamed
from wakelog.projections.session_state import IMPORT_TYPE, is_imported
from wakelog.reading import read_log

TOOL = "other"
TIME = "2026-01-02T03:04:05.000Z"
PNG = "iVBORw0KGgo="


def made(key, body, parent, records=1):
    placed = {"id": entry_id(TOOL, key), "parent_id": entry_id(TOOL, parent) if parent else None, "timestamp": TIME}
    return ImportedEntry(type(body)(**{name: getattr(body, name) for name in body.__struct_fields__} | placed), records)


def prompt(key, text, parent):
    return made(key, Message(message=Prompt(content=(Text(text=text),))), parent)


def reply(key, text, parent, *calls):
    return made(key, Message(message=Reply(content=(Text(text=text), *calls), model="m")), parent)


def result(key, call, of, text, parent):
    message = ToolResult(tool_call_id=call, tool_name="sh", reply_id=entry_id(TOOL, of), content=(Text(text=text),))
    return made(key, Message(message=message), parent)


CALL = ToolCall(id="c1", name="sh", input={"cmd": "ls"})
ITEMS = [
    prompt("u1", "List the files", None),
    reply("r1", "I look.", "u1", CALL),
    result("t1", "c1", "r1", "a.txt", "r1"),
    verbatim(TOOL, "state", {"x": 1}, key="s1", parent_id=entry_id(TOOL, "t1"), timestamp=TIME),
    SkippedRecords("progress", 3, "repeated in results"),
    BadRecord(7, 99, 5, "not JSON"),
    reply("r2", "There is a.txt.", "s1"),
]


def foreign(items=None, title=None, **origin):
    given = {"tool": TOOL, "id": "abc-1", "path": "/somewhere/abc-1.jsonl", "version": "9.1"} | origin
    return ForeignSession(
        origin=SessionOrigin(**given),
        items=list(ITEMS if items is None else items),
        started_ms=1_767_323_045_000,
        agent="other",
        cwd="/repo",
        title=title,
    )


@pytest.fixture(params=["memory", "files", "sqlite"])
def store(request, tmp_path):
    url = {"memory": "memory:", "files": str(tmp_path / "s"), "sqlite": f"sqlite:{tmp_path}/s.db"}[request.param]
    opened = open_store(url)
    yield opened
    opened.close()


def texts(session):
    return [row.text for row in session.transcript() if row.kind in ("prompt", "reply")]


def test_a_session_is_imported(store):
    """Every entry is there, in order; the session says where it comes from and how much of it was mapped."""
    done = import_session(store, foreign(title="Files"))
    session = Session.get(store, done.session)
    assert (done.is_new, done.added, session.id) == (True, 5, session_id(TOOL, "abc-1"))
    assert texts(session) == ["List the files", "I look.", "There is a.txt."]
    header, origin = list(session.entries())[:2]
    assert (header.value.title, header.value.cwd, header.value.timestamp[:4]) == ("Files", "/repo", "2026")
    assert isinstance(origin.value, Custom)
    assert origin.value.custom_type == IMPORT_TYPE
    assert {key: origin.value.data[key] for key in ("tool", "session", "version", "path")} == {
        "tool": "other",
        "session": "abc-1",
        "version": "9.1",
        "path": "/somewhere/abc-1.jsonl",
    }
    assert {key: origin.value.data[key] for key in ("read", "mapped", "verbatim", "fidelity")} == {
        "read": 9,
        "mapped": 4,
        "verbatim": 1,
        "fidelity": 0.4444,
    }
    assert (done.account.read, session.verify().ok) == (9, True)
    assert [message.role for message in session.messages()] == ["user", "assistant", "toolResult", "assistant"]


def test_importing_again_adds_nothing(store):
    import_session(store, foreign())
    before = [entry.raw for entry in Session.get(store, session_id(TOOL, "abc-1")).entries()]
    again = import_session(store, foreign(path="/moved/abc-1.jsonl"))
    assert (again.is_new, again.added) == (False, 0)
    assert [entry.raw for entry in Session.get(store, again.session).entries()] == before
    assert len(list(store.sessions())) == 1


@pytest.mark.parametrize("cut", range(len(ITEMS)))
def test_a_session_that_has_grown(store, cut):
    """Only what is new is appended, in its place; the result is that of one import of the whole."""
    import_session(store, foreign(ITEMS[:cut]))
    done = import_session(store, foreign())
    session = Session.get(store, done.session)
    assert texts(session) == ["List the files", "I look.", "There is a.txt."]
    assert len(session.branch().nodes) == 7
    assert done.added == sum(isinstance(item, ImportedEntry) for item in ITEMS[cut:])
    assert import_session(store, foreign()).added == 0


def test_a_branch_is_followed(store):
    """A second child of a node is a branch; the head is at its end, as in the tool."""
    items = [*ITEMS, prompt("u2", "Or list the folders", "r1"), reply("r3", "None.", "u2")]
    session = Session.get(store, import_session(store, foreign(items)).session)
    assert texts(session) == ["List the files", "I look.", "Or list the folders", "None."]
    assert len(session.read().tree.children(entry_id(TOOL, "r1"))) == 2
    assert import_session(store, foreign(items)).added == 0


def test_what_a_person_did_here_is_kept(store):
    """The head stays with a conversation that was continued here; new entries of the tool are on their own branch."""
    session = Session.get(store, import_session(store, foreign()).session)
    session.say("And here?")
    more = [*ITEMS, prompt("u2", "In the tool", "r2"), reply("r3", "Done there.", "u2")]
    done = import_session(store, foreign(more))
    assert done.added == 2
    assert texts(Session.get(store, done.session))[-1] == "And here?"
    tree = session.read().tree
    assert len(tree.children(entry_id(TOOL, "r2"))) == 2


def test_a_dangling_call_stays_open_and_gets_its_result_later(store):
    """Law 6: no result is invented; a later import brings the real one."""
    session = Session.get(store, import_session(store, foreign(ITEMS[:2])).session)
    assert [row.status for row in session.transcript() if row.kind == "call"] == ["unknown"]
    assert b"toolResult" not in b"".join(entry.raw for entry in session.entries())
    import_session(store, foreign())
    (call,) = [row for row in Session.get(store, session.id).transcript() if row.kind == "call"]
    assert (call.status, call.text) == ("ok", "a.txt")


def test_a_dangling_call_is_unknown_when_the_session_is_continued_here(store):
    """Law 6: it may have run in the other tool, so it is never run here and never called skipped."""
    ran = []

    def sh(cmd: str) -> str:
        """Runs."""
        ran.append(cmd)
        return cmd

    session = Session.get(store, import_session(store, foreign(ITEMS[:2])).session)
    done = Agent("demo", tools=[sh]).run_sync(store, "Go on.", session=session)
    call = next(row for row in done.session.transcript() if row.kind == "call")
    assert (call.status, ran) == ("unknown", [])


def test_a_compaction(store):
    """VIEW-4: the summary stands for what was before the first kept entry."""
    items = [
        *ITEMS,
        made("k", Compaction(summary="Files were listed.", first_kept_entry_id=entry_id(TOOL, "r2")), "r2"),
    ]
    items += [prompt("u2", "Next", "k"), reply("r3", "Yes.", "u2")]
    session = Session.get(store, import_session(store, foreign(items)).session)
    assert [message.text for message in session.messages()] == ["Files were listed.", "There is a.txt.", "Next", "Yes."]
    assert import_session(store, foreign(items)).added == 0
    assert session.verify().ok


def test_secrets_and_images_are_kept_out_of_the_log(store):
    """Law 14, LOG-12: redacted like every append; images are blobs."""
    key = "sk-ant-api03-" + "A1b2C3d4" * 11 + "-AAAAAA"
    picture = made("u2", Message(message=Prompt(content=(Image(mime_type="image/png", data=PNG),))), "u1")
    items = [prompt("u1", f"my key is {key}", None), picture]
    items += [verbatim(TOOL, "env", {"KEY": key}, key="e", parent_id=entry_id(TOOL, "u2"), timestamp=TIME)]
    session = Session.get(store, import_session(store, foreign(items)).session)
    log = b"".join(entry.raw for entry in session.entries())
    assert key.encode() not in log
    assert PNG.encode() not in log
    assert session.messages()[1].content[0].data == PNG


def test_a_large_record_is_kept_in_a_blob(store):
    """A verbatim record that is longer than a line may be is kept whole."""
    data = {"text": "x" * (20 << 20)}
    items = [
        prompt("u1", "Hi", None),
        verbatim(TOOL, "big", data, key="b", parent_id=entry_id(TOOL, "u1"), timestamp=TIME),
    ]
    session = Session.get(store, import_session(store, foreign(items)).session)
    entry = list(session.entries())[-1].value
    assert isinstance(entry, Custom)
    blob = entry.content[0].blob
    assert blob is not None
    assert len(store.blobs.get(blob)) > 20 << 20


def test_an_imported_session_is_not_the_latest_chat(store):
    """Rule 2: an imported session is marked as one; `wake --all` leaves it alone (`test_import_sessions.py`)."""
    session = Session.get(store, import_session(store, foreign([prompt("u1", "Unanswered", None)])).session)
    assert latest(store, "other", "user") is None
    assert is_imported(session.tree)


def test_titles_follow(store):
    """A title that changes in the tool is appended once."""
    import_session(store, foreign(title="First"))
    renamed = foreign(title="Second")
    assert (import_session(store, renamed).added, import_session(store, renamed).added) == (1, 0)
    in_log = [*ITEMS, made("n", SessionRenamed(title="Third"), "u1")]
    import_session(store, foreign(in_log, title="Third"))
    log = read_log(store, session_id(TOOL, "abc-1"))
    assert [entry.value.title for entry in log.entries if isinstance(entry.value, SessionRenamed)] == [
        "Second",
        "Third",
    ]


def test_a_title_that_a_person_gave_here_stays(store):
    """Rule 3: the title of the tool is appended only when it changes there."""
    session = Session.get(store, import_session(store, foreign(title="First")).session)
    session.rename("Mine")
    assert import_session(store, foreign(title="First")).added == 0
    titles = [import_session(store, foreign(title=title)).added for title in ("Second", "Second", "First", "First")]
    assert titles == [1, 0, 1, 0]


def test_a_title_with_a_secret_is_appended_once(store):
    """Law 14: titles are compared as they are stored."""
    key = "sk-ant-api03-" + "A1b2C3d4" * 11 + "-AAAAAA"
    import_session(store, foreign(title=f"use {key}"))
    renamed = foreign(title=f"now use {key}")
    assert [import_session(store, renamed).added for _ in range(3)] == [1, 0, 0]
    assert import_session(store, foreign(title=f"now use {key}")).added == 0


def test_a_running_session_is_left_alone(store):
    session = Session.get(store, import_session(store, foreign(ITEMS[:2])).session)
    lease = session.acquire("a worker", ttl_s=60)
    with pytest.raises(Conflict, match="is being run by"):
        import_session(store, foreign())
    session.release(lease)


def test_a_dry_run_writes_nothing(store):
    done = import_session(store, foreign(), dry_run=True)
    assert (done.is_new, done.added, done.name, done.account.read) == (True, 5, None, 9)
    assert list(store.sessions()) == []


def test_a_session_with_many_items(store):
    """Rule 4: written in groups; its figures are in a second entry at the end."""
    items = [prompt("p0", "first", None)] + [prompt(f"p{n}", f"text {n}", f"p{n - 1}") for n in range(1, 6_000)]
    done = import_session(store, foreign(items))
    session = Session.get(store, done.session)
    figures = [entry.value.data for entry in session.entries() if entry.type == "custom"]
    assert (len(figures), "read" in figures[0], figures[1]["read"]) == (2, False, 6_000)
    assert len(session.branch().nodes) == 6_002
    assert asyncio.run(Agent("demo").run(store, "Hi", session=session)).state == "idle"
