"""ST-9: a session becomes messages that the APIs of OpenAI and Anthropic take, and that read back as they were.

The types of the vendors' SDKs, and the rules for pairs and roles that the tests of the providers have, judge the lists.
"""

import json
from typing import Any

import pytest
from hypothesis import given, settings

from tests.exchange.generated_sessions import sessions_to_write
from tests.exchange.message_lists import ANTHROPIC, CHAT, LISTS, bodies, messages, sessions, sessions_of_bytes, told
from tests.exchange.test_aider_writer import session_of
from tests.providers.anthropic.validating import complaints
from tests.providers.openai.validating import valid_chat
from wakelog.exchange import exporting
from wakelog.exchange.message_lists import writer_anthropic, writer_openai
from wakelog.exchange.sessions import ImportedEntry
from wakelog.log.content import Audio, Image, Note, Prompt, Reply, Text, Thinking, ToolCall, ToolResult, Usage
from wakelog.log.entry import Cancelled, Compaction, Custom, Entry, Message, Setting
from wakelog.log.tree import Branch
from wakelog.projections.context import build_context

WRITERS = {"chat": writer_openai, "anthropic": writer_anthropic}
OMITTED = "(What was said before this is left out.)"
NO_RECORD = "(there is no record of what came of this call)"


def document_of(session, api):
    (file,) = WRITERS[api].write_session(session).files
    return json.loads(file.content)


def losses_of(session, api):
    return {(loss.kind, loss.reason): loss.count for loss in WRITERS[api].write_session(session).losses}


def check_valid(document, api, signatures=()):
    """Ask the SDK's types, and the rules that a server applies."""
    if api == "chat":
        valid_chat(document)
        return
    body = {"model": "m", "max_tokens": 1, "stream": True, **document}
    allowed = ("a reply would have to be continued", "nothing that is said is marked")
    assert [text for text in complaints(body, own=signatures) if text not in allowed] == []


def context_of(session):
    """Return the messages that wakelog itself would send for a session."""
    entries = tuple(Entry(raw=b"", value=node, seq=at) for at, node in enumerate(session.branch))
    return build_context(Branch(nodes=entries)).messages


def media(parts):
    return [part.data for part in parts if isinstance(part, Image)]


def flat(text):
    return "".join(text.split())


def expected_of(session, api):
    """Return texts, calls and results of a context, in order. Anthropic lets the user begin."""
    said: list[tuple[str, str, list[Any]]] = []
    context = context_of(session)
    if api == "anthropic" and context[0].role == "assistant":
        said.append(("prompt", flat(OMITTED), []))
    for message in context:
        calls = [(call.name, call.input or {}) for call in message.content if isinstance(call, ToolCall)]
        if message.role == "toolResult":
            images = [] if message.is_error and api == "anthropic" else media(message.content)
            said.append(("result", flat(message.text), images))
        elif message.role == "assistant":
            if message.text.strip() or calls:
                said.append(("reply", flat(message.text), calls))
        elif message.text.strip() or media(message.content):
            said.append(("prompt", flat(message.text), media(message.content)))
    return said


def read_of(document):
    """Return the same of a list that was read."""
    ((_, items),) = sessions(document)
    said: list[tuple[str, str, list[Any]]] = []
    for item in items:
        match item:
            case ImportedEntry(body=Message(message=Reply() as reply)):
                said.append(("reply", flat(reply.text), [(call.name, call.input) for call in reply.tool_calls]))
            case ImportedEntry(body=Message(message=ToolResult() as result)):
                if result.text != NO_RECORD:
                    said.append(("result", flat(result.text), media(result.parts)))
            case ImportedEntry(body=Message(message=Prompt() as prompt)):
                said.append(("prompt", flat(prompt.text), media(prompt.parts)))
    return said


def merged(said):
    """Return the same with texts, calls and images joined where a kind follows itself: roles have to alternate."""
    found: list[tuple[str, str, list[Any]]] = []
    for kind, text, rest in said:
        if found and found[-1][0] == kind:
            found[-1] = (kind, found[-1][1] + text, [*found[-1][2], *rest])
        else:
            found.append((kind, text, [*rest]))
    return found


@settings(max_examples=80, deadline=None)
@given(sessions_to_write(branches=True, with_images=False, repeated_call_ids=True))
@pytest.mark.parametrize("api", WRITERS)
def test_a_written_session_is_valid_and_reads_back(api, session):
    document = document_of(session, api)
    own = [part for node in session.nodes if isinstance(node, Message) for part in node.message.parts]
    signatures = {part.signature or (part.bound or {}).get("data") for part in own if isinstance(part, Thinking)}
    check_valid(document, api, signatures)
    assert merged(read_of(document)) == merged(expected_of(session, api))
    assert WRITERS[api].write_session(session) == WRITERS[api].write_session(session)


@settings(max_examples=40, deadline=None)
@given(sessions_to_write(branches=True, compactions=False))
@pytest.mark.parametrize("api", WRITERS)
def test_a_session_that_was_imported_and_written_is_the_same_again(api, session):
    document = document_of(session, api)
    entries = bodies(document)
    again = document_of(session_of(*entries), api)
    assert again["messages"] == document["messages"]
    ((first, _),) = sessions(document)
    ((second, _),) = sessions(again)
    assert first.origin == second.origin


@pytest.mark.parametrize(("name", "api"), [("chat", "chat"), ("responses", "chat"), ("anthropic", "anthropic")])
def test_an_imported_list_is_written_as_it_was(name, api):
    document = document_of(session_of(*bodies(LISTS[name])), api)
    check_valid(document, api, {"sig"})
    assert list(told(bodies(document))) == list(told(bodies(LISTS[name])))
    if name == "chat":
        assert document["messages"][0] == CHAT[0]
        assert document["messages"][2]["reasoning_content"] == "Hm"
    if name == "anthropic":
        assert document["messages"][0] == ANTHROPIC[0]
        assert document["messages"][1] == ANTHROPIC[1]


def test_a_request_keeps_its_other_fields():
    request = {"model": "claude-x", "max_tokens": 9, "system": "Be brief.", "messages": ANTHROPIC}
    assert document_of(session_of(*bodies(request)), "anthropic") == {
        **request,
        "messages": document_of(session_of(*bodies(ANTHROPIC)), "anthropic")["messages"],
    }
    assert "model" not in document_of(session_of(*bodies(request)), "chat")
    assert document_of(session_of(*bodies(CHAT)), "anthropic")["system"] == "Be brief."


CALL = ToolCall(id="c1", name="shell", input={"command": "ls"})


def conversation(*more):
    return session_of(
        Message(message=Prompt(content="Old")),
        Message(message=Reply(content="Gone")),
        Message(id="kept", message=Prompt(content="Kept")),
        Compaction(summary="They spoke.", first_kept_entry_id="kept"),
        Message(id="r", message=Reply(content=(Text(text="I look"), CALL))),
        *more,
    )


@pytest.mark.parametrize("api", WRITERS)
def test_a_compaction_is_applied_and_counted(api):
    result = Message(message=ToolResult(content="a.py", tool_call_id="c1", tool_name="shell", reply_id="r"))
    session = conversation(result)
    text = json.dumps(document_of(session, api))
    assert "Gone" not in text
    assert text.index("They spoke.") < text.index("Kept") < text.index("I look") < text.index("a.py")
    lost = losses_of(session, api)
    assert (lost["prompt", "a compaction replaced it"], lost["reply", "a compaction replaced it"]) == (1, 1)
    assert lost["compaction", "it is a message of the user"] == 1
    assert ("open tool call", "a result is added that says that there is no record of one") not in lost


@pytest.mark.parametrize("api", WRITERS)
def test_an_open_call_gets_a_result_that_says_so(api):
    """The APIs refuse a call without a result. The log still has it open."""
    document = document_of(conversation(), api)
    check_valid(document, api)
    assert NO_RECORD in json.dumps(document)
    assert (
        losses_of(conversation(), api)["open tool call", "a result is added that says that there is no record of one"]
        == 1
    )


@pytest.mark.parametrize(
    ("api", "kinds"),
    [
        ("chat", {"failed result", "image", "thinking"}),
        ("anthropic", {"image", "thinking", "text", "message", "id of a tool call", "name of a tool"}),
    ],
)
def test_every_loss_is_counted(api, kinds):
    odd = ToolCall(id="a:b", name="do it", input="free text")
    session = session_of(
        Message(message=Note(content="memory", custom_type="m")),
        Message(
            message=Prompt(
                content=(
                    Text(text=" "),
                    Image(mime_type="image/tiff", data="QQ=="),
                    Audio(mime_type="audio/wav", data="QQ=="),
                )
            )
        ),
        Message(
            id="r", message=Reply(content=(Thinking(thinking="Hm"), odd), model="m", usage=Usage(), request_id="q")
        ),
        Message(
            message=ToolResult(
                content=(Image(mime_type="image/png", data="QQ=="),),
                tool_call_id="a:b",
                reply_id="r",
                status="error",
                is_error=True,
            )
        ),
        Cancelled(content="half"),
        Setting(key="k", value=1),
        Custom(custom_type="app:state", data=1),
        title="T",
        labels={"n0": "x"},
    )
    check_valid(document_of(session, api), api)
    found = {kind for kind, _ in losses_of(session, api)}
    assert found >= {"title", "label", "timestamp", "note", "model", "usage", "reply", "setting k", "custom app:state"}
    assert found >= {"cancelled", "audio", "tool call"} | kinds


ASK: dict[str, Any] = {"role": "user", "content": "x"}
FREE = {"id": "c", "type": "custom", "custom": {"name": "patch", "input": "***"}}
SEARCH = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
CITED = {"type": "text", "text": "So", "citations": [{"type": "c"}]}
TAKEN_BACK = ("part of a reply", "only the model that made it, of this API, takes it back")


def test_a_call_with_free_text_is_written_as_one():
    told = [ASK, {"role": "assistant", "content": None, "tool_calls": [FREE]}]
    session = session_of(*bodies([*told, {"role": "tool", "tool_call_id": "c", "content": "ok"}]))
    assert document_of(session, "chat")["messages"][1]["tool_calls"] == [FREE]
    wrapped = ("tool call", "the API takes objects only: the input is wrapped in one")
    assert wrapped not in losses_of(session, "chat")
    assert losses_of(session, "anthropic")[wrapped] == 1


@pytest.mark.parametrize("api", WRITERS)
def test_a_call_that_is_in_no_reply_is_counted(api):
    session = session_of(Message(message=Prompt(content=(Text(text="x"), CALL))), Message(message=Reply(content="y")))
    assert losses_of(session, api)["tool call", "it is not in a reply"] == 1


@pytest.mark.parametrize("api", WRITERS)
def test_an_incomplete_call_is_counted(api):
    blocks = [{"type": "tool_use", "name": "f"}, {"type": "text", "text": "y"}]
    session = session_of(*bodies([ASK, {"role": "assistant", "content": blocks}]))
    check_valid(document_of(session, api), api)
    assert losses_of(session, api)["part of a reply", "its type is not known"] == 1


def test_what_is_bound_to_a_text_is_sent_or_counted():
    session = session_of(*bodies([ASK, {"role": "assistant", "content": [SEARCH, CITED]}]))
    assert losses_of(session, "chat")[TAKEN_BACK] == 2
    assert TAKEN_BACK not in losses_of(session, "anthropic")
    assert document_of(session, "anthropic")["messages"][1]["content"] == [SEARCH, CITED]
    item = {"type": "web_search_call", "id": "w", "status": "completed"}
    session = session_of(*bodies({"input": [ASK, item, {"role": "assistant", "content": "y"}]}))
    assert TAKEN_BACK not in losses_of(session, "anthropic")
    [call] = document_of(session, "anthropic")["messages"][1]["content"]
    assert (call["type"], call["name"]) == ("tool_use", "web_search")


@pytest.mark.parametrize("api", WRITERS)
def test_a_system_message_that_moves_is_counted(api):
    later = {"role": "system", "content": "From now on"}
    moved = ("system message", "it is at the beginning, before what was said before it")
    assert losses_of(session_of(*bodies([*CHAT, later])), api)[moved] == 1
    assert moved not in losses_of(session_of(*bodies(CHAT)), api)


def test_the_fields_of_a_responses_request_become_those_of_chat():
    tool = {"type": "function", "name": "ls", "parameters": {"type": "object", "properties": {}}, "strict": False}
    settings_of_both = {"model": "gpt-x", "store": False, "tool_choice": "auto"}
    request = {**settings_of_both, "instructions": "Be brief.", "reasoning": {"effort": "low"}, "input": [ASK]}
    session = session_of(*bodies({**request, "tools": [tool, {"type": "web_search"}]}))
    document = document_of(session, "chat")
    assert document.pop("messages") == [{"role": "system", "content": "Be brief."}, ASK]
    function = {key: tool[key] for key in ("name", "parameters", "strict")}
    assert document == {**settings_of_both, "tools": [{"type": "function", "function": function}]}
    lost = losses_of(session, "chat")
    assert lost["field reasoning of a request", "it is one of Responses, and the list is for Chat Completions"] == 1
    assert lost["tool of a request", "Chat Completions has functions only"] == 1


def test_the_file_is_another_one_for_another_head():
    one = writer_openai.write_session(session_of(Message(message=Prompt(content="Go"))))
    two = writer_anthropic.write_session(
        session_of(Message(message=Prompt(content="Go")), Message(message=Prompt(content="x")))
    )
    assert one.files[0].path.startswith("openai-messages-")
    assert two.files[0].path.startswith("anthropic-messages-")
    assert one.files[0].path[-17:] != two.files[0].path[-17:]
    assert (one.resume, one.load, one.tool, two.tool) == ((), (), "openai-messages", "anthropic-messages")


@pytest.mark.parametrize("target", ["openai", "anthropic", "aider"])
def test_an_export_finds_the_writer(target):
    assert exporting.write_session(conversation(), target).files


def test_the_session_is_read_from_the_bytes():
    (file,) = writer_anthropic.write_session(session_of(*bodies(ANTHROPIC))).files
    ((session, items),) = sessions_of_bytes(file.content)
    assert session.agent == "anthropic-messages"
    assert len(messages([item.body for item in items])) == 6
