"""Results of servers as text: every part that a server sent is in it or named in it."""

from wakelog.log.content import Audio, Image
from wakelog.ports.runtime import ToolOutcome
from wakelog.tools.mcp.conversion import outcome_of, progress_line


def _text(text):
    return {"type": "text", "text": text}


def test_texts_are_joined():
    assert outcome_of({"content": [_text("one"), _text("two")]}) == ToolOutcome("one\ntwo")
    assert outcome_of({"content": []}) == ToolOutcome("[no output]")
    assert outcome_of({"content": [_text("")]}) == ToolOutcome("[no output]")
    assert outcome_of({"content": [_text("half \ud800")]}) == ToolOutcome("half \\ud800")


def test_an_error_is_an_error():
    assert outcome_of({"content": [_text("no such file")], "isError": True}) == ToolOutcome(
        "no such file", is_error=True
    )


def test_structured_content_is_used_where_there_is_no_text():
    assert outcome_of({"content": [], "structuredContent": {"b": 1, "a": [2]}}) == ToolOutcome('{"a":[2],"b":1}')
    assert outcome_of({"content": [_text("b is 1")], "structuredContent": {"b": 1}}) == ToolOutcome("b is 1")
    image = {"type": "image", "data": "", "mimeType": "image/png"}
    told = outcome_of({"content": [image], "structuredContent": {"b": 1}})
    assert told.text == '[image: image/png, 0 bytes, not shown]\n{"b":1}'


def test_parts_that_are_not_text_are_named():
    parts = [
        _text("Look:"),
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGVsbG8h", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///a", "text": "hello"}},
        {"type": "resource", "resource": {"uri": "file:///b", "blob": "aGVsbA==", "mimeType": "application/pdf"}},
        {"type": "resource_link", "uri": "file:///c", "name": "c"},
        {"type": "hologram"},
    ]
    assert outcome_of({"content": parts}).text.splitlines() == [
        "Look:",
        "[image: image/png, 5 bytes]",
        "[audio: audio/wav, 6 bytes]",
        "[resource: file:///a]",
        "hello",
        "[resource: file:///b, application/pdf, 4 bytes, not shown]",
        "[link: c file:///c]",
        "[hologram: not shown]",
    ]


def test_media_are_passed_on():
    """LOG-12: images and audio, also inside resources, are added to the text; undecodable ones are only named."""
    jpeg = {"uri": "file:///d", "blob": "aGVsbG8=", "mimeType": "image/jpeg"}
    parts = [
        {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
        {"type": "audio", "data": "aGVsbG8h", "mimeType": "audio/wav"},
        {"type": "resource", "resource": jpeg},
        {"type": "image", "data": "no base64", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///e", "blob": "aGVsbA==", "mimeType": "application/pdf"}},
    ]
    told = outcome_of({"content": parts})
    assert told.media == (
        Image(mime_type="image/png", data="aGVsbG8="),
        Audio(mime_type="audio/wav", data="aGVsbG8h"),
        Image(mime_type="image/jpeg", data="aGVsbG8="),
    )
    assert told.text.splitlines()[2:] == [
        "[resource: file:///d, image/jpeg, 5 bytes]",
        "[image: image/png, 6 bytes, not shown]",
        "[resource: file:///e, application/pdf, 4 bytes, not shown]",
    ]


def test_progress_as_text():
    assert progress_line(3, 10, "half\nway\x1b[2J") == "[3/10] half way [2J\n"
    assert progress_line(0.5, None, None) == "[0.5]\n"
