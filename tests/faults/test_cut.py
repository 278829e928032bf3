"""A log truncated at every byte (LOG-9, laws 1, 4 and 9): all complete lines are read, the cut one is reported.

An append that was cut short was never acknowledged. It costs itself and nothing else: the next append
is on a line of its own, its note describes the damage, and later reads do not report it again.
"""

import os

import pytest

from tests.faults.figures import Figure
from tests.faults.samples import NAME, Ticks, bytes_of, log_path, proof_of, put, read, rich_log
from wakelog.errors import Damaged
from wakelog.log.entry import DamageNote
from wakelog.log.ids import digest_of
from wakelog.reading import read_active, read_log
from wakelog.session import Session
from wakelog.stores.jsonl import JsonlStore

# Two slices, so that two test processes share the sweep.
SLICES = (0, 1)


def whole_lines(content: bytes) -> list[bytes]:
    """The lines that must survive a cut, found without any code of the product."""
    return [line for line in content.split(b"\n") if line.endswith(b'"}') and b',"h":"' in line[-72:]]


def figure(planned: int, applied: int, wrong: int = 0, control: str = "") -> Figure:
    """The figures of a number of cuts."""
    looked_at, found = (applied, "logs read or appended to"), (wrong, "with an entry lost or damage left")
    return Figure("log cut at any byte", "files", planned, applied, looked_at, found, control)


@pytest.mark.parametrize("part", SLICES)
def test_every_cut_keeps_the_whole_lines_and_reports_the_rest(quick_folder, part, record):
    """LOG-9: read at every byte; a cut before the last LF is whole, a cut at a line end is clean."""
    rich_log(quick_folder)
    content = bytes_of(quick_folder)
    store, path = JsonlStore(quick_folder), log_path(quick_folder)
    expected = whole_lines(content)
    cuts = [cut for cut in range(len(content), -1, -1) if cut % len(SLICES) == part]
    applied = 0
    for cut in cuts:
        os.truncate(path, cut)
        start = content.rfind(b"\n", 0, cut) + 1
        fragment = b"" if content[start:cut] in expected else content[start:cut]
        log = read_log(store, NAME)
        assert [entry.raw for entry in log.entries] == whole_lines(content[:cut]), cut
        assert [(hurt.kind, hurt.offset, hurt.size) for hurt in log.damage] == (
            [("torn", start, len(fragment))] if fragment else []
        ), cut
        assert (log.torn.raw if log.torn else b"") == fragment, cut
        assert os.path.getsize(path) == cut, "reading wrote to the log"
        applied += 1
    assert len(cuts) > 5_000
    record(figure(len(cuts), applied))


@pytest.mark.parametrize("part", SLICES)
def test_the_next_append_is_readable_and_notes_the_damage(quick_folder, part, record):
    """LOG-9: after every 11th cut, and every cut of the compaction and the last line, the session continues."""
    rich_log(quick_folder)
    content = bytes_of(quick_folder)
    first_line = content.index(b"\n")
    fold = content.index(b'"compaction"')
    close = set(range(fold, content.index(b"\n", fold) + 2)) | set(range(len(content) - 300, len(content) + 1))
    cuts = sorted({*range(first_line, len(content), 11), *close})
    planned, applied = cuts[part :: len(SLICES)], 0
    for cut in planned:
        put(quick_folder, content[:cut])
        check_goes_on(quick_folder, content[:cut])
        applied += 1
    assert len(cuts) > 2_000
    record(figure(len(planned), applied))


def test_control_an_append_that_does_not_look_at_the_end(quick_folder, record):
    """The tests above can fail: a line that is appended directly after the cut leaves damage that is never noted."""
    rich_log(quick_folder)
    content = bytes_of(quick_folder)
    start = content.rindex(b"\n", 0, -1) + 1
    cuts = range(start + 1, len(content) - 1)
    left = 0
    for cut in cuts:
        put(quick_folder, content[:cut] + b'{"type":"custom","id":"x","customType":"y"}\n')
        left += bool(read(quick_folder).damage)
    record(figure(len(cuts), len(cuts), left, control="the end of the log is not looked at"))


def check_goes_on(folder: str, cut: bytes) -> None:
    before = read(folder)
    said = Session(JsonlStore(folder), NAME, clock=Ticks(10_000)).say("and on")
    after = read_active(JsonlStore(folder), NAME)
    log = read(folder)
    assert bytes_of(folder).startswith(cut), "law 1: bytes once written stay"
    kept = [entry.raw for entry in log.entries]
    assert kept[: len(before.entries)] == [entry.raw for entry in before.entries]
    assert log.entries[-1].raw == said.raw
    assert (log.damage, log.tree.head) == ((), after.tree.head)
    assert (proof_of(folder).broken, proof_of(folder).unsealed) == ((), 0)
    assert [entry.seq for entry in log.entries] == list(range(len(log.entries)))
    check_note(log, before, cut)


def check_note(log, before, cut: bytes) -> None:
    notes = [entry.value for entry in log.entries if isinstance(entry.value, DamageNote)]
    if before.torn is None:
        assert (notes, log.noted) == ([], ())
        return
    raw, offset = before.torn.raw, before.torn.offset
    assert raw == cut[offset:]
    assert [(note.offset, note.bytes, note.digest, note.reason) for note in notes] == [
        (offset, len(raw), digest_of(raw), "torn")
    ]
    assert [(hurt.offset, hurt.size) for hurt in log.noted] == [(offset, len(raw))]


def test_a_log_cut_in_its_first_line_is_refused_and_stays_as_it_is(quick_folder):
    """LOG-11: without a session header nothing can be appended; the error has a hint."""
    rich_log(quick_folder)
    content = bytes_of(quick_folder)
    for cut in range(content.index(b"\n")):
        put(quick_folder, content[:cut])
        with pytest.raises(Damaged) as refused:
            Session(JsonlStore(quick_folder), NAME).say("into nothing")
        assert refused.value.hint
        assert bytes_of(quick_folder) == content[:cut]


def test_a_cut_after_a_noted_cut_is_reported_too(quick_folder):
    """LOG-9: noted damage does not hide new damage."""
    rich_log(quick_folder)
    put(quick_folder, bytes_of(quick_folder)[:-40])
    Session(JsonlStore(quick_folder), NAME).say("first")
    put(quick_folder, bytes_of(quick_folder)[:-50])
    torn_again = read(quick_folder)
    assert [hurt.kind for hurt in torn_again.damage] == ["torn"]
    assert len(torn_again.noted) == 1
    Session(JsonlStore(quick_folder), NAME).say("second")
    log = read(quick_folder)
    assert (log.damage, len(log.noted)) == ((), 2)
    assert proof_of(quick_folder).broken == ()


@pytest.mark.parametrize("tail", [b" ", b"\r", b"\t \r", b"\x00", b"{", b'{"', b"}", b"\xff", b"\xe2\x80"])
def test_bytes_after_the_last_line_never_prevent_an_append(quick_folder, tail):
    """LOG-9: whatever follows the last LF, blank or not, the session continues after it."""
    rich_log(quick_folder)
    put(quick_folder, bytes_of(quick_folder) + tail)
    said = Session(JsonlStore(quick_folder), NAME).say("and on")
    log = read(quick_folder)
    assert log.entries[-1].raw == said.raw
    assert log.damage == ()
    assert len(log.noted) == bool(tail.strip())
    assert proof_of(quick_folder).broken == ()
