"""The end of a log: what the next append needs, found from any starting point."""

import pytest
from hypothesis import HealthCheck, given, settings

from tests.laws.logs import DAMAGE, STORIES, bytes_of, damaged, tell
from wakelog.errors import Conflict
from wakelog.log.integrity import LogEnd, can_append_after, find_appended, verify_seals
from wakelog.log.lines import EntryReader, Line, split_lines
from wakelog.log.seal import SealChain

NEXT = b'{"type":"label","id":"next","parentId":"s","targetId":"s"}'


def end_of(raw):
    end = LogEnd()
    for line in split_lines([raw]):
        end.add(line)
    return end


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(STORIES, DAMAGE)
def test_the_next_line_is_always_readable(steps, hurts):
    """LOG-9, law 3: after any damage the next entry can be read, has the next seq, and its seal holds."""
    raw = damaged(bytes_of(tell(steps)), hurts)
    reader, end = EntryReader(), end_of(raw)
    reader.feed_all(split_lines([raw]))
    assert end.seq == reader.next_seq - 1
    assert end.torn_tail == (reader.torn.raw if reader.torn else b"")
    after = raw + end.seal(NEXT)
    again = EntryReader()
    last = again.feed_all(split_lines([after]))[-1]
    assert (last.id, last.seq) == ("next", end.seq + 1)
    broken = {offset for _, offset in verify_seals(split_lines([after])).broken}
    assert last.offset not in broken


def test_advancing_gives_the_same_end_as_reading():
    """The end after an append is the end that another reader finds."""
    end, raw = LogEnd(), b""
    for number in range(3):
        written = end.seal(b'{"type":"x","id":"e%d"}' % number)
        raw += written
        assert end.advance(written) == number
        assert (end.seq, end.size, end.torn_tail) == (end_of(raw).seq, len(raw), b"")
    assert end_of(raw).seal(NEXT) == end.seal(NEXT)


def test_places():
    end = end_of(b'{"v":1,"seq":4,"type":"x","id":"a"}\n{"torn')
    assert can_append_after(end, after=4, torn_bytes=6)
    assert not can_append_after(end, after=4, torn_bytes=0)
    assert not can_append_after(end, after=3, torn_bytes=6)


def test_an_entry_is_found_by_its_id():
    """Law 4: among the entries added since, also in a foreign or glued line, with its own seq."""
    foreign, ours = b'{"type":"x","id":"a"}', SealChain().seal(b'{"type":"x","id":"b"}', 8)
    added = [Line(b'{"type":"x","id":"z"}'), Line(foreign), Line(ours + SealChain().seal(b'{"type":"x","id":"c"}', 9))]
    assert find_appended(foreign, added, after=4) == (6, added[1])
    assert find_appended(b'{"type":"x","id":"c"}', added, after=4) == (9, added[2])
    assert find_appended(b'{"type":"x","id":"d"}', added, after=4) is None
    with pytest.raises(Conflict):
        find_appended(b'{"type":"y","id":"a"}', added, after=4)
