"""Lines are split at LF on bytes, and damage costs only itself (LOG-9)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wakelog.log import lines
from wakelog.log.lines import EntryReader, joined_records, lines_after, split_lines

ENTRY = b'{"v":1,"seq":%d,"type":"label","id":"l%d","parentId":"s","targetId":"s","label":"%b"}'


def entry(number, label=b"x"):
    return ENTRY % (number, number, label)


@given(st.binary(max_size=200), st.lists(st.integers(1, 20), max_size=20))
def test_split_loses_nothing(raw, cuts):
    """LOG-2: however the bytes arrive, lines and offsets are the same, and together they are the bytes."""
    blocks, at = [], 0
    for cut in cuts:
        blocks.append(raw[at : at + cut])
        at += cut
    found = list(split_lines([*blocks, raw[at:]]))
    assert b"".join(line.bytes for line in found) == raw
    assert all(raw[line.offset : line.offset + len(line.raw)] == line.raw for line in found)
    assert all(b"\n" not in line.raw for line in found)
    assert [line.number for line in found] == list(range(1, len(found) + 1))


@pytest.mark.parametrize("odd", ["\u2028", "\x85", "\x0b", "\x0c", "\x1c", "\r", "\u2029"])
def test_only_lf_ends_a_line(odd):
    """LOG-2: characters at which `splitlines` would split do not end a line."""
    line = entry(1, odd.encode() if odd > "\x1f" else b"\\u%04x" % ord(odd))
    assert [found.raw for found in split_lines([line + b"\n"])] == [line]
    assert len(EntryReader().feed_all(split_lines([line + b"\n"]))) == 1


def test_lines_over_the_limit_are_skipped(monkeypatch):
    """LOG-9: a line over the limit is one report, read in slices, and its neighbours are read."""
    monkeypatch.setattr(lines, "LINE_MAX_BYTES", 1000)
    raw = entry(0) + b"\n" + b"x" * 5000 + b"\n" + entry(1) + b"\n" + b"y" * 3000
    reader = EntryReader()
    found = reader.feed_all(split_lines([raw[at : at + 700] for at in range(0, len(raw), 700)]))
    assert [entry.seq for entry in found] == [0, 1]
    assert [(hurt.kind, hurt.line, hurt.size) for hurt in reader.damage] == [
        ("too long", 2, 5000),
        ("too long", 4, 3000),
    ]


def test_glued_records():
    """LOG-9: complete records on one line are all read, at their own offsets."""
    raw = entry(1) + entry(2) + entry(3)
    reader = EntryReader()
    found = reader.feed_all(split_lines([raw + b"\n"]))
    assert [item.seq for item in found] == [1, 2, 3]
    assert all(raw[item.offset :].startswith(item.raw) for item in found)
    assert [(hurt.kind, hurt.reason) for hurt in reader.damage] == [("glued", "3 records on one line")]


@pytest.mark.parametrize("fragment", [entry(1)[:38], b"\x00" * 500, b'{"a":{"b":[{"', b"garbage", b'{"}{"'])
def test_a_record_after_a_fragment_is_read(fragment):
    """LOG-9: a fragment does not swallow the next good entry."""
    reader = EntryReader()
    (found,) = reader.feed_all(split_lines([fragment + entry(1) + b"\n"]))
    assert (found.seq, found.offset) == (1, len(fragment))
    assert [(hurt.kind, hurt.size) for hurt in reader.damage] == [("unreadable", len(fragment))]


def test_nested_objects_are_not_records():
    """LOG-9: an object inside a broken record is not mistaken for a record."""
    inner = b'{"type":"label","id":"evil","targetId":"s"}'
    found, fragment = joined_records(b'{"type":"message","message":{"x":' + inner + b"}")
    assert (found, fragment) == ([], b'{"type":"message","message":{"x":' + inner + b"}")
    escaped = b'{"text":"{\\"type\\":\\"label\\",\\"id\\":\\"evil\\"}"'
    assert joined_records(escaped) == ([], escaped)


def test_the_search_is_bounded():
    """LOG-9: a hostile line with a million possible beginnings is given up."""
    found, _ = joined_records(b'{"' * 1_000_000)
    assert found == []


def test_only_the_last_line_is_torn():
    """LOG-9: an incomplete last line is torn; the same bytes with an LF are an unreadable line."""
    reader = EntryReader()
    reader.feed_all(split_lines([entry(0) + b"\n" + entry(1)[:30]]))
    assert [hurt.kind for hurt in reader.damage] == ["torn"]
    assert (reader.torn.offset, reader.torn.raw, reader.next_seq) == (len(entry(0)) + 1, entry(1)[:30], 1)
    reader = EntryReader()
    reader.feed_all(split_lines([entry(0) + b"\n" + entry(1)[:30] + b"\n"]))
    assert [hurt.kind for hurt in reader.damage] == ["unreadable"]
    assert (reader.torn, reader.next_seq) == (None, 2)


def test_lines_without_seq_are_counted():
    """Damage after the requested position is returned, too."""
    raw = [entry(0), b'{"type":"label","id":"f","targetId":"s"}', b"garbage", entry(2), b"more garbage", entry(3)]
    whole = list(split_lines([b"\n".join(raw) + b"\n"]))
    assert [line.raw for line in lines_after(whole, 1)] == raw[2:]
    assert [line.raw for line in lines_after(whole, 2)] == raw[4:]
    assert [line.raw for line in lines_after(whole, -1)] == raw
    assert list(lines_after(whole, 3)) == []
