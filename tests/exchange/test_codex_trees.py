"""ST-9: sessions of Codex as trees: compactions, rollbacks, forks, sub-agents; old versions, damage, titles."""

import sqlite3
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from tests.exchange.codex_records import (
    BARE,
    CHILD,
    DOCUMENT,
    LEGACY,
    PAGINATED,
    THREAD,
    TURN,
    answer,
    at,
    call,
    checked,
    entries,
    event,
    item,
    line,
    messages,
    meta,
    output,
    read,
    read_raw,
    reasoning,
    replies,
    results,
    tokens,
    turn_context,
    user,
)
from tests.exchange.samples import account_of, jsonl
from wakelog.exchange.codex.reader import (
    titles_from_index,
    titles_from_state,
)
from wakelog.exchange.records import BadRecord
from wakelog.exchange.sessions import ImportedEntry, SkippedRecords, session_id
from wakelog.log.codec import decode, encode
from wakelog.log.content import Note, Text
from wakelog.log.entry import (
    Compaction,
    Custom,
    Entry,
    Head,
    Message,
    SessionHeader,
    SessionRenamed,
    Spawned,
)
from wakelog.log.tree import Tree
from wakelog.projections.context import build_context

# ── compaction, rollback ─────────────────────────────────────────────────────────────────────────


def test_a_compaction_without_a_history():
    bodies = entries(
        meta(), user("Go"), answer("x"), tokens(10, 10), line("compacted", {"message": "All done"}), user("Next")
    )
    (compaction,) = [body for body in bodies if isinstance(body, Compaction)]
    assert (compaction.summary, compaction.first_kept_entry_id, compaction.tokens_before) == ("All done", None, 17)
    assert compaction.state is None


def test_a_compaction_with_a_history():
    """What replaces the history follows as notes, so that the context is what the model saw."""
    history = [
        user("Go")["payload"],
        user("Another model wrote this summary:\nAll done")["payload"],
        {"type": "compaction", "encrypted_content": "gCCC"},
        call("c9")["payload"],
    ]
    payload = {"message": "All done", "replacement_history": history, "window_id": "w-2"}
    bodies = entries(meta(), turn_context(), user("Go"), line("compacted", payload), event("context_compacted"))
    compaction, kept, encrypted, verbatim, rest = bodies[4:]
    assert compaction.summary == "Another model wrote this summary:\nAll done"
    assert (type(kept.message), kept.message.text) == (Note, "Go")
    assert encrypted.message.content == (Text(text="", bound={"item": history[2]}),)
    assert (verbatim.data, rest.data) == (history[3], {"window_id": "w-2"})


def _texts_of_branch(bodies):
    """Return the prompts and replies from the root to the last node."""
    by_id = {body.id: body for body in bodies}
    node: Any = next(body for body in reversed(bodies) if isinstance(body, Message))
    found = []
    while node is not None:
        if isinstance(node, Message):
            found.append(node.message.text)
        node = by_id.get(node.parent_id)
    return found[::-1]


@pytest.mark.parametrize(
    ("turns", "left"),
    [(1, ["one", "1", "two", "2", "new"]), (2, ["one", "1", "new"]), (3, ["new"]), (9, ["new"])],
)
def test_a_rollback_branches_before_the_dropped_turns(turns, left):
    asked = [
        each for text, number in (("one", "1"), ("two", "2"), ("three", "3")) for each in (user(text), answer(number))
    ]
    bodies = entries(meta(), *asked, event("thread_rolled_back", num_turns=turns), user("new"))
    assert _texts_of_branch(bodies) == left
    (head,) = [body for body in bodies if isinstance(body, Head)]
    assert bodies[-1].parent_id == head.target_id
    assert {"one", "2", "3"} <= {message.text for message in messages(bodies)}


@pytest.mark.parametrize(
    ("turns", "left"),
    [(1, ["base", "one", "1", "more", "two", "", "new"]), (2, ["base", "one", "1", "new"]), (3, ["base", "new"])],
)
def test_a_rollback_drops_the_context_of_its_prompts(turns, left):
    """A message during a turn counts as well. The context before the first prompt stays."""

    def note(text):
        return item("message", role="developer", content=[{"type": "input_text", "text": text}])

    first = [
        event("task_started"),
        note("base"),
        turn_context(),
        user("one"),
        answer("1"),
        event("task_complete"),
    ]
    steered = [event("task_started"), note("more"), user("two"), call("c1"), user("and that"), output("c1", "")]
    rollback = event("thread_rolled_back", num_turns=turns)
    assert _texts_of_branch(entries(meta(), *first, *steered, rollback, user("new"))) == left


def test_messages_between_agents():
    """As response items, and as lines of their own; both begin a turn."""
    content = [{"type": "input_text", "text": "Do it"}, {"type": "encrypted_content", "encrypted_content": "g"}]
    sent = item("agent_message", id="am_1", author="/root", recipient="/root/worker", content=content)
    plain = line("inter_agent_communication", {"author": "/root", "recipient": "/root/worker", "content": "And that"})
    secret = line("inter_agent_communication", {"author": "/root", "content": "", "encrypted_content": "g"})
    bodies = entries(meta(), sent, answer("Yes"), plain, answer("Too"), secret)
    notes = [message for message in messages(bodies) if isinstance(message, Note)]
    assert [(note.text, note.custom_type) for note in notes] == [
        ("Do it", "codex:agent_message"),
        ("And that", "codex:agent_message"),
        ("", "codex:agent_message"),
    ]
    assert [body.data for body in bodies[1:] if isinstance(body, Custom)] == [sent, plain, secret]
    rolled_back = entries(meta(), sent, answer("Yes"), plain, event("thread_rolled_back", num_turns=1), user("new"))
    assert _texts_of_branch(rolled_back) == ["Do it", "Yes", "new"]


@pytest.mark.parametrize("turns", [None, 0, -1, "2", True, 1.5])
def test_a_rollback_that_makes_no_sense_is_kept(turns):
    bodies = entries(meta(), user("old"), answer("x"), event("thread_rolled_back", num_turns=turns), user("new"))
    assert not [body for body in bodies if isinstance(body, Head)]
    assert _texts_of_branch(bodies) == ["old", "x", "new"]


def test_entries_make_a_sound_log():
    """Written behind a session header, entries are a tree without damage, and its context is what the model saw."""
    history = [user("one")["payload"]]
    records = [
        *(meta(), turn_context(), user("one"), answer("1"), user("two"), call("c1"), output("c1")),
        *(event("thread_rolled_back", num_turns=1), user("three"), answer("3")),
        *(line("compacted", {"message": "Summary", "replacement_history": history}), user("four"), reasoning()),
        *(event("patch_apply_end", call_id="c2"), call("c2"), output("c2"), answer("4")),
    ]
    header = SessionHeader(id="s", timestamp=at(0), version=1)
    bodies = [header, *(replace(body, parent_id=body.parent_id or "s") for body in entries(*records))]
    lines = [encode(body) for body in bodies]
    tree = Tree().add_all(Entry(raw, decode(raw), seq) for seq, raw in enumerate(lines))
    assert not tree.damage
    branch = tree.branch(tree.head)
    assert [message.text for message in build_context(branch).messages] == ["Summary", "one", "four", "", "done", "4"]
    whole = [node.value.message.text for node in branch.nodes if isinstance(node.value, Message)]
    assert whole == ["one", "1", "three", "3", "one", "four", "", "done", "4"]


# ── forks and sub-agents ─────────────────────────────────────────────────────────────────────────


def test_a_fork_by_copy_has_the_ids_of_its_ancestor():
    """Codex writes the copied lines with new times; what identifies an item stays."""
    said = [user("Go", id="msg_1"), reasoning(), call("call_1"), output("call_1"), answer("End", id="msg_2")]
    own = entries(meta(), *said)
    copied = [{**record, "timestamp": "2026-11-17T09:00:00.000Z"} for record in (meta(), *said)]
    fork = read(meta(CHILD, forked_from_id=THREAD), *copied, user("Other", id="msg_3"))
    assert (fork.origin.id, fork.origin.parent, fork.origin.is_subagent) == (CHILD, THREAD, False)
    bodies = checked(fork, len(said) + 3)
    assert [body.id for body in bodies[1:-1]] == [body.id for body in own]


def _fork(**base):
    base = {"thread_id": THREAD, "end_ordinal_exclusive": 11, "end_byte_offset": 1, **base}
    header = meta(CHILD, forked_from_id=THREAD, history_mode="paginated", history_base=base)
    return [{**header, "ordinal": 11}, {**user("Other", id="msg_9"), "ordinal": 12}]


def test_a_fork_by_reference_begins_with_the_entries_of_its_base():
    name = f"rollout-2026-11-16T18-09-22-{THREAD}.jsonl"
    session = read_raw(jsonl(*_fork()), "rollout-x.jsonl", {name: jsonl(*PAGINATED)})
    bodies = checked(session, 11 + 2)
    assert bodies[:-2] == entries(*PAGINATED[:11])
    assert _texts_of_branch(bodies)[0] == "First"
    assert (session.origin.id, session.cwd) == (CHILD, "/repo")


def test_a_base_without_ordinals_ends_at_a_byte():
    name = f"rollout-2026-11-16T18-09-22-{CHILD}_{THREAD}.jsonl"
    end = len(jsonl(*LEGACY[:6]))
    session = read_raw(jsonl(*_fork(end_byte_offset=end)), "rollout-x.jsonl", {name: jsonl(*LEGACY)})
    assert checked(session, 6 + 2)[:-2] == entries(*LEGACY[:6])


@pytest.mark.parametrize("others", [{}, {f"rollout-{THREAD}.jsonl": jsonl(*_fork())}])
def test_a_base_that_is_not_found_is_reported(others):
    """Also one that names itself as its base."""
    items = list(read_raw(jsonl(*_fork()), "rollout-x.jsonl", others).items)
    (report,) = [each for each in items if isinstance(each, SkippedRecords)]
    assert (report.kind, report.count, THREAD in report.reason) == ("history_base", 0, True)


_NAME = f"rollout-2026-11-16T18-09-22-{THREAD}.jsonl"


@pytest.mark.parametrize(
    ("path", "base"),
    [
        ("sessions/2026/11/16/rollout-x.jsonl", _NAME),
        ("sessions/2026/11/19/rollout-x.jsonl", f"../../../2026/11/16/{_NAME}"),
        ("sessions/2026/11/19/rollout-x.jsonl", f"../../../2026/11/17/{_NAME}"),
        ("sessions/2026/11/19/rollout-x.jsonl", f"../../../2026/11/15/{_NAME}.zst"),
        ("sessions/2026/11/19/rollout-x.jsonl", f"../../../../archived_sessions/{_NAME}"),
        ("archived_sessions/rollout-x.jsonl", f"../sessions/2026/11/16/{_NAME}"),
        ("archived_sessions/rollout-x.jsonl", _NAME),
    ],
)
def test_a_base_is_found_by_the_day_of_its_thread_and_among_the_archived(path, base):
    """The folder of a day is named in local time, so that of the day before or after may be it."""
    session = read_raw(jsonl(*_fork()), path, {base: jsonl(*PAGINATED)})
    assert checked(session, 11 + 2)[:-2] == entries(*PAGINATED[:11])


def test_a_reverted_thread_is_a_branch_of_the_same_session():
    """Both files have the id of the thread; no line of one has the id of a line of the other, except those before."""
    base = {"thread_id": THREAD, "end_ordinal_exclusive": 5}
    header = {**meta(history_mode="paginated", history_base=base), "timestamp": at(300), "ordinal": 5}
    own = [header, {**user("Instead"), "ordinal": 6}, {**event("task_complete"), "ordinal": 7}]
    name = f"rollout-2026-11-16T18-09-22-{THREAD}.jsonl"
    session = read_raw(jsonl(*own), f"rollout-x-{THREAD}_{CHILD}.jsonl", {name: jsonl(*PAGINATED)})
    first = entries(*PAGINATED)
    bodies = checked(session, 5 + 3)
    assert (session.origin.id, session.started_ms) == (THREAD, read(*PAGINATED).started_ms)
    assert bodies[:-3] == first[:6]
    assert not {body.id for body in bodies[-3:]} & {body.id for body in first}


def test_a_sub_agent_names_its_parent():
    spawn = {"parent_thread_id": THREAD, "depth": 1, "agent_nickname": "Ada", "agent_role": "worker"}
    session = read(meta(CHILD, source={"subagent": {"thread_spawn": spawn}}), user("Do it"))
    assert (session.origin.parent, session.origin.is_subagent, session.agent) == (THREAD, True, "Ada")
    review = read(meta(CHILD, source={"subagent": "review"}, parent_thread_id=THREAD), user("Do it"))
    assert (review.origin.parent, review.origin.is_subagent, review.agent) == (THREAD, True, "review")


@pytest.mark.parametrize(
    "records",
    [
        [call("c1", "spawn_agent"), output("c1", f'{{"agent_id":"{CHILD}"}}')],
        [call("c1", "spawn"), event("collab_agent_spawn_end", call_id="c1", new_thread_id=CHILD), output("c1")],
        [call("c1"), tokens(1, 1), event("collab_agent_spawn_end", call_id="c1", new_thread_id=CHILD), output("c1")],
        [
            call("c1", "spawn_agent"),
            event(
                "item_completed",
                item={"type": "CollabAgentToolCall", "id": "c1", "tool": "spawnAgent", "receiverThreadIds": [CHILD]},
            ),
            output("c1", f'{{"agent_id":"{CHILD}"}}'),
        ],
    ],
)
def test_the_parent_names_the_session_of_a_sub_agent(records):
    """The id of the child's session is known from the id of its thread, without the child's file."""
    bodies = entries(meta(), user("Go"), *records)
    (spawned,) = [body for body in bodies if isinstance(body, Spawned)]
    assert spawned.child_session == session_id("codex", CHILD)
    (reply,) = [body for body in bodies if isinstance(body, Message) and body.id == spawned.reply_id]
    assert spawned.parent_id == reply.id
    assert spawned.tool_call_id == reply.message.tool_calls[0].id


# ── old versions ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("indent", [None, 2])
def test_the_versions_before_envelopes(indent):
    """Bare items of mid-2025, and the document of the TypeScript version on one line or many."""
    bare = read(*BARE)
    assert (bare.origin.id, bare.started_ms) == (BARE[0]["id"], 1754042400000)
    document = msgspec.json.format(msgspec.json.encode(DOCUMENT), indent=indent or 0)
    whole = read_raw(document, "rollout-2025-04-20-x.json")
    assert whole.origin.id == DOCUMENT["session"]["id"]
    for bodies in (checked(bare, len(BARE)), checked(whole, 1 + len(DOCUMENT["items"]))):
        assert [type(message).__name__ for message in messages(bodies)] == ["Prompt", "Reply", "ToolResult", "Reply"]
        assert results(bodies)[0].status == "error"
        assert replies(bodies)[0].parts[0].signature == "g"


def test_items_of_a_document_that_are_no_objects_are_bad():
    session = read_raw(msgspec.json.encode({**DOCUMENT, "items": [7, None, DOCUMENT["items"][0]]}))
    items = list(session.items)
    assert account_of(items) == {"mapped": 1, "verbatim": 1, "skipped": 0, "bad": 2}


# ── damage ───────────────────────────────────────────────────────────────────────────────────────


def test_damaged_lines_are_reported_and_the_rest_is_read():
    raw = jsonl(meta(), user("Go")) + b'{"timestamp":"2026-11-16T18:00:00Z","ty' + jsonl(answer("x")) + b'{"half'
    session = read_raw(raw)
    items = list(session.items)
    assert [item.line for item in items if isinstance(item, BadRecord)] == [3, 4]
    bodies = [item.body for item in items if isinstance(item, ImportedEntry)]
    assert [message.text for message in messages(bodies)] == ["Go", "x"]


def test_a_damaged_header_does_not_hide_the_session():
    """Codex itself does not list such a session; its id is in the name of the file."""
    raw = b'{"timestamp":"20\n' + jsonl(user("Go"), answer("x"))
    session = read_raw(raw, f"sessions/rollout-2026-11-16T18-09-22-{THREAD}.jsonl")
    assert session.origin.id == THREAD
    assert session.started_ms == read(*LEGACY).started_ms
    assert read_raw(raw, "renamed.jsonl").origin.id == read_raw(raw + jsonl(user("More")), "b.jsonl").origin.id
    assert [message.text for message in messages(checked(session, 3))] == ["Go", "x"]


# ── titles and states ────────────────────────────────────────────────────────────────────────────


def test_names_of_a_thread():
    def named(name, thread=THREAD):
        return event("thread_name_updated", thread_id=thread, thread_name=name)

    records = [meta(), named("First"), user("Go"), named("Second"), named("Of another", CHILD)]
    session = read(*records)
    assert session.title == "Second"
    renamed = [body.title for body in checked(session, 5) if isinstance(body, SessionRenamed)]
    assert renamed == ["First", "Second"]


def test_titles_of_the_index():
    """session_index.jsonl is only appended to: the last name counts."""
    records = [
        {"id": "a", "thread_name": "Old", "updated_at": "x"},
        {"id": "b", "thread_name": "Other"},
        {"id": "a", "thread_name": "New"},
        {"id": "c", "thread_name": ""},
        {"id": 7, "thread_name": "No"},
        None,
    ]
    assert titles_from_index(records) == {"a": "New", "b": "Other"}


class Database:
    """A database for tests, as a `SourceDatabase`."""

    path = "state_5.sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def columns(self, table):
        return tuple(row[1] for row in self._connection.execute(f"PRAGMA table_info({table})"))

    def rows(self, table, columns, *, where=None, order=()):
        known = self.columns(table)
        names = ", ".join(name if name in known else "NULL" for name in columns)
        yield from self._connection.execute(f"SELECT {names} FROM {table} ORDER BY {', '.join(order)}")


def test_titles_of_the_state_database():
    with sqlite3.connect(":memory:") as connection:
        assert titles_from_state(Database(connection)) == {}
        connection.execute(
            "CREATE TABLE threads (id TEXT, name TEXT, title TEXT, first_user_message TEXT, archived INT)"
        )
        rows = [
            ("a", "Given", "Go", "Go", 0),
            ("b", None, "Go", "Go", 1),
            ("c", "", "A title", "Go", None),
            (None, "x", "x", "x", 0),
        ]
        connection.executemany("INSERT INTO threads VALUES (?, ?, ?, ?, ?)", rows)
        found = titles_from_state(Database(connection))
    connection.close()
    assert found == {"a": "Given", "c": "A title"}


def test_an_event_of_a_turn_has_one_id_in_every_file():
    started = event("task_started", turn_id=TURN)
    first, second = entries(meta(), started), entries(meta(), user("x", id="msg_1"), started)
    assert first[1].id == second[2].id
