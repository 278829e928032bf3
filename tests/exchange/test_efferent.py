"""ST-9: both kinds of efferent's databases become entries, and every row is accounted for."""

import json
import sqlite3

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.exchange.linear_sessions import bodies_of, checked, messages, of_type, said
from tests.exchange.pi_records import context_texts, json_values
from tests.exchange.samples import EXPECTED, MemoryDatabase, account_of, needs_samples, sample_database
from wakelog.exchange.efferent import entries, reader
from wakelog.exchange.importing import import_session
from wakelog.exchange.sessions import session_id
from wakelog.log.content import Note, Prompt, Reply, ToolResult, Usage
from wakelog.log.entry import Compaction, Custom, Message, ModelChange, Spawned
from wakelog.log.ids import IdTable
from wakelog.reading import read_log
from wakelog.stores.memory import MemoryStore

ROOT, NODE, OTHER, THIRD = (f"00000000-0000-4000-8000-00000000000{number}" for number in (1, 2, 3, 4))
T0 = 1_784_790_000_000
CURRENT = """
    CREATE TABLE conversations (id, workspace_dir, title, created_at);
    CREATE TABLE messages (conversation_id, position, content, created_at);
    CREATE TABLE checkpoints (conversation_id, message_position, summary, created_at);
"""
OLDER = """
    CREATE TABLE effect_sql_migrations (migration_id, created_at, name);
    CREATE TABLE conversations (id, created_at, workspace_dir, title, pending_prompt, model);
    CREATE TABLE messages (id, conversation_id, position, role, content, created_at);
    CREATE TABLE checkpoints (id, conversation_id, message_position, summary, created_at);
    CREATE TABLE context_nodes (id, parent_id, root_conversation_id, edge_kind, kind, folder, display_root, title, seed,
      seed_message_count, status, return_summary, stop_reason, files_changed, usage, workspace_ref, created_at,
      ended_at);
    CREATE TABLE context_messages (id, node_id, position, role, content, created_at);
    CREATE TABLE gate_verdicts (id, conversation_id, attempt, verdict, reasons, files_changed, advisory, duration_ms,
      error, created_at);
"""


class Database:
    """A database of one of the two lines, filled row by row."""

    def __init__(self, schema=CURRENT):
        self.connection = sqlite3.connect(":memory:")
        self.connection.executescript(schema)
        self.is_older = schema is OLDER
        self.position = {}

    def insert(self, table, **row):
        names = ", ".join(row)
        marks = ", ".join("?" for _ in row)
        self.connection.execute(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(row.values()))
        return self

    def conversation(self, identity=ROOT, **row):
        return self.insert("conversations", id=identity, created_at=T0, workspace_dir="/repo", **row)

    def say(self, role, content, *, at, session=ROOT, **more):
        table, owner = (
            ("context_messages", "node_id") if session in (NODE, OTHER, THIRD) else ("messages", "conversation_id")
        )
        position = self.position[session] = self.position.get(session, -1) + 1
        row = {owner: session, "position": position, "created_at": T0 + at}
        if self.is_older:
            row |= {"id": f"{session[-1]}-{position}", "role": role}
            return self.insert(table, content=json.dumps({"content": content, **more}), **row)
        return self.insert(table, content=json.dumps({"role": role, "content": content, **more}), **row)

    def source(self):
        return MemoryDatabase(self.connection, "efferent.db")

    def session(self, identity=ROOT):
        return {found.origin.id: found for found in reader.read_sessions(self.source())}[identity]


def text(words, **more):
    return {"type": "text", "text": words, **more}


def call(identity, name="bash", **given):
    return {"type": "tool-call", "toolCallId": identity, "toolName": name, "input": given}


def result(identity, output, name="bash", **more):
    return {"type": "tool-result", "toolCallId": identity, "toolName": name, "output": output, **more}


@pytest.fixture(params=[CURRENT, OLDER], ids=["smith", "older"])
def database(request):
    return Database(request.param).conversation()


# ── detection ────────────────────────────────────────────────────────────────────────────────────


def test_a_database_is_recognised_by_its_columns(database):
    assert reader.is_efferent_database(database.source())
    database.connection.execute("ALTER TABLE conversations RENAME COLUMN workspace_dir TO cwd")
    assert not reader.is_efferent_database(database.source())
    assert not reader.is_efferent_database(MemoryDatabase(sqlite3.connect(":memory:")))


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


def test_a_conversation(database):
    options = {"google": {"thoughtSignature": "AA"}}
    database.say("user", "Look", at=1)
    database.say(
        "assistant",
        [
            {"type": "reasoning", "text": "Hm", "providerOptions": options},
            text("I look"),
            call("c1", path="a"),
            call("c2"),
        ],
        at=2,
        providerOptions={"efferent": {"inputTokens": 120, "outputTokens": 20, "cacheReadTokens": 100}, "x": 1},
    )
    database.say("tool", [result("c1", {"n": 1}), result("c2", "bad", isError=True)], at=3)
    database.say("assistant", [text("Done")], at=4)
    bodies = checked(database.session(), 5)
    assert said(bodies) == [
        "Prompt: Look",
        "Reply: I look",
        "call bash",
        "call bash",
        'ToolResult: {"n":1}',
        "ToolResult: bad",
        "Reply: Done",
    ]
    reply = messages(bodies, Reply)[0]
    assert reply.usage == Usage(input_tokens=20, output_tokens=20, cache_read_tokens=100)
    assert (reply.content[0].thinking, reply.content[0].bound) == ("Hm", options)
    assert [(each.status, each.is_error) for each in messages(bodies, ToolResult)] == [("ok", False), ("error", True)]
    assert [body.data for body in of_type(bodies, Custom)][1:] == [{"providerOptions": {"x": 1}}]


def test_the_session_has_the_title_the_folder_and_the_model():
    session = Database(OLDER).conversation(title="T", model="ollama:llama3:8b", pending_prompt="p").session()
    assert (session.title, session.cwd, session.started_ms) == ("T", "/repo", T0)
    assert (session.provider, session.model) == ("ollama", "llama3:8b")
    root, model = checked(session, 1)
    assert (model.provider, model.model) == ("ollama", "llama3:8b")
    assert root.data == {"id": ROOT, "created_at": T0, "workspace_dir": "/repo"}


def test_a_signature_of_anthropic_goes_back_to_it(database):
    options = {"anthropic": {"type": "thinking", "signature": "sig"}}
    database.say("assistant", [{"type": "reasoning", "text": "", "providerOptions": options}], at=1)
    assert messages(checked(database.session(), 2), Reply)[0].content[0].signature == "sig"


def test_ids_of_calls_repeat_in_each_run(database):
    """efferent numbers the calls of each run itself: a result belongs to the last call with its id."""
    for at in (1, 3):
        database.say("assistant", [call("0:bash:0", run=at)], at=at)
    database.say("tool", [result("0:bash:0", "second")], at=4)
    bodies = checked(database.session(), 4)
    assert messages(bodies, ToolResult)[0].reply_id == bodies[2].id


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("handoff", "[System note: the earlier history of this conversation has been handed off]\n\nS"),
        ("mission", "[Overall mission — the human's request this whole effort serves.]\nM"),
        ("inbox", "[inbox · message from coder]\nDone"),
        ("corrective", "Your previous reply could not be parsed: no JSON"),
        ("repetition", "You've called the same tool(s) with the same arguments"),
        ("gate", "The independent verifier reviewed the swarm's work and it is NOT acceptable yet."),
    ],
)
def test_what_efferent_says_itself_is_not_a_prompt(database, kind, words):
    database.say("user", words, at=1).say("user", "[inbox · message from you]\nGo on", at=2)
    bodies = checked(database.session(), 3)
    assert [(note.custom_type, note.text) for note in messages(bodies, Note)] == [(f"efferent:{kind}", words)]
    assert [prompt.text for prompt in messages(bodies, Prompt)] == ["[inbox · message from you]\nGo on"]


def test_what_cannot_be_mapped_is_kept_or_reported(database):
    """Rule 3: a result without a call, an unknown part, an unknown role and a damaged row."""
    database.say("tool", [result("gone", "x")], at=1)
    database.say("assistant", [{"type": "hologram"}], at=2)
    database.say("assistant", [text("a", extra=1), {"type": "hologram"}], at=3)
    database.say("system", "rules", at=4)
    database.say("user", "Hi", at=5)
    database.connection.execute("UPDATE messages SET content = '{\"content\"' WHERE position = 4")
    session = database.session()
    items = list(session.items)
    assert account_of(items) == {"mapped": 1, "verbatim": 4, "skipped": 0, "bad": 1}
    kinds = [body.custom_type for body in of_type(bodies_of(items), Custom)]
    assert kinds == [f"efferent:{kind}" for kind in ("conversation", "tool-result", "assistant", "fields", "system")]
    [bad] = [item for item in items if not hasattr(item, "body")]
    assert (bad.line, bad.reason[:8]) == (4, "not JSON")


def test_rows_without_a_conversation_are_read():
    database = Database()
    database.say("user", "Lost", at=1)
    assert said(checked(database.session(), 1)) == ["Prompt: Lost"]


# ── checkpoints and verdicts ─────────────────────────────────────────────────────────────────────


def test_a_checkpoint_folds_rows_up_to_its_position(database):
    database.say("user", "One", at=1).say("assistant", [text("Two")], at=2).say("user", "Three", at=3)
    database.insert("checkpoints", conversation_id=ROOT, message_position=1, summary="S", created_at=T0 + 4)
    database.say("assistant", [text("Four")], at=5)
    bodies = checked(database.session(), 6)
    [compaction] = of_type(bodies, Compaction)
    assert compaction.summary == "S"
    assert compaction.first_kept_entry_id == compaction.parent_id
    assert context_texts(bodies) == ["S", "Three", "Four"]


def test_a_checkpoint_at_the_head_keeps_nothing(database):
    database.say("user", "One", at=1).say("assistant", [text("Two")], at=2)
    database.insert("checkpoints", conversation_id=ROOT, message_position=1, summary="S", created_at=T0 + 2)
    database.say("user", "Three", at=9)
    assert context_texts(checked(database.session(), 5)) == ["S", "Three"]


def test_a_checkpoint_with_an_early_time_stays_behind_its_position(database):
    database.say("user", "One", at=5).say("user", "Two", at=6).say("user", "Three", at=7)
    database.insert("checkpoints", conversation_id=ROOT, message_position=1, summary="S", created_at=T0)
    assert context_texts(checked(database.session(), 5)) == ["S", "Three"]


def test_verdicts_of_the_gate_are_kept_where_they_were_made():
    database = Database(OLDER).conversation().say("user", "One", at=1)
    verdict = {"id": "v", "conversation_id": ROOT, "attempt": 1, "verdict": "sound", "reasons": '["ok"]'}
    database.insert("gate_verdicts", created_at=T0 + 2, **verdict).say("user", "Two", at=3)
    bodies = checked(database.session(), 4)
    assert [body.type for body in bodies] == ["custom", "message", "custom", "message"]
    assert bodies[2].data["reasons"] == ["ok"]


# ── context tree ─────────────────────────────────────────────────────────────────────────────────


def tree():
    """Return a database in which a conversation starts a sub-agent, and that one another; the first is resumed."""
    database = Database(OLDER).conversation()
    shared = {"root_conversation_id": ROOT, "folder": "/repo/a", "display_root": "/repo", "seed": '{"kind":"task"}'}
    ended = {"status": "ok", "return_summary": "R", "files_changed": '["a"]', "ended_at": T0 + 30}
    database.insert("context_nodes", id=NODE, edge_kind="spawned", title="Audit", created_at=T0 + 2, **shared, **ended)
    database.insert(
        "context_nodes", id=OTHER, parent_id=NODE, edge_kind="branched", created_at=T0 + 5, status="running", **shared
    )
    database.say("user", "Delegate", at=1).say("assistant", [call("r1", "run_agent", task="audit")], at=2)
    database.say("tool", [result("r1", {"nodeId": NODE, "status": "running"}, "run_agent")], at=3)
    database.say("assistant", [call("w1", "wait_for_agents")], at=4)
    database.say("tool", [result("w1", {"nodeId": OTHER}, "wait_for_agents")], at=5)
    database.say("user", "audit", at=6, session=NODE)
    database.say("assistant", [text("R")], at=7, session=NODE)
    database.say("user", "more", at=40, session=NODE)
    database.say("user", "look", at=8, session=OTHER)
    return database


def test_a_node_of_the_context_tree_is_a_sub_agent():
    sessions = {found.origin.id: found for found in reader.read_sessions(tree().source())}
    node, other = sessions[NODE].origin, sessions[OTHER].origin
    assert (node.is_subagent, node.parent, node.parent_call) == (True, ROOT, "r1")
    assert (other.is_subagent, other.parent, other.parent_call) == (True, NODE, "")
    assert (sessions[NODE].title, sessions[NODE].cwd, sessions[NODE].agent) == ("Audit", "/repo/a", "subagent")
    bodies = checked(sessions[ROOT], 6)
    [spawned] = of_type(bodies, Spawned)
    assert spawned.child_session == session_id("efferent", NODE)
    assert (spawned.reply_id, spawned.tool_call_id) == (bodies[2].id, "r1")


def test_the_outcome_of_a_node_stands_where_its_run_ended():
    bodies = checked(tree().session(NODE), 4)
    assert [body.type for body in bodies] == ["custom", "message", "message", "custom", "message"]
    assert "status" not in bodies[0].data
    assert bodies[3].data == {"status": "ok", "return_summary": "R", "files_changed": ["a"], "ended_at": T0 + 30}
    assert len(checked(tree().session(OTHER), 2)) == 2


def test_rows_that_a_node_was_made_of_are_those_of_the_other_node():
    """A branch of a node holds copies of its first rows, with other ids. Copies of copies are the same rows, too."""
    database = tree()
    for node, original in ((OTHER, NODE), (THIRD, OTHER)):
        seed = json.dumps({"kind": "selection", "sourceNodeId": original, "turnCount": 2})
        database.connection.execute("DELETE FROM context_messages WHERE node_id = ?", (node,))
        database.connection.execute("DELETE FROM context_nodes WHERE id = ?", (node,))
        database.insert("context_nodes", id=node, parent_id=original, created_at=T0 + 50, seed=seed)
        database.position.pop(node, None)
        database.say("user", "audit", at=51, session=node).say("assistant", [text("R")], at=51, session=node)
        database.say("user", "more", at=52, session=node)
    found = {node: checked(database.session(node), 4) for node in (NODE, OTHER, THIRD)}
    ids = {node: [body.id for body in bodies if body.type == "message"] for node, bodies in found.items()}
    assert ids[NODE][:2] == ids[OTHER][:2] == ids[THIRD][:2]
    assert len({ids[node][2] for node in ids}) == 3


def test_a_selection_that_goes_in_circles_ends():
    database = tree()
    for node, original in ((NODE, OTHER), (OTHER, NODE)):
        seed = json.dumps({"kind": "selection", "sourceNodeId": original, "turnCount": 9})
        database.connection.execute("UPDATE context_nodes SET seed = ? WHERE id = ?", (seed, node))
    assert len(checked(database.session(NODE), 4)) == 5


def test_children_are_grouped_once():
    """Each session asks for its own sub-agents, without a look at those of the others."""
    looked = 0

    class Callers(dict[str, tuple[str, str]]):
        def items(self):
            nonlocal looked
            looked += 1
            return super().items()

    callers = Callers({f"n{number}": (f"c{number % 3}", "") for number in range(9)})
    context = reader._Tree(tree().source(), {}, callers)
    assert [len(context.children(f"c{number}")) for number in range(4)] == [3, 3, 3, 0]
    assert looked == 1


# ── the model ────────────────────────────────────────────────────────────────────────────────────


def imported(into, database):
    stored = IdTable()
    if list(into.sessions()):
        stored.add_ids(entry.id for entry in read_log(into, session_id("efferent", ROOT)).entries)
    [session] = reader.read_sessions(database.source(), stored.__contains__)
    return import_session(into, session)


def test_a_model_that_is_set_later_is_kept_where_it_was_found():
    into, database = MemoryStore(), Database(OLDER).conversation().say("user", "One", at=1)
    imported(into, database)
    for model in ("ollama:llama3", "big"):
        database.connection.execute("UPDATE conversations SET model = ?", (model,))
        assert imported(into, database).added == 1
        assert imported(into, database).added == 0
        database.say("user", f"With {model}", at=2)
        assert imported(into, database).added == 1
    branch = [entry.value for entry in read_log(into, session_id("efferent", ROOT)).tree.branch().nodes]
    shown = [value.model for value in branch if isinstance(value, ModelChange)]
    assert shown == ["llama3", "big"]
    assert [value.message.text for value in branch if isinstance(value, Message)] == [
        "One",
        "With ollama:llama3",
        "With big",
    ]


def test_the_model_of_a_new_session_is_at_its_beginning():
    into, database = MemoryStore(), Database(OLDER).conversation(model="m").say("user", "One", at=1)
    imported(into, database)
    assert imported(into, database).added == 0
    database.say("user", "Two", at=2)
    assert imported(into, database).added == 1
    branch = [entry.value.type for entry in read_log(into, session_id("efferent", ROOT)).tree.branch().nodes]
    assert branch[-3:] == ["model_change", "message", "message"]


def test_checkpoints_are_not_looked_through_for_each_message(monkeypatch):
    """A checkpoint learns once what it keeps, however many messages follow."""
    database, many = Database().conversation(), 50
    for at in range(many):
        database.say("user", "x", at=at)
        database.insert("checkpoints", conversation_id=ROOT, message_position=0, summary="S", created_at=T0 + 2 * many)
    compared = 0

    class Counted(entries._Aside):
        def __getattribute__(self, name):
            nonlocal compared
            compared += name in ("behind", "first_kept")
            return super().__getattribute__(name)

    monkeypatch.setattr(entries, "_Aside", Counted)
    bodies = checked(database.session(), 1 + 2 * many)
    assert len({body.first_kept_entry_id for body in of_type(bodies, Compaction)}) == 1
    assert compared <= 5 * many


# ── properties ───────────────────────────────────────────────────────────────────────────────────


def full(schema):
    """Yield functions that add one row each, in the order of their times."""
    yield lambda base: base.say("user", "One", at=1)
    yield lambda base: base.say("assistant", [text("T"), call("c1")], at=2)
    yield lambda base: base.say("tool", [result("c1", {"a": 1}), result("gone", 2)], at=3)
    yield lambda base: base.insert(
        "checkpoints", conversation_id=ROOT, message_position=1, summary="S", created_at=T0 + 4
    )
    yield lambda base: base.say("assistant", [text("Two")], at=5)
    if schema is OLDER:
        yield lambda base: base.insert("gate_verdicts", id="v", conversation_id=ROOT, created_at=T0 + 6)
    yield lambda base: base.say("user", "Three", at=7)


@pytest.mark.parametrize("schema", [CURRENT, OLDER])
def test_a_grown_database_gives_the_same_entries_again(schema):
    database = Database(schema).conversation()
    before: list[object] = []
    for step in full(schema):
        step(database)
        bodies = bodies_of(list(database.session().items))
        assert bodies[: len(before)] == before
        before = bodies
    assert len(before) > 6


cells = st.one_of(
    json_values,
    st.builds(lambda parts: {"role": "assistant", "content": parts}, json_values),
    st.lists(
        st.sampled_from([text("a"), call("c"), call("c"), result("c", 1), {"type": "text"}, 5]), max_size=4
    ).flatmap(
        lambda parts: st.sampled_from(["assistant", "tool", "user"]).map(lambda role: {"role": role, "content": parts})
    ),
).map(json.dumps) | st.text(max_size=8)
numbers = st.integers(-5, 12) | st.sampled_from([None, "x", 1.5, 2**62, T0])


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    rows=st.lists(st.tuples(cells, numbers, numbers), max_size=6),
    folds=st.lists(st.tuples(numbers, st.none() | st.text(max_size=3), numbers), max_size=3),
    schema=st.sampled_from([CURRENT, OLDER]),
)
def test_strange_rows_never_raise(rows, folds, schema):
    """LOG-9: whatever the cells hold, every row is accounted for and the entries are a tree."""
    database = Database(schema).conversation()
    role = {"role": "assistant"} if schema is OLDER else {}
    for content, position, time in rows:
        database.insert("messages", conversation_id=ROOT, content=content, position=position, created_at=time, **role)
    for position, summary, time in folds:
        database.insert(
            "checkpoints", conversation_id=ROOT, message_position=position, summary=summary, created_at=time
        )
    checked(database.session(), 1 + len(rows) + len(folds))


# ── samples ──────────────────────────────────────────────────────────────────────────────────────


@needs_samples
def test_the_sample_of_the_current_line():
    name = "efferent/SYNTHETIC-smith-v2.db"
    [session] = reader.read_sessions(sample_database(name))
    bodies = checked(session, sum(EXPECTED[name]["rows"].values()))
    assert session.title == "Fix the parser"
    assert len(messages(bodies, ToolResult)) == 2
    assert context_texts(bodies)[:2] == ["User asked about parse(); cause found: unterminated tail.", "Fix it."]


@needs_samples
def test_the_sample_made_with_the_real_tool():
    [session] = reader.read_sessions(sample_database("made-here/efferent-0.6.1/efferent.db"))
    bodies = checked(session, 7)
    counts = [len(messages(bodies, kind)) for kind in (Prompt, ToolResult, Reply)]
    assert counts == [2, 1, 3]
    assert sum(len(reply.tool_calls) for reply in messages(bodies, Reply)) == 1
    assert all(reply.usage.input_tokens == 120 for reply in messages(bodies, Reply))
    assert session.origin.version == "migration 9"
