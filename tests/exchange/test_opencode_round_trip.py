"""ST-9: a session that is written for OpenCode and read again has the same messages, calls, results and order.

What OpenCode cannot hold is counted (`Loss`), and left out of the comparison.
"""

import json
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.generated_sessions import sessions_to_write
from tests.exchange.opencode_samples import SESSION, assistant, database, only, part, reply_parts, text, tool, user
from tests.exchange.opencode_schema import checked_export
from tests.exchange.samples import SAMPLES, MemoryFile, entries_of, needs_samples, sample, sample_database
from wakelog.exchange.exporting import session_to_write
from wakelog.exchange.importing import import_session
from wakelog.exchange.opencode.reader import read_sessions
from wakelog.exchange.opencode.writer import write_session
from wakelog.log.content import Note, Prompt, Reply, Text, Thinking, ToolResult
from wakelog.log.entry import Cancelled, Compaction, Custom, Failed, Head, Message, ModelChange, Node, Setting
from wakelog.stores.memory import MemoryStore

# ── what is compared ─────────────────────────────────────────────────────────────────────────────


def part_row(each):
    """Return a part as OpenCode holds it. It does not keep in which field a server sent its reasoning."""
    is_field = isinstance(each, Thinking) and each.bound is not None and "field" in each.bound
    return msgspec.structs.replace(each, bound=None) if is_field else each


def usage_row(usage):
    """Return usage as OpenCode holds it: an unknown cost is 0, and no tokens are no usage."""
    if usage is None or not (
        usage.input_tokens or usage.output_tokens or usage.cache_read_tokens or usage.cache_write_tokens
    ):
        return None
    return msgspec.structs.replace(usage, cost_micros=usage.cost_micros or 0)


def result_row(result):
    """Return a result as OpenCode holds it: a call has ended or failed, and one that failed has no media."""
    is_ok = result.effective_status == "ok"
    parts = tuple(each for each in result.parts if is_ok or isinstance(each, Text))
    return ("result", result.tool_call_id, result.tool_name, is_ok, result.is_error, parts)


def rows_of(nodes):
    """Return messages, compactions and faults, with the results of a reply right behind it: as a model gets them."""
    groups: list[list[Any]] = []
    open_calls: dict[tuple[str | None, str], list[Any]] = {}
    row: Any
    for node in nodes:
        match node:
            case Message(message=ToolResult() as result):
                if (group := open_calls.get((result.reply_id, result.tool_call_id))) is not None:
                    group.append((node.id, result_row(result)))
                continue
            case Message(message=Reply() as reply):
                content = tuple(map(part_row, reply.parts))
                row = ("reply", content, reply.provider, reply.model, reply.stop_reason, usage_row(reply.usage))
            case Message(message=Prompt() as prompt):
                row = ("prompt", prompt.parts)
            case Message(message=Note() as note):
                row = ("note", note.parts)
            case Custom(in_context=True):
                row = ("note", node.content)
            case Compaction():
                row = ("compaction", node.summary, node.trigger == "manual", node.first_kept_entry_id)
            case Failed():
                row = ("failed", node.error.message, node.error.retryable)
            case Cancelled():
                if node.content:
                    groups.append([(f"{node.id}-shown", ("shown", node.content))])
                row = ("cancelled",)
            case _:
                row = None
        groups.append([(node.id, row)])
        if isinstance(node, Message) and isinstance(node.message, Reply):
            open_calls.update({(node.id, call.id): groups[-1] for call in node.message.tool_calls})
    return [item for group in groups for item in group]


def comparable(rows):
    """Return rows without ids: the first kept entry of a compaction becomes the number of the first kept row."""
    found = []
    kept = [(name, row) for name, row in rows if row is not None]
    for at, (_, row) in enumerate(kept):
        match row:
            case ("compaction", *facts, first):
                found.append(("compaction", *facts, _first_kept(rows, kept, first, at)))
            case ("reply", content, _, _, "aborted", _):
                found.append(("shown", content))
            case _:
                found.append(row)
    return found


def _first_kept(rows, kept, first, compaction_at):
    names = [name for name, _ in rows]
    if first not in names:
        return None
    after = set(names[names.index(first) :])
    places = [
        at for at, (name, row) in enumerate(kept) if name in after and row[0] not in ("result", "failed", "cancelled")
    ]
    return places[0] if places and places[0] < compaction_at else None


def written_again(session):
    """Write a session, check it against OpenCode's schema, and return the entries that are read from it."""
    written = write_session(session)
    (file,) = written.files
    assert write_session(session).files == (file,)
    checked_export(file.content)
    return written, entries_of(only(MemoryFile(file.content, file.path)))


def branch_of(entries):
    """Return the branch of the head of a session that was read: what is not hidden by a revert."""
    nodes = {entry.id: entry for entry in entries if isinstance(entry, Node)}
    heads = [entry.target_id for entry in entries if isinstance(entry, Head)]
    at = heads[-1] if heads else next(reversed(nodes), None)
    found = []
    while at in nodes:
        found.append(nodes[at])
        at = nodes[at].parent_id
    return found[::-1]


# ── generated sessions of wakelog ────────────────────────────────────────────────────────────────


@given(sessions_to_write())
@settings(max_examples=60, deadline=None)
def test_a_written_session_is_read_as_it_was(session):
    """ST-9: messages, calls, results, compactions, models and usage, in order, and each id once."""
    written, entries = written_again(session)
    assert comparable(rows_of(entries)) == comparable(rows_of(session.branch))
    assert branch_of(entries) == [entry for entry in entries if isinstance(entry, Node)]
    losses = Counter({loss.kind: 0 for loss in written.losses})
    for loss in written.losses:
        losses[loss.kind] += loss.count
    kinds = Counter(type(node) for node in session.branch)
    assert losses["change of the model"] == kinds[ModelChange]
    assert sum(count for kind, count in losses.items() if kind.startswith("setting ")) == kinds[Setting]
    assert losses["custom app:state"] == kinds[Custom]
    assert losses["label"] == len(session.labels)


@given(sessions_to_write(), st.randoms(use_true_random=False))
@settings(max_examples=20, deadline=None)
def test_opencode_reads_the_messages_in_order_from_its_rows(session, shuffler):
    """The order is that of times and ids: OpenCode sorts its rows by them, in whatever order they were inserted."""
    written, entries = written_again(session)
    document = json.loads(written.files[0].content)
    rows = list(document["messages"])
    shuffler.shuffle(rows)
    assert entries_of(only(database(document["info"], *rows))) == entries


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_nodes_below_the_head_are_reverted_and_other_branches_are_counted(data):
    """ST-9: OpenCode hides what is below the head. Branches beside it are in the account of losses."""
    drawn = data.draw(sessions_to_write(branches=True, turns_max=3))
    session = msgspec.structs.replace(drawn, head=data.draw(st.sampled_from(drawn.branch)).id)
    written, entries = written_again(session)
    visible = branch_of(entries)
    assert comparable(rows_of(visible)) == comparable(rows_of(session.branch))
    children = {node.parent_id: node for node in session.nodes}
    below, at = [], session.head
    while at in children:
        below.append(children[at])
        at = children[at].id
    hidden = [entry for entry in entries if isinstance(entry, Node) and entry not in visible]
    expected = rows_of((*session.branch, *below))[len(rows_of(session.branch)) :]
    if not any(isinstance(node, Message) and isinstance(node.message, ToolResult) for node in below[:3]):
        texts = [row for row in comparable(expected) if row[0] in ("prompt", "note", "reply")]
        assert [row for row in comparable(rows_of(hidden)) if row[0] in ("prompt", "note", "reply")] == texts
    beside = len(session.nodes) - len(session.branch) - len(below)
    assert sum(loss.count for loss in written.losses if loss.reason.startswith("on another branch")) == beside


@given(sessions_to_write(branches=True), st.data())
@settings(max_examples=20, deadline=None)
def test_ids_are_those_of_the_session_and_its_head(session, data):
    """Rule 2 of `exchange.writing`: a session that has gone on shares no id with the one that was written before."""
    other = msgspec.structs.replace(session, head=data.draw(st.sampled_from(session.nodes)).id)
    first, second = (checked_export(write_session(each).files[0].content) for each in (session, other))
    ids = [{each.info.id for each in found.messages} | {found.info.id} for found in (first, second)]
    assert ids[0] == ids[1] if other.head == session.head else not ids[0] & ids[1]


def test_the_generator_makes_what_the_tests_are_about():
    """The properties see open calls, compactions that keep messages, and heads that were moved back."""
    seen: Counter[tuple[str, str | None, bool]] = Counter()

    @given(sessions_to_write(branches=True))
    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    def count(session):
        document = json.loads(write_session(session).files[0].content)
        for message in document["messages"]:
            for each in message["parts"]:
                seen[each["type"], each.get("state", {}).get("status"), "tail_start_id" in each] += 1

    count()
    assert {("tool", status, False) for status in ("running", "completed", "error")} <= seen.keys()
    assert {("compaction", None, True), ("compaction", None, False), ("reasoning", None, False)} <= seen.keys()


# ── sessions of OpenCode ─────────────────────────────────────────────────────────────────────────


def imported(foreign):
    """Import a session into a store and return it as a writer gets it."""
    store = MemoryStore()
    found = import_session(store, foreign)
    assert found.name is not None
    return session_to_write(store, found.name)


def kept_rows(nodes):
    """Return the rows of a session with the parts that are kept verbatim, without ids and old forms."""
    rows = comparable(rows_of(nodes))
    kept: Counter[str] = Counter()
    for node in nodes:
        if isinstance(node, Custom) and node.custom_type in ("opencode:patch", "opencode:agent", "opencode:snapshot"):
            kept[json.dumps({key: value for key, value in node.data.items() if not key.endswith(("id", "ID"))})] += 1
    return rows, kept


def same_again(foreign_session):
    """Import a session, write it, import that, and compare; return the losses."""
    first = imported(foreign_session)
    written = write_session(first)
    checked_export(written.files[0].content)
    second = imported(only(MemoryFile(written.files[0].content, "again.json")))
    assert kept_rows(second.branch) == kept_rows(first.branch)
    assert (second.title, second.model, second.provider) == (first.title, first.model, first.provider)
    return written.losses


_TOKENS = {"input": 10, "output": 3, "reasoning": 2, "cache": {"read": 4, "write": 1}}
_METADATA: tuple[dict[str, Any], ...] = (
    {},
    {"metadata": {"anthropic": {"signature": "c2ln"}}},
    {"metadata": {"anthropic": {"redactedData": "ZGF0YQ=="}}},
    {"metadata": {"google": {"thoughtSignature": "dGg="}}},
)
_PIXEL = {"mime": "image/png", "url": "data:image/png;base64,AAAA"}
_words = st.sampled_from(("Hello", "Grüße\n", " two  blanks ", '"quoted"'))


@st.composite
def _users(draw, name):
    parts = [text(f"{name}-1", draw(_words))]
    parts += draw(st.sampled_from(([], [text(f"{name}-2", "Read it", synthetic=True)])))
    parts += draw(st.sampled_from(([], [part(f"{name}-3", "file", **_PIXEL)])))
    parts += draw(st.sampled_from(([], [part(f"{name}-4", "agent", name="explore")])))
    return user(name, *draw(st.permutations(parts)))


@st.composite
def _assistants(draw, name):
    parts = []
    if draw(st.booleans()):
        parts.append(part(f"{name}-1", "reasoning", text="Hm", **draw(st.sampled_from(_METADATA))))
    if draw(st.booleans()):
        item = {"itemId": f"rs-{name}", "reasoningEncryptedContent": "ZW5j"}
        parts += [part(f"{name}-2{n}", "reasoning", text=f"S{n}", metadata={"openai": item}) for n in range(2)]
    if draw(st.booleans()):
        parts.append(text(f"{name}-3", draw(_words), metadata={"openai": {"itemId": f"it-{name}"}}))
    states = draw(st.lists(st.sampled_from(_STATES), max_size=2))
    parts += [tool(f"{name}-4{n}", f"c{n}", **state) for n, state in enumerate(states)]
    ended = draw(st.sampled_from(_ENDS))
    patch = draw(st.sampled_from(([], [part(f"{name}-6", "patch", hash="h", files=["a"])])))
    return assistant(name, *reply_parts(name, *parts), *patch, **ended, tokens=_TOKENS)


_STATES = (
    {"output": "done"},
    {"output": "", "metadata": {"truncated": True}},
    {"output": "seen", "attachments": [{"id": "f", "type": "file", **_PIXEL}]},
    {"status": "error", "error": "it failed"},
    {"status": "error", "error": "Tool execution aborted", "metadata": {"interrupted": True, "output": "half"}},
    {"status": "running"},
)
_ENDS = (
    {"finish": "stop"},
    {"finish": "tool-calls"},
    {"error": {"name": "MessageAbortedError", "data": {"message": "Aborted"}}},
    {"error": {"name": "APIError", "data": {"message": "no", "isRetryable": True}}},
)


@st.composite
def _exports(draw):
    """Draw a session of OpenCode: messages of both roles, a compaction, and a revert.

    A compaction keeps messages behind the one before it: the writer leaves out a compaction that a later one undoes.
    """
    messages: list[Any] = []
    compacted = 0
    for turn in range(draw(st.integers(1, 3))):
        messages.append(draw(_users(f"msg_{turn}0")))
        messages += [draw(_assistants(f"msg_{turn}{n}")) for n in range(1, draw(st.integers(1, 3)))]
        if draw(st.integers(0, 3)) == 0:
            marker = part(f"msg_{turn}8-1", "compaction", auto=draw(st.booleans()))
            if draw(st.booleans()):
                marker["tail_start_id"] = draw(st.sampled_from(messages[compacted:]))["info"]["id"]
            answered = {"summary": True, "parentID": f"msg_{turn}8", "finish": "stop", "tokens": _TOKENS}
            messages.append(user(f"msg_{turn}8", marker))
            messages.append(assistant(f"msg_{turn}9", text(f"msg_{turn}9-1", "So far"), **answered))
            compacted = len(messages)
    for at, message in enumerate(messages):
        message["info"]["time"] = {"created": 1_770_000_000_000 + at * 10_000, "completed": 1_770_000_005_000 + at}
    info = {**SESSION, "model": {"id": "m-1", "providerID": "acme"}}
    if draw(st.integers(0, 3)) == 0:
        info["revert"] = {"messageID": draw(st.sampled_from(messages))["info"]["id"]}
    return {"info": info, "messages": messages}


@given(_exports())
@settings(max_examples=60, deadline=None)
def test_a_session_of_opencode_is_the_same_after_import_and_export(document):
    """ST-9: import, export to the same format and import give the same messages, calls, results and order."""
    losses = same_again(only(MemoryFile(json.dumps(document).encode(), "export.json")))
    assert {loss.kind for loss in losses} <= {
        "custom wakelog:import",
        "custom opencode:session",
        "custom opencode:fields",
        "custom opencode:compaction",
        "compaction",
        "reply",
        "custom",
        "toolresult",
    }


def _sample_sessions():
    if SAMPLES is None:
        return []
    made = "made-here/opencode-1.18.33"
    files = [f"{made}/{name}.json" for name in ("export-first", "export-crash-in-tool", "export-crash-in-stream")]
    files += sorted(str(path.relative_to(SAMPLES)) for path in (SAMPLES / "opencode").glob("ocn-events-*.json"))
    files.append("opencode/rs-s-ope-06/root/exports/session.json")
    return [*files, f"{made}/opencode.db", "opencode/rs-s-ope-01/root/opencode.db"]


@needs_samples
@pytest.mark.parametrize("name", _sample_sessions())
def test_samples_are_the_same_after_import_and_export(name):
    """Every session of the samples, sub-agents and forks included."""
    source = sample_database(name) if name.endswith(".db") else sample(name)
    for foreign in read_sessions(source):
        same_again(foreign)


def test_signatures_and_usage_of_opencode_are_kept():
    """The reasoning goes back to its vendor from the session that was written again."""
    thought = part("p1", "reasoning", text="Hm", metadata={"anthropic": {"signature": "s"}})
    message = assistant("msg_1", *reply_parts("msg_1", thought), tokens=_TOKENS)
    first = imported(only(MemoryFile(json.dumps({"info": SESSION, "messages": [message]}).encode(), "export.json")))
    again = imported(only(MemoryFile(write_session(first).files[0].content, "again.json")))
    (reply,) = [node.message for node in again.branch if isinstance(node, Message)]
    assert reply.content == (Thinking(thinking="Hm", signature="s"),)
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cost_micros) == (10, 5, 1500)


def test_what_a_compaction_keeps_is_not_added_to_a_message_before_it():
    """Its first entry is a part that is kept verbatim, and a note follows."""
    agent, note, said = part("p1", "agent", name="explore"), text("p2", "Read it", synthetic=True), text("p3", "Go")
    messages = [
        user("msg_1", text("p0", "Hello")),
        user("msg_2", agent, note, said),
        user("msg_3", part("p4", "compaction", auto=False, tail_start_id="msg_2")),
        assistant("msg_4", text("p5", "So far"), summary=True, parentID="msg_3", finish="stop"),
    ]
    same_again(only(MemoryFile(json.dumps({"info": SESSION, "messages": messages}).encode(), "export.json")))
