"""Forms in which sessions of OpenCode and other files are handed around; what a file is, is decided by its content."""

import json

from tests.exchange.opencode_samples import assistant, export, text, user
from tests.exchange.samples import MemoryFile, entries_of
from wakelog.exchange.detection import detect
from wakelog.exchange.files import DiskFile
from wakelog.exchange.opencode.reader import is_opencode, read_sessions
from wakelog.exchange.records import json_records


def _messages():
    document = export(user("msg_1", text("prt_1", "Hello")), assistant("msg_2", text("prt_2", "Hi")))
    return json.loads(document)["messages"]


def test_a_list_of_messages_of_opencode_is_a_session(tmp_path):
    """ST-9: the answer of OpenCode's server, `[{info, parts}]`, is imported as its session."""
    path = tmp_path / "messages.json"
    path.write_text(json.dumps(_messages()))
    with detect(str(path)) as source:
        assert source.tool == "opencode"
        (session,) = source.sessions()
        texts = [body.message.text for body in entries_of(session) if body.type == "message"]
    assert session.origin.id == "ses_1"
    assert texts == ["Hello", "Hi"]


def test_events_of_any_group_belong_to_a_capture():
    """ST-9: events whose group is not known do not make the capture another file."""
    messages = _messages()
    others = [{"type": f"{group}.updated", "properties": {}} for group in ("question", "catalog", "plugin", "tui")]
    events = [{"type": "message.updated", "properties": {"info": each["info"]}} for each in messages]
    parts = [
        {"type": "message.part.updated", "properties": {"part": part}} for each in messages for part in each["parts"]
    ]
    capture = [*others, *events, *parts]
    assert is_opencode(capture)
    assert not is_opencode(others)
    (session,) = read_sessions(MemoryFile(json.dumps(capture).encode(), "events.json"))
    assert len([body for body in entries_of(session) if body.type == "message"]) == 2


def test_a_byte_order_mark_is_no_record(tmp_path):
    """ST-9: a file that begins with a UTF-8 BOM has the records of one that does not."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"a":1}\n{"b":2}\n')
    file = DiskFile(str(path))
    assert [(found.offset, found.value) for found in json_records(file.lines())] == [(3, {"a": 1}), (11, {"b": 2})]
    assert file.content().startswith(b"{")
