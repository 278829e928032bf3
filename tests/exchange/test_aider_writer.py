"""ST-9: a session becomes a chat history that Aider loads message by message, and that reads back as it was.

`loaded_by_aider` repeats what Aider 0.86.2 does with a chat history when it restores it; `tests/real_tools` asks Aider.
"""

import json
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.exchange.aider_histories import NAME, answered, chat, conversation, customs, said, typed
from tests.exchange.generated_sessions import sessions_to_write
from tests.exchange.samples import MemoryFile, entries_of, needs_samples, sample
from tests.exchange.test_aider import appended
from wakelog.exchange.aider import reader
from wakelog.exchange.aider.writer import write_session
from wakelog.exchange.writing import SessionToWrite
from wakelog.log.content import Image, Note, Prompt, Reply, Text, Thinking, ToolCall, ToolResult, Usage
from wakelog.log.entry import AnyNode, Cancelled, Compaction, Custom, Message, ModelChange

SESSION = "01" * 13


def session_of(*nodes, **fields):
    """Return a session with nodes one after the other."""
    placed: list[AnyNode] = []
    parent = SESSION
    for number, node in enumerate(nodes):
        parent, above = node.id or f"n{number}", parent
        placed.append(msgspec.structs.replace(node, id=parent, parent_id=above))
    fields = {"agent": "crab", "started_ms": 1_772_359_200_000, "head": parent, **fields}
    return SessionToWrite(session=SESSION, nodes=tuple(placed), **fields)


def content_of(session):
    (file,) = write_session(session).files
    return file.content.decode()


def read_back(session):
    return read_only(content_of(session))


def read_only(text):
    """Return the only session of a history, and its entries."""
    ((found, entries),) = [
        (found, entries_of(found)) for found in reader.read_sessions(MemoryFile(text.encode(), NAME))
    ]
    return found, entries


def losses_of(session):
    return {(loss.kind, loss.reason): loss.count for loss in write_session(session).losses}


def plain(text):
    return "\n".join(text.splitlines()).strip()


def loaded_by_aider(text):
    """Return the messages that Aider makes of a chat history: by the mark of each line, output left out."""
    found: list[tuple[str, list[str]]] = []
    for line in text.splitlines():
        if line.startswith("# "):
            continue
        role = "tool" if line.startswith("> ") else "user" if line.startswith("#### ") else "assistant"
        if role == "user" and found and found[-1][0] == "assistant" and not "".join(found[-1][1]).strip():
            # An empty line between two prompts.
            found[-1] = ("tool", [])
        if not found or found[-1][0] != role:
            found.append((role, []))
        found[-1][1].append(re.sub(r"^(> |#### )", "", line))
    joined = [(role, plain("\n".join(line.rstrip() for line in lines))) for role, lines in found]
    return [(role, text) for role, text in joined if text and role != "tool"]


# ── what is expected of a session ────────────────────────────────────────────────────────────────


def active(session):
    branch = list(session.branch)
    at = max((at for at, node in enumerate(branch) if isinstance(node, Compaction)), default=None)
    if at is None:
        return branch
    kept = [node.id for node in branch[:at]]
    first = kept.index(branch[at].first_kept_entry_id) if branch[at].first_kept_entry_id in kept else at
    return [branch[at], *(node for node in branch[first:] if not isinstance(node, Compaction))]


def part_text(part):
    match part:
        case Text():
            return part.text
        case Image():
            return f"[image {part.mime_type}]"
        case ToolCall():
            return f"[Tool call {part.name} {json.dumps(part.input, ensure_ascii=False)}]"
    return ""


def joined(parts, *, trimmed=False):
    """Return the text of parts; Aider keeps white space within a prompt, but not around the text of an answer."""
    texts = [plain(text) if trimmed else text for text in map(part_text, parts)]
    return plain("\n\n".join(filter(None, texts)))


def messages_of(session):
    """Return what the model sees of a session, as roles and texts."""
    for node in active(session):
        match node:
            case Compaction():
                yield "user", plain(node.summary)
            case Message(message=Prompt() | Note() as message):
                yield "user", joined(message.parts)
            case Message(message=ToolResult() as result):
                status = result.effective_status
                line = f"[Result of the tool call {result.tool_name}{'' if status == 'ok' else f' ({status})'}]"
                yield "user", plain(f"{line}\n" + "\n\n".join(map(part_text, result.parts)))
            case Message(message=Reply() as reply):
                if text := joined(reply.parts, trimmed=True):
                    yield "assistant", text
            case Custom(in_context=True):
                yield "user", joined(node.content)
            case Cancelled(content=content) if joined(content):
                yield "assistant", joined(content, trimmed=True)


def read_messages(entries):
    for entry in entries:
        match entry:
            case Message(message=Prompt() as prompt):
                yield "user", plain(prompt.text)
            case Message(message=Reply() as reply) if joined(reply.parts):
                yield "assistant", joined(reply.parts)


def thoughts_of(nodes):
    replies = [node.message for node in nodes if isinstance(node, Message) and isinstance(node.message, Reply)]
    return [plain(part.thinking) for reply in replies for part in reply.parts if isinstance(part, Thinking)]


def figures_of(nodes):
    """Return models and usages of the replies that have something to read; None for what a cancelled one left."""
    found: list[tuple[str | None, Usage | None] | None] = []
    for node in nodes:
        if isinstance(node, Cancelled) and joined(node.content):
            found.append(None)
        if isinstance(node, Message) and isinstance(node.message, Reply):
            reply = node.message
            if any(part_text(part) or thoughts(part) for part in reply.parts):
                found.append((reply.model, reply.usage))
    return found


def thoughts(part):
    return isinstance(part, Thinking) and plain(part.thinking)


@settings(max_examples=80, deadline=None)
@given(sessions_to_write(branches=True))
def test_a_written_session_reads_back(session):
    found, entries = read_back(session)
    assert list(read_messages(entries)) == list(messages_of(session))
    assert [text for text in thoughts_of(active(session)) if text] == thoughts_of(entries)
    expected = figures_of(active(session))
    assert expected == [
        None if one is None else other for one, other in zip(expected, figures_of(entries), strict=True)
    ]
    assert found.started_ms == session.started_ms
    assert write_session(session) == write_session(session)


@settings(max_examples=60, deadline=None)
@given(sessions_to_write(thinking=False))
def test_aider_loads_the_same_messages(session):
    """One space before lines that begin with a mark is what differs, and consecutive prompts stay apart."""

    def shape(messages):
        # Aider keeps the two spaces at the ends of lines, and tells prompts apart by the empty line between them.
        return [(role, re.sub(r"(?m)^ (?= *(?:# |> |#### |[/!]))", "", text)) for role, text in messages]

    expected = [(role, "\n".join(line.rstrip() for line in text.split("\n"))) for role, text in messages_of(session)]
    assert shape(loaded_by_aider(content_of(session))) == shape(expected)


@settings(max_examples=40, deadline=None)
@given(sessions_to_write(branches=True))
def test_a_session_that_was_imported_and_written_is_the_same_again(session):
    _, once = read_back(session)
    again = session_of(*once)
    _, twice = read_back(again)
    assert list(read_messages(once)) == list(read_messages(twice))
    assert customs(once, "aider:output") == customs(twice, "aider:output")
    assert (thoughts_of(once), figures_of(once)) == (thoughts_of(twice), figures_of(twice))


# ── fixtures and samples ─────────────────────────────────────────────────────────────────────────

HISTORY = chat(
    said("Weak model: w"),
    typed("First\n\n  indented"),
    answered("# Title\n\n> quoted  \n\n#### Section\n\n```python\n# comment\n  # indented\n```"),
    typed("/add a.py"),
    said("Added a.py", ""),
    typed("/ask Why?"),
    answered(
        "<thinking-content-7bbeb8e1441453ad999a0bbba8a46d4b>\n\nHm\n\n</thinking-content-7bbeb8e1441453ad999a0bbba8a46d4b>\n\nSo"
    ),
    said("Main model: other with whole edit format"),
    typed(""),
    typed("Last"),
    answered("  Good", "Tokens: 9 sent, 1 cache write, 2 cache hit, 5 received. Cost: $0.02 message, $0.05 session."),
)


def check_round_trip(entries):
    _, again = read_back(session_of(*entries))
    if entries[0].type != "custom" or entries[0].custom_type != "aider:start":
        # A history may begin in the middle of a chat. A written one always says when it began.
        again = again[1:]
    assert [(type(entry), customs_data(entry)) for entry in again if not is_mark(entry)] == [
        (type(entry), data) for entry in entries for data in written_data(entry)
    ]
    assert conversation(again) == conversation(entries)
    assert (thoughts_of(again), figures_of(again)) == (thoughts_of(entries), figures_of(entries))


def customs_data(entry):
    return (entry.custom_type, entry.data) if isinstance(entry, Custom) else None


def written_data(entry):
    """Return what becomes of an entry: each line of an output is one, except those of a count of tokens."""
    text = entry.data.get("text", "") if isinstance(entry, Custom) else ""
    if not isinstance(entry, Custom) or entry.custom_type != "aider:output" or "\n" not in text:
        return [customs_data(entry)]
    lines = [" ".join(text.split("\n"))] if text.startswith("Tokens: ") else text.split("\n")
    return [("aider:output", {"text": line.strip()}) for line in lines]


def is_mark(entry):
    return isinstance(entry, Custom) and str(entry.data.get("text", "")).startswith("Written by wakelog")


def test_a_history_of_aider_keeps_everything():
    check_round_trip(read_only(HISTORY)[1])


@settings(max_examples=60, deadline=None)
@given(st.lists(appended.filter(lambda text: "/clear" not in text), max_size=10))
def test_histories_of_aider_keep_everything(pieces):
    for session in reader.read_sessions(MemoryFile("".join(pieces).encode(), NAME)):
        check_round_trip(entries_of(session))


@needs_samples
@pytest.mark.parametrize(
    "name",
    ["aider/zen/.aider.chat.history.md", "made-here/aider-0.86.2/aider.chat.history.md"],
)
def test_samples_keep_everything(name):
    for session in reader.read_sessions(sample(name)):
        check_round_trip(entries_of(session))


# ── what is lost ─────────────────────────────────────────────────────────────────────────────────

CALL = ToolCall(id="c1", name="shell", input={"command": "ls"})


def test_tools_are_text_and_counted():
    session = session_of(
        Message(message=Prompt(content="Go")),
        Message(id="r", message=Reply(content=(Text(text="I look"), CALL), model="m")),
        Message(message=ToolResult(content="a.py", tool_call_id="c1", tool_name="shell", reply_id="r")),
        Message(message=Reply(content="Done", model="m")),
    )
    assert loaded_by_aider(content_of(session)) == [
        ("user", "Go"),
        ("assistant", 'I look\n\n[Tool call shell {"command": "ls"}]'),
        ("user", "[Result of the tool call shell]\na.py"),
        ("assistant", "Done"),
    ]
    lost = losses_of(session)
    assert lost["tool call", "Aider has no tools: it is written as text"] == 1
    assert lost["toolresult", "Aider has no tools: it is written as text"] == 1


def test_what_a_compaction_replaced_is_left_out():
    session = session_of(
        Message(message=Prompt(content="Old")),
        Message(message=Reply(content="Gone")),
        Message(id="kept", message=Prompt(content="Kept")),
        Compaction(summary="They spoke.", first_kept_entry_id="kept"),
        Message(message=Prompt(content="New")),
    )
    assert [text for _, text in loaded_by_aider(content_of(session))] == ["They spoke.", "Kept", "New"]
    assert [text for _, text in conversation(read_back(session)[1])] == ["They spoke.", "Kept", "New"]
    reason = "it is before a compaction, and Aider loads a whole file"
    lost = losses_of(session)
    assert (lost["prompt", reason], lost["reply", reason]) == (1, 1)
    assert lost["compaction", "it is written as a prompt"] == 1


def test_every_other_loss_is_counted():
    session = session_of(
        Message(message=Prompt(content=(Text(text="/add me"), Image(mime_type="image/png", data="QQ==")))),
        Message(message=Note(content="memory", custom_type="m")),
        Message(message=Reply(content=(Thinking(thinking="Hm", signature="s"), Text(text="# T\r\n")), request_id="r")),
        Custom(custom_type="app:state", data=1),
        ModelChange(model="two words"),
        title="T",
        labels={"n0": "x"},
    )
    kinds = {loss.kind for loss in write_session(session).losses}
    assert kinds >= {"title", "label", "prompt", "image", "note", "reply", "signature of thinking", "custom app:state"}
    assert kinds >= {"timestamp", "provider", "model"}
    assert conversation(read_back(session)[1])[0] == ("user", "/add me\n\n[image image/png]")


def test_answers_one_after_the_other_stay_apart():
    session = session_of(Message(message=Prompt(content="Go")), *[Message(message=Reply(content=t)) for t in "ab"])
    assert [text for _, text in loaded_by_aider(content_of(session))] == ["Go", "a", "b"]


def test_usage_is_exact():
    usage = Usage(
        input_tokens=12_345, output_tokens=6, cache_read_tokens=7, cache_write_tokens=8, cost_micros=1_230_004
    )
    session = session_of(Message(message=Prompt(content="Go")), Message(message=Reply(content="x", usage=usage)))
    assert "Cost: $1.230004 message, $1.230004 session." in content_of(session)
    (reply,) = [e.message for e in read_back(session)[1] if isinstance(e, Message) and isinstance(e.message, Reply)]
    assert reply.usage == usage


def test_the_file_and_the_command():
    """Another head is another file, so nothing is replaced; a long history is not summarised at once."""
    one = session_of(Message(message=Prompt(content="Go")))
    two = session_of(Message(message=Prompt(content="Go")), Message(message=Reply(content="word " * 1000)))
    short, long = write_session(one), write_session(two)
    assert short.files[0].path != long.files[0].path
    assert re.fullmatch(r"\.aider\.[0-9a-f]{12}\.chat\.history\.md", short.files[0].path)
    assert short.resume == ("aider", "--restore-chat-history", "--chat-history-file", "{file}")
    assert long.resume[-2] == "--max-chat-history-tokens"
    assert int(long.resume[-1]) > 2000
    assert reader.is_aider_text(short.files[0].content.decode())


def test_texts_of_one_message_are_joined_and_counted():
    texts = (Text(text="one"), Text(text="two"))
    reason = "its texts are joined, with an empty line between them"
    session = session_of(Message(message=Prompt(content=texts)), Message(message=Reply(content=texts)))
    found = losses_of(session)
    assert (found["prompt", reason], found["reply", reason]) == (1, 1)
    mixed = Reply(content=(texts[0], Thinking(thinking="Hm"), texts[1]))
    assert ("reply", reason) not in losses_of(session_of(Message(message=mixed)))


@pytest.mark.parametrize("thinking", ["the tag </think> ends it", "----------\n► **ANSWER**\nno"])
def test_reasoning_with_other_tags_is_read_as_it_was(thinking):
    answer = Reply(content=(Thinking(thinking=thinking), Text(text="----------\n► **THINKING**\nis a line")))
    _, entries = read_back(session_of(Message(message=Prompt(content="Go")), Message(message=answer)))
    (reply,) = [entry.message for entry in entries if isinstance(entry, Message) and isinstance(entry.message, Reply)]
    assert reply.content == answer.content
