"""ST-9: messages of Goose become entries, and every record is accounted for."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.goose_records import (
    AGENT_ONLY,
    ARCHIVED,
    HIDDEN,
    NAME,
    START_S,
    bodies,
    compacted,
    conversation,
    export,
    export_file,
    message,
    read,
    request,
    response,
    text,
)
from tests.exchange.pi_records import check_entries, context_texts, json_values, messages, mutated, only, tree_of
from tests.exchange.samples import account_of, entries_of
from wakelog.errors import UsageError
from wakelog.exchange.goose import reader as goose
from wakelog.exchange.goose import sources
from wakelog.log.codec import encode
from wakelog.log.content import Image, Note, Prompt, Reply, Text, Thinking, ToolCall, ToolResult, UnknownPart
from wakelog.log.entry import Compaction, Custom, Message

# ── detection ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ([export(conversation())], True),
        ([export([], conversation=None)], True),
        ([export(conversation()), export([])], True),
        ([{"working_dir": "/repo", "description": "x", "message_count": 2, "total_tokens": None}], True),
        ([message(0, "user", "Hi")], True),
        ([{"tools": []}, message(0, "user", "Hi"), message(1, "assistant", "Ho")], True),
        ([{"role": "user", "content": [text("Hi")]}], False),
        ([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}], False),
        ([{"type": "message", "role": "user", "created": 1, "content": [text("Hi")]}], False),
        ([message(0, "user", "Hi"), {"type": "session", "id": "x"}], False),
        ([{"working_dir": "/repo", "name": "x"}], False),
        ([{"info": {"id": "x"}, "messages": []}], False),
        ([[message(0, "user", "Hi")]], False),
        (["text"], False),
        ([], False),
    ],
)
def test_it_is_recognised_by_its_content(head, expected):
    assert goose.is_goose(head) is expected


# ── the session ──────────────────────────────────────────────────────────────────────────────────


def test_a_session_has_its_origin_title_and_model():
    session = read(conversation())
    assert (session.origin.tool, session.origin.id, session.origin.is_subagent) == ("goose", NAME, False)
    assert (session.cwd, session.title, session.agent) == ("/repo", "A name", "goose")
    assert (session.provider, session.model, session.started_ms) == ("anthropic", "claude-4", START_S * 1000)
    first = entries_of(session)[0]
    assert first.custom_type == "goose:session"
    assert first.data["accumulated_total_tokens"] == 420
    assert "conversation" not in first.data


def test_two_machines_have_the_same_ids_for_different_sessions():
    one, other = read([]), read([], created_at="2026-03-01T11:00:00Z")
    assert one.origin.id != other.origin.id
    assert one.origin.id == read([], created_at="2026-03-01 10:00:00").origin.id
    assert read([], id="20250301_100000").origin.id == "20250301_100000"


@pytest.mark.parametrize(
    ("fields", "title"),
    [
        ({"name": "CLI Session", "user_set_name": False}, None),
        ({"name": "CLI Session", "user_set_name": True}, "CLI Session"),
        ({"name": "", "description": " Old name "}, "Old name"),
        ({"name": 7}, None),
    ],
)
def test_a_name_that_goose_gives_every_session_is_no_title(fields, title):
    assert read([], **fields).title == title


# ── messages ─────────────────────────────────────────────────────────────────────────────────────


def test_a_conversation():
    found = messages(bodies(conversation()))
    assert [type(each).__name__ for each in found] == [
        *("Prompt", "Reply", "Reply", "ToolResult", "Reply", "ToolResult", "ToolResult", "Reply"),
        *("Prompt", "Reply", "Prompt", "Reply"),
    ]
    assert found[0].parts == (Text(text="Look at it"), Image(mime_type="image/png", data="iVBORw0KGgo="))
    assert found[1].parts == (Thinking(thinking="Hm.", signature="c2ln"), Text(text="I look."))
    assert (found[1].provider, found[1].model, found[1].request_id) == ("anthropic", "claude-4", "msg_01Provider")
    assert found[2].parts == (
        ToolCall(id="c1", name="shell", input={"command": "ls"}, bound={"thoughtSignature": "x"}),
    )
    assert found[2].request_id is None
    assert found[7].parts[0] == Thinking(bound={"type": "redacted_thinking", "data": "ZGF0YQ=="})
    assert [call.id for call in found[4].tool_calls] == ["c2", "c3"]


def test_a_result_names_its_reply():
    entries = bodies(conversation())
    results = messages(entries, ToolResult)
    replies = {each.message.tool_calls[0].id: each.id for each in entries if _has_calls(each)}
    assert [(each.tool_call_id, each.reply_id, each.tool_name, each.status) for each in results] == [
        ("c1", replies["c1"], "shell", "ok"),
        ("c3", replies["c2"], "shell", "error"),
        ("c2", replies["c2"], "read__file", "ok"),
    ]
    assert results[1].is_error
    assert results[2].parts == (Text(text="in a.txt"), Image(mime_type="image/png", data="iVBORw0KGgo="))


def _has_calls(entry):
    return isinstance(entry, Message) and isinstance(entry.message, Reply) and entry.message.tool_calls


def test_fields_without_a_counterpart_are_behind_their_message():
    entries = bodies(conversation())
    fields = [entry.data for entry in entries if isinstance(entry, Custom) and entry.custom_type == "goose:fields"]
    assert fields == [
        {"metadata": {"inference": {"requestedModel": "claude"}}},
        {"content": {"0": {"_meta": {"goose_extension": "d"}}}},
        {
            "result": {
                "value": {"structuredContent": {"code": 0}},
                "content": {"0": {"rest": {"annotations": {"priority": 0.5}}}},
            }
        },
        {"result": {"content": {"0": {"rest": {"resource": {"uri": "file:///a.txt", "mimeType": "text/plain"}}}}}},
    ]


def test_messages_for_the_display_are_kept_verbatim():
    [notice] = [
        each for each in bodies(conversation()) if getattr(each, "custom_type", "") == "goose:systemNotification"
    ]
    assert notice.data == conversation()[6]
    assert not notice.in_context


def test_a_command_is_kept_and_what_it_became_is_a_prompt():
    """Goose gives its model the text that a command stands for, not the command."""
    entries = bodies(conversation())
    [command] = [entry for entry in entries if getattr(entry, "custom_type", "") == "goose:command"]
    assert command.data["content"] == [text("/recipe now")]
    assert "The recipe says: go on" in [each.text for each in messages(entries, Prompt)]


def test_what_only_the_model_is_shown_is_a_note():
    entries = bodies([message(0, "user", "Hi"), message(1, "user", "Be brief", metadata=AGENT_ONLY)])
    assert messages(entries)[1] == Note(content=(Text(text="Be brief"),), custom_type="goose:agent_only")


def test_what_only_the_person_is_shown_is_not_in_the_context():
    shown = text("for the person", annotations={"audience": ["user"]})
    told = text("for the model", annotations={"audience": ["assistant"]})
    history = [
        message(0, "user", "Hi", shown),
        message(1, "assistant", request("c1")),
        message(2, "user", response("c1", told, shown)),
        message(3, "user", "ls -l", metadata=HIDDEN),
        message(4, "assistant", "Listed.", metadata=HIDDEN),
        message(5, "user", "Go on"),
    ]
    entries = bodies(history)
    assert messages(entries)[0].parts == (Text(text="Hi"), UnknownPart(part=shown))
    assert context_texts(entries) == ["Hi", "", "for the model", "Go on"]
    assert [entry.data for entry in entries if getattr(entry, "custom_type", "") == "goose:hidden"] == history[3:5]


def test_a_failed_call_has_an_error_as_its_result():
    failed = {"type": "toolResponse", "id": "c1", "toolResult": {"status": "error", "error": "-32603: gone"}}
    entries = bodies([message(0, "user", "Hi"), message(1, "assistant", request("c1")), message(2, "user", failed)])
    [result] = messages(entries, ToolResult)
    assert (result.text, result.status, result.is_error) == ("-32603: gone", "error", True)


@pytest.mark.parametrize(
    ("outcome", "shown", "left"),
    [
        ([text("a.txt")], "", {"toolResult": [text("a.txt")], "isFailure": True}),
        ({"status": "error", "error": {"code": -32602, "data": None}}, '{"code":-32602,"data":null}', None),
    ],
)
def test_a_result_of_another_form_is_kept(outcome, shown, left):
    item = {"type": "toolResponse", "id": "c1", "toolResult": outcome}
    entries = bodies([message(0, "assistant", request("c1")), message(1, "user", item)])
    [result] = messages(entries, ToolResult)
    assert (result.text, result.status) == (shown, "error")
    assert left is None or entries[-1].data == {"result": left}


def test_a_message_with_results_that_is_there_twice():
    """Each result is an entry: the places of results and the numbers of equal messages are different keys."""
    results = [response(call) for call in ("c1", "c2", "c3")]
    asked = message(0, "assistant", request("c1"), request("c2"), request("c3"))
    entries = bodies([asked, message(1, "user", *results), message(1, "user", *results)])
    check_entries(entries)
    assert len(messages(entries, ToolResult)) == 6


def test_the_older_form_of_a_result():
    older = {"type": "toolResponse", "id": "c1", "toolResult": {"status": "success", "value": [text("a.txt")]}}
    old = bodies([message(0, "assistant", request("c1")), message(1, "user", older)])
    new = bodies([message(0, "assistant", request("c1")), message(1, "user", response("c1"))])
    assert old[1:] == new[1:]


def test_a_result_without_a_call_is_kept_and_a_call_without_a_result_stays_open():
    lost = message(0, "user", response("lost"))
    entries = bodies([lost, message(1, "user", "Hi"), message(2, "assistant", request("c1"))])
    assert messages(entries, ToolResult) == []
    assert entries[1].custom_type == "goose:toolResponse"
    assert entries[1].data == lost
    assert len(messages(entries, Reply)[0].tool_calls) == 1


def test_a_result_may_come_before_its_call():
    """Exports are sorted by time, and Goose notes the time of a call after that of its result."""
    early = [
        message(0, "user", "Hi"),
        message(1, "user", response("c1")),
        message(1, "user", response("c2", text("b.txt"))),
        message(4, "assistant", request("c1")),
        message(4, "assistant", request("c2")),
        message(5, "assistant", "Done."),
    ]
    found = messages(bodies(early))
    assert [type(each).__name__ for each in found] == ["Prompt", "Reply", "ToolResult", "Reply", "ToolResult", "Reply"]
    assert [each.text for each in found if isinstance(each, ToolResult)] == ["a.txt", "b.txt"]


def test_results_before_their_calls_are_looked_at_once(monkeypatch):
    """Each message is looked at once for its calls and once for its results, however many wait."""
    looked = 0
    ids = sources._ids

    def counted(stored, kind):
        nonlocal looked
        looked += 1
        return ids(stored, kind)

    monkeypatch.setattr(sources, "_ids", counted)
    history = [message(1, "user", response(f"r{number}")) for number in range(300)]
    history += [message(2, "assistant", request(f"q{number}")) for number in range(300)]
    entries = bodies(history)
    assert looked == 2 * (1 + len(history))
    assert [entry.custom_type for entry in entries[301:]] == ["goose:toolResponse"] * 300


def test_many_results_before_their_calls_are_not_held(monkeypatch):
    monkeypatch.setattr(sources, "_EARLY_MAX", 10)
    history = [message(1, "user", response(f"c{number}")) for number in range(15)]
    history += [message(2, "assistant", request(f"c{number}")) for number in range(15)]
    assert len(messages(bodies(history), ToolResult)) == 5


def test_a_result_belongs_to_the_last_open_call_with_its_id():
    entries = bodies(
        [
            message(0, "assistant", request("c1")),
            message(1, "user", response("c1")),
            message(2, "assistant", request("c1")),
            message(3, "user", response("c1")),
        ]
    )
    replies = [entry.id for entry in entries if isinstance(entry, Message) and isinstance(entry.message, Reply)]
    assert [each.reply_id for each in messages(entries, ToolResult)] == replies


# ── compactions ──────────────────────────────────────────────────────────────────────────────────


def test_a_compaction_is_read_from_the_visibility():
    """LOG-6: the model goes on with the summary; the older messages stay in the log."""
    entries = bodies(compacted(conversation(), "So far, so good.", 20))
    assert only(entries, Compaction).summary == "So far, so good."
    assert context_texts(entries) == ["So far, so good.", "One more thing"]
    assert [entry.custom_type for entry in entries if isinstance(entry, Custom)][-1] == "goose:continuation"
    assert len(messages(entries, ToolResult)) == 3


def test_messages_are_the_same_before_and_after_a_compaction():
    before = bodies(conversation())
    after = bodies(compacted(conversation(), "So far, so good.", 20))
    assert [body.id for body in after][: len(before)] == [body.id for body in before]
    mapped = [body for body in after if isinstance(body, Message)]
    assert mapped[:-1] == [body for body in before if isinstance(body, Message)]


def test_a_second_compaction_leaves_the_first_one():
    first = compacted(conversation(), "First.", 20)
    entries = bodies(compacted([*first, message(21, "assistant", "Yes.")], "Second.", 30))
    assert [entry.summary for entry in entries if isinstance(entry, Compaction)] == ["First.", "Second."]
    assert context_texts(entries) == ["Second.", "One more thing"]


def test_the_reasoning_behind_a_summary_is_kept():
    thought = {"type": "thinking", "thinking": "Hm.", "signature": ""}
    history = [message(0, "user", "Hi", metadata=HIDDEN), message(1, "user", thought, "So far.", metadata=AGENT_ONLY)]
    entries = bodies([*history, message(1, "assistant", "Go on.", metadata=AGENT_ONLY)])
    assert only(entries, Compaction).summary == "So far."
    assert [entry.data for entry in entries if getattr(entry, "custom_type", "") == "goose:fields"] == [
        {"content": {"0": thought}}
    ]


def test_hidden_messages_without_a_summary_are_not_in_the_context():
    entries = bodies(
        [message(0, "user", "ls", metadata=HIDDEN), message(1, "user", "Go on"), message(2, "user", "Now")]
    )
    assert context_texts(entries) == ["Go on", "Now"]
    assert only(entries, Compaction).summary == ""


def test_a_replaced_call_stays_and_its_summary_is_kept_verbatim():
    """Goose replaces old calls, one by one, by a sentence for the model that has the time of the result."""
    history = [
        message(0, "user", "Hi"),
        message(1, "assistant", request("c1"), metadata=HIDDEN),
        message(2, "user", response("c1"), metadata=HIDDEN),
        message(2, "user", "A call listed files", metadata=AGENT_ONLY),
        message(9, "assistant", "There are files."),
    ]
    entries = bodies(history)
    assert context_texts(entries) == ["Hi", "", "a.txt", "There are files."]
    assert [entry.data for entry in entries if getattr(entry, "custom_type", "") == "goose:tool_summary"] == [
        history[3]
    ]
    assert not any(isinstance(entry, Compaction) for entry in entries)


def test_an_archived_message_of_the_model_is_no_summary():
    """The last prompt before a compaction is hidden from the person too, because a copy follows."""
    history = [message(0, "user", "Hi"), message(1, "assistant", "Ho"), message(2, "user", "More")]
    hidden = [{**each, "metadata": HIDDEN} for each in history[:2]] + [{**history[2], "metadata": ARCHIVED}]
    entries = bodies([*hidden, *compacted([], "So far.", 5)])
    assert [each.text for each in messages(entries, Prompt)] == ["Hi", "More", "One more thing"]
    assert only(entries, Compaction).summary == "So far."


# ── ids ──────────────────────────────────────────────────────────────────────────────────────────


def test_equal_messages_are_different_entries():
    entries = bodies([message(0, "user", "yes"), message(0, "user", "yes"), message(1, "user", "yes")])
    assert len({entry.id for entry in entries}) == 4


def test_ids_do_not_depend_on_what_goose_changes_later():
    """Goose gives ids to messages that have none, titles to calls, and the newer form to results."""
    plain = [
        message(0, "user", "Hi\U000e0041"),
        message(1, "assistant", request("c1")),
        message(2, "user", response("c1")),
    ]
    changed = [
        {**plain[0], "id": "msg_other", "content": [text("Hi")]},
        {**plain[1], "id": None, "content": [request("c1", _meta={"goose.toolSummary.title": "Listing"})]},
        plain[2],
    ]
    assert [body.id for body in bodies(plain) if isinstance(body, Message)] == [
        body.id for body in bodies(changed) if isinstance(body, Message)
    ]


@pytest.mark.parametrize(
    "history", [conversation(), compacted(conversation(), "So far.", 20)], ids=["plain", "compacted"]
)
def test_a_grown_session_gives_the_same_items_and_new_ones(history):
    whole = list(read(history).items)
    for size in range(len(history)):
        part = list(read(history[:size], message_count=len(history)).items)
        assert part == whole[: len(part)], size


def test_the_second_compaction_of_a_grown_session():
    """A cut between an archived summary and the note behind it is left out: Goose writes both in one transaction."""
    first = compacted(conversation(), "First.", 20)
    history = compacted([*first, message(21, "assistant", "Yes.")], "Second.", 30)
    whole = list(read(history).items)
    for size in set(range(len(history))) - {len(conversation()) + 1}:
        part = list(read(history[:size], message_count=len(history)).items)
        assert part == whole[: len(part)], size


# ── strange content ──────────────────────────────────────────────────────────────────────────────


def _check(document, count):
    session = next(goose.read_sessions(export_file(document)), None)
    assert session is not None
    items = list(session.items)
    assert sum(account_of(items).values()) == count
    entries = [item.body for item in items if hasattr(item, "body")]
    check_entries(entries)
    tree_of(entries)
    for body in entries:
        encode(body)


@given(mutated(compacted(conversation(), "So far.", 20)))
@settings(deadline=None, max_examples=60)
def test_strange_messages_never_raise_and_are_accounted_for(history):
    _check(export(history), 1 + len(history))


@given(st.lists(json_values, max_size=5))
@settings(deadline=None, max_examples=40)
def test_any_json_in_a_conversation(values):
    _check(export(values), 1 + len(values))


@given(mutated([export([message(0, "user", "Hi")])]))
@settings(deadline=None, max_examples=40)
def test_a_strange_session_never_raises(documents):
    for document in documents:
        with contextlib.suppress(UsageError):
            for session in goose.read_sessions(export_file(document)):
                list(session.items)
