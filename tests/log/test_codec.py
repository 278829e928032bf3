"""Lines to values and back: every refusal has a reason, and no line raises another exception."""

from typing import Any

import msgspec
import pytest

from wakelog.errors import UsageError
from wakelog.log.codec import UPCASTERS, Undecodable, canonical_json, decode, encode, id_of
from wakelog.log.content import Prompt, Text
from wakelog.log.entry import FORMAT_VERSION, Custom, Label, Message, SessionHeader, Setting, UnknownBody

PROMPT = b'{"type":"message","id":"m1","message":{"role":"user","content":"hi"}}'


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"", "not JSON"),
        (b"nonsense", "not JSON"),
        (b'{"type":"message"', "not JSON"),
        (b"[1,2]", "not an entry"),
        (b'"text"', "not an entry"),
        (b"{}", "not an entry"),
        (b'{"type":"message"}', "not an entry"),
        (b'{"id":"m1"}', "not an entry"),
        (b'{"type":5,"id":"m1"}', "not an entry"),
        (b'{"type":"label","id":"../../etc"}', "outside the grammar"),
        (b'{"type":"label","id":""}', "outside the grammar"),
        (b'{"type":"x","id":"m1","seq":1e999}', "not an entry"),
        (b'{"type":"x","id":"m1","seq":NaN}', "not JSON"),
        (b'{"type":"x","id":"m1","a":' + b"[" * 100_000, "nested"),
        (b'{"type":"x","id":"m1"}{"type":"x","id":"m2"}', "not JSON"),
        (b'\xff\xfe{"type":"x","id":"m1"}', "not JSON"),
    ],
)
def test_not_an_entry(line, reason):
    """LOG-11: a line that does not decode says why."""
    with pytest.raises(Undecodable) as caught:
        decode(line)
    assert reason in caught.value.reason
    assert caught.value.envelope is None


@pytest.mark.parametrize(
    "line",
    [
        b'{"type":"message","id":"m1"}',
        b'{"type":"message","id":"m1","message":{"role":"wizard","content":"x"}}',
        b'{"type":"message","id":"m1","message":{"role":"user","content":7}}',
        b'{"type":"head","id":"m1","parentId":"s"}',
        b'{"type":"compaction","id":"m1","summary":["no"]}',
    ],
)
def test_only_the_envelope(line):
    """LOG-11: a known type whose body does not decode keeps its place in the tree."""
    with pytest.raises(Undecodable) as caught:
        decode(line)
    assert caught.value.envelope.id == "m1"


@pytest.mark.parametrize(
    "line",
    [
        PROMPT,
        b"\xef\xbb\xbf" + PROMPT,
        PROMPT + b"\r",
        b"  " + PROMPT + b"\t",
        PROMPT.replace(b'"id":"m1"', b'"id":"no","id":"m1"'),
        PROMPT.replace(b"{", b'{"extra":123456789012345678901,', 1),
    ],
)
def test_unusual_but_valid(line):
    """LOG-2: BOM, CR, spaces, duplicate keys (the last wins) and long numbers are read for what they mean."""
    assert decode(line) == Message(id="m1", message=Prompt(content="hi"))


@pytest.mark.parametrize(
    ("escaped", "shown"),
    [
        (rb"\ud800", "\ufffd"),
        (rb"\udc00x", "\ufffdx"),
        (rb"\ud83e\udd80", "🦀"),
        (rb"\ud800\ud83e\udd80", "\ufffd🦀"),
        (rb"\\ud800\ud800", "\\ud800\ufffd"),
        (rb"\u0000\ud8ff", "\x00\ufffd"),
    ],
)
def test_lone_surrogates(escaped, shown):
    """LOG-11: half a surrogate pair is shown as U+FFFD in the value; pairs and escaped backslashes are left alone."""
    value = decode(b'{"type":"message","id":"m1","message":{"role":"user","content":"' + escaped + b'"}}')
    assert value.message.content == shown


def test_exact_numbers():
    """LOG-8: 21 digits stay 21 digits."""
    assert decode(b'{"type":"setting","id":"x","key":"k","value":123456789012345678901}').value == 123456789012345678901


def test_newer_lines_name_both_versions():
    """LOG-7: the reason for a line of a newer version names both versions."""
    for line in (b'{"v":7,"type":"label","id":"m1","targetId":"x"}', b'{"type":"session","id":"m1","version":7}'):
        with pytest.raises(Undecodable) as caught:
            decode(line)
        assert caught.value.newer == 7
        assert "format 7" in caught.value.reason
        assert "up to 1" in caught.value.reason


def renamed_target(old):
    """A made-up step from format 1 to format 2: `target` became `targetId`."""
    return {key: value for key, value in old.items() if key != "target"} | {"targetId": old["target"]}


# A format that does not exist yet, so that the rules for older lines can be tested.
FORMAT_2: dict[str, Any] = {"newest": 2, "upcasters": {1: renamed_target}}


@pytest.mark.parametrize("said", [b'"v":1,', b""])
def test_older_lines_are_converted(said):
    """LOG-7: older lines are converted in the value, step by step; a line without a version is of the first format."""
    line = b'{%b"type":"label","id":"m1","target":"x"}' % said
    assert decode(line, **FORMAT_2) == Label(id="m1", v=1 if said else None, target_id="x")


@pytest.mark.parametrize("said", [b'"v":1,', b""])
def test_an_older_line_that_decodes_unchanged_is_converted_too(said):
    """LOG-7: the meaning of a key may change while its shape stays, so no old line is read as a new one."""
    line = b'{%b"type":"label","id":"m1","targetId":"x","label":"l"}' % said
    lifted = decode(line, 2, {1: lambda old: {**old, "label": old["label"] + " as of 1"}})
    assert lifted.label == "l as of 1"


def test_lines_of_the_current_format_are_not_converted():
    """LOG-7: a step is for older lines only."""
    line = b'{"v":2,"type":"label","id":"m1","targetId":"x"}'
    assert decode(line, **FORMAT_2) == Label(id="m1", v=2, target_id="x")
    assert decode(b'{"v":2,"type":"session","id":"s","version":2}', **FORMAT_2) == SessionHeader(id="s", v=2, version=2)


def test_every_step_between_formats_exists():
    """LOG-7: a line of any older format can be converted to the current one."""
    assert sorted(UPCASTERS) == list(range(1, FORMAT_VERSION))


@pytest.mark.parametrize(
    "line",
    [
        b'{"v":0,"type":"label","id":"m1","targetId":"x"}',
        b'{"v":-1,"type":"label","id":"m1","targetId":"x"}',
        b'{"v":0,"type":"hologram","id":"m1"}',
        b'{"v":1,"type":"session","id":"m1","version":0}',
        b'{"v":0,"type":"session","id":"m1","version":1}',
        b'{"type":"session","id":"m1","version":-7}',
    ],
)
def test_formats_below_the_first_are_refused(line):
    """LOG-7: a version that never existed is damage with a reason; the entry keeps its place in the tree."""
    for more in ({}, FORMAT_2):
        with pytest.raises(Undecodable, match="does not exist; the first format is 1") as caught:
            decode(line, **more)
        assert (caught.value.envelope.id, caught.value.newer) == ("m1", None)


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (b"1e400", 1.7976931348623157e308),
        (b"-1e400", -1.7976931348623157e308),
        (b"9" * 4301, 1.7976931348623157e308),
        (b"-" + b"9" * 4300, -1.7976931348623157e308),
        (b"1e400,1e-400", 0.0),
    ],
)
def test_numbers_that_are_too_large(number, shown):
    """Law 10: a number beyond the largest double is shown as the largest one, in the value only; others are exact."""
    value = decode(b'{"type":"setting","id":"x","key":"k","value":[%b,%b]}' % (b"9" * 4300, number)).value
    assert value[0] == int("9" * 4300)
    assert value[-1] == shown
    assert msgspec.json.decode(canonical_json(value[-1])) == shown


def test_unknown_types():
    """LOG-8: an unknown type is an `UnknownBody`, not an error."""
    assert decode(b'{"type":"hologram","id":"z","parentId":"m1"}') == UnknownBody(
        type="hologram", id="z", parent_id="m1"
    )


@pytest.mark.parametrize(
    "body",
    [
        Custom(id="x", custom_type="\ud800"),
        Setting(id="x", key="k", value=object()),
        Message(id="x", message=Prompt(content=(Text(text="x" * 17 * 1024 * 1024),))),
    ],
)
def test_values_that_cannot_be_written(body):
    """One clear error, before anything is stored."""
    with pytest.raises(UsageError):
        encode(body)


def test_canonical():
    """VIEW-9: equal values give equal bytes, in whatever order they were made."""
    assert (
        canonical_json({"b": 1, "a": {"d": [1.0, "é"], "c": None}}) == '{"a":{"c":null,"d":[1.0,"é"]},"b":1}'.encode()
    )
    assert canonical_json({"a": 1, "b": 2}) == canonical_json({"b": 2, "a": 1})


def test_both_brackets_count_towards_the_depth():
    """LOG-11: lists and objects count together, also where neither alone is too deep; brackets in a text do not."""
    for levels, is_read in ((126, True), (127, False)):
        nest = b'[{"a":' * levels + b"1" + b"}]" * levels
        call = b'[{"type":"toolCall","id":"t","name":"n","input":%b}]' % nest
        line = PROMPT.replace(b'"hi"', call)
        if is_read:
            assert decode(line).message.parts[0].name == "n"
        else:
            with pytest.raises(Undecodable, match="nested deeper"):
                decode(line)
    assert decode(PROMPT.replace(b"hi", b"[{" * 5_000)).message.text == "[{" * 5_000


def test_id_of():
    assert id_of(PROMPT) == "m1"
    assert id_of(b"x") is None
    assert id_of(b'{"id":' + b"[" * 100_000) is None


def test_the_decoder_reads_what_msgspec_reads():
    """The session header is a struct of its own; its version is checked when it is decoded."""
    assert decode(b'{"type":"session","id":"s","version":1}') == SessionHeader(id="s", version=1)
    assert msgspec.json.decode(encode(SessionHeader(id="s", version=1))) == {"type": "session", "id": "s", "version": 1}
